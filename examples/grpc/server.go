package main

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/goretry/retry/examples/grpc/shop"
)

// flaky is a real gRPC server on a loopback port that fails by a script.
type flaky struct {
	shop.UnimplementedShopServer
	addr string
	grpc *grpc.Server
	done chan struct{}

	mu    sync.Mutex
	steps []step
}

// step is how the server treats one call: an error, or the answer follows.
type step func(s grpc.ServerStream) error

func startServer() (*flaky, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &flaky{addr: l.Addr().String(), done: make(chan struct{})}
	f.grpc = grpc.NewServer(grpc.UnaryInterceptor(f.unary), grpc.StreamInterceptor(f.stream))
	shop.RegisterShopServer(f.grpc, f)
	go func() {
		defer close(f.done)
		_ = f.grpc.Serve(l) // returns when stopped
	}()
	return f, nil
}

// close cuts the connections and waits until the server has ended.
func (f *flaky) close() {
	f.grpc.Stop()
	<-f.done
}

// script sets what happens to the next calls, one step each. The last one is repeated.
func (f *flaky) script(steps []step) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.steps = steps
}

func (f *flaky) next() step {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.steps) == 0 {
		return ok
	}
	s := f.steps[0]
	if len(f.steps) > 1 {
		f.steps = f.steps[1:]
	}
	return s
}

func (f *flaky) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if err := f.next()(unaryStream{ctx: ctx}); err != nil {
		return nil, err
	}
	return handle(ctx, req)
}

func (f *flaky) stream(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if err := f.next()(s); err != nil {
		return err
	}
	return handle(srv, s)
}

// unaryStream is what a step needs of a unary call.
type unaryStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s unaryStream) Context() context.Context        { return s.ctx }
func (s unaryStream) SendHeader(md metadata.MD) error { return grpc.SendHeader(s.ctx, md) }
func (s unaryStream) SetTrailer(md metadata.MD)       { _ = grpc.SetTrailer(s.ctx, md) }

func (f *flaky) Price(context.Context, *shop.Item) (*shop.Quote, error) {
	return &shop.Quote{Cents: 425}, nil
}

func (f *flaky) Order(context.Context, *shop.Item) (*shop.Receipt, error) {
	return &shop.Receipt{Number: 1001}, nil
}

func (f *flaky) Watch(_ *shop.Item, s grpc.ServerStreamingServer[shop.Quote]) error {
	for _, cents := range []int64{425, 430, 410} {
		if err := s.Send(&shop.Quote{Cents: cents}); err != nil {
			return err
		}
	}
	return nil
}

// ok lets the method answer.
func ok(grpc.ServerStream) error { return nil }

// fail answers with a code.
func fail(c codes.Code, text string) step {
	return func(grpc.ServerStream) error { return status.Error(c, text) }
}

// busy answers with a code, and asks not to be called again for some time.
func busy(c codes.Code, wait time.Duration) step {
	return func(grpc.ServerStream) error {
		st, err := status.New(c, "busy").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
		if err != nil {
			return err
		}
		return st.Err()
	}
}

// pushback answers UNAVAILABLE, and says in a trailer whether and when to retry.
func pushback(ms string) step {
	return func(s grpc.ServerStream) error {
		s.SetTrailer(metadata.Pairs("grpc-retry-pushback-ms", ms))
		return status.Error(codes.Unavailable, "overloaded")
	}
}

// headersThen sends headers first.
func headersThen(next step) step {
	return func(s grpc.ServerStream) error {
		if err := s.SendHeader(metadata.Pairs("request-id", "7")); err != nil {
			return err
		}
		return next(s)
	}
}

// hang keeps the client waiting until it hangs up.
func hang(s grpc.ServerStream) error {
	<-s.Context().Done()
	return s.Context().Err()
}

// cut sends a message of a stream and fails.
func cut(s grpc.ServerStream) error {
	if err := s.SendMsg(&shop.Quote{Cents: 425}); err != nil {
		return err
	}
	return status.Error(codes.Unavailable, "connection lost")
}
