package retrygrpc

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/relay"
)

const previousAttempts = "grpc-previous-rpc-attempts"

// UnaryServer is a [grpc.UnaryServerInterceptor] for servers that call other servers.
// Without it the retries of several services multiply.
//
//	grpc.NewServer(grpc.ChainUnaryInterceptor(retrygrpc.UnaryServer), grpc.ChainStreamInterceptor(retrygrpc.StreamServer))
//
// It sends the trailer grpc-retry-pushback-ms: -1, so that the caller does not retry, if
// the handler's error
//
//   - is marked by [retry.Stop] or [retry.Refuse];
//   - holds a run that ended because the error is permanent, because a server refused a
//     retry, or because the work may have been done;
//   - holds a run that made retries and came to a limit other than Policy.MaxRetryAfter.
//
// The error itself is returned unchanged. Return err, or fmt.Errorf("orders: %w", err):
// status.Error(code, err.Error()) hides the run, so call [Relay] before it.
//
// If the caller says by grpc-previous-rpc-attempts that its call is a retry,
// [retry.AttemptNumber] of the handler's context is the number of that attempt. The
// key is removed from the context's metadata, because a handler that forwards its
// metadata would number its own attempts by it. The number is the caller's claim, for
// logs and metrics, and at most 2²⁰+1.
func UnaryServer(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if numbered, ok := numbered(ctx); ok {
		ctx = numbered
	}
	resp, err := handler(ctx, req)
	Relay(ctx, err)
	return resp, err
}

// StreamServer is a [grpc.StreamServerInterceptor] that does what [UnaryServer] does.
func StreamServer(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
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

// Relay is for a handler that does not return err itself, but for example the result
// of [status.Error]. It sets the trailer that [UnaryServer] would set for err, unless
// ctx has ended. ctx is the handler's. Outside of a handler, and for a nil err, Relay
// does nothing.
//
//	retrygrpc.Relay(ctx, err)
//	return nil, status.Error(codes.Unavailable, "orders are down")
func Relay(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil && relay.Refuses(err) {
		_ = grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", "-1")) // fails outside of a handler
	}
}

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
	return retry.WithAttemptNumber(metadata.NewIncomingContext(ctx, md), previous+1), true
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
