package retryhttp

import "context"

// Detach returns a context for a handler that writes: it has the values and the
// deadline of ctx, and does not end when the caller hangs up. Without it a caller that
// leaves cuts off whatever the handler is doing, such as a COMMIT whose outcome nobody
// knows then. Use it around the part that must not be cut off:
//
//	ctx, cancel := retryhttp.Detach(r.Context())
//	defer cancel()
//	moved, err := retrysql.Tx(ctx, db, policy, nil, transfer)
//
// The deadline is that of [DeadlineHandler], of another handler around this one, or
// none: set one then. It has passed already if that of ctx has. Call cancel when the
// work is done: that frees the deadline's timer. Detach panics if ctx is nil.
func Detach(ctx context.Context) (own context.Context, cancel context.CancelFunc) {
	own = context.WithoutCancel(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(own, deadline)
	}
	return context.WithCancel(own)
}
