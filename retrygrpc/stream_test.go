package retrygrpc_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/retrygrpc"
)

// TestServerStreams: what the server sees, and what the caller receives.
func TestServerStreams(t *testing.T) {
	down := fail(codes.Unavailable)
	two := func(s grpc.ServerStream, in string) error {
		return errors.Join(reply(s, in), reply(s, "2"))
	}
	for _, tt := range []struct {
		name   string
		method string
		answer handler
		first  func(grpc.ClientStream) // what the caller asks for before it receives
		calls  int
		got    []string
		code   codes.Code
		reason string
	}{
		{name: "fails twice, then two messages", method: list, answer: func(n int, s grpc.ServerStream, in string) error {
			if n < 3 {
				return down
			}
			return two(s, in)
		}, calls: 3, got: []string{"hello", "2"}, reason: "success"},
		{name: "not idempotent", method: send, answer: always(down), calls: 1, code: codes.Unavailable, reason: "not_idempotent"},
		{name: "not idempotent, with a hint", method: send, answer: failing(1, hinted(codes.Unavailable, time.Millisecond)),
			calls: 2, got: []string{"hello"}, reason: "success"},
		{name: "gives up", method: list, answer: always(down), calls: 4, code: codes.Unavailable, reason: "max_attempts"},
		{name: "an answer", method: list, answer: always(fail(codes.NotFound)), calls: 1, code: codes.NotFound, reason: "bare"},
		{name: "refused by pushback", method: list, answer: pushing(codes.Unavailable, "-1"), calls: 1, code: codes.Unavailable, reason: "bare"},
		{name: "a message, then a failure", method: list, answer: func(_ int, s grpc.ServerStream, in string) error {
			return errors.Join(reply(s, in), down)
		}, calls: 1, got: []string{"hello"}, code: codes.Unavailable, reason: "bare"},
		{name: "no message", method: list, answer: func(n int, _ grpc.ServerStream, _ string) error {
			if n == 1 {
				return down
			}
			return nil
		}, calls: 2, reason: "success"},
		{name: "headers unseen, then a failure", method: list, answer: func(n int, s grpc.ServerStream, in string) error {
			if err := s.SendHeader(metadata.Pairs("id", "1")); err != nil {
				return err
			}
			if n == 1 {
				return down
			}
			return two(s, in)
		}, calls: 2, got: []string{"hello", "2"}, reason: "success"},
		{name: "headers seen, then a failure", method: list, answer: func(n int, s grpc.ServerStream, _ string) error {
			return errors.Join(s.SendHeader(metadata.Pairs("id", "1")), down)
		}, first: func(s grpc.ClientStream) {
			if md, err := s.Header(); err != nil || !slices.Equal(md["id"], []string{"1"}) {
				t.Errorf("Header() = %v, %v", md, err)
			}
		}, calls: 1, code: codes.Unavailable, reason: "bare"},
		{name: "Header waits for an attempt that has one", method: list, answer: func(n int, s grpc.ServerStream, in string) error {
			if n < 3 {
				return down
			}
			return errors.Join(s.SendHeader(metadata.Pairs("id", "3")), two(s, in))
		}, first: func(s grpc.ClientStream) {
			for range 2 {
				if md, err := s.Header(); err != nil || !slices.Equal(md["id"], []string{"3"}) {
					t.Errorf("Header() = %v, %v", md, err)
				}
			}
		}, calls: 3, got: []string{"hello", "2"}, reason: "success"},
		{name: "Header, and no attempt has one", method: list, answer: always(down), first: func(s grpc.ClientStream) {
			if md, err := s.Header(); md != nil || err != nil {
				t.Errorf("Header() = %v, %v", md, err)
			}
		}, calls: 4, code: codes.Unavailable, reason: "max_attempts"},
		{name: "Header of a stream without a message", method: list, answer: always(nil), first: func(s grpc.ClientStream) {
			if md, err := s.Header(); md != nil || err != nil {
				t.Errorf("Header() = %v, %v", md, err)
			}
		}, calls: 1, reason: "success"},
		{name: "Context first", method: list, answer: always(down), first: func(s grpc.ClientStream) {
			if s.Context() == nil {
				t.Error("no context")
			}
		}, calls: 1, code: codes.Unavailable, reason: "bare"},
		{name: "an oversize message", method: list, answer: func(_ int, s grpc.ServerStream, _ string) error {
			return reply(s, strings.Repeat("x", 5<<20))
		}, calls: 1, code: codes.ResourceExhausted, reason: "bare"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, tt.answer)
			var r told
			p := four()
			p.Hooks = r.hooks()
			cc := dial(t, s.addr, &retrygrpc.Client{Policy: p})
			stream, err := open(within(t), cc, tt.method)
			if err != nil {
				t.Fatal(err)
			}
			if tt.first != nil {
				tt.first(stream)
			}
			got, err := all(stream)
			if !slices.Equal(got, tt.got) || status.Code(err) != tt.code || reason(err) != tt.reason {
				t.Errorf("got %q, %v: %v, %s; want %q, %v, %s", got, err, status.Code(err), reason(err), tt.got, tt.code, tt.reason)
			}
			if s.calls() != tt.calls {
				t.Errorf("the server saw %d calls, want %d", s.calls(), tt.calls)
			}
			if _, again := recv(stream); err != nil && again != err && again.Error() != err.Error() {
				t.Errorf("the next RecvMsg = %v, want %v again", again, err)
			}
			if r.starts != 1 || r.open != 0 || len(r.attempts) != tt.calls || len(r.done) != 1 {
				t.Errorf("hooks: %+v", &r)
			}
		})
	}
}

// TestStreamTrailer: it is the latest attempt's.
func TestStreamTrailer(t *testing.T) {
	s := serve(t, func(n int, s grpc.ServerStream, in string) error {
		s.SetTrailer(metadata.Pairs("n", string(rune('0'+n))))
		return failing(1, fail(codes.Unavailable))(n, s, in)
	})
	cc := dial(t, s.addr, &retrygrpc.Client{Policy: four()})
	var option metadata.MD
	stream, err := open(within(t), cc, list, grpc.Trailer(&option))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := all(stream); err != nil {
		t.Fatal(err)
	}
	if got := stream.Trailer()["n"]; !slices.Equal(got, []string{"2"}) || !slices.Equal(option["n"], got) {
		t.Errorf("trailers %v and %v, want that of attempt 2", got, option)
	}
}

// TestStreamAttemptTimeout: it ends with the first message, and never cuts a stream
// that runs.
func TestStreamAttemptTimeout(t *testing.T) {
	const timeout = 50 * time.Millisecond
	s := serve(t, func(n int, s grpc.ServerStream, in string) error {
		if n == 1 {
			<-s.Context().Done()
			return s.Context().Err()
		}
		for _, text := range []string{in, "2", "3"} {
			if err := reply(s, text); err != nil {
				return err
			}
			time.Sleep(timeout * 8 / 10)
		}
		return nil
	})
	for _, header := range []bool{false, true} {
		s.mu.Lock()
		s.seen = nil
		s.mu.Unlock()
		var r told
		p := four()
		// Of the others only the first must come to its timeout, on a machine however slow.
		p.Hooks = r.hooks()
		p.MaxAttempts = retry.Unlimited
		p.AttemptTimeout = timeout
		cc := ready(t, dial(t, s.addr, &retrygrpc.Client{Policy: p}))
		stream, err := open(within(t), cc, list)
		if err != nil {
			t.Fatal(err)
		}
		if header {
			if md, err := stream.Header(); md == nil || err != nil {
				t.Errorf("Header() = %v, %v", md, err)
			}
		}
		if got, err := all(stream); !slices.Equal(got, []string{"hello", "2", "3"}) || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		if len(r.attempts) < 2 {
			t.Fatalf("%d attempts, want 2", len(r.attempts))
		}
		if first := r.attempts[0]; status.Code(first.Err) != codes.DeadlineExceeded || !errors.Is(first.Err, retry.ErrAttemptTimeout) {
			t.Errorf("first attempt: %v", first.Err)
		}
	}
}

// TestStreamAttemptTimeoutOnAnotherClock has no race with real time.
func TestStreamAttemptTimeoutOnAnotherClock(t *testing.T) {
	clock := clockx.NewVirtual(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
	later := make(chan struct{})
	s := serve(t, func(n int, s grpc.ServerStream, in string) error {
		if n == 1 {
			clock.Advance(time.Minute)
			<-s.Context().Done()
			return s.Context().Err()
		}
		if err := reply(s, in); err != nil {
			return err
		}
		<-later
		return reply(s, "2")
	})
	var r told
	p := four()
	p.AttemptTimeout, p.Clock, p.Hooks = time.Minute, clock, r.hooks()
	p.Classify = func(error) retry.Class { return retry.Transient } // it does not know of the timeout
	cc := dial(t, s.addr, &retrygrpc.Client{Policy: p})
	stream, err := open(within(t), cc, list)
	if err != nil {
		t.Fatal(err)
	}
	got, err := recv(stream)
	clock.Advance(time.Hour) // the stream runs on
	close(later)
	rest, end := all(stream)
	if got != "hello" || err != nil || !slices.Equal(rest, []string{"2"}) || end != nil || s.calls() != 2 {
		t.Errorf("%q, %v, %q, %v after %d calls", got, err, rest, end, s.calls())
	}
	if clock.Pending() != 0 {
		t.Errorf("%d timers are left", clock.Pending())
	}
	if got := r.attempts[0].Class; got != retry.TimedOut {
		t.Errorf("the first attempt is %v, want timed_out", got)
	}
}

// advancing moves a clock when it has received.
type advancing struct {
	grpc.ClientStream
	clock *clockx.Virtual
}

func (s advancing) RecvMsg(m any) error {
	defer s.clock.Advance(time.Minute)
	return s.ClientStream.RecvMsg(m)
}

// TestStreamMessageTooLate: a message whose stream has just been cut is not the first
// one, but the end of a stream is an end.
func TestStreamMessageTooLate(t *testing.T) {
	for name, tt := range map[string]struct {
		messages bool
		calls    int
	}{"message": {true, 2}, "end": {false, 1}} {
		t.Run(name, func(t *testing.T) {
			clock := clockx.NewVirtual(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
			s := serve(t, func(_ int, s grpc.ServerStream, in string) error {
				if !tt.messages {
					return nil
				}
				return reply(s, in)
			})
			var r told
			p := four()
			p.AttemptTimeout, p.Clock, p.Hooks = time.Minute, clock, r.hooks()
			c := &retrygrpc.Client{Policy: p}
			opens := 0
			cc := dial(t, s.addr, nil, append(c.DialOptions(), grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc,
				cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				cs, err := open(ctx, desc, cc, method, opts...)
				if opens++; err == nil && opens == 1 {
					cs = advancing{cs, clock}
				}
				return cs, err
			}))...)
			stream, err := open(within(t), cc, list)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := all(stream); err != nil || len(got) != tt.calls-1 {
				t.Errorf("got %q, %v", got, err)
			}
			if s.calls() != tt.calls || len(r.attempts) != tt.calls {
				t.Errorf("%d calls, want %d", s.calls(), tt.calls)
			}
			if first := r.attempts[0]; tt.messages && (status.Code(first.Err) != codes.DeadlineExceeded || !errors.Is(first.Err, retry.ErrAttemptTimeout) || first.Class != retry.TimedOut) {
				t.Errorf("first attempt: %v, %v", first.Err, first.Class)
			}
			if clock.Pending() != 0 {
				t.Errorf("%d timers are left", clock.Pending())
			}
		})
	}
}

// TestSecondRequest: a server stream has one.
func TestSecondRequest(t *testing.T) {
	s := serve(t, func(_ int, s grpc.ServerStream, in string) error { return reply(s, in) })
	var r told
	p := four()
	p.Hooks = r.hooks()
	cc := dial(t, s.addr, &retrygrpc.Client{Policy: p})
	stream, err := open(within(t), cc, list)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.SendMsg(wrapperspb.String("more")); status.Code(err) != codes.Internal {
		t.Errorf("the second SendMsg = %v, want Internal", err)
	}
	if _, err := recv(stream); status.Code(err) != codes.Internal {
		t.Errorf("RecvMsg after it = %v, want Internal", err)
	}
	if len(r.done) != 1 || len(r.attempts) != 1 || r.open != 0 {
		t.Errorf("hooks: %+v", &r)
	}
}

// TestRequestThatCannotBeSent: no attempt would do better.
func TestRequestThatCannotBeSent(t *testing.T) {
	for name, request := range map[string]any{"no message": 7, "too large": wrapperspb.String(strings.Repeat("x", 100))} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, always(nil))
			var r told
			p := four()
			p.Hooks = r.hooks()
			cc := dial(t, s.addr, &retrygrpc.Client{Policy: p})
			stream, err := cc.NewStream(within(t), &grpc.StreamDesc{ServerStreams: true}, list, grpc.MaxCallSendMsgSize(50))
			if err != nil {
				t.Fatal(err)
			}
			err = stream.SendMsg(request)
			if c := status.Code(err); c != codes.Internal && c != codes.ResourceExhausted {
				t.Errorf("SendMsg = %v", err)
			}
			if _, got := recv(stream); got == nil || got.Error() != err.Error() {
				t.Errorf("RecvMsg = %v, want %v", got, err)
			}
			if got := r.summaries(); len(got) != 1 || got[0].Reason != retry.ReasonPermanent || len(r.attempts) != 1 {
				t.Errorf("hooks: %+v", &r)
			}
		})
	}
}

// TestReceiveBeforeSend: one goroutine may receive before another one has sent.
func TestReceiveBeforeSend(t *testing.T) {
	s := serve(t, failing(2, fail(codes.Unavailable)))
	cc := dial(t, s.addr, &retrygrpc.Client{Policy: four()})
	stream, err := cc.NewStream(within(t), &grpc.StreamDesc{ServerStreams: true}, list)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		if got, err := recv(stream); got != "late" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
	all.Go(func() {
		for s.calls() == 0 {
			time.Sleep(time.Millisecond)
		}
		if err := errors.Join(stream.SendMsg(wrapperspb.String("late")), stream.CloseSend()); err != nil {
			t.Error(err)
		}
	})
	all.Wait()
}

// TestRequestBetweenAttempts: what is sent while there is no stream goes to the next
// one, and if it cannot, the run ends.
func TestRequestBetweenAttempts(t *testing.T) {
	for name, tt := range map[string]struct {
		request any
		code    codes.Code
	}{"a message": {wrapperspb.String("late"), codes.OK}, "no message": {7, codes.Internal}} {
		t.Run(name, func(t *testing.T) {
			f := serveFrames(t, func(w wire, id uint32, n int) {
				if n == 1 {
					w.WriteRSTStream(id, http2.ErrCodeCancel)
					return
				}
				w.headers(id, false, ":status", "200", "content-type", "application/grpc")
				w.message(id, "hello")
				w.headers(id, true, "grpc-status", "0")
			})
			var stream grpc.ClientStream
			opens := 0
			var r told
			p := four()
			p.Hooks = r.hooks()
			c := &retrygrpc.Client{Policy: p}
			cc := dial(t, f.addr, nil, append(c.DialOptions(), grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc,
				cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				if opens++; opens == 2 {
					if err := stream.SendMsg(tt.request); err != nil {
						t.Errorf("SendMsg = %v", err)
					}
					if err := stream.SendMsg(tt.request); status.Code(err) != codes.Internal {
						t.Errorf("the second SendMsg = %v, want Internal", err)
					}
				}
				return open(ctx, desc, cc, method, opts...)
			}))...)
			var err error
			if stream, err = cc.NewStream(within(t), &grpc.StreamDesc{ServerStreams: true}, list); err != nil {
				t.Fatal(err)
			}
			if _, err := recv(stream); status.Code(err) != tt.code {
				t.Errorf("RecvMsg = %v, want %v", err, tt.code)
			}
			if len(r.attempts) != 2 {
				t.Errorf("%d attempts, want 2", len(r.attempts))
			}
		})
	}
}

// TestNoRequest: a stream that is half-closed without a request stays so.
func TestNoRequest(t *testing.T) {
	s := serve(t, failing(1, fail(codes.Unavailable)))
	cc := dial(t, s.addr, &retrygrpc.Client{Policy: four()})
	stream, err := cc.NewStream(within(t), &grpc.StreamDesc{ServerStreams: true}, list)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if got, err := all(stream); !slices.Equal(got, []string{""}) || err != nil || s.calls() != 2 {
		t.Errorf("got %q, %v after %d calls", got, err, s.calls())
	}
}

// TestClientStreams: only the opening is retried, and the stream is grpc's own.
func TestClientStreams(t *testing.T) {
	s := serve(t, always(fail(codes.Unavailable)))
	var r told
	p := four()
	p.Hooks, p.AttemptTimeout = r.hooks(), time.Minute
	cc := dial(t, s.addr, &retrygrpc.Client{Policy: p})
	stream, err := cc.NewStream(within(t), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, chat)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.summaries(); len(got) != 1 || got[0].Err != nil {
		t.Errorf("Done got %+v, want a success", got)
	}
	if err := stream.SendMsg(wrapperspb.String("hello")); err != nil && err != io.EOF {
		t.Error(err)
	}
	if _, err := recv(stream); status.Code(err) != codes.Unavailable || reason(err) != "bare" {
		t.Errorf("RecvMsg = %v", err)
	}
	if s.calls() != 1 {
		t.Errorf("the server saw %d calls, want 1", s.calls())
	}
}

// TestOpeningMayHaveReachedTheServer: then it is not repeated, although the method may run
// twice: what will be sent is not kept.
func TestOpeningMayHaveReachedTheServer(t *testing.T) {
	for _, tt := range []struct {
		err   error
		opens int
	}{{hinted(codes.Internal, 1), 1}, {retry.Undone(hinted(codes.Internal, 1)), 4}} {
		opens := 0
		c := &retrygrpc.Client{Policy: four()}
		cc := dial(t, "127.0.0.1:1", nil, append(c.DialOptions(), grpc.WithChainStreamInterceptor(func(context.Context, *grpc.StreamDesc,
			*grpc.ClientConn, string, grpc.Streamer, ...grpc.CallOption) (grpc.ClientStream, error) {
			opens++
			return nil, tt.err
		}))...)
		_, err := cc.NewStream(within(t), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, chat)
		if opens != tt.opens {
			t.Errorf("%d openings, want %d: %v", opens, tt.opens, err)
		}
	}
}

// TestUnreadStream: when its context ends, what was opened is closed.
func TestUnreadStream(t *testing.T) {
	s := serve(t, func(_ int, s grpc.ServerStream, _ string) error {
		<-s.Context().Done()
		return s.Context().Err()
	})
	var r told
	b := new(ledger)
	p := four()
	p.Hooks, p.Budget = r.hooks(), b
	cc := dial(t, s.addr, &retrygrpc.Client{Policy: p})
	ctx, cancel := context.WithCancel(within(t))
	stream, err := open(ctx, cc, list)
	if err != nil {
		t.Fatal(err)
	}
	if r.starts != 1 || r.open != 1 || len(r.summaries()) != 0 {
		t.Errorf("before: %+v", &r)
	}
	cancel()
	eventually(t, "Done", func() bool { return len(r.summaries()) == 1 })
	if got := r.summaries()[0]; got.Reason != retry.ReasonCanceled || r.open != 0 || len(r.attempts) != 1 {
		t.Errorf("hooks: %+v", &r)
	}
	if _, err := recv(stream); status.Code(err) != codes.Canceled || reason(err) != "canceled" {
		t.Errorf("RecvMsg = %v", err)
	}
	if b.ended != 1 || b.succeeded != 0 {
		t.Errorf("budget: %+v", b)
	}
}

// TestUnreadStreamOfClosedConnection: so it is when the connection is closed.
func TestUnreadStreamOfClosedConnection(t *testing.T) {
	s := serve(t, func(_ int, s grpc.ServerStream, _ string) error {
		<-s.Context().Done()
		return s.Context().Err()
	})
	var r told
	p := four()
	p.Hooks = r.hooks()
	cc := dial(t, s.addr, &retrygrpc.Client{Policy: p})
	stream, err := open(within(t), cc, list)
	if err != nil {
		t.Fatal(err)
	}
	cc.Close()
	eventually(t, "Done", func() bool { return len(r.summaries()) == 1 })
	if _, err := recv(stream); status.Code(err) != codes.Canceled || reason(err) != "bare" {
		t.Errorf("RecvMsg = %v", err)
	}
}

// TestThreads: a stream may be opened on a locked thread and read on another.
func TestThreads(t *testing.T) {
	s := serve(t, failing(1, fail(codes.Unavailable)))
	cc := dial(t, s.addr, &retrygrpc.Client{Policy: four()})
	var streams [2]grpc.ClientStream
	var wg sync.WaitGroup
	begin := func(i int) {
		var err error
		if streams[i], err = open(within(t), cc, list); err != nil {
			t.Error(err)
		}
	}
	receive := func(i int) {
		if _, err := all(streams[i]); err != nil {
			t.Error(err)
		}
	}
	locked := func(f func(int), i int) {
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			f(i)
		})
		wg.Wait()
	}
	locked(begin, 0)
	receive(0)
	begin(1)
	locked(receive, 1)
}

// TestPanicInHook: it reaches whoever let the run go on.
func TestPanicInHook(t *testing.T) {
	s := serve(t, always(fail(codes.Unavailable)))
	p := four()
	var done []retry.Summary
	p.Hooks.Wait = func(context.Context, retry.Attempt) { panic("hook") }
	p.Hooks.Done = func(_ context.Context, s retry.Summary) { done = append(done, s) }
	cc := dial(t, s.addr, &retrygrpc.Client{Policy: p})
	stream, err := open(within(t), cc, list)
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if x := recover(); x != "hook" {
				t.Errorf("recovered %v", x)
			}
		}()
		recv(stream)
	}()
	if len(done) != 1 {
		t.Errorf("Done was called %d times", len(done))
	}
	if _, err := recv(stream); status.Code(err) != codes.Internal {
		t.Errorf("RecvMsg after it = %v", err)
	}
	exited := make(chan struct{})
	p.Hooks.Start = func(ctx context.Context, _ retry.Policy) context.Context { runtime.Goexit(); return ctx }
	go func() {
		defer close(exited)
		open(within(t), cc, list, retrygrpc.WithPolicy(with(p)))
		t.Error("Goexit did not end the goroutine")
	}()
	<-exited
}

// TestPanicBelow: a panic of an interceptor below reaches the caller, and leaves no
// timer.
func TestPanicBelow(t *testing.T) {
	for name, desc := range map[string]*grpc.StreamDesc{"server stream": {ServerStreams: true}, "client stream": {ClientStreams: true}} {
		t.Run(name, func(t *testing.T) {
			clock := clockx.NewVirtual(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
			p := four()
			p.AttemptTimeout, p.Clock = time.Minute, clock
			c := &retrygrpc.Client{Policy: p}
			cc := dial(t, "127.0.0.1:1", nil, append(c.DialOptions(), grpc.WithChainStreamInterceptor(func(context.Context, *grpc.StreamDesc,
				*grpc.ClientConn, string, grpc.Streamer, ...grpc.CallOption) (grpc.ClientStream, error) {
				panic("below")
			}))...)
			defer func() {
				if x := recover(); x != "below" {
					t.Errorf("recovered %v", x)
				}
				if clock.Pending() != 0 {
					t.Errorf("%d timers are left", clock.Pending())
				}
			}()
			cc.NewStream(within(t), desc, chat)
		})
	}
}

// TestPanicBelowACall: so it is with a unary call, whose hooks are called.
func TestPanicBelowACall(t *testing.T) {
	clock := clockx.NewVirtual(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
	var r told
	b := new(ledger)
	p := four()
	p.AttemptTimeout, p.Clock, p.Hooks, p.Budget = time.Minute, clock, r.hooks(), b
	c := &retrygrpc.Client{Policy: p}
	cc := dial(t, "127.0.0.1:1", nil, append(c.DialOptions(), grpc.WithChainUnaryInterceptor(func(context.Context, string, any, any,
		*grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption) error {
		panic("below")
	}))...)
	defer func() {
		if x := recover(); x != "below" {
			t.Errorf("recovered %v", x)
		}
		if clock.Pending() != 0 || r.open != 0 || len(r.done) != 1 || r.done[0].Reason != retry.ReasonPanic || b.ended != 1 {
			t.Errorf("%d timers are left, hooks: %+v, budget: %+v", clock.Pending(), &r, b)
		}
	}()
	call(within(t), cc, get)
}

// TestNoGoroutineIsLeft abandons streams at every stage.
func TestNoGoroutineIsLeft(t *testing.T) {
	n := 2000 // of each
	if testing.Short() || raceEnabled {
		n = 200
	}
	s := serve(t, func(_ int, s grpc.ServerStream, in string) error {
		switch in {
		case "fail":
			return fail(codes.Unavailable)
		case "header":
			s.SendHeader(nil)
		case "message":
			reply(s, in)
		}
		<-s.Context().Done()
		return s.Context().Err()
	})
	var ended sync.WaitGroup
	p := retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(20 * time.Second), AttemptTimeout: time.Minute, Hooks: retry.Hooks{
		Start: func(ctx context.Context, _ retry.Policy) context.Context { ended.Add(1); return ctx },
		Done:  func(context.Context, retry.Summary) { ended.Done() },
	}}
	cc := ready(t, dial(t, s.addr, &retrygrpc.Client{Policy: p}))
	runtime.GC()
	before := runtime.NumGoroutine()
	stage := func(request string, use func(cancel func(), s grpc.ClientStream)) {
		for range n {
			ctx, cancel := context.WithCancel(t.Context())
			stream, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, list)
			if err != nil {
				t.Fatal(err)
			}
			if request != "" {
				if err := errors.Join(stream.SendMsg(wrapperspb.String(request)), stream.CloseSend()); err != nil {
					t.Fatal(err)
				}
			}
			use(cancel, stream)
			cancel()
		}
	}
	stage("", func(func(), grpc.ClientStream) {})
	stage("hang", func(func(), grpc.ClientStream) {})
	stage("header", func(_ func(), s grpc.ClientStream) { s.Header() })
	stage("message", func(_ func(), s grpc.ClientStream) { recv(s) })
	stage("hang", func(_ func(), s grpc.ClientStream) { s.Context() })
	stage("fail", func(cancel func(), s grpc.ClientStream) { // in the wait
		go cancel()
		recv(s)
	})
	ended.Wait()
	eventually(t, "all goroutines are gone", func() bool { return runtime.NumGoroutine() <= before+4 })
}
