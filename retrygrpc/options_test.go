package retrygrpc_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goretry/retry"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/retrygrpc"
)

// An ending is a way in which a call comes to its end.
type ending struct {
	handler  handler // nil: it replies
	policy   func(*retry.Policy)
	client   func(*retrygrpc.Client)
	ctx      func(context.Context) context.Context
	waits    func(*grpc.ClientConn, context.CancelFunc) // once the run waits
	attempt2 func(*server)                              // before the second attempt
	creds    *flaky
	panics   bool
	notFor   string // kinds of calls
}

// flaky are credentials that fail a few times.
type flaky struct {
	fails, asked atomic.Int64
}

func (f *flaky) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if f.asked.Add(1) <= f.fails.Load() {
		return nil, errors.New("no token")
	}
	return nil, nil
}

func (f *flaky) RequireTransportSecurity() bool { return false }

// numbered is a handler that says in its header and in its trailer which attempt it got.
func numbered(h handler) handler {
	return func(n int, s grpc.ServerStream, in string) error {
		_ = s.SetHeader(metadata.Pairs("attempt", strconv.Itoa(n)))
		s.SetTrailer(metadata.Pairs("attempt", strconv.Itoa(n)))
		return h(n, s, in)
	}
}

type closedGuard struct{}

func (closedGuard) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	return retry.Pass{}, retry.Stop(errors.New("full"))
}
func (closedGuard) Leave(retry.Pass, retry.Exit) {}

// endings are what makes a run end as one of endingRows says.
var endings = map[string]ending{
	"a reply at once":               {},
	"a reply to the second attempt": {handler: failing(1, fail(codes.Unavailable))},
	"an answer":                     {handler: always(fail(codes.NotFound))},
	"an answer to the second attempt": {handler: func(n int, _ grpc.ServerStream, _ string) error {
		return fail(map[bool]codes.Code{true: codes.Unavailable, false: codes.NotFound}[n == 1])
	}},
	"`MaxAttempts`":           {handler: always(fail(codes.Unavailable))},
	"a server that says no":   {handler: pushing(codes.Unavailable, "-1")},
	"a wait that is too long": {handler: pushing(codes.Unavailable, "3600000")},
	"a guard, at first": {client: func(c *retrygrpc.Client) {
		c.Guards = func(string) []retry.Guard { return []retry.Guard{closedGuard{}} }
	}},
	"a context that has ended":                      {ctx: func(ctx context.Context) context.Context { return canceledFrom(ctx) }},
	"a cancel in a wait":                            {handler: pushing(codes.Unavailable, "20000"), waits: func(_ *grpc.ClientConn, cancel context.CancelFunc) { cancel() }},
	"a `Close` in a wait":                           {handler: pushing(codes.Unavailable, "20000"), waits: func(cc *grpc.ClientConn, _ context.CancelFunc) { cc.Close() }},
	"a second attempt that does not reach a server": {handler: pushing(codes.Unavailable, "100"), attempt2: func(s *server) { s.stop() }},
	"an `AttemptTimeout`": {
		handler: func(_ int, s grpc.ServerStream, _ string) error {
			<-s.Context().Done()
			return nil
		},
		policy: func(p *retry.Policy) { p.MaxAttempts, p.AttemptTimeout = 1, 50*time.Millisecond },
		notFor: "bidirectional stream", // whose opening is quick
	},
	"credentials that fail once": {creds: func() *flaky { f := new(flaky); f.fails.Store(1); return f }()},
	"a hedge that is faster": {
		handler: func(n int, s grpc.ServerStream, in string) error {
			if n == 1 {
				<-s.Context().Done()
			}
			return reply(s, in)
		},
		client: func(c *retrygrpc.Client) {
			c.Hedge = func(string) *hedge.Hedge { return &hedge.Hedge{Delay: time.Millisecond} }
		},
		notFor: "stream",
	},
	"a `Classify` that panics": {handler: always(fail(codes.Unavailable)), panics: true,
		policy: func(p *retry.Policy) { p.Classify = func(error) retry.Class { panic("no") } }},
}

func canceledFrom(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}

// endingRows are the ways in which a run ends, with the number of its attempts, the attempt whose header,
// trailer and peer the caller gets, and the code that OnFinish gets.
var endingRows = [][4]string{
	{"a reply at once", "1", "attempt 1", "OK"},
	{"a reply to the second attempt", "2", "attempt 2", "OK"},
	{"an answer", "1", "attempt 1", "NOT_FOUND"},
	{"an answer to the second attempt", "2", "attempt 2", "NOT_FOUND"},
	{"`MaxAttempts`", "2", "attempt 2", "UNAVAILABLE"},
	{"a server that says no", "1", "attempt 1", "UNAVAILABLE"},
	{"a wait that is too long", "1", "attempt 1", "UNAVAILABLE"},
	{"a second attempt that does not reach a server", "2", "nothing", "UNAVAILABLE"},
	{"an `AttemptTimeout`", "1", "attempt 1", "DEADLINE_EXCEEDED"},
	{"a cancel in a wait", "1", "attempt 1", "CANCELLED"},
	{"a `Close` in a wait", "1", "attempt 1", "CANCELLED"},
	{"a context that has ended", "0", "nothing", "CANCELLED"},
	{"a guard, at first", "0", "nothing", "RESOURCE_EXHAUSTED"},
	{"credentials that fail once", "2", "attempt 2", "OK"},
	{"a hedge that is faster", "1", "the hedge", "OK"},
	{"a `Classify` that panics", "1", "attempt 1", "INTERNAL"},
}

// The options of a call get what the last attempt got, in whichever way the run ends.
func TestCallOptionsInEachEnding(t *testing.T) {
	if len(endingRows) != len(endings) {
		t.Errorf("%d rows, want %d", len(endingRows), len(endings))
	}
	for _, row := range endingRows {
		e, ok := endings[row[0]]
		if !ok {
			t.Errorf("no call is like the row %q", row[0])
			continue
		}
		for kind, call := range map[string]func(context.Context, *grpc.ClientConn, ...grpc.CallOption) error{
			"unary": func(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
				_, err := call(ctx, cc, get, opts...)
				return err
			},
			"server stream": func(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
				cs, err := open(ctx, cc, list, opts...)
				if err == nil {
					_, err = all(cs)
				}
				return err
			},
			"bidirectional stream": func(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
				cs, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, chat, opts...)
				if err == nil {
					err = cs.SendMsg(wrapperspb.String("hello"))
				}
				if err == nil {
					err = cs.CloseSend()
				}
				if err == nil || err == io.EOF {
					_, err = all(cs)
				}
				return err
			},
		} {
			if e.notFor == "" || !strings.HasSuffix(kind, e.notFor) {
				t.Run(kind+", "+row[0], func(t *testing.T) { checkEnding(t, e, kind, row[1], row[2], row[3], call) })
			}
		}
	}
}

func checkEnding(t *testing.T, e ending, kind, attempts, from, gets string, call func(context.Context, *grpc.ClientConn, ...grpc.CallOption) error) {
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	if e.handler == nil {
		e.handler = func(_ int, s grpc.ServerStream, in string) error { return reply(s, in) }
	}
	s := serve(t, numbered(e.handler))
	p := retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0), MaxRetryAfter: time.Minute}
	if e.policy != nil {
		e.policy(&p)
	}
	var cc *grpc.ClientConn
	var waiting sync.WaitGroup
	p.Hooks.Wait = func(context.Context, retry.Attempt) {
		if e.attempt2 != nil {
			e.attempt2(s)
		}
		if e.waits != nil {
			waiting.Go(func() {
				time.Sleep(20 * time.Millisecond) // until the run waits; sooner would end it, too
				e.waits(cc, cancel)
			})
		}
	}
	made := 0
	p.Hooks.Attempt = func(ctx context.Context, _ retry.Attempt) context.Context { made++; return ctx }
	c := &retrygrpc.Client{Policy: p}
	if e.client != nil {
		e.client(c)
	}
	cc = dial(t, s.addr, c)
	if e.ctx != nil {
		ctx = e.ctx(ctx)
	} else {
		ready(t, cc)
	}
	var header, trailer metadata.MD
	var at peer.Peer
	var finished atomic.Int64
	var finish atomic.Value
	opts := []grpc.CallOption{grpc.Header(&header), grpc.Trailer(&trailer), grpc.Peer(&at),
		grpc.OnFinish(func(err error) { finished.Add(1); finish.Store(status.Code(err)) })}
	if e.creds != nil {
		e.creds.asked.Store(0)
		opts = append(opts, grpc.PerRPCCredentials(e.creds))
	}
	var err error
	func() {
		defer func() {
			if r := recover(); (r != nil) != (e.panics && made > 0 && kind != "bidirectional stream") {
				t.Errorf("it panics with %v", r)
			}
		}()
		err = call(ctx, cc, opts...)
	}()
	waiting.Wait()
	eventually(t, "OnFinish is called", func() bool { return finished.Load() > 0 }) // grpc may have ended a stream elsewhere
	if n := finished.Load(); n != 1 {
		t.Errorf("OnFinish is called %d times", n)
	}
	got, _ := finish.Load().(codes.Code)
	if !e.panics && got != status.Code(err) {
		t.Errorf("OnFinish gets %v, the caller %v", got, err)
	}
	if kind == "bidirectional stream" { // of which only the opening is repeated
		return
	}
	if strconv.Itoa(made) != attempts {
		t.Errorf("%d attempts, want %s", made, attempts)
	}
	if name := code.Code(got).String(); name != gets {
		t.Errorf("OnFinish gets %s, want %s", name, gets)
	}
	want := map[string]string{"attempt 1": "1", "attempt 2": "2", "the hedge": "2"}[from]
	if e.creds != nil {
		want = "1" // the server has seen only one
	}
	if h, tr := strings.Join(header["attempt"], " "), strings.Join(trailer["attempt"], " "); (h != want || tr != want) && !e.panics && gets != "DEADLINE_EXCEEDED" {
		t.Errorf("the header is of attempt %q, the trailer of %q, want %s", h, tr, from)
	}
	if (at.Addr != nil) != (from != "nothing") && !e.panics {
		t.Errorf("the peer is %v, want that of %s", at.Addr, from)
	}
}

// Each attempt gets the caller's options, and grpc has none of which the page says nothing.
func TestEachAttemptGetsTheOptions(t *testing.T) {
	s := serve(t, failing(1, fail(codes.Unavailable)))
	var each [][]grpc.CallOption
	seen := grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		each = append(each, opts)
		return invoke(ctx, method, req, reply, cc, opts...)
	})
	c := &retrygrpc.Client{Policy: four()}
	cc := dial(t, s.addr, nil, append(c.DialOptions(), seen)...)
	creds := new(flaky)
	opts := []grpc.CallOption{grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(1 << 20), grpc.MaxCallSendMsgSize(1 << 20), grpc.PerRPCCredentials(creds),
		grpc.UseCompressor(gzip.Name), grpc.CallContentSubtype("proto"), grpc.MaxRetryRPCBufferSize(1)}
	if _, err := call(within(t), cc, get, opts...); err != nil {
		t.Fatal(err)
	}
	if len(each) != 2 {
		t.Fatalf("%d attempts, want 2", len(each))
	}
	for i, got := range each {
		for _, opt := range opts {
			if !holds(got, opt) {
				t.Errorf("attempt %d has not got %#v", i+1, opt)
			}
		}
	}
	if n := creds.asked.Load(); n != 2 {
		t.Errorf("the credentials were asked %d times, want once for each attempt", n)
	}
	page, err := os.ReadFile("../docs/grpc.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Call options\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, name := range callOptions(t) {
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(section) {
			t.Errorf("the page says nothing of grpc.%s", name)
		}
	}
}

func holds(opts []grpc.CallOption, want grpc.CallOption) bool {
	for _, opt := range opts {
		if opt == want {
			return true
		}
	}
	return false
}

// callOptions returns the exported funcs of grpc that return a CallOption, but for deprecated ones.
func callOptions(t *testing.T) (names []string) {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "google.golang.org/grpc").Output()
	if err != nil {
		t.Skip(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !f.Name.IsExported() || f.Type.Results == nil || strings.Contains(f.Doc.Text(), "Deprecated:") {
				continue
			}
			if id, ok := f.Type.Results.List[0].Type.(*ast.Ident); ok && id.Name == "CallOption" {
				names = append(names, f.Name.Name)
			}
		}
	}
	if len(names) < 12 {
		t.Errorf("grpc has the call options %v, want more", names)
	}
	return names
}
