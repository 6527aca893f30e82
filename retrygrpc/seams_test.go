package retrygrpc_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/retrygrpc"
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
				want.Classify = func(error) retry.Class { return retry.Unknown }
				starts := 0
				want.Hooks.Start = func(ctx context.Context, got retry.Policy) context.Context {
					starts++
					for i := range reflect.TypeFor[retry.Policy]().NumField() {
						field, w, g := reflect.TypeFor[retry.Policy]().Field(i), reflect.ValueOf(want).Field(i), reflect.ValueOf(got).Field(i)
						switch {
						case field.Name == "Name": // the method's
						case field.Name == "Hooks":
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
				if want && pushback == "" && reason(err) != "bare" {
					t.Errorf("%s, %v: %v is not bare", name, code, err)
				}
			}
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
// cancel, so that a limit counts an overload.
func TestTimeoutIsADeadline(t *testing.T) {
	clock := clockx.NewVirtual(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
	p := four()
	p.AttemptTimeout, p.Clock = time.Minute, clock
	l := &limit.Limit{Start: 10}
	hang := limit.Op(l, p, func(ctx context.Context) (grpc.ClientStream, error) {
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
	})
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
		before := l.Places()
		if err := begin(t.Context(), cc); status.Code(err) != codes.DeadlineExceeded || !errors.Is(err, retry.ErrAttemptTimeout) {
			t.Errorf("%s: error = %v", name, err)
		}
		if l.Places() >= before && before > 1 {
			t.Errorf("%s: %d places of %d are left", name, l.Places(), before)
		}
	}
	if clock.Pending() != 0 {
		t.Errorf("%d timers are left", clock.Pending())
	}
}
