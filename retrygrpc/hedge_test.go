package retrygrpc_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retrygrpc"
)

// hedging gives every method the same hedges.
func hedging(h *hedge.Hedge) func(string) *hedge.Hedge {
	return func(string) *hedge.Hedge { return h }
}

// TestHedgeGoesToAnotherPeer: one server of two hangs. With the balancer round_robin each
// call is answered all the same, and the caller gets the winner's values.
func TestHedgeGoesToAnotherPeer(t *testing.T) {
	var canceled atomic.Int32
	slow := serve(t, func(_ int, s grpc.ServerStream, _ string) error {
		s.SetTrailer(metadata.Pairs("server", "slow"))
		<-s.Context().Done()
		canceled.Add(1)
		return s.Context().Err()
	})
	quick := serve(t, func(_ int, s grpc.ServerStream, in string) error {
		s.SetTrailer(metadata.Pairs("server", "quick"))
		return errors.Join(s.SetHeader(metadata.Pairs("server", "quick")), reply(s, in))
	})
	r := manual.NewBuilderWithScheme("two")
	r.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: slow.addr}, {Addr: quick.addr}}})
	c := &retrygrpc.Client{Policy: four(), Hedge: hedging(&hedge.Hedge{Delay: 5 * time.Millisecond, Budget: new(ledger)})}
	cc, err := grpc.NewClient("two:///", append(c.DialOptions(), grpc.WithResolvers(r), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	for slow.calls() == 0 || quick.calls() == 0 { // until both are connected
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, _ = call(ctx, cc, get)
		cancel()
	}
	for range 10 {
		var header, trailer metadata.MD
		var from peer.Peer
		got, err := call(within(t), cc, get, grpc.Header(&header), grpc.Trailer(&trailer), grpc.Peer(&from))
		if got != "hello" || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
		if header["server"][0] != "quick" || trailer["server"][0] != "quick" || from.Addr.String() != quick.addr {
			t.Errorf("header %v, trailer %v, peer %v, want those of the quick server", header, trailer, from.Addr)
		}
	}
	eventually(t, "copies that lost have ended", func() bool { return int(canceled.Load()) == slow.calls() })
}

// TestHedgedCalls: what a call with hedges comes to. The first copy waits for the second.
func TestHedgedCalls(t *testing.T) {
	refused := func(s grpc.ServerStream) error {
		s.SetTrailer(metadata.Pairs("grpc-retry-pushback-ms", "-1"))
		return fail(codes.Unavailable)
	}
	down := func(grpc.ServerStream) error { return fail(codes.Unavailable) }
	for _, tt := range []struct {
		name          string
		method        string
		first, second func(grpc.ServerStream) error // of the copies of the first attempt
		calls         int
		code          codes.Code
		reason        string
		class         retry.Class
	}{
		{"the first fails", get, down, func(s grpc.ServerStream) error { return reply(s, "2") }, 2, codes.OK, "success", 0},
		{"an answer", get, down, func(grpc.ServerStream) error { return fail(codes.NotFound) }, 2, codes.NotFound, "bare", 0},
		{"both fail, and a retry succeeds", get, down, down, 3, codes.OK, "success", retry.Transient},
		{"the first is refused", get, refused, down, 2, codes.Unavailable, "bare", retry.Transient},
		{"the second is refused", get, down, refused, 2, codes.Unavailable, "bare", retry.Transient},
		{"a method that must not run twice", pay, down, down, 1, codes.Unavailable, "not_idempotent", retry.Transient},
	} {
		second := make(chan struct{})
		s := serve(t, func(n int, s grpc.ServerStream, in string) error {
			switch {
			case tt.method == pay:
				time.Sleep(50 * time.Millisecond) // ten times the delay
				return tt.first(s)
			case n == 1:
				<-second
				time.Sleep(20 * time.Millisecond) // the second copy has come to its end at the client
				return tt.first(s)
			case n == 2:
				defer close(second)
				return tt.second(s)
			}
			return reply(s, in)
		})
		var r told
		p := four()
		p.Hooks = r.hooks()
		c := &retrygrpc.Client{Policy: p, Hedge: hedging(&hedge.Hedge{Delay: 5 * time.Millisecond, Budget: &once{}})}
		_, err := call(within(t), dial(t, s.addr, c), tt.method)
		if s.calls() != tt.calls || status.Code(err) != tt.code || reason(err) != tt.reason {
			t.Errorf("%s: %d calls, %v, %s: %v; want %d, %v, %s", tt.name, s.calls(), status.Code(err), reason(err), err, tt.calls, tt.code, tt.reason)
		}
		if got := r.classes(); got[0] != tt.class {
			t.Errorf("%s: the first attempt is %v, want %v", tt.name, got[0], tt.class)
		}
	}
}

// once is a budget for one hedge.
type once struct {
	ledger
	granted atomic.Bool
}

func (b *once) Withdraw(retry.Withdrawal) bool { return b.granted.CompareAndSwap(false, true) }

// TestHedgedReply: a copy that loses leaves nothing in the reply, whatever the codec.
func TestHedgedReply(t *testing.T) {
	type account struct{ Balance, Note string }
	var calls atomic.Int32
	second := make(chan struct{})
	s := serveJSON(t, func(stream grpc.ServerStream) error {
		if calls.Add(1) == 1 {
			<-second
			_ = stream.SendMsg(account{"100", "lost"})
			return fail(codes.Unavailable)
		}
		defer close(second)
		return stream.SendMsg(map[string]string{"Balance": "90"})
	})
	c := &retrygrpc.Client{Policy: four(), Hedge: hedging(&hedge.Hedge{Delay: 5 * time.Millisecond, Budget: &once{}})}
	cc := dial(t, s, c, grpc.WithDefaultCallOptions(grpc.CallContentSubtype("plainjson")))
	var got account
	if err := cc.Invoke(within(t), get, "hello", &got); err != nil || got != (account{"90", ""}) || calls.Load() != 2 {
		t.Errorf("%+v, %v after %d copies, want the second one's 90", got, err, calls.Load())
	}
}

// TestHedgedCopiesBelow: a call did nothing only if no copy did, a permanent error ends
// the race, and a call without a reply has no copies.
func TestHedgedCopiesBelow(t *testing.T) {
	for name, tt := range map[string]struct {
		first, second error
		undone        bool
		reason        string
	}{
		"one undone":  {retry.Undone(hinted(codes.Internal, 1)), hinted(codes.Internal, 1), false, "max_attempts"},
		"both undone": {retry.Undone(hinted(codes.Internal, 1)), retry.Undone(hinted(codes.Internal, 1)), true, "max_attempts"},
		"stopped":     {errors.New("late"), retry.Stop(errors.New("oops")), false, "permanent"},
	} {
		second := make(chan struct{})
		p := four()
		p.MaxAttempts = 1
		c := &retrygrpc.Client{Policy: p, Hedge: hedging(&hedge.Hedge{Delay: time.Millisecond, Budget: &once{}})}
		cc := dial(t, "127.0.0.1:1", nil, append(c.DialOptions(), grpc.WithChainUnaryInterceptor(
			func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
				if hedge.Number(ctx) == 2 {
					defer close(second)
					return tt.second
				}
				<-second
				time.Sleep(200 * time.Millisecond)
				return tt.first
			}))...)
		_, err := call(within(t), cc, get)
		e, ok := errors.AsType[*retry.Error](err)
		if !ok || e.Undone != tt.undone || e.Reason.String() != tt.reason {
			t.Errorf("%s: %v, want %s, undone: %v", name, err, tt.reason, tt.undone)
		}
	}
	c := &retrygrpc.Client{Policy: four(), Hedge: hedging(&hedge.Hedge{Delay: time.Millisecond})}
	cc := dial(t, "127.0.0.1:1", nil, append(c.DialOptions(), grpc.WithChainUnaryInterceptor(
		func(context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption) error {
			return nil
		}))...)
	if err := cc.Invoke(within(t), get, nil, nil); err != nil {
		t.Error(err)
	}
}

// copies serves a call and its hedge. The first copy is answered when the second has come to
// its end at the client, unless it hangs.
func copies(t *testing.T, first, second handler) *server {
	ended := make(chan struct{})
	return serve(t, func(n int, s grpc.ServerStream, in string) error {
		switch n {
		case 1:
			<-ended
			time.Sleep(200 * time.Millisecond) // on a busy machine the client takes long to see it
			return first(n, s, in)
		case 2:
			defer close(ended)
			return second(n, s, in)
		}
		return reply(s, in)
	})
}

// TestGuardsGetWhatEachCopyCameTo: once each, those that lost as well.
func TestGuardsGetWhatEachCopyCameTo(t *testing.T) {
	busy := always(hinted(codes.ResourceExhausted, 5*time.Second))
	wins := failing(0, nil)
	hangs := func(_ int, s grpc.ServerStream, _ string) error {
		<-s.Context().Done()
		return s.Context().Err()
	}
	for name, tt := range map[string]struct {
		first, second handler
		want          []string // in alphabetical order
	}{
		"the second is throttled": {wins, busy, []string{"returned", "returned, throttled 5s ResourceExhausted"}},
		"the second is refused":   {wins, pushing(codes.ResourceExhausted, "-1"), []string{"returned", "returned, throttled 0s ResourceExhausted"}},
		"the second fails":        {wins, always(fail(codes.Unavailable)), []string{"returned", "returned, transient 0s Unavailable"}},
		"the second times out":    {wins, always(fail(codes.DeadlineExceeded)), []string{"returned", "returned, timed_out 0s DeadlineExceeded"}},
		"the second wins":         {hangs, wins, []string{"canceled, Canceled", "returned"}},
		"the second is an answer": {hangs, always(fail(codes.NotFound)), []string{"canceled, Canceled", "returned"}},
		"both fail":               {always(fail(codes.Unavailable)), busy, []string{"returned, throttled 5s ResourceExhausted", "returned, transient 0s Unavailable"}},
		"both, the second is refused": {always(fail(codes.Unavailable)), pushing(codes.ResourceExhausted, "-1"),
			[]string{"returned, throttled 0s ResourceExhausted", "returned, transient 0s Unavailable"}},
		"both, the first is refused": {pushing(codes.ResourceExhausted, "-1"), always(fail(codes.Unavailable)),
			[]string{"returned, throttled 0s ResourceExhausted", "returned, transient 0s Unavailable"}},
	} {
		w := new(watched)
		p := four()
		p.MaxAttempts = 1
		h := &hedge.Hedge{Delay: 5 * time.Millisecond, Budget: &once{}}
		cc := ready(t, dial(t, copies(t, tt.first, tt.second).addr, &retrygrpc.Client{Policy: p, Guards: under(w), Hedge: hedging(h)}))
		_, _ = call(within(t), cc, get)
		held, got := w.got()
		if slices.Sort(got); held != 0 || !slices.Equal(got, tt.want) {
			t.Errorf("%s: the guard got %q, want %q; %d are held", name, got, tt.want, held)
		}
		for i, e := range w.entries {
			if e.Hedge != (i == 1) || e.Number != 1 || e.Name != "retrygrpc.test.Test/Get" {
				t.Errorf("%s: entry %d is %+v", name, i, e)
			}
		}
	}
}

// TestHedgeTakesAPlace: each copy takes one, and gives it back.
func TestHedgeTakesAPlace(t *testing.T) {
	for places, want := range map[int]error{1: limit.ErrLimited, 2: nil} {
		s := serve(t, func(n int, ss grpc.ServerStream, in string) error {
			switch {
			case places == 1:
				time.Sleep(50 * time.Millisecond) // ten times the delay
			case n == 1:
				<-ss.Context().Done()
			}
			return reply(ss, in)
		})
		l := &limit.Limit{Max: places}
		budget := &once{}
		var got hedge.Summary
		h := &hedge.Hedge{Delay: 5 * time.Millisecond, Budget: budget, Hedged: func(_ context.Context, s hedge.Summary) { got = s }}
		cc := ready(t, dial(t, s.addr, &retrygrpc.Client{Policy: four(), Guards: under(l), Hedge: hedging(h)}))
		if got, err := call(within(t), cc, get); got != "hello" || err != nil {
			t.Errorf("%d places: %q, %v", places, got, err)
		}
		if !errors.Is(got.Refused, want) || got.Started != places || s.calls() != places || budget.granted.Load() != (places == 2) {
			t.Errorf("%d places: %+v after %d calls, the budget was asked: %v", places, got, s.calls(), budget.granted.Load())
		}
		wantInFlight(t, l, 0, "after both")
	}
}

// TestPaceHearsOfCopiesThatLose: no caller sees what they were told.
func TestPaceHearsOfCopiesThatLose(t *testing.T) {
	pace := &pace.Pace{Quota: 1e6, Burst: 1000}
	for range 12 { // Status counts from twenty attempts on
		s := serve(t, func(n int, s grpc.ServerStream, in string) error {
			if n == 2 {
				return status.Error(codes.ResourceExhausted, "quota") // a hint would hold the others
			}
			time.Sleep(20 * time.Millisecond)
			return reply(s, in)
		})
		h := &hedge.Hedge{Delay: time.Millisecond, Budget: &once{}} // one of its own: a refusal ends hedges
		cc := ready(t, dial(t, s.addr, &retrygrpc.Client{Policy: retry.Policy{MaxAttempts: 1, Guards: []retry.Guard{pace}}, Hedge: hedging(h)}))
		if got, err := call(t.Context(), cc, get); got != "hello" || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
	}
	time.Sleep(2 * time.Second) // and whole seconds
	if s := pace.Status(); s.Throttled < .4 || s.Throttled > .6 {
		t.Errorf("%v of the attempts were throttled, want one copy of two", s.Throttled)
	}
}

// TestGuardsGetAnAttemptTimeoutAsExpired: each copy of a call with its own times, on each
// clock, and Expired for a stream that opens too late.
func TestGuardsGetAnAttemptTimeoutAsExpired(t *testing.T) {
	hangs := func(_ int, s grpc.ServerStream, _ string) error {
		<-s.Context().Done()
		return s.Context().Err()
	}
	for _, clock := range []clockx.Clock{nil, struct{ clockx.Clock }{clockx.System()}} {
		w := new(watched)
		p := retry.Policy{MaxAttempts: 1, AttemptTimeout: 200 * time.Millisecond, Clock: clock}
		h := &hedge.Hedge{Delay: 5 * time.Millisecond, Budget: &once{}}
		cc := ready(t, dial(t, serve(t, hangs).addr, &retrygrpc.Client{Policy: p, Guards: under(w), Hedge: hedging(h)}))
		_, _ = call(within(t), cc, get)
		held, got := w.got()
		if slices.Sort(got); held != 0 || len(got) != 2 || !strings.HasPrefix(got[0], "expired, timed_out") || !strings.HasPrefix(got[1], "expired, timed_out") {
			t.Errorf("clock %T: the guard got %q; %d are held", clock, got, held)
		}
		for i, x := range w.exits {
			if x.Allowed <= 0 || x.Allowed > 200*time.Millisecond || x.Took < x.Allowed {
				t.Errorf("clock %T: copy %d took %v of %v", clock, i, x.Took, x.Allowed)
			}
		}
		w = new(watched)
		cc = ready(t, dial(t, serve(t, hangs).addr, &retrygrpc.Client{Policy: p, Guards: under(w)}))
		s, err := cc.NewStream(within(t), &grpc.StreamDesc{ServerStreams: true}, get)
		if err == nil {
			_ = s.SendMsg(wrapperspb.String("x"))
			err = s.RecvMsg(new(wrapperspb.StringValue))
		}
		if held, got := w.got(); held != 0 || len(got) != 1 || !strings.HasPrefix(got[0], "expired, timed_out") {
			t.Errorf("clock %T: %v, the guard got %q; %d are held", clock, err, got, held)
		}
	}
}
