package retrygrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goretry/retry"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retrygrpc"
)

// watched is a guard that writes down what it gets.
type watched struct {
	mu      sync.Mutex
	held    int
	entries []retry.Entry
	exits   []retry.Exit
}

func (w *watched) Enter(_ context.Context, e retry.Entry) (retry.Pass, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held++
	w.entries = append(w.entries, e)
	return retry.Pass{}, nil
}

func (w *watched) Leave(_ retry.Pass, x retry.Exit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held--
	w.exits = append(w.exits, x)
}

// got returns how many attempts are held, and how the others have ended.
func (w *watched) got() (held int, ends []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.exits {
		ends = append(ends, facts(x))
	}
	return w.held, ends
}

// facts says what a guard gets: how an attempt has ended, and the class, the hint and the code
// of its error.
func facts(x retry.Exit) string {
	s := [...]string{"not made", "returned", "expired", "canceled", "panicked"}[x.Ending]
	switch v := x.Verdict; {
	case v.Err == nil && v != (retry.Verdict{}):
		s += ", without an error"
	case v.Err == nil:
	case x.Ending == retry.NotMade: // another guard's error, which nobody has judged
	case v.Class == retry.Unknown && status.Code(v.Err) == codes.Unknown: // the context's
		s += ", " + status.FromContextError(v.Err).Code().String()
	case v.Class == retry.Unknown:
		s += ", " + status.Code(v.Err).String()
	default:
		s += fmt.Sprintf(", %v %v %v", v.Class, v.Hint, status.Code(v.Err))
	}
	return s
}

func (w *watched) want(t *testing.T, held int, ends ...string) {
	t.Helper()
	if gotHeld, gotEnds := w.got(); gotHeld != held || !slices.Equal(gotEnds, ends) {
		t.Errorf("%d are held, and the guard got %q, want %d and %q", gotHeld, gotEnds, held, ends)
	}
}

// wantSoon is want for a stream that ends on another goroutine.
func (w *watched) wantSoon(t *testing.T, ends ...string) {
	t.Helper()
	eventually(t, "the guard gets it", func() bool { held, _ := w.got(); return held == 0 })
	w.want(t, 0, ends...)
}

// streams are one of each kind: each opens a stream that goes on, whose first message has
// been received.
var streams = map[string]func(context.Context, *grpc.ClientConn) (grpc.ClientStream, error){
	"server stream": func(ctx context.Context, cc *grpc.ClientConn) (grpc.ClientStream, error) {
		s, err := open(ctx, cc, list)
		if err == nil {
			_, err = recv(s)
		}
		return s, err
	},
	"bidirectional stream": func(ctx context.Context, cc *grpc.ClientConn) (grpc.ClientStream, error) {
		s, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, chat)
		if err == nil {
			err = s.SendMsg(wrapperspb.String("hello"))
		}
		if err == nil {
			_, err = recv(s)
		}
		return s, err
	},
}

// A stream that goes on is held until it ends, and the guards get what it has come to.
func TestGuardsGetTheEndOfAStream(t *testing.T) {
	soon := func() (context.Context, context.CancelFunc) {
		return context.WithTimeout(context.Background(), 300*time.Millisecond)
	}
	for name, tt := range map[string]struct {
		end      handler // after the first message; nil hangs
		ctx      func() (context.Context, context.CancelFunc)
		classify retry.Classifier
		want     string
	}{
		"OK":                                {end: always(nil), want: "returned"},
		"an answer":                         {end: always(fail(codes.NotFound)), want: "returned"},
		"RESOURCE_EXHAUSTED":                {end: always(fail(codes.ResourceExhausted)), want: "returned, throttled 0s ResourceExhausted"},
		"RESOURCE_EXHAUSTED with RetryInfo": {end: always(hinted(codes.ResourceExhausted, 5*time.Second)), want: "returned, throttled 5s ResourceExhausted"},
		"UNAVAILABLE":                       {end: always(fail(codes.Unavailable)), want: "returned, transient 0s Unavailable"},
		"UNAVAILABLE with RetryInfo":        {end: always(hinted(codes.Unavailable, time.Second)), want: "returned, throttled 1s Unavailable"},
		"DEADLINE_EXCEEDED":                 {end: always(fail(codes.DeadlineExceeded)), want: "returned, timed_out 0s DeadlineExceeded"},
		"CANCELLED by the server":           {end: always(fail(codes.Canceled)), want: "returned"},
		"INTERNAL":                          {end: always(fail(codes.Internal)), want: "returned"},
		"what Classify says":                {end: always(fail(codes.Aborted)), classify: func(error) retry.Class { return retry.Throttled }, want: "returned, throttled 0s Aborted"},
		"the caller's deadline":             {ctx: soon, want: "expired, DeadlineExceeded"},
	} {
		for kind, begin := range streams {
			t.Run(name+", "+kind, func(t *testing.T) {
				more := make(chan bool)
				goOn := sync.OnceFunc(func() { close(more) })
				defer goOn()
				s := serve(t, func(n int, ss grpc.ServerStream, in string) error {
					_ = reply(ss, in)
					if <-more; tt.end == nil { // its deadline may pass before the caller's: it must not answer then
						return nil
					}
					return tt.end(n, ss, in)
				})
				w := new(watched)
				p := four()
				p.Classify = tt.classify
				cc := ready(t, dial(t, s.addr, &retrygrpc.Client{Policy: p, Guards: under(w)}))
				ctx, cancel := within(t), context.CancelFunc(func() {})
				if tt.ctx != nil {
					ctx, cancel = tt.ctx()
				}
				defer cancel()
				cs, err := begin(ctx, cc)
				if err != nil {
					t.Fatal(err)
				}
				if tt.end != nil {
					w.want(t, 1)
					goOn()
				}
				_, _ = all(cs)
				if tt.end != nil {
					w.want(t, 0, tt.want) // the caller knows, and the guard too
				}
				w.wantSoon(t, tt.want)
			})
		}
	}
}

// slow is a context that ends some time after its deadline.
type slow struct {
	context.Context
	passed atomic.Bool
}

func (s *slow) Deadline() (time.Time, bool) {
	if s.passed.Load() {
		return time.Now(), true
	}
	return time.Now().Add(time.Hour), true
}

// A server that got the deadline may notice before the caller's context ends.
func TestGuardsAndADeadlineThatAServerNotices(t *testing.T) {
	for kind, begin := range streams {
		for _, tt := range []struct {
			passed bool
			end    error
			want   string
		}{
			{false, fail(codes.DeadlineExceeded), "returned, timed_out 0s DeadlineExceeded"},
			{true, fail(codes.DeadlineExceeded), "expired, DeadlineExceeded"},
			{true, nil, "returned"},
		} {
			more := make(chan bool)
			s := serve(t, func(_ int, ss grpc.ServerStream, in string) error {
				_ = reply(ss, in)
				<-more
				return tt.end
			})
			w := new(watched)
			ctx := &slow{Context: within(t)}
			cs, err := begin(ctx, dial(t, s.addr, &retrygrpc.Client{Policy: four(), Guards: under(w)}))
			if err != nil {
				t.Fatal(err)
			}
			ctx.passed.Store(tt.passed)
			close(more)
			_, _ = all(cs)
			if w.want(t, 0, tt.want); t.Failed() {
				t.Fatal(kind)
			}
		}
	}
}

// The hint may be in the trailer, which older versions of grpc have too late.
func TestGuardsGetThePushbackOfAStream(t *testing.T) {
	s := serve(t, func(n int, ss grpc.ServerStream, in string) error {
		_ = reply(ss, in)
		return pushing(codes.ResourceExhausted, "5000")(n, ss, in)
	})
	w := new(watched)
	var trailer metadata.MD
	want := "returned, throttled 0s ResourceExhausted"
	finished := grpc.OnFinish(func(error) {
		if len(trailer) > 0 {
			want = "returned, throttled 5s ResourceExhausted"
		}
	})
	cs, err := open(within(t), dial(t, s.addr, &retrygrpc.Client{Policy: four(), Guards: under(w)}), list, grpc.Trailer(&trailer), finished)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := all(cs); status.Code(err) != codes.ResourceExhausted {
		t.Error(err)
	}
	w.want(t, 0, want)
}

// However a stream goes that the caller has given up, or whose connection is gone, it is not
// held for longer.
func TestGuardsAndAbandonedStreams(t *testing.T) {
	for kind, begin := range streams {
		for name, tt := range map[string]struct {
			end  func(cancel func(), cc *grpc.ClientConn, s *server)
			want string
		}{
			"canceled":                 {func(cancel func(), _ *grpc.ClientConn, _ *server) { cancel() }, "canceled, Canceled"},
			"the connection is closed": {func(_ func(), cc *grpc.ClientConn, _ *server) { cc.Close() }, "canceled, Canceled"},
		} {
			s := serve(t, func(_ int, ss grpc.ServerStream, in string) error {
				_ = reply(ss, in)
				<-ss.Context().Done()
				return nil
			})
			w := new(watched)
			cc := dial(t, s.addr, &retrygrpc.Client{Policy: four(), Guards: under(w)})
			ctx, cancel := context.WithCancel(t.Context())
			if _, err := begin(ctx, cc); err != nil {
				t.Fatal(err)
			}
			w.want(t, 1)
			tt.end(cancel, cc, s)
			w.wantSoon(t, tt.want)
			cancel()
			if t.Failed() {
				t.Fatalf("%s, %s", kind, name)
			}
		}
	}
}

// What becomes of the connection below a stream that goes on.
func TestGuardsAndBrokenStreams(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(w wire, id uint32)
		want string
	}{
		"RST CANCEL":            {func(w wire, id uint32) { w.WriteRSTStream(id, http2.ErrCodeCancel) }, "returned"},
		"RST REFUSED_STREAM":    {func(w wire, id uint32) { w.WriteRSTStream(id, http2.ErrCodeRefusedStream) }, "returned, transient 0s Unavailable"},
		"RST ENHANCE_YOUR_CALM": {func(w wire, id uint32) { w.WriteRSTStream(id, http2.ErrCodeEnhanceYourCalm) }, "returned, throttled 0s ResourceExhausted"},
		"GOAWAY": {func(w wire, id uint32) {
			w.WriteGoAway(id, http2.ErrCodeNo, nil)
			w.headers(id, true, "grpc-status", "0")
		}, "returned"},
		"GOAWAY without the stream": {func(w wire, _ uint32) { w.WriteGoAway(0, http2.ErrCodeNo, nil) }, "returned, transient 0s Unavailable"},
		"the connection breaks":     {func(w wire, _ uint32) { w.Close() }, "returned, transient 0s Unavailable"},
	} {
		for kind, begin := range streams {
			t.Run(name+", "+kind, func(t *testing.T) {
				more := make(chan bool)
				f := serveFrames(t, func(w wire, id uint32, _ int) {
					w.headers(id, false, ":status", "200", "content-type", "application/grpc")
					w.message(id, "hello")
					<-more
					tt.end(w, id)
				})
				w := new(watched)
				cs, err := begin(within(t), dial(t, f.addr, &retrygrpc.Client{Policy: four(), Guards: under(w)}))
				if err != nil {
					t.Fatal(err)
				}
				w.want(t, 1)
				close(more)
				_, _ = all(cs)
				w.want(t, 0, tt.want)
			})
		}
	}
}

// A stream of which the caller has seen nothing is an attempt of the run.
func TestGuardsAndUnseenStreams(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(cancel func(), cc *grpc.ClientConn)
		want string
	}{
		"canceled":                 {func(cancel func(), _ *grpc.ClientConn) { cancel() }, "canceled, Canceled"},
		"the connection is closed": {func(_ func(), cc *grpc.ClientConn) { cc.Close() }, "returned, permanent 0s Canceled"},
	} {
		s := serve(t, func(_ int, ss grpc.ServerStream, _ string) error {
			<-ss.Context().Done()
			return nil
		})
		w := new(watched)
		cc := dial(t, s.addr, &retrygrpc.Client{Policy: four(), Guards: under(w)})
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := open(ctx, cc, list); err != nil {
			t.Fatal(err)
		}
		w.want(t, 1)
		tt.end(cancel, cc)
		w.wantSoon(t, tt.want)
		cancel()
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

// A call with one reply is held until that has come.
func TestGuardsHoldAClientStream(t *testing.T) {
	s := serve(t, failing(0, nil))
	w := new(watched)
	cc := dial(t, s.addr, &retrygrpc.Client{Policy: four(), Guards: under(w)})
	cs, err := cc.NewStream(within(t), &grpc.StreamDesc{ClientStreams: true}, send)
	if err != nil {
		t.Fatal(err)
	}
	w.want(t, 1)
	if err := errors.Join(cs.SendMsg(wrapperspb.String("hello")), cs.CloseSend()); err != nil {
		t.Fatal(err)
	}
	if got, err := recv(cs); got != "hello" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	w.want(t, 0, "returned")
}

// readsAll is an interceptor that has reached the end of a stream when it hands it on.
func readsAll(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	cs, err := open(ctx, desc, cc, method, opts...)
	if err == nil {
		_ = cs.CloseSend()
		_, _ = all(cs)
	}
	return cs, err
}

// A stream that has ended before its run goes on to nobody.
func TestGuardsAndAStreamThatEndsAtOnce(t *testing.T) {
	for end, want := range map[codes.Code]string{
		codes.OK: "returned", codes.NotFound: "returned", codes.ResourceExhausted: "returned, throttled 0s ResourceExhausted",
	} {
		var err error
		if end != codes.OK {
			err = fail(end)
		}
		s := serve(t, always(err))
		w := new(watched)
		c := &retrygrpc.Client{Policy: four(), Guards: under(w)}
		cc := dial(t, s.addr, nil, append(c.DialOptions(), grpc.WithChainStreamInterceptor(readsAll))...)
		if _, err := cc.NewStream(within(t), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, chat); err != nil {
			t.Fatal(err)
		}
		w.want(t, 0, want)
	}
}

// A panic of a hook keeps the stream from the caller: then it is not held.
func TestGuardsAndPanicsOfHooks(t *testing.T) {
	s := serve(t, func(_ int, ss grpc.ServerStream, in string) error {
		_ = reply(ss, in)
		<-ss.Context().Done()
		return nil
	})
	for hook, hooks := range map[string]retry.Hooks{
		"AttemptDone": {AttemptDone: func(context.Context, retry.Attempt) { panic("hook") }},
		"Done":        {Done: func(context.Context, retry.Summary) { panic("hook") }},
	} {
		for kind, begin := range streams {
			w := new(watched)
			p := four()
			p.Hooks = hooks
			cc := dial(t, s.addr, &retrygrpc.Client{Policy: p, Guards: under(w)})
			ctx, cancel := context.WithCancel(within(t))
			func() {
				defer func() {
					if x := recover(); x != "hook" {
						t.Errorf("%s, %s: recovered %v", hook, kind, x)
					}
				}()
				_, _ = begin(ctx, cc)
			}()
			w.want(t, 0, "panicked")
			cancel()
		}
	}
}

// A panic of Classify passes through the call of the caller that has ended the stream.
func TestGuardsAndAPanicOfClassify(t *testing.T) {
	s := serve(t, func(_ int, ss grpc.ServerStream, in string) error {
		_ = reply(ss, in)
		return fail(codes.Unavailable)
	})
	for kind, begin := range streams {
		w := new(watched)
		p := four()
		p.Classify = func(error) retry.Class { panic("classify") }
		ctx, cancel := context.WithCancel(within(t))
		cs, err := begin(ctx, dial(t, s.addr, &retrygrpc.Client{Policy: p, Guards: under(w)}))
		if err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() {
				if x := recover(); x != "classify" {
					t.Errorf("%s: recovered %v", kind, x)
				}
			}()
			_, _ = recv(cs)
		}()
		w.want(t, 0, "panicked")
		cancel()
	}
}

// Refusals at the ends of streams that go on hold other calls.
func TestPaceHearsOfAStream(t *testing.T) {
	s := serve(t, func(_ int, ss grpc.ServerStream, in string) error {
		_ = reply(ss, in)
		return hinted(codes.ResourceExhausted, 30*time.Second)
	})
	for kind, begin := range streams {
		pace := &pace.Pace{Quota: 1000, Burst: 100}
		cc := dial(t, s.addr, &retrygrpc.Client{Policy: four(), Guards: under(pace)})
		for from := time.Now(); time.Since(from) < 10*time.Second; {
			cs, err := begin(t.Context(), cc)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := recv(cs); status.Code(err) != codes.ResourceExhausted {
				t.Errorf("%s: %v", kind, err)
			}
			if pace.Wait() > time.Second {
				break
			}
		}
		if wait := pace.Wait(); wait < 25*time.Second {
			t.Errorf("%s: the next call waits %v, want the server's 30s", kind, wait)
		}
	}
}

// What an attempt is held for is in its Exit: the time until its stream goes on.
func TestGuardsGetTheTimesOfAnAttempt(t *testing.T) {
	s := serve(t, failing(0, nil))
	w := new(watched)
	p := four()
	p.AttemptTimeout = time.Minute
	cc := dial(t, s.addr, &retrygrpc.Client{Policy: p, Guards: under(w)})
	for _, begin := range methods {
		if err := begin(t.Context(), cc); err != nil {
			t.Fatal(err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.exits {
		if x.Took <= 0 || x.Allowed <= 0 || x.Allowed > time.Minute {
			t.Errorf("Took %v of %v", x.Took, x.Allowed)
		}
	}
}

// The context of an attempt with a timeout ends with its stream.
func TestStreamLeavesNoContext(t *testing.T) {
	s := serve(t, failing(0, nil))
	p := four()
	p.AttemptTimeout = time.Minute
	cc := ready(t, dial(t, s.addr, &retrygrpc.Client{Policy: p}))
	before := runtime.NumGoroutine()
	for kind, begin := range streams {
		for range 50 {
			cs, err := begin(foreign{t.Context(), make(chan struct{})}, cc)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := all(cs); err != nil {
				t.Error(err)
			}
		}
		eventually(t, kind+": all contexts have ended", func() bool { return runtime.NumGoroutine() <= before+10 })
	}
}

// foreign is a context that package context does not know: each one below it has a goroutine
// until it ends.
type foreign struct {
	context.Context
	done chan struct{}
}

func (f foreign) Done() <-chan struct{} { return f.done }

// waits is a guard that has each attempt wait.
type waits struct{ d time.Duration }

func (w waits) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	return retry.Pass{Wait: w.d}, nil
}
func (waits) Leave(retry.Pass, retry.Exit) {}

// A call whose connection is closed while it waits for a guard ends when the wait does.
func TestCloseWhileACallWaitsForAGuard(t *testing.T) {
	s := serve(t, failing(0, nil))
	for name, begin := range methods {
		p := four()
		w := new(watched)
		var cc *grpc.ClientConn
		p.Hooks.Guard = func(context.Context, retry.Held) { cc.Close() }
		cc = dial(t, s.addr, &retrygrpc.Client{Policy: p, Guards: under(w, waits{50 * time.Millisecond})})
		if err := begin(within(t), cc); status.Code(err) != codes.Canceled {
			t.Errorf("%s: %v", name, err)
		}
		if held, ends := w.got(); held != 0 || len(ends) != 1 {
			t.Errorf("%s: %d are held, %q", name, held, ends)
		}
	}
	if s.calls() != 0 {
		t.Errorf("the server got %d calls", s.calls())
	}
}

// Streams that end at random times, on both sides, are left once each.
func TestStreamsAreLeftOnce(t *testing.T) {
	s := serve(t, func(n int, ss grpc.ServerStream, in string) error {
		ss.SetTrailer(metadata.Pairs("n", "1"))
		for range n % 4 {
			_ = reply(ss, in)
		}
		switch n % 3 {
		case 0:
			return fail(codes.Unavailable)
		case 1:
			return nil
		}
		<-ss.Context().Done()
		return nil
	})
	w := new(watched)
	cc := dial(t, s.addr, &retrygrpc.Client{Policy: retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0)}, Guards: under(w)})
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for n := range 30 {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				cs, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: (i+n)%2 == 0}, list)
				if err == nil {
					_ = errors.Join(cs.SendMsg(wrapperspb.String("hello")), cs.CloseSend())
					if n%3 == 0 {
						go cancel()
					}
					if _, err = recv(cs); err == nil && n%5 == 0 {
						_, _ = cs.Header()
					}
					if n%2 == 0 {
						for err == nil {
							_, err = recv(cs)
						}
						if err == io.EOF && cs.Trailer() == nil {
							t.Error("no trailer")
						}
					}
				}
				cancel()
			}
		})
	}
	callers.Wait()
	eventually(t, "all streams are left", func() bool { held, _ := w.got(); return held == 0 })
	if w.mu.Lock(); len(w.exits) != len(w.entries) {
		t.Errorf("%d were entered, %d left", len(w.entries), len(w.exits))
	}
	w.mu.Unlock()
}

// breaking is a guard whose Leave panics.
type breaking struct{ watched }

func (b *breaking) Leave(p retry.Pass, x retry.Exit) {
	b.watched.Leave(p, x)
	panic("guard")
}

// TestGuardThatPanicsWhenAStreamIsCanceled: on a goroutine of grpc's that would end the process.
// The stream's next call has the panic.
func TestGuardThatPanicsWhenAStreamIsCanceled(t *testing.T) {
	s := serve(t, func(_ int, s grpc.ServerStream, in string) error {
		if err := reply(s, in); err != nil {
			return err
		}
		<-s.Context().Done()
		return s.Context().Err()
	})
	for name, desc := range map[string]*grpc.StreamDesc{"server": {ServerStreams: true}, "both": {ServerStreams: true, ClientStreams: true}} {
		for _, closes := range []bool{false, true} {
			w := new(breaking)
			cc := dial(t, s.addr, &retrygrpc.Client{Policy: four(), Guards: under(w)})
			ctx, cancel := context.WithCancel(t.Context())
			cs, err := cc.NewStream(ctx, desc, get)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(cs.SendMsg(wrapperspb.String("x")), cs.RecvMsg(new(wrapperspb.StringValue))); err != nil {
				t.Fatal(err)
			}
			if closes {
				cc.Close()
			} else {
				cancel()
			}
			eventually(t, "the guard is left", func() bool { held, _ := w.got(); return held == 0 })
			var recovered any
			func() {
				defer func() { recovered = recover() }()
				for range 100 { // the panic is on its way
					_ = cs.RecvMsg(new(wrapperspb.StringValue))
					time.Sleep(time.Millisecond)
				}
			}()
			if recovered != "guard" {
				t.Errorf("%s, closed: %v: the caller recovered %v", name, closes, recovered)
			}
			cancel()
		}
	}
}
