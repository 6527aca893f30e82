package retrygrpc

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

const previousAttempts = "grpc-previous-rpc-attempts"

// ServerOptions returns options for a server that calls other servers. Without them the
// retries of several services multiply.
//
//	grpc.NewServer(retrygrpc.ServerOptions()...)
//
// They are interceptors, which call [Relay] for the handler's error, and return the error
// unchanged. Return err, or fmt.Errorf("orders: %w", err): status.Error(code, err.Error())
// hides what has happened. Use [Status] for that, or call Relay before it.
//
// If the caller says by grpc-previous-rpc-attempts that its call is a retry,
// [CallerAttempt] of the handler's context is the number of that attempt. The key is
// removed from the context's metadata, because a handler that forwards its metadata
// would number its own attempts by it.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(unaryServer), grpc.ChainStreamInterceptor(streamServer)}
}

func unaryServer(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if numbered, ok := numbered(ctx); ok {
		ctx = numbered
	}
	resp, err := handler(ctx, req)
	Relay(ctx, err)
	return resp, err
}

func streamServer(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if ctx, ok := numbered(ss.Context()); ok {
		ss = &numberedStream{ss, ctx}
	}
	err := handler(srv, ss)
	Relay(ss.Context(), err)
	return err
}

type numberedStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *numberedStream) Context() context.Context { return s.ctx }

// CallerAttempt returns which attempt of its caller a handler serves, by the caller's own
// claim, for logs and metrics: at most 2²⁰+1, and 1 if the caller claims nothing. ctx is
// the handler's, below [ServerOptions].
func CallerAttempt(ctx context.Context) int {
	n, _ := ctx.Value(callerKey{}).(int)
	return max(n, 1)
}

type callerKey struct{}

// numbered returns the handler's context for a call that is a retry, and reports
// whether there is one.
func numbered(ctx context.Context) (context.Context, bool) {
	values := metadata.ValueFromIncomingContext(ctx, previousAttempts)
	if len(values) == 0 {
		return nil, false
	}
	md, _ := metadata.FromIncomingContext(ctx) // a copy
	delete(md, previousAttempts)
	previous := 0
	if len(values) == 1 {
		previous = count(values[0])
	}
	return context.WithValue(metadata.NewIncomingContext(ctx, md), callerKey{}, previous+1), true
}

// count parses a number of digits only, at most 2²⁰, and returns 0 for anything else.
func count(digits string) (n int) {
	if strings.Trim(digits, "0123456789") != "" {
		return 0
	}
	for _, digit := range digits {
		n = min(n*10+int(digit-'0'), 1<<20)
	}
	return n
}
