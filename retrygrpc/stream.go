package retrygrpc

import (
	"context"
	"io"
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
	k := c.call(ctx, method, cc, opts)
	k.limitAttempts() // the run's timeout would end with the attempt, and the stream with it
	start := func(a *attempt) (grpc.ClientStream, error) {
		cs, err := open(a.ctx, desc, cc, method, a.opts...)
		if err == nil && a.held != nil {
			cs = heldStream{cs, a.held}
		}
		return cs, err
	}
	if !desc.ClientStreams {
		s := &serverStream{call: k, ctx: ctx, open: start}
		return s.start()
	}
	defer k.finishFailed()
	defer k.close()
	k.once = true // what will be sent is not kept
	var cs grpc.ClientStream
	for k.run.Next() {
		a := k.begin()
		a.onFinish(a.finish)
		var err error
		if cs, err = start(a); err == nil {
			k.settle(a.goOn())
		} else {
			k.settle(a.end(err))
		}
	}
	if err := k.result(); err != nil {
		return nil, err
	}
	return cs, nil
}

// serverStream is a stream with one request, which is restarted while its caller has
// seen nothing of it. Its run pauses once, when the first stream has opened, until a
// method needs something from the stream. Then the run goes on to its end: the caller
// has seen something, or the run gives up.
type serverStream struct {
	*call
	ctx  context.Context
	open func(*attempt) (grpc.ClientStream, error)

	runMu   sync.Mutex  // held while the run goes on
	unseen  bool        // the latest attempt has a stream of which the caller has seen nothing
	unwatch func() bool // ends the watch of the run's context that a pause needs; nil before the pause
	over    bool        // the run is over
	eof     bool        // it has succeeded with a stream without a message
	err     error       // it has given up with this

	sendMu     sync.Mutex        // held while sending
	stream     grpc.ClientStream // of the latest attempt, nil if it has none; once the run is over, for good
	request    any               // by pointer, as grpc keeps it
	sent       bool              // there is a request
	sendClosed bool
}

// start begins the run, and returns when a stream is open.
func (s *serverStream) start() (grpc.ClientStream, error) {
	defer s.tell()
	s.runMu.Lock()
	defer s.runMu.Unlock()
	defer func() {
		if s.unwatch == nil {
			s.end()
		}
	}()
	if !s.opened() {
		return nil, s.result()
	}
	ctx := s.run.Context()
	s.unwatch = context.AfterFunc(ctx, func() { s.abandon(status.FromContextError(ctx.Err()).Err()) })
	return s, nil
}

// proceed lets the run go on to its end, with want for its streams. It reports false if
// the run was over.
func (s *serverStream) proceed(want func(grpc.ClientStream) error) bool {
	defer s.tell()
	s.runMu.Lock()
	defer s.runMu.Unlock()
	if s.over {
		return false
	}
	s.unwatch()
	defer s.end()
	for s.opened() {
		s.unseen = false
		switch err := want(s.stream); err {
		case nil:
			s.settle(s.last.goOn())
		case io.EOF:
			s.eof = true
			s.settle(s.last.end(nil))
		default:
			s.settle(s.last.end(err))
		}
	}
	return true
}

// opened makes attempts until one has a stream, and reports whether one has.
func (s *serverStream) opened() bool {
	for !s.unseen && s.run.Next() {
		s.attempt()
	}
	return s.unseen
}

// attempt opens a stream.
func (s *serverStream) attempt() {
	a := s.begin()
	a.onFinish(func(err error) {
		a.finish(err)
		if err != nil && s.closed() {
			go s.abandon(err) // a closed connection ends a stream, but not its context
		}
	})
	s.sendMu.Lock()
	s.stream = nil
	s.sendMu.Unlock()
	cs, err := s.open(a)
	if err == nil {
		err = s.replay(cs)
	}
	if err == nil {
		s.unseen = true
	} else {
		s.settle(a.end(err))
	}
}

// end ends the run, if it is not over, and keeps what it has come to.
func (s *serverStream) end() {
	defer func() {
		s.sendMu.Lock()
		defer s.sendMu.Unlock()
		s.over, s.request = true, nil // the request may be large, and the stream long
		s.err = s.result()
	}()
	s.close()
}

// tell calls the caller's OnFinish if the run is over, and no stream goes on.
func (s *serverStream) tell() {
	s.sendMu.Lock()
	over := s.over && (s.err != nil || s.eof)
	s.sendMu.Unlock()
	if over {
		s.finishing.with(s.err)
	}
}

// abandon ends the run if no method has needed the stream yet.
func (s *serverStream) abandon(err error) {
	s.proceed(func(grpc.ClientStream) error { return retry.Stop(err) })
}

// replay makes cs the stream that the caller sends on, and sends again what the caller
// has sent. Its errors are the client's own.
func (s *serverStream) replay(cs grpc.ClientStream) error {
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	s.stream = cs
	if s.sent {
		if err := cs.SendMsg(s.request); err != nil && err != io.EOF {
			return retry.Stop(err)
		}
	}
	if s.sendClosed {
		return retry.Stop(cs.CloseSend())
	}
	return nil
}

// RecvMsg restarts the stream as long as no message has come.
func (s *serverStream) RecvMsg(m any) error {
	first := s.proceed(func(cs grpc.ClientStream) error { return cs.RecvMsg(m) })
	switch {
	case s.err != nil:
		return s.err
	case first && s.eof:
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
	s.sendMu.Lock()
	cs := s.stream
	s.sendMu.Unlock()
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
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
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
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	s.sendClosed = true
	if s.stream == nil {
		return nil
	}
	return s.stream.CloseSend()
}
