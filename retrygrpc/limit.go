package retrygrpc

import (
	"cmp"
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrygrpc/internal/ending"
)

// LimitServer returns options for [grpc.NewServer] with which a handler is called only if all
// guards of a call admit it, such as a limit on the calls in flight. Otherwise the caller gets
// RESOURCE_EXHAUSTED with RetryInfo and grpc-retry-pushback-ms, which says that any method may
// be called again. They ask for the wait for which the guard asks, by its [retry.Pass] or its
// error ([retry.After], also inside [retry.Stop]), or else for one second. The request of a unary call has been read by then.
//
//	var places = limit.Limit{Max: 100} // one for all that shares a bottleneck
//
//	guards := []retry.Guard{&places}
//	s := grpc.NewServer(retrygrpc.LimitServer(func(context.Context, string) []retry.Guard { return guards })...)
//
// guards returns those for a call of a method, "/pkg.Service/Method", which are entered in
// order: the same for all, some for a method, or some for a caller ([retry.PerKey]). None
// admit all. It is called concurrently. A call does not wait for a guard. With nil for guards
// LimitServer returns no options.
//
// The guards are left when the handler returns or panics, so those of a stream when it ends.
// The call's context says what they get: Expired if its deadline has passed, or if the caller
// has left when hardly any time was left; Canceled if the caller has left earlier; or else
// Returned. A code says nothing, because handlers refuse callers for reasons other than the
// load.
func LimitServer(guards func(ctx context.Context, method string) []retry.Guard) []grpc.ServerOption {
	if guards == nil {
		return nil
	}
	unary := func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
		err = serveUnder(guards(ctx, info.FullMethod), ctx, func() (err error) {
			resp, err = handler(ctx, req)
			return err
		})
		return resp, err
	}
	stream := func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		ctx := ss.Context()
		return serveUnder(guards(ctx, info.FullMethod), ctx, func() error { return handler(srv, ss) })
	}
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(unary), grpc.ChainStreamInterceptor(stream)}
}

var errNotAdmitted = errors.New("retrygrpc: too many calls")

// serveUnder calls a handler under guards.
func serveUnder(guards []retry.Guard, ctx context.Context, handle func() error) error {
	leave, err := retry.Policy{Guards: guards}.Admit(ctx, retry.Entry{})
	if err != nil {
		wait := cmp.Or(retry.Policy{}.Judge(retry.Refuse(err)).Hint, time.Second) // by Refuse also the wait behind a Stop
		return Status(ctx, retry.Undone(retry.After(errNotAdmitted, wait)), "too many calls")
	}
	began := time.Now()
	x := retry.Exit{Ending: retry.Panicked}
	if deadline, ok := ctx.Deadline(); ok {
		x.Allowed = max(deadline.Sub(began), 1)
	}
	defer func() {
		x.Took = time.Since(began)
		leave(x)
	}()
	err = handle()
	if x.Ending = ending.Of(ctx); hasExpired(ctx, began) {
		x.Ending = retry.Expired
	}
	x.Verdict.Err = ctx.Err()
	return err
}

// hasExpired reports whether a handler has come too late for its caller. A caller whose
// deadline passes resets the stream. Mostly that arrives before the deadline that grpc-go
// has computed here, and looks like a cancel: so a cancel counts if hardly any time was
// left. The margin is that of retryhttp.DeadlineHandler.
func hasExpired(ctx context.Context, began time.Time) bool {
	deadline, ok := ctx.Deadline()
	if !ok {
		return false
	}
	var margin time.Duration
	if ctx.Err() != nil {
		margin = min(deadline.Sub(began)/20, 100*time.Millisecond)
	}
	return time.Until(deadline) <= margin
}
