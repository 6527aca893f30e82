package retrygrpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/goretry/retry"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/retrygrpc"
)

// limited are the options of a client with one limit for all targets.
func limited(l *limit.Limit) []grpc.DialOption {
	return retrygrpc.LimitClient(func(string) *limit.Limit { return l })
}

// limitedServer are those of a server with one limit for all calls.
func limitedServer(l *limit.Limit) []grpc.ServerOption {
	return retrygrpc.LimitServer(func(context.Context, string) *limit.Limit { return l })
}

// limitedCall connects a Client with four attempts, each of which takes a place.
func limitedCall(t *testing.T, addr string, p retry.Policy, l *limit.Limit) *grpc.ClientConn {
	c := &retrygrpc.Client{Policy: p}
	return dial(t, addr, nil, append(c.DialOptions(), limited(l)...)...)
}

func wantInFlight(t testing.TB, l *limit.Limit, want int, when string) {
	t.Helper()
	if got := l.InFlight(); got != want {
		t.Errorf("%s: %d places are taken, want %d", when, got, want)
	}
}

// wantSign says by what happens to limits of several sizes which sign a call gave.
func wantSign(t *testing.T, want limit.Sign, make func(*limit.Limit)) {
	t.Helper()
	places := func(start int) int {
		l := &limit.Limit{Start: start}
		make(l)
		eventually(t, "the place is given back", func() bool { return l.InFlight() == 0 })
		return l.Places()
	}
	signs := map[[3]int]limit.Sign{
		{2, 4, 100}: limit.Answer, {1, 4, 100}: limit.NoSign, {1, 2, 50}: limit.Overload,
		{1, 2, 100}: limit.Timeout, // with few places each one is an overload, with many one is not
	}
	effect := [3]int{places(1), places(4), places(100)}
	if got, ok := signs[effect]; !ok || got != want {
		t.Errorf("the sign is %d (places %d), want %d", got, effect, want)
	}
}

// Without a place nothing is sent, and a Client repeats any method.
func TestLimitClientWithoutAPlace(t *testing.T) {
	s := serve(t, failing(0, nil))
	for _, classify := range []retry.Classifier{nil, func(error) retry.Class { return retry.Transient }} {
		l := &limit.Limit{Max: 1}
		l.Acquire()
		var hooks told
		p := four()
		p.Classify = classify
		p.Hooks = retry.JoinHooks(hooks.hooks(), retry.Hooks{Wait: func(context.Context, retry.Attempt) { l.Release(limit.NoSign) }})
		before := s.calls()
		got, err := call(within(t), limitedCall(t, s.addr, p, l), pay)
		if got != "hello" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if s.calls() != before+1 || len(hooks.attempts) != 2 || !errors.Is(hooks.attempts[0].Err, limit.ErrLimited) {
			t.Errorf("%d calls, attempts %v", s.calls()-before, hooks.attempts)
		}
		wantInFlight(t, l, 0, "after it")
	}

	full := &limit.Limit{Max: 1}
	full.Acquire()
	before := s.calls()
	plain := dial(t, s.addr, nil, limited(full)...)
	for name, make := range map[string]func() error{
		"unary":       func() error { _, err := call(within(t), plain, pay); return err },
		"stream":      func() error { _, err := open(within(t), plain, list); return err },
		"of a Client": func() error { _, err := call(within(t), limitedCall(t, s.addr, four(), full), pay); return err },
	} {
		err := make()
		if !errors.Is(err, limit.ErrLimited) || status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), limit.ErrLimited.Error()) {
			t.Errorf("%s: %v, with %v", name, err, status.Code(err))
		}
	}
	if s.calls() != before {
		t.Errorf("the server got %d calls", s.calls()-before)
	}
	wantInFlight(t, full, 1, "after refusals")
}

// A refusal is no proof to those who see only the error: their call may have done more.
func TestLimitClientsRefusalInAnotherRun(t *testing.T) {
	full := &limit.Limit{Max: 1}
	full.Acquire()
	s := serve(t, failing(0, nil))
	cc := dial(t, s.addr, nil, limited(full)...)
	_, err := call(within(t), cc, pay)
	if v := (retry.Policy{}).Judge(err); v.Class != retry.Unprocessed || v.Undone {
		t.Errorf("class %v, undone %v", v.Class, v.Undone)
	}
}

// What the end of a call means to the limit.
func TestLimitClientSigns(t *testing.T) {
	hang := func(_ int, s grpc.ServerStream, _ string) error {
		<-s.Context().Done()
		return status.FromContextError(s.Context().Err()).Err()
	}
	soon := func() (context.Context, context.CancelFunc) {
		return context.WithTimeout(context.Background(), 50*time.Millisecond)
	}
	later := func() (context.Context, context.CancelFunc) {
		return context.WithTimeout(context.Background(), time.Minute)
	}
	canceled := func() (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(50*time.Millisecond, cancel)
		return ctx, cancel
	}
	for _, test := range []struct {
		name string
		ctx  func() (context.Context, context.CancelFunc)
		h    handler
		want limit.Sign
		code codes.Code
	}{
		{"OK", later, failing(0, nil), limit.Answer, codes.OK},
		{"NOT_FOUND", later, always(fail(codes.NotFound)), limit.Answer, codes.NotFound},
		{"UNAVAILABLE", later, always(fail(codes.Unavailable)), limit.NoSign, codes.Unavailable},
		{"RESOURCE_EXHAUSTED", later, always(fail(codes.ResourceExhausted)), limit.Overload, codes.ResourceExhausted},
		{"DEADLINE_EXCEEDED", later, always(fail(codes.DeadlineExceeded)), limit.Timeout, codes.DeadlineExceeded},
		{"the caller's deadline", soon, hang, limit.Timeout, codes.DeadlineExceeded},
		{"the caller's cancel", canceled, hang, limit.NoSign, codes.Canceled},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serve(t, test.h)
			t.Run("unary", func(t *testing.T) {
				wantSign(t, test.want, func(l *limit.Limit) {
					ctx, cancel := test.ctx()
					defer cancel()
					if _, err := call(ctx, dial(t, s.addr, nil, limited(l)...), get); status.Code(err) != test.code {
						t.Errorf("error %v, want %v", err, test.code)
					}
				})
			})
			t.Run("stream", func(t *testing.T) {
				wantSign(t, test.want, func(l *limit.Limit) {
					ctx, cancel := test.ctx()
					defer cancel()
					cs, err := open(ctx, dial(t, s.addr, nil, limited(l)...), list)
					if err != nil {
						return // on a slow machine the context ends before the connection is there
					}
					if taken := l.InFlight(); ctx.Err() == nil && taken != 1 {
						t.Errorf("%d places are taken when it is open, want 1", taken)
					}
					if _, err := all(cs); ctx.Err() == nil && status.Code(err) != test.code {
						t.Errorf("error %v, want %v", err, test.code)
					}
				})
			})
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		gone := listen(t)
		gone.Close()
		wantSign(t, limit.NoSign, func(l *limit.Limit) {
			_, err := open(within(t), dial(t, gone.Addr().String(), nil, limited(l)...), list)
			if status.Code(err) != codes.Unavailable {
				t.Errorf("error %v", err)
			}
		})
	})
	t.Run("an interceptor opens no stream", func(t *testing.T) {
		refuse := grpc.WithChainStreamInterceptor(func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, grpc.Streamer, ...grpc.CallOption) (grpc.ClientStream, error) {
			return nil, fail(codes.ResourceExhausted)
		})
		wantSign(t, limit.Overload, func(l *limit.Limit) {
			_, err := open(within(t), dial(t, "nowhere", nil, append(limited(l), refuse)...), list)
			if status.Code(err) != codes.ResourceExhausted {
				t.Errorf("error %v", err)
			}
		})
	})
	t.Run("no connection before the deadline", func(t *testing.T) {
		gone := listen(t)
		gone.Close()
		wantSign(t, limit.Timeout, func(l *limit.Limit) {
			ctx, cancel := soon()
			defer cancel()
			_, err := open(ctx, dial(t, gone.Addr().String(), nil, limited(l)...), list, grpc.WaitForReady(true))
			if status.Code(err) != codes.DeadlineExceeded {
				t.Errorf("error %v", err)
			}
		})
	})
	t.Run("the attempt's timeout", func(t *testing.T) {
		s := serve(t, hang)
		p := retry.Policy{MaxAttempts: 1, AttemptTimeout: 50 * time.Millisecond}
		wantSign(t, limit.Timeout, func(l *limit.Limit) { _, _ = call(within(t), limitedCall(t, s.addr, p, l), get) })
		wantSign(t, limit.Timeout, func(l *limit.Limit) {
			cs, err := open(within(t), limitedCall(t, s.addr, p, l), list)
			if err == nil {
				_, err = all(cs)
			}
			if status.Code(err) != codes.DeadlineExceeded {
				t.Errorf("error %v", err)
			}
		})
	})
}

// One of two backends hangs. The prompt answers of the other excuse its timeouts.
func TestLimitClientAndPromptAnswers(t *testing.T) {
	for took, want := range map[time.Duration]int{500 * time.Millisecond: 12, 501 * time.Millisecond: 11} {
		synctest.Test(t, func(t *testing.T) {
			l := &limit.Limit{Start: 12, Max: 12}
			for range 11 {
				l.Acquire() // others are underway
			}
			answer := func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
				select {
				case <-ctx.Done():
					return status.FromContextError(ctx.Err()).Err()
				case <-time.After(took):
					return nil
				}
			}
			c := &retrygrpc.Client{Policy: retry.Policy{MaxAttempts: 1, AttemptTimeout: time.Second}}
			options := append(append(c.DialOptions(), limited(l)...), grpc.WithChainUnaryInterceptor(answer),
				grpc.WithTransportCredentials(insecure.NewCredentials()))
			cc, err := grpc.NewClient("passthrough:///users", options...)
			if err != nil {
				t.Fatal(err)
			}
			defer cc.Close()
			for _, took = range []time.Duration{took, time.Hour, time.Hour} {
				_ = cc.Invoke(t.Context(), "/users/Get", nil, nil)
			}
			if got := l.Places(); got != want {
				t.Errorf("%d places after an answer and two timeouts, want %d", got, want)
			}
		})
	}
}

// A stream holds its place until it ends, however it ends.
func TestLimitClientHoldsThePlaceOfAStream(t *testing.T) {
	for _, end := range []string{"all is received", "cancel", "the connection is closed", "the server is stopped"} {
		t.Run(end, func(t *testing.T) {
			more := make(chan bool)
			s := serve(t, func(_ int, ss grpc.ServerStream, in string) error {
				_ = reply(ss, in)
				select {
				case <-more:
				case <-ss.Context().Done():
				}
				return nil
			})
			l := new(limit.Limit)
			cc := limitedCall(t, s.addr, four(), l)
			ctx, cancel := context.WithCancel(within(t))
			defer cancel()
			cs, err := open(ctx, cc, list)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := recv(cs); got != "hello" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
			wantInFlight(t, l, 1, "in the middle")
			switch end {
			case "all is received":
				close(more)
				if _, err := recv(cs); err != io.EOF {
					t.Error(err)
				}
				wantInFlight(t, l, 0, "at the end")
			case "cancel":
				cancel()
			case "the connection is closed":
				cc.Close()
			case "the server is stopped":
				s.stop()
				_, _ = recv(cs)
				wantInFlight(t, l, 0, "at the end")
			}
			eventually(t, "the place is given back", func() bool { return l.InFlight() == 0 })
		})
	}
}

// A stream that is restarted gives the first one's place back. A bidirectional stream
// holds its place too.
func TestLimitClientAndRestartedStreams(t *testing.T) {
	s := serve(t, func(n int, ss grpc.ServerStream, in string) error {
		if n <= 2 {
			return fail(codes.Unavailable)
		}
		return reply(ss, in)
	})
	l := &limit.Limit{Max: 1}
	cc := limitedCall(t, s.addr, four(), l)
	cs, err := open(within(t), cc, list)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := all(cs); len(got) != 1 || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	wantInFlight(t, l, 0, "after three attempts")

	both, err := cc.NewStream(within(t), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, chat)
	if err != nil {
		t.Fatal(err)
	}
	wantInFlight(t, l, 1, "while the stream is open")
	_ = both.CloseSend()
	_, _ = all(both)
	wantInFlight(t, l, 0, "after it")
}

// Each copy of a call takes a place, and the loser gives its own back.
func TestLimitClientAndAHedge(t *testing.T) {
	s := serve(t, func(n int, ss grpc.ServerStream, in string) error {
		if n == 1 {
			<-ss.Context().Done()
			return nil
		}
		return reply(ss, in)
	})
	l := &limit.Limit{Start: 2}
	h := &hedge.Hedge{Delay: time.Millisecond}
	c := &retrygrpc.Client{Policy: four(), Hedge: func(string) *hedge.Hedge { return h }}
	cc := ready(t, dial(t, s.addr, nil, append(c.DialOptions(), limited(l)...)...))
	if got, err := call(within(t), cc, get); got != "hello" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	wantInFlight(t, l, 0, "after both")
	if s.calls() != 2 || l.Places() != 2 {
		t.Errorf("%d calls, %d places", s.calls(), l.Places())
	}
}

// Limits are for targets, and without one all is as it was.
func TestLimitClientByTarget(t *testing.T) {
	s := serve(t, failing(0, nil))
	var targets limit.PerKey
	cc := dial(t, s.addr, nil, retrygrpc.LimitClient(targets.For)...)
	if _, err := call(within(t), cc, get); err != nil {
		t.Error(err)
	}
	for target := range targets.All() {
		if target != "passthrough:///"+s.addr {
			t.Errorf("a limit for %q", target)
		}
	}
	none := dial(t, s.addr, nil, limited(nil)...)
	if _, err := call(within(t), none, get); err != nil {
		t.Error(err)
	}
	if cs, err := open(within(t), none, list); err != nil {
		t.Error(err)
	} else if _, err := all(cs); err != nil {
		t.Error(err)
	}
	if retrygrpc.LimitClient(nil) != nil || retrygrpc.LimitServer(nil) != nil {
		t.Error("options without a limit")
	}
}

// Whatever panics or exits below, the place is given back, with no sign.
func TestLimitClientAndPanics(t *testing.T) {
	s := serve(t, failing(0, nil))
	for name, end := range map[string]func(){"panic": func() { panic("below") }, "exit": runtime.Goexit} {
		l := &limit.Limit{Start: 1}
		cc := dial(t, s.addr, nil, append(limited(l),
			grpc.WithChainUnaryInterceptor(func(context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption) error {
				end()
				return nil
			}),
			grpc.WithChainStreamInterceptor(func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, grpc.Streamer, ...grpc.CallOption) (grpc.ClientStream, error) {
				end()
				return nil, nil
			}))...)
		for _, make := range []func(){func() { _, _ = call(within(t), cc, get) }, func() { _, _ = open(within(t), cc, list) }} {
			<-aside(make)
			if l.InFlight() != 0 || l.Places() != 1 {
				t.Errorf("%s: %d of %d places are taken", name, l.InFlight(), l.Places())
			}
		}
	}
}

// aside calls f on a goroutine, which it may end.
func aside(f func()) <-chan bool {
	done := make(chan bool)
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		f()
	}()
	return done
}

// health serves Check and Watch by one func, with the number of places that are taken.
type health struct {
	grpc_health_v1.UnimplementedHealthServer
	f func(context.Context) error
}

func (h health) Check(ctx context.Context, _ *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	return &grpc_health_v1.HealthCheckResponse{}, h.f(ctx)
}

func (h health) Watch(_ *grpc_health_v1.HealthCheckRequest, s grpc_health_v1.Health_WatchServer) error {
	if err := h.f(s.Context()); err != nil {
		return err
	}
	return s.Send(&grpc_health_v1.HealthCheckResponse{})
}

// healthServer serves h, and returns both ways to call it.
func healthServer(t *testing.T, f func(context.Context) error, opts ...grpc.ServerOption) (addr string, calls map[string]func(context.Context, *grpc.ClientConn) error) {
	lis := listen(t)
	g := grpc.NewServer(opts...)
	grpc_health_v1.RegisterHealthServer(g, health{f: f})
	go g.Serve(lis)
	t.Cleanup(g.Stop)
	return lis.Addr().String(), map[string]func(context.Context, *grpc.ClientConn) error{
		"unary": func(ctx context.Context, cc *grpc.ClientConn) error {
			_, err := grpc_health_v1.NewHealthClient(cc).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
			return err
		},
		"stream": func(ctx context.Context, cc *grpc.ClientConn) error {
			ws, err := grpc_health_v1.NewHealthClient(cc).Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
			if err != nil {
				return err
			}
			for {
				if _, err := ws.Recv(); err == io.EOF {
					return nil
				} else if err != nil {
					return err
				}
			}
		},
	}
}

// A server without a place says when to call again, whatever the method, and calls no
// handler. UnaryServer beside it does not say it twice.
func TestLimitServerWithoutAPlace(t *testing.T) {
	l := &limit.Limit{Max: 1}
	handled := 0
	relay := []grpc.ServerOption{grpc.ChainUnaryInterceptor(retrygrpc.UnaryServer), grpc.ChainStreamInterceptor(retrygrpc.StreamServer)}
	for name, opts := range map[string][]grpc.ServerOption{
		"alone": limitedServer(l), "inside": append(relay[:2:2], limitedServer(l)...), "outside": append(limitedServer(l), relay...),
	} {
		addr, calls := healthServer(t, func(context.Context) error { handled++; return nil }, opts...)
		for kind, call := range calls {
			var hooks told
			p := retry.Policy{MaxRetryAfter: time.Millisecond, Hooks: hooks.hooks()} // below what the server asks for
			c := &retrygrpc.Client{Policy: p}
			cc := dial(t, addr, c)
			handled = 0
			l.Acquire()
			err := call(within(t), cc)
			e, ok := errors.AsType[*retry.Error](err)
			if !ok || e.Reason != retry.ReasonRetryAfter || status.Code(err) != codes.ResourceExhausted || handled != 0 {
				t.Errorf("%s, %s: %v, %d handled", name, kind, err, handled)
			}
			if a := hooks.attempts[0]; a.Class != retry.Throttled || a.Hint != time.Second {
				t.Errorf("%s, %s: class %v, hint %v", name, kind, a.Class, a.Hint)
			}
			l.Release(limit.NoSign)
			if err := call(within(t), cc); err != nil || handled != 1 {
				t.Errorf("%s, %s: with a place: %v, %d handled", name, kind, err, handled)
			}
			eventually(t, "the place is given back", func() bool { return l.InFlight() == 0 })
		}
	}
}

// What the end of a handler means to its limit.
func TestLimitServerSigns(t *testing.T) {
	wait := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	timeout := func(d time.Duration) func() (context.Context, context.CancelFunc) {
		return func() (context.Context, context.CancelFunc) { return context.WithTimeout(context.Background(), d) }
	}
	leaving := func() (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		time.AfterFunc(100*time.Millisecond, cancel)
		return ctx, cancel
	}
	recovering := grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (resp any, err error) {
		defer func() {
			if recover() != nil {
				err = fail(codes.Internal)
			}
		}()
		return h(ctx, req)
	})
	recoveringStreams := grpc.ChainStreamInterceptor(func(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) (err error) {
		defer func() {
			if recover() != nil {
				err = fail(codes.Internal)
			}
		}()
		return h(srv, s)
	})
	for _, test := range []struct {
		name string
		ctx  func() (context.Context, context.CancelFunc)
		f    func(context.Context) error
		want limit.Sign
		code codes.Code // which the caller gets
	}{
		{"returns", timeout(time.Minute), func(context.Context) error { return nil }, limit.Answer, codes.OK},
		{"refuses its caller", timeout(time.Minute), func(context.Context) error { return fail(codes.ResourceExhausted) }, limit.Answer, codes.ResourceExhausted},
		{"too late", timeout(200 * time.Millisecond), wait, limit.Timeout, codes.DeadlineExceeded},
		{"too late, and does not notice", timeout(100 * time.Millisecond), func(ctx context.Context) error {
			deadline, _ := ctx.Deadline()
			time.Sleep(time.Until(deadline) + 10*time.Millisecond)
			return nil
		}, limit.Timeout, codes.DeadlineExceeded},
		{"the caller leaves", leaving, wait, limit.NoSign, codes.Canceled},
		{"panics", timeout(time.Minute), func(context.Context) error { panic("in the handler") }, limit.NoSign, codes.Internal},
	} {
		for _, kind := range []string{"unary", "stream"} {
			t.Run(test.name+", "+kind, func(t *testing.T) {
				wantSign(t, test.want, func(l *limit.Limit) {
					entered := false
					addr, calls := healthServer(t, func(ctx context.Context) error {
						entered = true
						if got := l.InFlight(); got != 1 {
							t.Errorf("%d places are taken in the handler", got)
						}
						return test.f(ctx)
					}, append([]grpc.ServerOption{recovering, recoveringStreams}, limitedServer(l)...)...)
					cc := ready(t, dial(t, addr, nil))
					ctx, cancel := test.ctx()
					defer cancel()
					if err := calls[kind](ctx, cc); status.Code(err) != test.code {
						t.Errorf("error %v, want %v", err, test.code)
					}
					eventually(t, "the handler is over", func() bool { return l.InFlight() == 0 })
					if !entered {
						t.Error("the handler was not called")
					}
				})
			})
		}
	}
}

// Who leaves in the last twentieth of its time, or in the last 100 ms if that is less, has
// not left by choice: its deadline was near.
func TestLimitServerAndCallersThatLeave(t *testing.T) {
	for _, tt := range []struct {
		name          string
		timeout       time.Duration // of the call; 0 for none
		leaves, takes time.Duration // after which the caller has left, or the handler returns
		want          limit.Sign
	}{
		{"in the last twentieth", time.Second, 950 * time.Millisecond, time.Hour, limit.Timeout},
		{"before the last twentieth", time.Second, 950*time.Millisecond - 1, time.Hour, limit.NoSign},
		{"in the last 100 ms", time.Minute, time.Minute - 100*time.Millisecond, time.Hour, limit.Timeout},
		{"before the last 100 ms", time.Minute, time.Minute - 100*time.Millisecond - 1, time.Hour, limit.NoSign},
		{"not, and gets a late answer", time.Second, time.Hour, 999 * time.Millisecond, limit.Answer},
		{"not, and has no deadline", 0, time.Hour, time.Second, limit.Answer},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wantSign(t, tt.want, func(l *limit.Limit) {
					conns := bufconn.Listen(1 << 16)
					g := grpc.NewServer(limitedServer(l)...)
					g.RegisterService(unaryService(func(ctx context.Context, _ string) (string, error) {
						select {
						case <-ctx.Done():
							return "", ctx.Err()
						case <-time.After(tt.takes):
							return "hello", nil
						}
					}), nil)
					go g.Serve(conns)
					t.Cleanup(g.Stop)
					cc := dial(t, "memory", nil, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return conns.DialContext(ctx) }))
					ctx, leave := context.WithCancel(t.Context())
					defer leave()
					time.AfterFunc(tt.leaves, leave)
					if tt.timeout > 0 {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, tt.timeout)
						defer cancel()
					}
					if got, err := call(ctx, cc, get); tt.want == limit.Answer && (got != "hello" || err != nil) {
						t.Errorf("%q, %v", got, err)
					}
				})
			})
		})
	}
}

// limitOf gets the method and what the caller sent with it.
func TestLimitServerByCaller(t *testing.T) {
	callers := limit.PerKey{New: func(string) *limit.Limit { return &limit.Limit{Max: 1} }}
	var methods sync.Map
	addr, calls := healthServer(t, func(context.Context) error { return nil }, retrygrpc.LimitServer(func(ctx context.Context, method string) *limit.Limit {
		methods.Store(method, true)
		caller := metadata.ValueFromIncomingContext(ctx, "caller")
		if len(caller) == 0 {
			return nil
		}
		return callers.For(caller[0])
	})...)
	callers.For("greedy").Acquire()
	cc := dial(t, addr, nil)
	for _, call := range calls {
		for caller, want := range map[string]codes.Code{"greedy": codes.ResourceExhausted, "modest": codes.OK} {
			err := call(metadata.AppendToOutgoingContext(within(t), "caller", caller), cc)
			if got := status.Code(err); got != want {
				t.Errorf("%s gets %v, want %v", caller, got, want)
			}
		}
		if err := call(within(t), cc); err != nil {
			t.Errorf("without a limit: %v", err)
		}
		eventually(t, "the place is given back", func() bool { return callers.For("modest").InFlight() == 0 })
	}
	for _, method := range []string{grpc_health_v1.Health_Check_FullMethodName, grpc_health_v1.Health_Watch_FullMethodName} {
		if _, ok := methods.Load(method); !ok {
			t.Errorf("limitOf was not called with %s", method)
		}
	}
}

// However many calls end however they end, no place is lost on either side.
func TestLimitLosesNoPlace(t *testing.T) {
	client, inner := &limit.Limit{Start: 4}, &limit.Limit{Start: 3, Min: 2}
	s := serve(t, func(n int, ss grpc.ServerStream, in string) error {
		switch n % 5 {
		case 0:
			return fail(codes.ResourceExhausted)
		case 1:
			<-ss.Context().Done()
			return nil
		case 2:
			_ = reply(ss, in)
			return fail(codes.Internal)
		case 3:
			return fail(codes.Unavailable)
		}
		return reply(ss, in)
	}, limitedServer(inner)...)
	cc := dial(t, s.addr, nil, append((&retrygrpc.Client{Policy: retry.Policy{MaxAttempts: 2, MaxRetryAfter: time.Millisecond, Backoff: retry.Constant(0)}}).DialOptions(), limited(client)...)...)
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			for n := range 20 {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				switch (i + n) % 3 {
				case 0:
					_, _ = call(ctx, cc, get)
				case 1:
					if cs, err := open(ctx, cc, list); err == nil {
						_, _ = recv(cs)
					}
				case 2:
					if cs, err := open(ctx, cc, send); err == nil {
						_, _ = cs.Header()
					}
				}
				cancel()
			}
		})
	}
	all.Wait()
	eventually(t, "the client's places are given back", func() bool { return client.InFlight() == 0 })
	eventually(t, "the server's places are given back", func() bool { return inner.InFlight() == 0 })
}

// A run that its pace has ended before the first attempt has a status too.
func TestPacedCallHasAStatus(t *testing.T) {
	s := serve(t, failing(0, nil))
	pace := new(retry.Pace)
	pace.Hold(time.Minute)
	cc := dial(t, s.addr, &retrygrpc.Client{Policy: retry.Policy{Pace: pace}})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err := call(ctx, cc, "/test.Test/Do")
	if st, ok := status.FromError(err); !ok || st.Code() != codes.ResourceExhausted || !errors.Is(err, retry.ErrPaced) || s.calls() != 0 {
		t.Errorf("%v after %d calls: %v", st, s.calls(), err)
	}
	if c := retry.DefaultClassifier(err); c != retry.Unprocessed {
		t.Errorf("to an outer run %v is %v, want Unprocessed", err, c)
	}
}
