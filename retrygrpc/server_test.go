package retrygrpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrygrpc"
)

// unaryService is one with the method Get, as generated code registers it.
func unaryService(get func(ctx context.Context, in string) (string, error)) *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: "retrygrpc.test.Test",
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Get", Handler: func(srv any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			in := new(wrapperspb.StringValue)
			if err := decode(in); err != nil {
				return nil, err
			}
			handle := func(ctx context.Context, in any) (any, error) {
				out, err := get(ctx, in.(*wrapperspb.StringValue).GetValue())
				if err != nil {
					return nil, err
				}
				return wrapperspb.String(out), nil
			}
			if intercept == nil {
				return handle(ctx, in)
			}
			return intercept(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: "/retrygrpc.test.Test/Get"}, handle)
		}}},
	}
}

// host serves a unary method, with ServerOptions if it relays.
func host(t testing.TB, relays bool, get func(ctx context.Context, in string) (string, error)) (addr string) {
	t.Helper()
	var opts []grpc.ServerOption
	if relays {
		opts = retrygrpc.ServerOptions()
	}
	l := listen(t)
	g := grpc.NewServer(opts...)
	g.RegisterService(unaryService(get), nil)
	go g.Serve(l)
	t.Cleanup(g.Stop)
	return l.Addr().String()
}

// Three layers of four attempts: an edge, A and B, which call C. C is down.
func TestRetriesDoNotMultiply(t *testing.T) {
	down := status.Error(codes.Unavailable, "down")
	for _, tt := range []struct {
		name    string
		relays  bool
		streams bool
		fails   func(context.Context, error) error // what A and B make of their error
		want    int64
	}{
		{"nothing", false, false, func(_ context.Context, err error) error { return err }, 64},
		{"the interceptors", true, false, func(_ context.Context, err error) error { return err }, 4},
		{"wrapped", true, false, func(_ context.Context, err error) error { return fmt.Errorf("orders: %w", err) }, 4},
		{"the run is hidden", true, false, func(_ context.Context, err error) error { return status.Error(status.Code(err), err.Error()) }, 64},
		{"the run is hidden, and Relay called", true, false, func(ctx context.Context, err error) error {
			retrygrpc.Relay(ctx, err)
			return status.Error(status.Code(err), err.Error())
		}, 4},
		{"Relay alone", false, false, func(ctx context.Context, err error) error { retrygrpc.Relay(ctx, err); return err }, 4},
		{"streams, nothing", false, true, func(_ context.Context, err error) error { return err }, 64},
		{"streams, the interceptors", true, true, func(_ context.Context, err error) error { return err }, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var requests atomic.Int64
			c := func(context.Context, string) (string, error) { requests.Add(1); return "", down }
			if !tt.streams {
				addr := host(t, tt.relays, c)
				for range 2 {
					cc := dial(t, addr, &retrygrpc.Client{Policy: four()})
					addr = host(t, tt.relays, func(ctx context.Context, _ string) (string, error) {
						_, err := call(ctx, cc, get)
						return "", tt.fails(ctx, err)
					})
				}
				_, err := call(within(t), dial(t, addr, &retrygrpc.Client{Policy: four()}), get)
				if status.Code(err) != codes.Unavailable {
					t.Errorf("error %v", err)
				}
			} else {
				var opts []grpc.ServerOption
				if tt.relays {
					opts = append(opts, retrygrpc.ServerOptions()...)
				}
				addr := serve(t, func(int, grpc.ServerStream, string) error { requests.Add(1); return down }, opts...).addr
				for range 2 {
					cc := dial(t, addr, &retrygrpc.Client{Policy: four()})
					addr = serve(t, func(_ int, s grpc.ServerStream, _ string) error {
						below, err := open(s.Context(), cc, list)
						if err == nil {
							_, err = recv(below)
						}
						return tt.fails(s.Context(), err)
					}, opts...).addr
				}
				s, err := open(within(t), dial(t, addr, &retrygrpc.Client{Policy: four()}), list)
				if err == nil {
					_, err = recv(s)
				}
				if status.Code(err) != codes.Unavailable {
					t.Errorf("error %v", err)
				}
			}
			if got := requests.Load(); got != tt.want {
				t.Errorf("C got %d requests, want %d", got, tt.want)
			}
		})
	}
}

// A server that does not answer, in virtual time. A layer is heard only if its caller's
// timeout has room for its attempts.
func TestRetriesDoNotMultiplyWhenAServerHangs(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		relays   bool
		timeouts [3]time.Duration // B's first
		want     int64
	}{
		{false, [3]time.Duration{1000 * ms, 3500 * ms, 12000 * ms}, 27},
		{true, [3]time.Duration{1000 * ms, 3500 * ms, 12000 * ms}, 3},
		{true, [3]time.Duration{1000 * ms, 3000 * ms, 9000 * ms}, 27},
	} {
		synctest.Test(t, func(t *testing.T) {
			var requests atomic.Int64
			serve := func(get func(context.Context, string) (string, error)) *bufconn.Listener {
				var opts []grpc.ServerOption
				if tt.relays {
					opts = retrygrpc.ServerOptions()
				}
				l := bufconn.Listen(1 << 16)
				g := grpc.NewServer(opts...)
				g.RegisterService(unaryService(get), nil)
				go g.Serve(l)
				t.Cleanup(g.Stop)
				return l
			}
			connect := func(l *bufconn.Listener, timeout time.Duration) *grpc.ClientConn {
				return dial(t, "memory", &retrygrpc.Client{Policy: retry.Policy{AttemptTimeout: timeout, Backoff: retry.Constant(time.Millisecond)}},
					grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
			}
			l := serve(func(ctx context.Context, _ string) (string, error) {
				requests.Add(1)
				<-ctx.Done()
				return "", ctx.Err()
			})
			for _, timeout := range tt.timeouts[:2] {
				cc := connect(l, timeout)
				l = serve(func(ctx context.Context, _ string) (string, error) { return call(ctx, cc, get) })
			}
			if _, err := call(t.Context(), connect(l, tt.timeouts[2]), get); err == nil || requests.Load() != tt.want {
				t.Errorf("relays %v, %v: C got %d requests, want %d: %v", tt.relays, tt.timeouts, requests.Load(), tt.want, err)
			}
		})
	}
}

// What the trailer says of each error.
func TestPushbackOfAServer(t *testing.T) {
	run := func(reason retry.Reason, attempts int) error {
		return &retry.Error{Reason: reason, Attempts: attempts, Errs: []error{fail(codes.Unavailable)}}
	}
	for name, tt := range map[string]struct {
		err  error
		own  []string // the handler's own pushback
		want []string
	}{
		"success":                   {nil, nil, nil},
		"plain":                     {fail(codes.Unavailable), nil, nil},
		"permanent":                 {fail(codes.NotFound), nil, nil},
		"Stop":                      {retry.Stop(fail(codes.Unavailable)), nil, []string{"-1"}},
		"Refuse":                    {fmt.Errorf("x: %w", retry.Refuse(fail(codes.Unavailable))), nil, []string{"-1"}},
		"retries":                   {run(retry.ReasonMaxAttempts, 3), nil, []string{"-1"}},
		"one attempt":               {run(retry.ReasonMaxAttempts, 1), nil, nil},
		"canceled":                  {run(retry.ReasonCanceled, 3), nil, nil},
		"a rate limit":              {run(retry.ReasonRetryAfter, 1), nil, nil},
		"its own beside -1":         {run(retry.ReasonBudget, 2), []string{"100"}, []string{"100", "-1"}},
		"its own, of a single call": {fail(codes.Unavailable), []string{"100"}, []string{"100"}},
	} {
		addr := host(t, true, func(ctx context.Context, _ string) (string, error) {
			if tt.own != nil {
				_ = grpc.SetTrailer(ctx, metadata.MD{"grpc-retry-pushback-ms": tt.own})
			}
			return "", tt.err
		})
		var trailer metadata.MD
		_, err := call(within(t), dial(t, addr, nil), get, grpc.Trailer(&trailer))
		if got := trailer["grpc-retry-pushback-ms"]; !slices.Equal(got, tt.want) {
			t.Errorf("%s: pushback %q, want %q", name, got, tt.want)
		}
		if tt.err != nil && status.Convert(err).Message() != status.Convert(tt.err).Message() {
			t.Errorf("%s: error %v, want %v", name, err, tt.err)
		}
	}
}

func TestRelayWhereThereIsNobody(t *testing.T) {
	retrygrpc.Relay(t.Context(), retry.Stop(io.EOF)) // outside of a handler
	set := 0
	stream := &transportStream{set: func(metadata.MD) { set++ }}
	ctx, cancel := context.WithCancel(grpc.NewContextWithServerTransportStream(t.Context(), stream))
	retrygrpc.Relay(ctx, nil)
	retrygrpc.Relay(ctx, io.EOF)
	if set != 0 {
		t.Errorf("%d trailers set for nil and for an error without a verdict", set)
	}
	retrygrpc.Relay(ctx, retry.Stop(io.EOF))
	if set != 1 {
		t.Errorf("%d trailers set for Stop, want 1", set)
	}
	cancel()
	retrygrpc.Relay(ctx, retry.Stop(io.EOF))
	if set != 1 {
		t.Error("a trailer for a caller that has left")
	}
}

type transportStream struct{ set func(metadata.MD) }

func (*transportStream) Method() string                    { return get }
func (*transportStream) SetHeader(metadata.MD) error       { return nil }
func (*transportStream) SendHeader(metadata.MD) error      { return nil }
func (s *transportStream) SetTrailer(md metadata.MD) error { s.set(md); return nil }

// The attempt that the caller says it makes.
func TestServersAttemptNumber(t *testing.T) {
	const most = 1<<20 + 1
	for _, tt := range []struct {
		said []string
		want int
	}{
		{nil, 1}, {[]string{"1"}, 2}, {[]string{"3"}, 4}, {[]string{"007"}, 8}, {[]string{"1048576"}, most}, {[]string{"1048577"}, most},
		{[]string{"9223372036854775808"}, most}, {[]string{strings.Repeat("9", 1000)}, most},
		{[]string{"0"}, 1}, {[]string{""}, 1}, {[]string{"-1"}, 1}, {[]string{"+1"}, 1}, {[]string{" 1"}, 1}, {[]string{"1.5"}, 1}, {[]string{"1e3"}, 1}, {[]string{"x"}, 1},
		{[]string{"1", "1"}, 1},
	} {
		md := metadata.MD{"other": {"a", "b"}}
		if tt.said != nil {
			md["grpc-previous-rpc-attempts"] = tt.said
		}
		sent := maps.Clone(md)
		ctx := metadata.NewIncomingContext(t.Context(), md)
		check := func(by string, got context.Context) {
			left, _ := metadata.FromIncomingContext(got)
			if n := retrygrpc.CallerAttempt(got); n != tt.want || retry.AttemptNumber(got) != 1 || len(left["grpc-previous-rpc-attempts"]) != 0 || !slices.Equal(left["other"], md["other"]) {
				t.Errorf("%s, %q: attempt %d with %v, want %d", by, tt.said, n, left, tt.want)
			}
		}
		_, _ = retrygrpc.UnaryServer(ctx, nil, nil, func(ctx context.Context, _ any) (any, error) { check("unary", ctx); return nil, nil })
		ss := &bareStream{ctx: ctx}
		_ = retrygrpc.StreamServer(nil, ss, nil, func(_ any, got grpc.ServerStream) error {
			if (got == grpc.ServerStream(ss)) != (tt.said == nil) {
				t.Errorf("%q: the handler got a %T", tt.said, got)
			}
			check("stream", got.Context())
			return nil
		})
		if !maps.EqualFunc(md, sent, slices.Equal) {
			t.Errorf("%q: the caller's metadata has become %v", tt.said, md)
		}
	}
}

type bareStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *bareStream) Context() context.Context { return s.ctx }

// A handler that forwards its metadata does not number its own attempts by its
// caller's.
func TestForwardedMetadata(t *testing.T) {
	c := serve(t, failing(1, fail(codes.Unavailable)))
	below := dial(t, c.addr, &retrygrpc.Client{Policy: four()})
	calls := 0
	b := host(t, true, func(ctx context.Context, in string) (string, error) {
		if calls++; calls == 1 {
			return "", fail(codes.Unavailable)
		}
		if n, own := retrygrpc.CallerAttempt(ctx), retry.AttemptNumber(ctx); n != 2 || own != 1 {
			t.Errorf("attempt %d of the caller and %d of this process, want 2 and 1", n, own)
		}
		md, _ := metadata.FromIncomingContext(ctx)
		return call(metadata.NewOutgoingContext(ctx, md), below, get)
	})
	if _, err := call(within(t), dial(t, b, &retrygrpc.Client{Policy: four()}), get); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, md := range c.metadata() {
		got = append(got, fmt.Sprint(md["grpc-previous-rpc-attempts"]))
	}
	if want := []string{"[]", "[1]"}; !slices.Equal(got, want) {
		t.Errorf("C was told %v, want %v", got, want)
	}
}

func TestServersInterceptorsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("user-agent", "x", "other", "y"))
	ss := &bareStream{ctx: ctx}
	handle := func(context.Context, any) (any, error) { return nil, nil }
	stream := func(any, grpc.ServerStream) error { return nil }
	for _, ctx := range []context.Context{t.Context(), ctx} {
		if n := testing.AllocsPerRun(100, func() { _, _ = retrygrpc.UnaryServer(ctx, nil, nil, handle) }); n != 0 {
			t.Errorf("the unary one allocates %v times", n)
		}
		ss.ctx = ctx
		if n := testing.AllocsPerRun(100, func() { _ = retrygrpc.StreamServer(nil, ss, nil, stream) }); n != 0 {
			t.Errorf("that of streams allocates %v times", n)
		}
	}
}

func TestPanicPassesThroughTheInterceptors(t *testing.T) {
	for name, f := range map[string]func(){
		"unary": func() {
			_, _ = retrygrpc.UnaryServer(t.Context(), nil, nil, func(context.Context, any) (any, error) { panic(io.EOF) })
		},
		"stream": func() {
			_ = retrygrpc.StreamServer(nil, &bareStream{ctx: t.Context()}, nil, func(any, grpc.ServerStream) error { panic(io.EOF) })
		},
	} {
		func() {
			defer func() {
				if got := recover(); got != io.EOF {
					t.Errorf("%s: panic %v", name, got)
				}
			}()
			f()
		}()
	}
}

// What a caller gets of a server that refuses a retry looks as it always did, and ends
// an outer run.
func TestRefusedStatusEndsAnOuterRun(t *testing.T) {
	for _, tt := range []struct {
		name     string
		answer   handler
		classify retry.Classifier
		outer    string // the reason of a retry.Run around the call
		inner    retry.Reason
		calls    int
	}{
		{"UNAVAILABLE", pushing(codes.Unavailable, "-1"), nil, "refused", retry.ReasonRefused, 1},
		{"two pushbacks", pushing(codes.Unavailable, "1", "-1"), nil, "refused", retry.ReasonRefused, 1},
		{"DEADLINE_EXCEEDED", pushing(codes.DeadlineExceeded, "-1"), nil, "refused", retry.ReasonRefused, 1},
		{"NOT_FOUND", pushing(codes.NotFound, "-1"), nil, "max_attempts", retry.ReasonNone, 3},
		{"NOT_FOUND, which Classify retries", pushing(codes.NotFound, "-1"), func(error) retry.Class { return retry.Transient }, "refused", retry.ReasonRefused, 1},
		{"UNAVAILABLE, which Classify does not retry", pushing(codes.Unavailable, "-1"), func(error) retry.Class { return retry.Permanent }, "max_attempts", retry.ReasonNone, 3},
	} {
		for _, method := range []string{get, pay, list} {
			s := serve(t, tt.answer)
			var r told
			p := four()
			p.Hooks, p.Classify = r.hooks(), tt.classify
			cc := dial(t, s.addr, &retrygrpc.Client{Policy: p})
			var bare error
			outer := retry.Run(within(t), retry.Policy{Backoff: retry.Constant(0), Classify: func(error) retry.Class { return retry.Transient }}, func(ctx context.Context) (err error) {
				if method == list {
					var stream grpc.ClientStream
					if stream, err = open(ctx, cc, method); err == nil {
						_, err = recv(stream)
					}
				} else {
					_, err = call(ctx, cc, method)
				}
				bare = err
				return err
			})
			if got := reason(outer); got != tt.outer || s.calls() != tt.calls {
				t.Errorf("%s, %s: the outer run ended with %v after %d calls, want %v and %d", tt.name, method, got, s.calls(), tt.outer, tt.calls)
			}
			st, ok := status.FromError(bare)
			if _, top := bare.(interface{ GRPCStatus() *status.Status }); !ok || !top || st.Message() != "no" || bare.Error() != st.Err().Error() || reason(bare) != "bare" {
				t.Errorf("%s, %s: %#v, %v", tt.name, method, bare, bare)
			}
			for _, s := range r.summaries() {
				if s.Reason != tt.inner {
					t.Errorf("%s, %s: hooks were told %v, want %v", tt.name, method, s.Reason, tt.inner)
				}
			}
		}
	}
}

// jsonCodec decodes into what is there already, as encoding/json does.
type jsonCodec struct{}

func (jsonCodec) Marshal(v any) ([]byte, error)      { return json.Marshal(v) }
func (jsonCodec) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }
func (jsonCodec) Name() string                       { return "plainjson" }

func init() { encoding.RegisterCodec(jsonCodec{}) }

func TestReplyIsOfOneAttempt(t *testing.T) {
	type account struct{ Balance, Note string }
	n := 0
	s := serveJSON(t, func(stream grpc.ServerStream) error {
		if n++; n == 1 {
			_ = stream.SendMsg(account{"100", "x"})
			return fail(codes.Unavailable)
		}
		return stream.SendMsg(map[string]string{"Balance": "90"})
	})
	cc := dial(t, s, &retrygrpc.Client{Policy: four()}, grpc.WithDefaultCallOptions(grpc.CallContentSubtype("plainjson")))
	var got account
	if err := cc.Invoke(within(t), get, "hello", &got); err != nil || got != (account{"90", ""}) || n != 2 {
		t.Errorf("%+v, %v after %d attempts, want the second one's 90", got, err, n)
	}
	n = 0
	reply := map[string]string{} // a codec may take what is no pointer
	if err := cc.Invoke(within(t), get, "hello", &reply); err != nil || reply["Balance"] != "90" || len(reply) != 1 {
		t.Errorf("%v, %v", reply, err)
	}
}

// A reply that protobuf decodes is handed on as it is: its codec resets it.
func TestReplyOfProtobufIsTheCallers(t *testing.T) {
	out, seen := new(wrapperspb.StringValue), 0
	c := &retrygrpc.Client{Policy: four()}
	cc := dial(t, serve(t, failing(2, fail(codes.Unavailable))).addr, nil, append(c.DialOptions(), grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if seen++; reply != any(out) {
				t.Errorf("attempt %d decodes into another %T", seen, reply)
			}
			return invoke(ctx, method, req, reply, cc, opts...)
		}))...)
	if err := cc.Invoke(within(t), get, wrapperspb.String("hello"), out); err != nil || seen != 3 {
		t.Errorf("%d attempts, %v", seen, err)
	}
}

func serveJSON(t *testing.T, h func(grpc.ServerStream) error) (addr string) {
	l := listen(t)
	g := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		var in any
		if err := s.RecvMsg(&in); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		return h(s)
	}))
	go g.Serve(l)
	t.Cleanup(g.Stop)
	return l.Addr().String()
}
