package retrygrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/goretry/retry"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retrygrpc"
)

// under gives all targets the same guards.
func under(guards ...retry.Guard) func(string) []retry.Guard {
	return func(string) []retry.Guard { return guards }
}

// limitedServer are the options of a server with one guard for all calls.
func limitedServer(g retry.Guard) []grpc.ServerOption {
	guards := []retry.Guard{g}
	return retrygrpc.LimitServer(func(context.Context, string) []retry.Guard { return guards })
}

// limitedCall connects a Client, each of whose attempts passes g.
func limitedCall(t testing.TB, addr string, p retry.Policy, g retry.Guard, opts ...grpc.DialOption) *grpc.ClientConn {
	return dial(t, addr, nil, append((&retrygrpc.Client{Policy: p, Guards: under(g)}).DialOptions(), opts...)...)
}

// oneAttempt is a policy of one attempt.
var oneAttempt = retry.Policy{MaxAttempts: 1}

// take takes a place, as a call that is underway.
func take(t testing.TB, l *limit.Limit) {
	t.Helper()
	if _, err := l.Enter(t.Context(), retry.Entry{}); err != nil {
		t.Fatal(err)
	}
}

func giveBack(l *limit.Limit) { l.Leave(retry.Pass{}, retry.Exit{}) }

func wantInFlight(t testing.TB, l *limit.Limit, want int, when string) {
	t.Helper()
	if got := l.InFlight(); got != want {
		t.Errorf("%s: %d places are taken, want %d", when, got, want)
	}
}

// wantSign checks what a guard got at the end of a call.
func wantSign(t *testing.T, want string, make func(*heard)) {
	t.Helper()
	h := new(heard)
	make(h)
	if got := h.sign(t); got != want {
		t.Errorf("the guard got %s, want %s", got, want)
	}
}

// heard is a Limit without a bound that remembers how attempts have ended.
type heard struct {
	limit.Limit
	mu    sync.Mutex
	exits []retry.Exit
}

func (h *heard) Leave(p retry.Pass, x retry.Exit) {
	h.mu.Lock()
	h.exits = append(h.exits, x)
	h.mu.Unlock()
	h.Limit.Leave(p, x)
}

// sign returns what the only call said.
func (h *heard) sign(t *testing.T) string {
	t.Helper()
	eventually(t, "the place is given back", func() bool { return h.InFlight() == 0 })
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.exits) != 1 {
		t.Fatalf("%d calls have ended, want one", len(h.exits))
	}
	switch x := h.exits[0]; {
	case x.Ending == retry.Expired, x.Ending == retry.Returned && x.Verdict.Class == retry.TimedOut:
		return "a timeout"
	case x.Ending != retry.Returned:
		return "nothing"
	case x.Verdict.Err == nil, x.Verdict.IsAnswer(), x.Verdict.Class == retry.Permanent && !x.Verdict.Refused:
		return "an answer"
	case x.Verdict.Class == retry.Throttled:
		return "an overload"
	}
	return "nothing"
}

// Without a place nothing is sent, and the call is repeated, whatever the method.
func TestGuardsWithoutAPlace(t *testing.T) {
	for _, classify := range []retry.Classifier{nil, retrygrpc.Classify, func(error) retry.Class { return retry.Transient }} {
		for name, begin := range methods {
			l := &limit.Limit{Max: 1}
			take(t, l)
			var hooks told
			var refused []retry.Held
			p := four()
			p.Classify = classify
			p.Hooks = retry.JoinHooks(hooks.hooks(), retry.Hooks{Guard: func(_ context.Context, h retry.Held) {
				refused = append(refused, h)
				giveBack(l)
			}})
			s := serve(t, failing(0, nil))
			if err := begin(within(t), limitedCall(t, s.addr, p, l)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if len(refused) != 1 || !errors.Is(refused[0].Err, limit.ErrLimited) || refused[0].Class != retry.Unprocessed {
				t.Errorf("%s: refusals %+v", name, refused)
			}
			if len(hooks.attempts) != 1 || len(hooks.waits) != 0 {
				t.Errorf("%s: attempts %v, waits %v, want one and none", name, hooks.attempts, hooks.waits)
			}
			eventually(t, "the call has arrived", func() bool { return s.calls() > 0 })
			if s.calls() != 1 {
				t.Errorf("%s: %d calls", name, s.calls())
			}
		}
	}
}

// A run that a guard has ended before the first attempt has a status. To an outer run it is
// Unprocessed.
func TestGuardsEndACall(t *testing.T) {
	s := serve(t, failing(0, nil))
	full := &limit.Limit{Max: 1}
	take(t, full)
	paced := new(pace.Pace)
	paced.Hold(time.Minute)
	broken := errors.New("open")
	for guardName, tt := range map[string]struct {
		guard retry.Guard
		is    error
		code  codes.Code
		text  string
	}{
		"limit":                          {full, limit.ErrLimited, codes.ResourceExhausted, limit.ErrLimited.Error()},
		"pace":                           {paced, retry.ErrPaced, codes.ResourceExhausted, "its turn would come in"},
		"breaker":                        {refusing{retry.Stop(broken)}, broken, codes.ResourceExhausted, "open"},
		"a status":                       {refusing{fail(codes.Unauthenticated)}, nil, codes.Unauthenticated, "no"},
		"a status, wrapped":              {refusing{fmt.Errorf("quota: %w", fail(codes.Unavailable))}, nil, codes.Unavailable, "quota: "},
		"a status that is OK":            {refusing{okStatus{}}, okStatus{}, codes.ResourceExhausted, "fine"},
		"a run that gave up on a status": {refusing{&retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 1, Errs: []error{fail(codes.Unavailable)}}}, nil, codes.ResourceExhausted, "no"},
	} {
		for name, begin := range methods {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			err := begin(ctx, dial(t, s.addr, &retrygrpc.Client{Policy: four(), Guards: under(tt.guard)}))
			cancel()
			if st, ok := status.FromError(err); !ok || st.Code() != tt.code || !strings.Contains(st.Message(), tt.text) {
				t.Errorf("%s, %s: the status is %v, want %v with %q", guardName, name, st, tt.code, tt.text)
			}
			if tt.is != nil && !errors.Is(err, tt.is) || reason(err) != "guard" {
				t.Errorf("%s, %s: %v", guardName, name, err)
			}
			if c := retry.DefaultClassifier(err); c != retry.Unprocessed {
				t.Errorf("%s, %s: to an outer run %v is %v, want Unprocessed", guardName, name, err, c)
			}
		}
	}
	if s.calls() != 0 {
		t.Errorf("the server got %d calls", s.calls())
	}
	wantInFlight(t, full, 1, "after refusals")
}

// After attempts the status is that of the last one.
func TestGuardsEndACallAfterAnAttempt(t *testing.T) {
	s := serve(t, always(fail(codes.Unavailable)))
	l := &limit.Limit{Max: 1}
	p := retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0)}
	p.Hooks.Wait = func(context.Context, retry.Attempt) { take(t, l) }
	_, err := call(within(t), limitedCall(t, s.addr, p, l), get)
	if status.Code(err) != codes.Unavailable || reason(err) != "guard" || !errors.Is(err, limit.ErrLimited) || s.calls() != 1 {
		t.Errorf("%v after %d calls: %v", status.Code(err), s.calls(), err)
	}
}

// Refusals are no attempts, and take nothing from a budget.
func TestRefusalsCostABudgetNothing(t *testing.T) {
	s := serve(t, failing(0, nil))
	full := &limit.Limit{Max: 1}
	take(t, full)
	budget := new(retry.EarnedBudget)
	p := four()
	p.Budget = budget
	cc := limitedCall(t, s.addr, p, full)
	before := budget.Balance()
	for range 100 {
		if _, err := call(within(t), cc, pay); reason(err) != "guard" {
			t.Fatal(err)
		}
	}
	if got := budget.Balance(); got != before {
		t.Errorf("the budget has %v after refusals, want %v", got, before)
	}
	giveBack(full)
	if got, err := call(within(t), cc, pay); got != "hello" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// refusing is a guard that admits nothing.
type refusing struct{ err error }

func (r refusing) Enter(context.Context, retry.Entry) (retry.Pass, error) { return retry.Pass{}, r.err }
func (refusing) Leave(retry.Pass, retry.Exit)                             {}

// okStatus is an error that claims the code OK.
type okStatus struct{}

func (okStatus) Error() string              { return "fine" }
func (okStatus) GRPCStatus() *status.Status { return status.New(codes.OK, "fine") }

// What the end of a call means to the limit.
func TestGuardsLearnFromCalls(t *testing.T) {
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
		want string
		code codes.Code
	}{
		{"OK", later, failing(0, nil), "an answer", codes.OK},
		{"NOT_FOUND", later, always(fail(codes.NotFound)), "an answer", codes.NotFound},
		{"UNAVAILABLE", later, always(fail(codes.Unavailable)), "nothing", codes.Unavailable},
		{"RESOURCE_EXHAUSTED", later, always(fail(codes.ResourceExhausted)), "an overload", codes.ResourceExhausted},
		{"DEADLINE_EXCEEDED", later, always(fail(codes.DeadlineExceeded)), "a timeout", codes.DeadlineExceeded},
		{"the caller's deadline", soon, hang, "a timeout", codes.DeadlineExceeded},
		{"the caller's cancel", canceled, hang, "nothing", codes.Canceled},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serve(t, test.h)
			t.Run("unary", func(t *testing.T) {
				wantSign(t, test.want, func(l *heard) {
					ctx, cancel := test.ctx()
					defer cancel()
					if _, err := call(ctx, limitedCall(t, s.addr, oneAttempt, l), get); status.Code(err) != test.code {
						t.Errorf("error %v, want %v", err, test.code)
					}
				})
			})
			t.Run("stream", func(t *testing.T) {
				wantSign(t, test.want, func(l *heard) {
					ctx, cancel := test.ctx()
					defer cancel()
					cs, err := open(ctx, limitedCall(t, s.addr, oneAttempt, l), list)
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
		wantSign(t, "nothing", func(l *heard) {
			_, err := open(within(t), limitedCall(t, gone.Addr().String(), oneAttempt, l), list)
			if status.Code(err) != codes.Unavailable {
				t.Errorf("error %v", err)
			}
		})
	})
	t.Run("an interceptor opens no stream", func(t *testing.T) {
		refuse := grpc.WithChainStreamInterceptor(func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, grpc.Streamer, ...grpc.CallOption) (grpc.ClientStream, error) {
			return nil, fail(codes.ResourceExhausted)
		})
		wantSign(t, "an answer", func(l *heard) { // as a message that is too large to be sent
			_, err := open(within(t), limitedCall(t, "nowhere", oneAttempt, l, refuse), list)
			if status.Code(err) != codes.ResourceExhausted {
				t.Errorf("error %v", err)
			}
		})
	})
	t.Run("no connection before the deadline", func(t *testing.T) {
		gone := listen(t)
		gone.Close()
		wantSign(t, "a timeout", func(l *heard) {
			ctx, cancel := soon()
			defer cancel()
			_, err := open(ctx, limitedCall(t, gone.Addr().String(), oneAttempt, l), list, grpc.WaitForReady(true))
			if status.Code(err) != codes.DeadlineExceeded {
				t.Errorf("error %v", err)
			}
		})
	})
	t.Run("the attempt's timeout", func(t *testing.T) {
		s := serve(t, hang)
		p := retry.Policy{MaxAttempts: 1, AttemptTimeout: 50 * time.Millisecond}
		wantSign(t, "a timeout", func(l *heard) { _, _ = call(within(t), limitedCall(t, s.addr, p, l), get) })
		wantSign(t, "a timeout", func(l *heard) {
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

// A stream holds its place until it ends, however it ends.
func TestGuardsHoldAStream(t *testing.T) {
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
func TestGuardsAndRestartedStreams(t *testing.T) {
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

// Guards are for targets, and before those of the policy. Without any all is as it was.
func TestGuardsByTarget(t *testing.T) {
	s := serve(t, failing(0, nil))
	var targets retry.PerKey[limit.Limit]
	for _, own := range []*limit.Limit{nil, {Max: 1}} {
		p := four()
		if own != nil {
			p.Guards = []retry.Guard{own}
		}
		cc := dial(t, s.addr, &retrygrpc.Client{Policy: p, Guards: func(target string) []retry.Guard { return []retry.Guard{targets.For(target)} }})
		var got []retry.Guard
		edit := retrygrpc.WithPolicy(func(p retry.Policy) retry.Policy { got = p.Guards; return p })
		if _, err := call(within(t), cc, get, edit); err != nil {
			t.Error(err)
		}
		want := []retry.Guard{targets.For("passthrough:///" + s.addr)}
		if own != nil {
			want = append(want, own)
		}
		if !slices.Equal(got, want) {
			t.Errorf("the guards are %v, want %v", got, want)
		}
	}
	if n := len(maps.Collect(targets.All())); n != 1 {
		t.Errorf("%d targets", n)
	}
	for name, guards := range map[string]func(string) []retry.Guard{"no func": nil, "none": under(), "nil": under(nil), "a nil limit": under((*limit.Limit)(nil))} {
		cc := dial(t, s.addr, &retrygrpc.Client{Policy: four(), Guards: guards})
		for method, begin := range methods {
			if err := begin(within(t), cc); err != nil {
				t.Errorf("%s, %s: %v", name, method, err)
			}
		}
	}
	if retrygrpc.LimitServer(nil) != nil {
		t.Error("options without guards")
	}
}

// Whatever panics or exits below, the place is given back.
func TestGuardsAndPanicsBelow(t *testing.T) {
	s := serve(t, failing(0, nil))
	for name, end := range map[string]func(){"panic": func() { panic("below") }, "exit": runtime.Goexit} {
		l := &limit.Limit{Max: 1}
		cc := limitedCall(t, s.addr, oneAttempt, l,
			grpc.WithChainUnaryInterceptor(func(context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption) error {
				end()
				return nil
			}),
			grpc.WithChainStreamInterceptor(func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, grpc.Streamer, ...grpc.CallOption) (grpc.ClientStream, error) {
				end()
				return nil, nil
			}))
		for _, begin := range methods {
			<-aside(func() { _ = begin(within(t), cc) })
			wantInFlight(t, l, 0, name)
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
// handler. ServerOptions beside it do not say it twice.
func TestLimitServerWithoutAPlace(t *testing.T) {
	l := &limit.Limit{Max: 1}
	handled := 0
	relay := retrygrpc.ServerOptions()
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
			take(t, l)
			err := call(within(t), cc)
			e, ok := errors.AsType[*retry.Error](err)
			if !ok || e.Reason != retry.ReasonRetryAfter || status.Code(err) != codes.ResourceExhausted || handled != 0 {
				t.Errorf("%s, %s: %v, %d handled", name, kind, err, handled)
			}
			if a := hooks.attempts[0]; a.Class != retry.Throttled || a.Hint != time.Second {
				t.Errorf("%s, %s: class %v, hint %v", name, kind, a.Class, a.Hint)
			}
			giveBack(l)
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
		want string
		code codes.Code // which the caller gets
	}{
		{"returns", timeout(time.Minute), func(context.Context) error { return nil }, "an answer", codes.OK},
		{"refuses its caller", timeout(time.Minute), func(context.Context) error { return fail(codes.ResourceExhausted) }, "an answer", codes.ResourceExhausted},
		{"too late", timeout(200 * time.Millisecond), wait, "a timeout", codes.DeadlineExceeded},
		{"too late, and does not notice", timeout(100 * time.Millisecond), func(ctx context.Context) error {
			deadline, _ := ctx.Deadline()
			time.Sleep(time.Until(deadline) + 100*time.Millisecond) // a busy machine tells the caller late
			return nil
		}, "a timeout", codes.DeadlineExceeded},
		{"the caller leaves", leaving, wait, "nothing", codes.Canceled},
		{"panics", timeout(time.Minute), func(context.Context) error { panic("in the handler") }, "nothing", codes.Internal},
	} {
		for _, kind := range []string{"unary", "stream"} {
			t.Run(test.name+", "+kind, func(t *testing.T) {
				wantSign(t, test.want, func(l *heard) {
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
		want          retry.Ending
		took          time.Duration
	}{
		{"in the last twentieth", time.Second, 950 * time.Millisecond, time.Hour, retry.Expired, 950 * time.Millisecond},
		{"before the last twentieth", time.Second, 950*time.Millisecond - 1, time.Hour, retry.Canceled, 950*time.Millisecond - 1},
		{"in the last 100 ms", time.Minute, time.Minute - 100*time.Millisecond, time.Hour, retry.Expired, time.Minute - 100*time.Millisecond},
		{"before the last 100 ms", time.Minute, time.Minute - 100*time.Millisecond - 1, time.Hour, retry.Canceled, time.Minute - 100*time.Millisecond - 1},
		{"not, and gets a late answer", time.Second, time.Hour, 999 * time.Millisecond, retry.Returned, 999 * time.Millisecond},
		{"not, and has no deadline", 0, time.Hour, time.Second, retry.Returned, time.Second},
		{"not, and its deadline passes", time.Second, time.Hour, time.Hour, retry.Expired, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := new(watched)
				cc := memory(t, func(ctx context.Context) {
					select {
					case <-ctx.Done():
					case <-time.After(tt.takes):
					}
				}, w)
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				time.AfterFunc(tt.leaves, leave)
				if tt.timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.timeout)
					defer cancel()
				}
				if got, err := call(ctx, cc, get); tt.want == retry.Returned && (got != "hello" || err != nil) {
					t.Errorf("%q, %v", got, err)
				}
				synctest.Wait()
				w.wantExit(t, tt.want, tt.took, tt.timeout)
			})
		})
	}
}

// memory connects to a server in memory whose calls, under guards, are handled by f.
func memory(t *testing.T, f func(context.Context), guards ...retry.Guard) *grpc.ClientConn {
	conns := bufconn.Listen(1 << 16)
	g := grpc.NewServer(retrygrpc.LimitServer(func(context.Context, string) []retry.Guard { return guards })...)
	g.RegisterService(unaryService(func(ctx context.Context, in string) (string, error) {
		f(ctx)
		return in, ctx.Err()
	}), nil)
	go g.Serve(conns)
	t.Cleanup(g.Stop)
	return dial(t, "memory", nil, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return conns.DialContext(ctx) }))
}

// wantExit is want for one attempt, with its times.
func (w *watched) wantExit(t *testing.T, ending retry.Ending, took, allowed time.Duration) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held != 0 || len(w.exits) != 1 {
		t.Fatalf("%d are held, %d have ended", w.held, len(w.exits))
	}
	if x := w.exits[0]; x.Ending != ending || x.Took != took || x.Allowed != allowed || (x.Verdict.Err != nil) != (ending != retry.Returned) {
		t.Errorf("the guard got %s after %v of %v, want %s after %v of %v", facts(x), x.Took, x.Allowed, facts(retry.Exit{Ending: ending}), took, allowed)
	}
}

// late is a guard that admits a call when nobody waits for it any more.
type late struct{}

func (late) Enter(ctx context.Context, _ retry.Entry) (retry.Pass, error) {
	<-ctx.Done()
	return retry.Pass{}, nil
}
func (late) Leave(retry.Pass, retry.Exit) {}

// A handler that begins after its deadline had some time: none would mean that it has no
// deadline.
func TestLimitServerAndAHandlerThatBeginsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := new(watched)
		cc := memory(t, func(context.Context) {}, late{}, w)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := call(ctx, cc, get); status.Code(err) != codes.DeadlineExceeded {
			t.Error(err)
		}
		synctest.Wait()
		w.wantExit(t, retry.Expired, 0, 1)
	})
}

// A refusal asks for the wait for which the guard asks, and gives back what the guards before
// it have admitted.
func TestLimitServerRefusals(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want time.Duration
	}{
		"no wait":           {errors.New("full"), time.Second},
		"a wait":            {retry.After(errors.New("open"), 3*time.Second), 3 * time.Second},
		"a short wait":      {retry.After(errors.New("open"), time.Millisecond), time.Millisecond},
		"stopped":           {retry.Stop(errors.New("open")), time.Second},
		"stopped, a wait":   {retry.Stop(fmt.Errorf("open: %w", retry.After(errors.New("open"), 3*time.Second))), 3 * time.Second},
		"a turn, too late":  {retry.ErrPaced, time.Second},
		"a status":          {fail(codes.Unauthenticated), time.Second},
		"a run that failed": {&retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 3, Errs: []error{errors.New("redis")}}, time.Second},
	} {
		w := new(watched)
		guards := []retry.Guard{w, nil, refusing{tt.err}}
		addr, calls := healthServer(t, func(context.Context) error { t.Error("the handler was called"); return nil },
			retrygrpc.LimitServer(func(context.Context, string) []retry.Guard { return guards })...)
		for kind, call := range calls {
			var hooks told
			cc := dial(t, addr, &retrygrpc.Client{Policy: retry.Policy{MaxAttempts: 1, Hooks: hooks.hooks()}})
			err := call(within(t), cc)
			e, ok := errors.AsType[*retry.Error](err)
			if !ok || !e.Undone || status.Code(err) != codes.ResourceExhausted {
				t.Fatalf("%s, %s: %v, want one that is undone", name, kind, err)
			}
			if a := hooks.attempts[0]; a.Class != retry.Throttled || a.Hint != tt.want {
				t.Errorf("%s, %s: %v with a hint of %v, want %v", name, kind, a.Class, a.Hint, tt.want)
			}
		}
		w.want(t, 0, "not made", "not made")
	}
}

// The func for guards gets the method and what the caller sent with it.
func TestLimitServerByCaller(t *testing.T) {
	callers := retry.PerKey[limit.Limit]{New: func(string) *limit.Limit { return &limit.Limit{Max: 1} }}
	var methods sync.Map
	addr, calls := healthServer(t, func(context.Context) error { return nil }, retrygrpc.LimitServer(func(ctx context.Context, method string) []retry.Guard {
		methods.Store(method, true)
		caller := metadata.ValueFromIncomingContext(ctx, "caller")
		if len(caller) == 0 {
			return nil
		}
		return []retry.Guard{callers.For(caller[0])}
	})...)
	take(t, callers.For("greedy"))
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
			t.Errorf("it was not called with %s", method)
		}
	}
}

// However many calls end however they end, no place is lost on either side.
func TestLimitLosesNoPlace(t *testing.T) {
	client, inner := &limit.Limit{Max: 4}, &limit.Limit{Max: 3}
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
	cc := limitedCall(t, s.addr, retry.Policy{MaxAttempts: 2, MaxRetryAfter: time.Millisecond, Backoff: retry.Constant(0)}, client)
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
