package bench_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/failsafe-go/failsafe-go"
	failsafebudget "github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goretry/retry"
	"github.com/goretry/retry/bench"
	"github.com/goretry/retry/internal/race"
	"github.com/goretry/retry/retrygrpc"
)

var write = flag.Bool("write", false, "write BEHAVIOUR.md anew")

var (
	errDown  = errors.New("server is down")
	errCause = errors.New("the user went away")
	ada      = bench.Row{ID: 1, Name: "Ada", Street: "St James's Square", City: "London"}
)

// cell is what a library did in a scenario.
type cell struct {
	holds bool
	text  string
}

var notAsked = cell{text: "—"}

func yesOr(holds bool, format string, args ...any) cell {
	if holds {
		return cell{true, "yes"}
	}
	return cell{false, "no: " + fmt.Sprintf(format, args...)}
}

// scenario is a row of the table: the same for every library.
type scenario[P any] struct {
	promise, how string
	bubble       bool // in virtual time
	run          func(*testing.T, P) cell
}

const (
	own      = "goretry/retry"
	iterator = "gopkg.in/retry.v1" // whose caller writes the loop, and with it the error
)

var scenarios = []scenario[bench.Peer]{
	{"The last error is kept when the context ends.", "Canceled in a wait; errors.Is finds what the operation returned.", true, kept(errDown)},
	{"The context's cause is kept, too.", "The same with context.WithCancelCause; errors.Is finds the cause. eapache/go-resiliency can be set to keep either; k8s.io never sees the operation's error.", true, kept(errCause)},
	{"A wait that would outlast the deadline does not start.", "A deadline in 1 s, a wait of 1 h.", true, impossibleWait},
	{"No call once the context is done.", "Done before; canceled in an attempt (200 times, waits of 1 ns); canceled in the listener.", false, callsAfterCancel},
	{"No wait is above its maximum.", "100 attempts, 100 ms doubled up to 1 s, jitter on, applied in the order that keeps the maximum if the caller chooses the order.", true, maximumWait},
	{"One policy serves many goroutines.", "Eight goroutines, 100 runs of 4 attempts each, under -race.", false, sharedByMany},
	{"One policy serves two runs in a row.", "4 attempts, waits of 1, 2 and 4 s, twice.", true, twiceInARow},
	{"3 attempts inside 3: calls made.", "One call within the other, all attempts fail.", false, nested},
	{"A permit comes back after a panic.", "The operation panics in its second attempt. Only for limits on calls or retries in flight.", false, permitAfterPanic},
}

var httpScenarios = []scenario[bench.HTTPPeer]{
	{"Retry-After is obeyed as a date.", "503 with a date 10 s ahead; the backoff would be 1 s.", true, retryAfterDate},
	{"POST is not repeated.", "503 to a POST without an idempotency key.", true, postOnce},
	{"Bodies of discarded responses are closed.", "503 twice, then 200.", true, bodiesClosed},
}

var grpcScenarios = []scenario[bench.GRPCPeer]{
	{"Four attempts are four calls beside a service config of four.", "UNAVAILABLE; both layers are on.", false, bothLayers},
	{"What may have run is not run again.", "UNAVAILABLE, of a method that is not declared idempotent.", false, mayHaveRun},
	{"An answer that is too large is fetched once.", "5 MiB, over the limit of 4 MiB, of any method.", false, oversize},
	{"A server that forbids a retry gets none.", "UNAVAILABLE with grpc-retry-pushback-ms: -1.", false, pushedBack},
	{"Headers do not use up the retries.", "UNAVAILABLE after a header that the caller did not read.", false, afterHeader},
}

// TestBehaviour produces BEHAVIOUR.md, cell by cell. Each of ours must hold.
func TestBehaviour(t *testing.T) {
	var libraries []bench.Peer
	for _, p := range bench.Peers {
		if p.Module != "" && !strings.HasSuffix(p.Name, ", reused") {
			libraries = append(libraries, p)
		}
	}
	var doc strings.Builder
	doc.WriteString(`# What they do

Each cell is what a library did when ` + "`go test -race -run TestBehaviour ./bench`" + ` ran the scenario in its row; none is written by hand.
“—” means that a library has no such feature. The versions are those of [RESULTS.md](RESULTS.md).
`)
	table(t, &doc, "Calls", libraries, func(p bench.Peer) string { return p.Name }, scenarios)
	table(t, &doc, "gRPC", bench.GRPCPeers[1:], func(p bench.GRPCPeer) string { return p.Name }, grpcScenarios)
	table(t, &doc, "HTTP", bench.HTTPPeers[1:], func(p bench.HTTPPeer) string { return p.Name }, httpScenarios)
	switch {
	case t.Failed() || !race.Enabled: // which finds fewer things
	case *write:
		if err := os.WriteFile("BEHAVIOUR.md", []byte(doc.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		if got, _ := os.ReadFile("BEHAVIOUR.md"); string(got) != doc.String() {
			t.Errorf("BEHAVIOUR.md is not what was seen now: run `go run ./bench/cmd/table -behaviour`\n%s", doc.String())
		}
	}
}

func table[P any](t *testing.T, doc *strings.Builder, title string, peers []P, name func(P) string, rows []scenario[P]) {
	fmt.Fprintf(doc, "\n## %s\n\n|", title)
	for _, p := range peers {
		n := name(p)
		if strings.HasPrefix(n, own) {
			n = "**" + n + "**"
		}
		fmt.Fprintf(doc, " | %s", n)
	}
	fmt.Fprintf(doc, " |\n|---%s|\n", strings.Repeat("|---", len(peers)))
	for i, row := range rows {
		fmt.Fprintf(doc, "| %s (%d)", row.promise, i+1)
		for _, p := range peers {
			c := notAsked
			t.Run(row.promise+"/"+name(p), func(t *testing.T) {
				if row.bubble {
					synctest.Test(t, func(t *testing.T) { c = row.run(t, p) })
				} else {
					c = row.run(t, p)
				}
				if strings.HasPrefix(name(p), own) && !c.holds {
					t.Errorf("%s", c.text)
				}
			})
			fmt.Fprintf(doc, " | %s", c.text)
		}
		doc.WriteString(" |\n")
	}
	doc.WriteString("\n")
	for i, row := range rows {
		fmt.Fprintf(doc, "%d. %s\n", i+1, row.how)
	}
}

func down(context.Context) (bench.Row, error) { return bench.Row{}, errDown }

// recorder is an operation that always fails and notes when it was called.
type recorder struct{ at []time.Time }

func (r *recorder) call(context.Context) (bench.Row, error) {
	r.at = append(r.at, time.Now())
	return bench.Row{}, errDown
}

func (r *recorder) waits() (waits []time.Duration) {
	for i := 1; i < len(r.at); i++ {
		waits = append(waits, r.at[i].Sub(r.at[i-1]))
	}
	return waits
}

// kept cancels a run in a wait and looks for an error in what it returns.
func kept(what error) func(*testing.T, bench.Peer) cell {
	return func(t *testing.T, p bench.Peer) cell {
		if p.Name == iterator {
			return notAsked
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(1500*time.Millisecond, func() { cancel(errCause) })
		_, err := p.New(bench.Spec{Attempts: 10, Wait: time.Second})(ctx, down)
		return yesOr(errors.Is(err, what), "%v", err)
	}
}

func impossibleWait(t *testing.T, p bench.Peer) cell {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	start := time.Now()
	_, _ = p.New(bench.Spec{Attempts: 3, Wait: time.Hour})(ctx, down)
	return yesOr(time.Since(start) == 0, "waits for %v", time.Since(start))
}

func callsAfterCancel(t *testing.T, p bench.Peer) cell {
	var cancel context.CancelFunc
	var calls int
	count := func(context.Context) (bench.Row, error) {
		calls++
		return bench.Row{}, errDown
	}
	countAndCancel := func(ctx context.Context) (bench.Row, error) {
		cancel()
		return count(ctx)
	}
	// more reports whether one of many runs makes more calls than it may.
	more := func(call bench.Call, op bench.Op, most int) bool {
		for range 200 {
			var ctx context.Context
			ctx, cancel = context.WithCancel(t.Context())
			defer cancel()
			if calls = 0; most == 0 {
				cancel()
			}
			if _, _ = call(ctx, op); calls > most {
				return true
			}
		}
		return false
	}
	var wrong []string
	spec := bench.Spec{Attempts: 3, Wait: 1}
	if more(p.New(spec), count, 0) {
		wrong = append(wrong, "called on a done one")
	}
	if more(p.New(spec), countAndCancel, 1) {
		wrong = append(wrong, "called again after a cancel in an attempt")
	}
	spec.Listener = func() { cancel() }
	if call := p.New(spec); call != nil && more(call, count, 1) {
		wrong = append(wrong, "called again after one in the listener")
	}
	return yesOr(wrong == nil, "%s", strings.Join(wrong, ", "))
}

func maximumWait(t *testing.T, p bench.Peer) cell {
	op := new(recorder)
	_, _ = p.New(bench.Spec{Attempts: 100, Wait: 100 * time.Millisecond, Max: time.Second, Jitter: true})(t.Context(), op.call)
	if n := len(op.at); n < 100 {
		return cell{false, "no: gives up at it"}
	}
	return yesOr(slices.Max(op.waits()) <= time.Second, "jitter exceeds it")
}

// sharedByMany runs a process of its own, because the race detector ends it.
func sharedByMany(t *testing.T, p bench.Peer) cell {
	if !race.Enabled {
		t.Skip("needs -race")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestShared$")
	cmd.Env = append(os.Environ(), "BENCH_SHARED="+p.Name)
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "DATA RACE") {
		return cell{false, "no: data race"}
	}
	var calls int
	if _, scanErr := fmt.Sscanf(string(out), "calls=%d\n", &calls); err != nil || scanErr != nil {
		t.Fatalf("%v, %v: %s", err, scanErr, out)
	}
	return yesOr(calls == 3200, "%d calls of 3200", calls)
}

// TestShared shares a policy, in the processes that sharedByMany starts.
func TestShared(t *testing.T) {
	i := slices.IndexFunc(bench.Peers, func(p bench.Peer) bool { return p.Name == os.Getenv("BENCH_SHARED") })
	if i < 0 {
		t.Skip("sharedByMany starts this")
	}
	call := shared(bench.Peers[i], bench.Spec{Attempts: 4, Wait: time.Microsecond, Max: 10 * time.Microsecond, Jitter: true})
	var calls atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				_, _ = call(t.Context(), func(context.Context) (bench.Row, error) {
					calls.Add(1)
					return bench.Row{}, errDown
				})
			}
		})
	}
	all.Wait()
	fmt.Printf("calls=%d\n", calls.Load())
}

// shared returns calls with all of their policy in common.
func shared(p bench.Peer, s bench.Spec) bench.Call {
	if p.Shared != nil {
		return p.Shared(s)
	}
	return p.New(s)
}

func twiceInARow(t *testing.T, p bench.Peer) cell {
	call := shared(p, bench.Spec{Attempts: 4, Wait: time.Second, Max: time.Minute})
	first, second := new(recorder), new(recorder)
	_, _ = call(t.Context(), first.call)
	_, _ = call(t.Context(), second.call)
	return yesOr(slices.Equal(first.waits(), second.waits()), "waits %v, then %v", first.waits(), second.waits())
}

func nested(t *testing.T, p bench.Peer) cell {
	calls := 0
	innermost := func(context.Context) (bench.Row, error) {
		calls++
		return bench.Row{}, errDown
	}
	call := p.New(bench.Spec{Attempts: 3})
	_, _ = call(t.Context(), func(ctx context.Context) (bench.Row, error) { return call(ctx, innermost) })
	if p.Name != own {
		return cell{text: fmt.Sprint(calls)}
	}
	multiplied := calls
	calls = 0
	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(0), Classify: retry.AlreadyRetried}
	_, _ = retry.Do(t.Context(), policy, func(ctx context.Context) (bench.Row, error) { return retry.Do(ctx, policy, innermost) })
	return cell{multiplied == 9 && calls == 3, fmt.Sprintf("%d; %d with AlreadyRetried", multiplied, calls)}
}

func permitAfterPanic(t *testing.T, p bench.Peer) cell {
	calls := 0
	op := func() (bench.Row, error) {
		if calls++; calls == 2 {
			panic("on purpose")
		}
		return bench.Row{}, errDown
	}
	recovered := func(f func()) {
		defer func() { _ = recover() }()
		f()
	}
	switch p.Name {
	case own:
		b := make(inFlight, 1)
		recovered(func() {
			_, _ = retry.Do(t.Context(), retry.Policy{Backoff: retry.Constant(0), Budget: b},
				func(context.Context) (bench.Row, error) { return op() })
		})
		return yesOr(len(b) == 0, "%d retries are in flight", len(b))
	case "failsafe-go":
		b, hold := failsafebudget.New(), bulkhead.New[bench.Row](1)
		p := retrypolicy.NewBuilder[bench.Row]().WithBudget(b).Build()
		recovered(func() { _, _ = failsafe.With(p).Compose(hold).Get(op) })
		var lost []string
		if b.Rate() != 0 {
			lost = append(lost, "a budget's")
		}
		if !hold.TryAcquirePermit() {
			lost = append(lost, "a bulkhead's")
		}
		return yesOr(lost == nil, "%s is lost", strings.Join(lost, " and "))
	}
	return notAsked
}

// server answers with one status after the other.
type server struct {
	status []int
	header http.Header
	calls  []time.Time
	bodies int // left open
}

func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
		_ = req.Body.Close()
	}
	status := s.status[min(len(s.calls), len(s.status)-1)]
	s.calls = append(s.calls, time.Now())
	s.bodies++
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: s.header.Clone(), Request: req, Body: &body{Reader: strings.NewReader("hello"), open: &s.bodies},
	}, nil
}

type body struct {
	io.Reader
	open *int
	once sync.Once
}

func (b *body) Close() error {
	b.once.Do(func() { *b.open-- })
	return nil
}

func (s *server) ask(t *testing.T, p bench.HTTPPeer, method string) {
	var payload io.Reader
	if method == http.MethodPost {
		payload = strings.NewReader("hello")
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://server.test/", payload)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := p.Client(s, time.Second, time.Minute).Do(req); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
}

func retryAfterDate(t *testing.T, p bench.HTTPPeer) cell {
	at := time.Now().Add(10 * time.Second)
	s := &server{status: []int{503, 200}, header: http.Header{"Retry-After": {at.UTC().Format(http.TimeFormat)}}}
	s.ask(t, p, http.MethodGet)
	if len(s.calls) != 2 {
		return cell{false, fmt.Sprintf("no: %d calls", len(s.calls))}
	}
	return yesOr(!s.calls[1].Before(at), "comes back after %v", s.calls[1].Sub(s.calls[0]))
}

func postOnce(t *testing.T, p bench.HTTPPeer) cell {
	s := &server{status: []int{503}}
	s.ask(t, p, http.MethodPost)
	return yesOr(len(s.calls) == 1, "%d times", len(s.calls))
}

func bodiesClosed(t *testing.T, p bench.HTTPPeer) cell {
	s := &server{status: []int{503, 503, 200}}
	s.ask(t, p, http.MethodGet)
	return yesOr(len(s.calls) == 3 && s.bodies == 0, "%d of %d left open", s.bodies, len(s.calls))
}

// grpcCalls returns how many calls a server sees that answers one of p by a func.
func grpcCalls(t *testing.T, answer func(grpc.ServerStream) error, opts []grpc.DialOption) int {
	var calls atomic.Int64
	server := bench.NewGRPCServer(func(s grpc.ServerStream) error {
		calls.Add(1)
		return answer(s)
	})
	defer server.Stop()
	cc := server.Dial(opts...)
	defer cc.Close()
	if err := cc.Invoke(t.Context(), "/bench.Service/Get", wrapperspb.String("hello"), new(wrapperspb.StringValue)); err == nil {
		t.Error("the call succeeded")
	}
	return int(calls.Load())
}

var errUnavailable = status.Error(codes.Unavailable, "no")

func unavailable(grpc.ServerStream) error { return errUnavailable }

func bothLayers(t *testing.T, p bench.GRPCPeer) cell {
	if p.Module == "" {
		return notAsked
	}
	n := grpcCalls(t, unavailable, append(p.Options(), grpc.WithDefaultServiceConfig(bench.ServiceConfig)))
	return yesOr(n == 4, "%d calls", n)
}

func mayHaveRun(t *testing.T, p bench.GRPCPeer) cell {
	opts := p.Options()
	if p.Name == "goretry/retrygrpc" { // the others' options say nothing of methods
		opts = (&retrygrpc.Client{Policy: retry.Policy{MaxAttempts: 4, Backoff: retry.Constant(0)}}).DialOptions()
	}
	n := grpcCalls(t, unavailable, opts)
	return yesOr(n == 1, "%d calls", n)
}

func oversize(t *testing.T, p bench.GRPCPeer) cell {
	n := grpcCalls(t, func(s grpc.ServerStream) error {
		return s.SendMsg(wrapperspb.String(strings.Repeat("x", 5<<20)))
	}, p.Options())
	return yesOr(n == 1, "%d times", n)
}

func pushedBack(t *testing.T, p bench.GRPCPeer) cell {
	n := grpcCalls(t, func(s grpc.ServerStream) error {
		s.SetTrailer(metadata.Pairs("grpc-retry-pushback-ms", "-1"))
		return errUnavailable
	}, p.Options())
	return yesOr(n == 1, "%d calls", n)
}

func afterHeader(t *testing.T, p bench.GRPCPeer) cell {
	n := grpcCalls(t, func(s grpc.ServerStream) error {
		if err := s.SendHeader(metadata.Pairs("request-id", "7")); err != nil {
			return err
		}
		return errUnavailable
	}, p.Options())
	return yesOr(n == 4, "%d call", n)
}

// inFlight is a budget of retries in flight.
type inFlight chan struct{}

func (f inFlight) Withdraw(w retry.Withdrawal) bool {
	if w.Retry == 1 {
		f <- struct{}{}
	}
	return true
}

func (f inFlight) End(o retry.Outcome) {
	if o.Retries > 0 {
		<-f
	}
}
