package retrygrpc

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goretry/retry"
	"github.com/goretry/retry/limit"
)

// LimitClient returns options for [grpc.NewClient] with which a call is made only if a limit
// on the calls in flight has a place for it. Pass them after those of a [Client], so that
// each attempt and each hedge takes a place of its own:
//
//	var targets limit.PerKey // one limit for each target
//
//	cc, err := grpc.NewClient(target, append(c.DialOptions(), retrygrpc.LimitClient(targets.For)...)...)
//
// limitOf returns the limit for a target, which is grpc.ClientConn.Target, or nil for none. It
// must return the same limit for the same target, and is called concurrently. A nil limitOf
// limits nothing. A limit for one peer needs a connection for that peer alone: which one a
// balancer picks is not known before.
//
// Without a place a call fails with an error that is [limit.ErrLimited] and has the code
// RESOURCE_EXHAUSTED. Nothing was sent then, so a Client repeats it for any method.
//
// A unary call holds its place until it returns, a stream until it ends: see [grpc.OnFinish].
// [limit.SignOf] of its error, judged by [Classify], says what that means to the limit:
// RESOURCE_EXHAUSTED is an Overload, DEADLINE_EXCEEDED a Timeout, UNAVAILABLE is no sign,
// and all other codes are an Answer, or a Prompt if a unary call ends within half of the time
// that it had until its deadline.
func LimitClient(limitOf func(target string) *limit.Limit) []grpc.DialOption {
	if limitOf == nil {
		return nil
	}
	judged := retry.Policy{Classify: Classify}
	unary := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		l := limitOf(cc.Target())
		if !l.Acquire() {
			return noPlace{}
		}
		sign := limit.NoSign // if it panics
		defer func() { l.Release(sign) }()
		judged := judged
		if deadline, ok := ctx.Deadline(); ok {
			judged.AttemptTimeout = time.Until(deadline) // so that SignOf can tell a Prompt
		}
		err := invoke(ctx, method, req, reply, cc, opts...)
		sign = limit.SignOf(ctx, judged, err)
		return err
	}
	stream := func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		l := limitOf(cc.Target())
		if !l.Acquire() {
			return nil, noPlace{}
		}
		var once sync.Once
		leave := func(sign limit.Sign) { once.Do(func() { l.Release(sign) }) }
		end := func(err error) { leave(limit.SignOf(ctx, judged, err)) }
		opened := false
		defer func() {
			if !opened {
				leave(limit.NoSign) // it has panicked
			}
		}()
		cs, err := open(ctx, desc, cc, method, append(opts[:len(opts):len(opts)], grpc.OnFinish(end))...)
		if opened = err == nil; !opened {
			end(err)
		}
		return cs, err
	}
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(unary), grpc.WithChainStreamInterceptor(stream)}
}

// noPlace is [limit.ErrLimited] with a code, for callers that know only codes.
type noPlace struct{}

func (noPlace) Error() string { return limit.ErrLimited.Error() }
func (noPlace) Unwrap() error { return limit.ErrLimited }
func (noPlace) GRPCStatus() *status.Status {
	return status.New(codes.ResourceExhausted, limit.ErrLimited.Error())
}

// LimitServer returns options for [grpc.NewServer] with which a handler is called only if a
// limit on the calls in flight has a place. Otherwise the caller gets RESOURCE_EXHAUSTED with
// RetryInfo and grpc-retry-pushback-ms of one second, which says that any method may be called
// again. The request of a unary call has been read by then.
//
//	var places limit.Limit // one for all that shares a bottleneck
//
//	s := grpc.NewServer(retrygrpc.LimitServer(func(context.Context, string) *limit.Limit { return &places })...)
//
// limitOf returns the limit for a call of a method, "/pkg.Service/Method": the same one for
// all, one for a method, or one for a caller ([limit.PerKey]). Nil from it means no limit. It
// is called concurrently. A nil limitOf limits nothing.
//
// A call holds its place until the handler returns or panics, so a stream until it ends. The
// call's context says what that means to the limit: a Timeout if its deadline has passed, or
// if the caller has left when hardly any time was left; no sign if the caller has left
// earlier; or else an Answer. A code says nothing, because handlers refuse callers for reasons
// other than the load. A panic is no sign.
func LimitServer(limitOf func(ctx context.Context, method string) *limit.Limit) []grpc.ServerOption {
	if limitOf == nil {
		return nil
	}
	unary := func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
		err = serveUnder(limitOf(ctx, info.FullMethod), ctx, func() (err error) {
			resp, err = handler(ctx, req)
			return err
		})
		return resp, err
	}
	stream := func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		ctx := ss.Context()
		return serveUnder(limitOf(ctx, info.FullMethod), ctx, func() error { return handler(srv, ss) })
	}
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(unary), grpc.ChainStreamInterceptor(stream)}
}

// errFull is what a server has done for a call that finds no place: nothing.
var errFull = retry.Undone(retry.After(limit.ErrLimited, time.Second))

// serveUnder calls a handler under l.
func serveUnder(l *limit.Limit, ctx context.Context, handle func() error) error {
	if !l.Acquire() {
		return Status(ctx, errFull, "too many calls in flight")
	}
	began := time.Now()
	sign := limit.NoSign // if the handler panics
	defer func() { l.Release(sign) }()
	err := handle()
	if sign = limit.SignOf(ctx, retry.Policy{}, ctx.Err()); hasExpired(ctx, began) {
		sign = limit.Timeout
	}
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
