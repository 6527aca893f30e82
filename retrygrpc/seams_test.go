package retrygrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/retrygrpc"
	"github.com/goretry/retry/retryhttp"
)

// methods are one of each kind: begin makes a call, or opens a stream and receives.
var methods = map[string]func(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error{
	"unary": func(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
		_, err := call(ctx, cc, get, opts...)
		return err
	},
	"unary, not idempotent": func(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
		_, err := call(ctx, cc, pay, opts...)
		return err
	},
	"server stream": func(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
		s, err := open(ctx, cc, list, opts...)
		if err == nil {
			_, err = recv(s)
		}
		return err
	},
	"both stream": func(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) error {
		_, err := cc.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, chat, opts...)
		return err
	},
}

// TestHooksGetTheUsersPolicy: what this package knows about a call is in its verdicts,
// and not in the policy of its run.
func TestHooksGetTheUsersPolicy(t *testing.T) {
	s := serve(t, failing(0, nil))
	for name, begin := range methods {
		for _, clock := range []clockx.Clock{nil, clockx.NewVirtual(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))} {
			for _, once := range []bool{false, true} {
				want := four()
				want.AttemptTimeout, want.Budget, want.Clock, want.NonIdempotent = time.Minute, new(ledger), clock, once
				want.Guards = []retry.Guard{new(limit.Limit)}
				want.Classify = func(error) retry.Class { return retry.Unknown }
				starts := 0
				want.Hooks.Start = func(ctx context.Context, got retry.Policy) context.Context {
					starts++
					for i := range reflect.TypeFor[retry.Policy]().NumField() {
						field, w, g := reflect.TypeFor[retry.Policy]().Field(i), reflect.ValueOf(want).Field(i), reflect.ValueOf(got).Field(i)
						switch {
						case field.Name == "Name": // the method's
						case field.Name == "Hooks":
						case field.Type.Kind() == reflect.Slice:
							if !reflect.DeepEqual(w.Interface(), g.Interface()) { // a copy, in which a hook can change no other run's
								t.Errorf("%s: another %s", name, field.Name)
							}
						case field.Type.Kind() == reflect.Func:
							if w.Pointer() != g.Pointer() {
								t.Errorf("%s: another %s", name, field.Name)
							}
						case !w.Equal(g):
							t.Errorf("%s: %s is %v, want %v", name, field.Name, g, w)
						}
					}
					return ctx
				}
				if err := begin(within(t), dial(t, s.addr, &retrygrpc.Client{Policy: want})); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if starts != 1 {
					t.Errorf("%s: %d runs", name, starts)
				}
			}
		}
	}
}

// TestWithPolicyEdits: an edit gets what the call would use, budget and name included.
func TestWithPolicyEdits(t *testing.T) {
	s := serve(t, always(fail(codes.Unavailable)))
	b := new(ledger)
	c := &retrygrpc.Client{
		Policy:    four(),
		ForMethod: func(_ string, p retry.Policy) retry.Policy { p.MaxElapsed = time.Hour; return p },
		Budget:    func(string) retry.Budget { return b },
	}
	var seen []string
	edit := func(name string, attempts int) grpc.CallOption {
		return retrygrpc.WithPolicy(func(p retry.Policy) retry.Policy {
			seen = append(seen, fmt.Sprintf("%s: %s %d %v %v", name, p.Name, p.MaxAttempts, p.MaxElapsed, p.Budget == b))
			p.MaxAttempts = attempts
			return p
		})
	}
	_, err := call(within(t), dial(t, s.addr, c), get, edit("first", 3), retrygrpc.WithPolicy(nil), edit("last", 2))
	if want := []string{"first: retrygrpc.test.Test/Get 4 1h0m0s true", "last: retrygrpc.test.Test/Get 3 1h0m0s true"}; !slices.Equal(seen, want) {
		t.Errorf("edits got %q, want %q", seen, want)
	}
	if e, ok := errors.AsType[*retry.Error](err); !ok || e.Attempts != 2 || b.granted != 1 || b.ended != 1 {
		t.Errorf("error %v, budget %+v, want two attempts and one withdrawal", err, b)
	}
}

// TestEditsMayChangeTheGuards: they write to arrays of their own, so that two calls share none.
func TestEditsMayChangeTheGuards(t *testing.T) {
	s := serve(t, always(fail(codes.NotFound)))
	shared := make([]retry.Guard, 1, 8) // nil admits all
	edit := func(p retry.Policy) retry.Policy {
		p.Guards[0] = new(watched)
		p.Guards = append(p.Guards, new(watched))
		return p
	}
	for name, tt := range map[string]struct {
		client *retrygrpc.Client
		opts   []grpc.CallOption
	}{
		"ForMethod":  {client: &retrygrpc.Client{ForMethod: func(_ string, p retry.Policy) retry.Policy { return edit(p) }}},
		"WithPolicy": {client: &retrygrpc.Client{}, opts: []grpc.CallOption{retrygrpc.WithPolicy(edit)}},
	} {
		tt.client.Policy.Guards = shared
		if _, err := call(within(t), dial(t, s.addr, tt.client), get, tt.opts...); status.Code(err) != codes.NotFound {
			t.Error(name, err)
		}
		if shared[0] != nil || shared[:2][1] != nil {
			t.Errorf("%s has written %v into the Client's guards", name, shared[:2])
			clear(shared[:2])
		}
	}
}

// TestUndoneBelow: an interceptor below may know that nothing was done.
func TestUndoneBelow(t *testing.T) {
	for name, tt := range map[string]struct {
		err   error
		calls int
	}{
		"a status":            {fail(codes.Aborted), 1},
		"a status, undone":    {retry.Undone(fail(codes.DeadlineExceeded)), 4},
		"an error":            {errors.New("oops"), 1},
		"an error, undone":    {fmt.Errorf("x: %w", retry.Undone(errors.New("oops"))), 4},
		"no place":            {limit.ErrLimited, 4},
		"a wait":              {retry.After(errors.New("oops"), time.Millisecond), 1},
		"a wait, undone":      {retry.Undone(retry.After(errors.New("oops"), time.Millisecond)), 4},
		"an answer, undone":   {retry.Undone(retry.Stop(errors.New("oops"))), 1},
		"a run that was":      {&retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 1, Undone: true}, 4},
		"a run that was not":  {&retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 1}, 1},
		"a refusal, undone":   {retry.Undone(retry.Refuse(errors.New("oops"))), 1},
		"a status of no peer": {fail(codes.Unavailable), 4},
	} {
		calls := 0
		c := &retrygrpc.Client{Policy: four()}
		cc := dial(t, "127.0.0.1:1", nil, append(c.DialOptions(), grpc.WithChainUnaryInterceptor(
			func(context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption) error {
				calls++
				return tt.err
			}))...)
		if _, err := call(within(t), cc, pay); calls != tt.calls {
			t.Errorf("%s: %d calls, want %d: %v", name, calls, tt.calls, err)
		}
	}
}

// TestUndoneAfterACall: it may know that of a call that was made, too.
func TestUndoneAfterACall(t *testing.T) {
	for _, undone := range []bool{false, true} {
		s := serve(t, failing(1, fail(codes.Unavailable)))
		c := &retrygrpc.Client{Policy: four()}
		cc := dial(t, s.addr, nil, append(c.DialOptions(), grpc.WithChainUnaryInterceptor(
			func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				err := invoke(ctx, method, req, reply, cc, opts...)
				if undone {
					err = retry.Undone(err)
				}
				return err
			}))...)
		if _, err := call(within(t), cc, pay); (err == nil) != undone {
			t.Errorf("undone %v: %v after %d calls", undone, err, s.calls())
		}
	}
}

// TestAnswersAreFinal: the next service sees that its caller need not ask again, whether
// it serves gRPC or HTTP.
func TestAnswersAreFinal(t *testing.T) {
	for code := codes.Code(1); code <= codes.Unauthenticated; code++ {
		for pushback, answer := range map[string]handler{"": always(fail(code)), "-1": pushing(code, "-1")} {
			cc := dial(t, serve(t, answer).addr, &retrygrpc.Client{Policy: retry.Policy{MaxAttempts: 1}})
			want := pushback != ""
			switch code {
			case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted: // a single attempt has not retried
			default:
				want = true
			}
			for name, begin := range methods {
				if name == "both stream" || name == "unary, not idempotent" && !want {
					continue
				}
				err := begin(within(t), cc)
				if status.Code(err) != code {
					t.Fatalf("%s: error = %v, want %v", name, err, code)
				}
				if got := retry.Final(fmt.Errorf("x: %w", err)); got != want {
					t.Errorf("%s, %v with pushback %q: Final = %v, want %v", name, code, pushback, got, want)
				}
				h := http.Header{}
				retryhttp.Relay(h, err)
				if got := h.Get("X-Should-Retry") == "false"; got != want {
					t.Errorf("%s, %v with pushback %q: HTTP is told %v, want %v", name, code, pushback, h, want)
				}
				if want && pushback == "" && reason(err) != "bare" {
					t.Errorf("%s, %v: %v is not bare", name, code, err)
				}
			}
		}
	}
}

// TestAnswersEndTheLayersAbove: a service that hides the code of an answer is not called
// again, and nor is the one below it.
func TestAnswersEndTheLayersAbove(t *testing.T) {
	for name, answer := range map[string]handler{
		"an answer": always(fail(codes.InvalidArgument)), "a refusal": pushing(codes.Internal, "-1"), "a refused status": pushing(codes.Unavailable, "-1"),
	} {
		c := serve(t, answer)
		below := dial(t, c.addr, &retrygrpc.Client{Policy: four()})
		calls := 0
		b := host(t, false, func(ctx context.Context, _ string) (string, error) {
			calls++
			_, err := call(ctx, below, get)
			retrygrpc.Relay(ctx, err)
			return "", status.Error(codes.Unavailable, "b is down")
		})
		if _, err := call(within(t), dial(t, b, &retrygrpc.Client{Policy: four()}), get); status.Code(err) != codes.Unavailable {
			t.Error(err)
		}
		if c.calls() != 1 || calls != 1 {
			t.Errorf("%s: B got %d calls, and C %d, want 1 and 1", name, calls, c.calls())
		}
	}
}

// TestAnOuterRunMayRepeatAnAnswer: that is its Classify's to say.
func TestAnOuterRunMayRepeatAnAnswer(t *testing.T) {
	s := serve(t, failing(2, fail(codes.Aborted)))
	cc := dial(t, s.addr, &retrygrpc.Client{Policy: four()})
	p := four()
	p.Classify = func(err error) retry.Class {
		if status.Code(err) == codes.Aborted {
			return retry.Transient
		}
		return retry.Unknown
	}
	if err := retry.Run(within(t), p, func(ctx context.Context) error { return methods["unary"](ctx, cc) }); err != nil || s.calls() != 3 {
		t.Errorf("%d calls, %v, want a success after 3", s.calls(), err)
	}
}

// TestTimeoutIsADeadline: code below that looks at its context sees a timeout and no
// cancel, and guards that the attempt has expired.
func TestTimeoutIsADeadline(t *testing.T) {
	clock := clockx.NewVirtual(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
	p := four()
	w := new(watched)
	p.AttemptTimeout, p.Clock, p.Guards = time.Minute, clock, []retry.Guard{w}
	hang := func(ctx context.Context) (grpc.ClientStream, error) {
		if _, ok := ctx.Deadline(); ok {
			t.Error("grpc would send this deadline, and end the stream")
		}
		if err := ctx.Err(); err != nil {
			t.Error(err)
		}
		clock.Advance(time.Minute)
		<-ctx.Done()
		if err := ctx.Err(); err != context.DeadlineExceeded {
			t.Errorf("the context ended with %v", err)
		}
		return nil, errors.New("hung")
	}
	c := &retrygrpc.Client{Policy: p, Idempotent: func(string) bool { return true }}
	cc := dial(t, "127.0.0.1:1", nil, append(c.DialOptions(),
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
			_, err := hang(ctx)
			return err
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ grpc.Streamer, _ ...grpc.CallOption) (grpc.ClientStream, error) {
			return hang(ctx)
		}))...)
	for name, begin := range methods {
		if err := begin(t.Context(), cc); status.Code(err) != codes.DeadlineExceeded || !errors.Is(err, retry.ErrAttemptTimeout) {
			t.Errorf("%s: error = %v", name, err)
		}
	}
	if n := len(w.exits); n != 4*len(methods) {
		t.Errorf("a guard saw %d attempts end, want %d", n, 4*len(methods))
	}
	for _, x := range w.exits {
		if x.Ending != retry.Expired {
			t.Errorf("a guard got that an attempt was %s", facts(x))
		}
	}
	if clock.Pending() != 0 {
		t.Errorf("%d timers are left", clock.Pending())
	}
}

// TestRelayOfAWait: a wait that was too long for a server is its caller's, if the method
// may run twice.
func TestRelayOfAWait(t *testing.T) {
	for _, tt := range []struct {
		name   string
		wait   time.Duration
		method string
		err    func(error) error
		want   string // the pushback
		reason string // of the caller
	}{
		{"idempotent", 10 * time.Minute, get, nil, "600000", "retry_after"},
		{"rounded up", 10*time.Minute + 1, get, nil, "600001", "retry_after"},
		{"not idempotent", 10 * time.Minute, pay, nil, "-1", "bare"},
		{"not idempotent, and undone", 10 * time.Minute, pay, retry.Undone, "600000", "retry_after"},
		{"wrapped", 10 * time.Minute, get, func(err error) error { return fmt.Errorf("orders: %w", err) }, "600000", "retry_after"},
		{"stopped", 10 * time.Minute, get, retry.Stop, "-1", "bare"},
		{"a wait of no run", 10 * time.Minute, get, errors.Unwrap, "", "max_attempts"},
	} {
		c := serve(t, always(hinted(codes.Unavailable, tt.wait)))
		below := dial(t, c.addr, &retrygrpc.Client{Policy: four()})
		var calls atomic.Int32
		b := serve(t, func(_ int, s grpc.ServerStream, _ string) error {
			calls.Add(1)
			_, err := call(s.Context(), below, get)
			if tt.name == "a wait of no run" {
				err = retry.After(errors.New("oops"), tt.wait)
			} else if tt.err != nil {
				err = tt.err(err)
			}
			retrygrpc.Relay(s.Context(), err)
			return status.Error(codes.Unavailable, "b is down")
		})
		var trailer metadata.MD
		_, err := call(within(t), dial(t, b.addr, &retrygrpc.Client{Policy: four()}), tt.method, grpc.Trailer(&trailer))
		got := ""
		if values := trailer["grpc-retry-pushback-ms"]; len(values) > 0 {
			got = values[0]
		}
		if want := int32(4); tt.want != "" {
			want = 1
			if calls.Load() != want {
				t.Errorf("%s: B got %d calls, want %d", tt.name, calls.Load(), want)
			}
		}
		if got != tt.want || reason(err) != tt.reason {
			t.Errorf("%s: pushback %q, %s: %v; want %q, %s", tt.name, got, reason(err), err, tt.want, tt.reason)
		}
	}
}

// TestStatus: what a caller gets of a handler's error.
func TestStatus(t *testing.T) {
	oops := errors.New("oops")
	throttled := retry.After(oops, 1500*time.Millisecond)
	run := func(reason retry.Reason, attempts int, err error) error {
		return &retry.Error{Reason: reason, Attempts: attempts, Errs: []error{err}, Undone: true}
	}
	timeout := &retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 1, Errs: []error{retry.ErrAttemptTimeout}}
	for _, tt := range []struct {
		name     string
		err      error
		code     codes.Code
		pushback []string
		info     time.Duration
	}{
		{"unknown", oops, codes.Unavailable, nil, 0},
		{"a status", fmt.Errorf("x: %w", fail(codes.FailedPrecondition)), codes.FailedPrecondition, nil, 0},
		{"permanent", fs.ErrPermission, codes.Unknown, nil, 0},
		{"stopped", retry.Stop(oops), codes.Unknown, []string{"-1"}, 0},
		{"refused", retry.Refuse(oops), codes.Unknown, []string{"-1"}, 0},
		{"timed out", timeout, codes.DeadlineExceeded, nil, 0},
		{"timed out, and undone", retry.Undone(timeout), codes.Unavailable, []string{"0"}, 0},
		{"throttled", throttled, codes.ResourceExhausted, nil, 0},
		{"throttled, and undone", retry.Undone(throttled), codes.ResourceExhausted, []string{"1500"}, 1500 * time.Millisecond},
		{"one transaction", run(retry.ReasonMaxAttempts, 1, oops), codes.Unavailable, nil, 0},
		{"one transaction, undone", retry.Undone(run(retry.ReasonMaxAttempts, 1, oops)), codes.Unavailable, []string{"0"}, 0},
		{"transactions", retry.Undone(run(retry.ReasonMaxAttempts, 3, oops)), codes.Unavailable, []string{"-1"}, 0},
		{"a permanent one, undone", retry.Undone(fs.ErrPermission), codes.Unknown, nil, 0},
		{"an answer of a run", run(retry.ReasonPermanent, 1, fail(codes.NotFound)), codes.NotFound, []string{"-1"}, 0},
	} {
		var trailer metadata.MD
		b := serve(t, func(_ int, s grpc.ServerStream, _ string) error { return retrygrpc.Status(s.Context(), tt.err, "no") },
			retrygrpc.ServerOptions()...)
		_, err := call(within(t), dial(t, b.addr, nil), pay, grpc.Trailer(&trailer))
		st, _ := status.FromError(err)
		if st.Code() != tt.code || st.Message() != "no" {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.code)
		}
		if got := trailer["grpc-retry-pushback-ms"]; !slices.Equal(got, tt.pushback) {
			t.Errorf("%s: pushback %q, want %q", tt.name, got, tt.pushback)
		}
		var info time.Duration
		for _, detail := range st.Details() {
			info += detail.(*errdetails.RetryInfo).RetryDelay.AsDuration()
		}
		if info != tt.info {
			t.Errorf("%s: RetryInfo of %v, want %v", tt.name, info, tt.info)
		}
	}
	if err := retrygrpc.Status(t.Context(), nil, "no"); err != nil {
		t.Errorf("Status of no error is %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got := status.Code(retrygrpc.Status(ended, oops, "no")); got != codes.Canceled {
		t.Errorf("after the caller has left: %v", got)
	}
	late, stop := context.WithTimeout(t.Context(), -1)
	defer stop()
	if got := status.Code(retrygrpc.Status(late, retry.Stop(oops), "no")); got != codes.DeadlineExceeded {
		t.Errorf("after the deadline: %v", got)
	}
}

// TestStatusOfATransaction: a rolled back transaction is repeated by the caller, although
// the method must not run twice.
func TestStatusOfATransaction(t *testing.T) {
	b := serve(t, func(n int, s grpc.ServerStream, in string) error {
		if n < 3 {
			return retrygrpc.Status(s.Context(), retry.Undone(errors.New("conflict")), "not booked")
		}
		return reply(s, in)
	})
	if got, err := call(within(t), dial(t, b.addr, &retrygrpc.Client{Policy: four()}), pay); got != "hello" || err != nil || b.calls() != 3 {
		t.Errorf("%q, %v after %d calls, want hello after 3", got, err, b.calls())
	}
}
