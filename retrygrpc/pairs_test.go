package retrygrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/retrygrpc"
)

// pairWorld is a client, for one call.
type pairWorld struct {
	client  retrygrpc.Client
	policy  retry.Policy
	opts    []grpc.CallOption
	guards  []*watched
	mayFail bool // a setting has the run end at the first failure
}

func (w *pairWorld) guard() []retry.Guard {
	g := new(watched)
	w.guards = append(w.guards, g)
	return []retry.Guard{g}
}

// settings change a world. The fields of a Client and of a Policy are among them: a new field needs
// a line here, or TestPairsOfDoorsAndSettings fails.
var settings = map[string]func(w *pairWorld){
	"Client.ForMethod": func(w *pairWorld) {
		w.client.ForMethod = func(_ string, p retry.Policy) retry.Policy { return p.Named("method") }
	},
	"Client.Idempotent": func(w *pairWorld) { w.client.Idempotent = func(string) bool { return true } },
	"Client.Budget":     func(w *pairWorld) { w.client.Budget = func(string) retry.Budget { return plenty{} } },
	"Client.Guards":     func(w *pairWorld) { g := w.guard(); w.client.Guards = func(string) []retry.Guard { return g } },
	"Client.Hedge": func(w *pairWorld) {
		h := &hedge.Hedge{Delay: time.Millisecond, Budget: plenty{}}
		w.client.Hedge = func(string) *hedge.Hedge { return h }
	},

	"Policy.Name":            func(w *pairWorld) { w.policy.Name = "name" },
	"Policy.MaxAttempts":     func(w *pairWorld) { w.policy.MaxAttempts = 5 },
	"Policy.MaxElapsed":      func(w *pairWorld) { w.policy.MaxElapsed = time.Hour },
	"Policy.AttemptTimeout":  func(w *pairWorld) { w.policy.AttemptTimeout = time.Minute },
	"Policy.Backoff":         func(w *pairWorld) { w.policy.Backoff = retry.Constant(time.Microsecond) },
	"Policy.ThrottleBackoff": func(w *pairWorld) { w.policy.ThrottleBackoff = retry.Constant(0) },
	"Policy.MaxRetryAfter":   func(w *pairWorld) { w.policy.MaxRetryAfter = time.Second },
	"Policy.Classify":        func(w *pairWorld) { w.policy.Classify = func(error) retry.Class { return retry.Unknown } },
	"Policy.NonIdempotent":   func(w *pairWorld) { w.policy.NonIdempotent, w.mayFail = true, true },
	"Policy.Budget":          func(w *pairWorld) { w.policy.Budget = plenty{} },
	"Policy.Guards":          func(w *pairWorld) { w.policy.Guards = w.guard() },
	"Policy.Hooks": func(w *pairWorld) {
		w.policy.Hooks = retry.Hooks{
			Start:       func(ctx context.Context, _ retry.Policy) context.Context { return ctx },
			Attempt:     func(ctx context.Context, _ retry.Attempt) context.Context { return ctx },
			AttemptDone: func(context.Context, retry.Attempt) {},
			Wait:        func(context.Context, retry.Attempt) {},
			Guard:       func(context.Context, retry.Held) {},
			Done:        func(context.Context, retry.Summary) {},
		}
	},
	"Policy.Clock": func(w *pairWorld) { w.policy.Clock = struct{ clockx.Clock }{clockx.System()} },
	"Policy.Rand":  func(w *pairWorld) { w.policy.Rand = func() float64 { return .5 } },

	"WithPolicy": func(w *pairWorld) {
		g := w.guard()
		w.opts = append(w.opts, retrygrpc.WithPolicy(func(p retry.Policy) retry.Policy { p.Guards = append(slices.Clip(p.Guards), g...); return p }))
	},
	"WithPolicy without guards": func(w *pairWorld) {
		w.opts = append(w.opts, retrygrpc.WithPolicy(func(p retry.Policy) retry.Policy { p.Guards = nil; return p }))
	},
	"Idempotent":     func(w *pairWorld) { w.opts = append(w.opts, retrygrpc.Idempotent(true)) },
	"not Idempotent": func(w *pairWorld) { w.opts, w.mayFail = append(w.opts, retrygrpc.Idempotent(false)), true },
	"OnFinish":       func(w *pairWorld) { w.opts = append(w.opts, grpc.OnFinish(func(error) {})) },
	"WaitForReady":   func(w *pairWorld) { w.opts = append(w.opts, grpc.WaitForReady(true)) },
}

// plenty is a budget that grants all.
type plenty struct{}

func (plenty) Withdraw(retry.Withdrawal) bool { return true }
func (plenty) End(retry.Outcome)              {}

// doors are the kinds of calls. Each returns the server's text.
var doors = map[string]func(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) (string, error){
	"unary": func(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) (string, error) {
		return call(ctx, cc, get, opts...)
	},
	"server stream": func(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) (string, error) {
		s, err := open(ctx, cc, list, opts...)
		if err != nil {
			return "", err
		}
		got, err := all(s)
		return fmt.Sprint(got), err
	},
	"bidirectional stream": func(ctx context.Context, cc *grpc.ClientConn, opts ...grpc.CallOption) (string, error) {
		s, err := cc.NewStream(ctx, &grpc.StreamDesc{StreamName: "Chat", ServerStreams: true, ClientStreams: true}, chat, opts...)
		if err != nil {
			return "", err
		}
		if err := errors.Join(s.SendMsg(wrapperspb.String("hello")), s.CloseSend()); err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		got, err := all(s)
		return fmt.Sprint(got), err
	},
}

// Every kind of call works with every pair of settings: the caller gets the server's messages, nothing
// panics, and no guard has a place that nobody gives back. The server fails each first attempt, but
// that of a bidirectional stream, of which only the opening is repeated.
func TestPairsOfDoorsAndSettings(t *testing.T) {
	for _, of := range []any{retrygrpc.Client{}, retry.Policy{}} {
		for f := range reflect.TypeOf(of).Fields() {
			name := reflect.TypeOf(of).Name() + "." + f.Name
			if f.IsExported() && settings[name] == nil && name != "Client.Policy" {
				t.Errorf("no setting for %s", name)
			}
		}
	}
	s := serve(t, func(_ int, s grpc.ServerStream, in string) error {
		md, _ := metadata.FromIncomingContext(s.Context())
		if method, _ := grpc.MethodFromServerStream(s); method != chat && len(md["grpc-previous-rpc-attempts"]) == 0 {
			time.Sleep(3 * time.Millisecond) // hedges start
			return fail(codes.Unavailable)
		}
		return reply(s, in)
	})
	names := slices.Sorted(maps.Keys(settings))
	var wg sync.WaitGroup
	free := make(chan struct{}, 16)
	for door, open := range doors {
		for i, first := range names {
			for _, second := range names[i:] {
				free <- struct{}{}
				wg.Go(func() {
					defer func() { <-free }()
					w := &pairWorld{policy: four()}
					settings[first](w)
					if second != first {
						settings[second](w)
					}
					w.client.Policy = w.policy
					w.check(t, fmt.Sprintf("%s with %s and %s", door, first, second), func(ctx context.Context, cc *grpc.ClientConn) (string, error) {
						return open(ctx, cc, w.opts...)
					}, s.addr)
				})
			}
		}
	}
	wg.Wait()
}

func (w *pairWorld) check(t *testing.T, what string, open func(context.Context, *grpc.ClientConn) (string, error), addr string) {
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("%s: panic: %v", what, r)
		}
	}()
	cc := dial(t, addr, &w.client)
	defer cc.Close()
	got, err := open(within(t), cc)
	if err != nil && !w.mayFail || err == nil && got != "hello" && got != "[hello]" {
		t.Errorf("%s: %q, %v", what, got, err)
	}
	for i, g := range w.guards {
		deadline := time.Now().Add(5 * time.Second) // of a stream grpc says so on a goroutine of its own
		held, _ := g.got()
		for ; held != 0 && time.Now().Before(deadline); held, _ = g.got() {
			time.Sleep(time.Millisecond)
		}
		if held != 0 {
			t.Errorf("%s: guard %d holds %d", what, i, held)
		}
	}
}
