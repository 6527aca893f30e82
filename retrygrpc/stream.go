package retrygrpc

import (
	"context"
	"io"
	"runtime"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/goretry/retry"
)

// stream is a [grpc.StreamClientInterceptor].
func (c *Client) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	k := c.call(cc, method, opts)
	k.policy.AttemptTimeout = 0 // Do's would end with the attempt, and the stream with it
	if !desc.ClientStreams {
		s := &serverStream{call: k, ctx: ctx}
		s.open = func(a *attempt) (grpc.ClientStream, error) { return open(a.ctx, desc, cc, method, a.opts...) }
		return s.start()
	}
	k.policy.NonIdempotent = true // what will be sent is not kept
	cs, err := retry.Do(ctx, k.policy, func(ctx context.Context) (grpc.ClientStream, error) {
		a := k.begin(ctx)
		defer a.close()
		a.opts = append(a.opts, grpc.OnFinish(func(error) { a.release() }))
		cs, err := open(a.ctx, desc, cc, method, a.opts...)
		return cs, a.end(err)
	})
	if err = k.result(ctx, err); err != nil {
		return nil, err
	}
	return cs, nil
}

// serverStream is a stream with one request, which is restarted while its caller has
// seen nothing of it. Its run is in a coroutine, which pauses once, after the first
// stream has opened, until a method needs something from the stream. Then the run goes
// on to its end: the caller has seen something, or the run gives up.
type serverStream struct {
	*call
	ctx  context.Context
	open func(*attempt) (grpc.ClientStream, error)
	run  *coroutine

	turn  sync.Mutex                    // held while the run goes on
	want  func(grpc.ClientStream) error // what the run does with a stream; nil before it pauses
	over  bool                          // the run is
	ended bool                          // by a stream without a message
	err   error                         // by giving up

	mu         sync.Mutex        // held while sending
	stream     grpc.ClientStream // of the latest attempt, nil if it has none; once the run is over, for good
	request    any               // by pointer, as grpc keeps it
	sent       bool              // there is a request
	sendClosed bool
}

// start begins the run, and returns when a stream is open.
func (s *serverStream) start() (grpc.ClientStream, error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.run = newCoroutine(func() {
		defer s.end()
		s.err = status.Error(codes.Internal, "retrygrpc: a func of the policy did not return") // unless they all do
		s.err = s.result(s.ctx, retry.Run(s.ctx, s.policy, s.attempt))
	})
	s.run.resume()
	if s.over {
		return nil, s.err
	}
	return s, nil
}

// end is called when the run is over.
func (s *serverStream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over, s.request = true, nil // the request may be large, and the stream long
}

// proceed lets the run go on to its end, with want for the stream. It reports false if
// the run was over.
func (s *serverStream) proceed(want func(grpc.ClientStream) error) bool {
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.over {
		return false
	}
	s.want = want
	s.run.resume()
	return true
}

// abandon ends the run if no method has needed the stream yet.
func (s *serverStream) abandon(err error) {
	s.proceed(func(grpc.ClientStream) error { return retry.Stop(err) })
}

// attempt is the run's op.
func (s *serverStream) attempt(ctx context.Context) error {
	a := s.begin(ctx)
	defer a.close()
	a.opts = append(a.opts, grpc.OnFinish(func(err error) {
		a.release() // or the context would stay with its parent
		if err != nil && s.closed() {
			go s.abandon(err) // a closed connection ends a stream, but not its context
		}
	}))
	s.mu.Lock()
	s.stream = nil
	s.mu.Unlock()
	cs, err := s.open(a)
	if err != nil {
		return a.end(err)
	}
	if err := s.replay(cs); err != nil {
		return a.end(retry.Stop(err))
	}
	if s.want == nil {
		stop := context.AfterFunc(ctx, func() { s.abandon(status.FromContextError(ctx.Err()).Err()) })
		s.run.pause()
		stop()
	}
	err = s.want(cs)
	if s.ended = err == io.EOF; s.ended {
		return nil
	}
	return a.end(err)
}

// replay makes cs the stream that the caller sends on, and sends again what the caller
// has sent.
func (s *serverStream) replay(cs grpc.ClientStream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stream = cs
	if s.sent {
		if err := cs.SendMsg(s.request); err != nil && err != io.EOF {
			return err
		}
	}
	if s.sendClosed {
		return cs.CloseSend()
	}
	return nil
}

// RecvMsg restarts the stream as long as no message has come.
func (s *serverStream) RecvMsg(m any) error {
	first := s.proceed(func(cs grpc.ClientStream) error { return cs.RecvMsg(m) })
	switch {
	case s.err != nil:
		return s.err
	case first && s.ended:
		return io.EOF
	case first:
		return nil
	}
	return s.stream.RecvMsg(m)
}

// Header waits for the first attempt that has one. Like grpc's it leaves errors to
// RecvMsg.
func (s *serverStream) Header() (md metadata.MD, err error) {
	first := s.proceed(func(cs grpc.ClientStream) error {
		if md, err = cs.Header(); md == nil && err == nil {
			err = cs.RecvMsg(new(emptypb.Empty)) // there is no message: this tells how the stream ended
		}
		return err
	})
	switch {
	case s.err != nil:
		return nil, nil
	case first:
		return md, nil
	}
	return s.stream.Header()
}

// Context ends the run: values that the caller derives from it would outlive the
// attempt.
func (s *serverStream) Context() context.Context {
	s.proceed(func(grpc.ClientStream) error { return nil })
	if s.stream == nil {
		return s.ctx
	}
	return s.stream.Context()
}

// Trailer is the latest attempt's.
func (s *serverStream) Trailer() metadata.MD {
	s.mu.Lock()
	cs := s.stream
	s.mu.Unlock()
	if cs == nil {
		return nil
	}
	return cs.Trailer()
}

// SendMsg keeps the request for later attempts. Its errors are the client's own, and
// another attempt would not help.
func (s *serverStream) SendMsg(m any) error {
	err, dead := s.send(m)
	if dead {
		s.abandon(err)
	}
	return err
}

// send reports whether err has ended the stream.
func (s *serverStream) send(m any) (err error, dead bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	again := s.sent
	if !again {
		s.request, s.sent = m, true
	}
	switch {
	case s.stream != nil:
		err = s.stream.SendMsg(m) // again, grpc says Internal and ends the stream
		return err, err != nil && err != io.EOF
	case again:
		return status.Error(codes.Internal, "retrygrpc: a second request on a server stream"), false
	}
	return nil, false
}

// CloseSend is repeated by later attempts too.
func (s *serverStream) CloseSend() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sendClosed = true
	if s.stream == nil {
		return nil
	}
	return s.stream.CloseSend()
}

// coroutine is a function that runs only while somebody waits in resume.
//
// [iter.Pull] would do, but the runtime ends a program in which goroutines take turns
// and one of them is locked to its thread. Here any of them may be locked: the
// caller's, or the one in which a context ends.
type coroutine struct {
	resumed, paused chan struct{}
	returned        bool // f did
	panicked        any  // what f panicked with; if nil, it called runtime.Goexit
}

func newCoroutine(f func()) *coroutine {
	c := &coroutine{resumed: make(chan struct{}), paused: make(chan struct{})}
	go func() {
		defer close(c.paused)
		defer func() { c.panicked = recover() }()
		<-c.resumed
		f()
		c.returned = true
	}()
	return c
}

// resume lets f run until it pauses or returns. A panic in f, or runtime.Goexit,
// passes through.
func (c *coroutine) resume() {
	c.resumed <- struct{}{}
	switch _, paused := <-c.paused; {
	case paused, c.returned:
	case c.panicked != nil:
		panic(c.panicked)
	default:
		runtime.Goexit()
	}
}

// pause is for f.
func (c *coroutine) pause() {
	c.paused <- struct{}{}
	<-c.resumed
}
