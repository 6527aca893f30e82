package retry

// May call: run.go, number.go, hooks.go.

import (
	"context"
	"time"
)

// Do calls op until it succeeds or p says to stop, and returns op's value. When Do gives up, it
// returns the last value that op returned and an *[Error]. The package documentation lists the
// rules. For an op without a value see [Run]. A value with which op returns no error is a success,
// also an HTTP response with status 503: see retryhttp.Failure.
//
// Do calls op on the caller's goroutine. op's context ends with ctx and, if the policy has one,
// with the attempt's timeout. Do does not interrupt an op that ignores its context. A panic or
// runtime.Goexit in op passes through. Do panics if ctx or op is nil.
func Do[T any](ctx context.Context, p Policy, op func(context.Context) (T, error)) (v T, err error) {
	if op == nil {
		panic("retry: nil op")
	}
	var r *run
	if p.plain(ctx) { // no run unless op fails
		since, err := first(ctx, op, &v)
		if err == nil {
			return v, nil
		}
		r = newFailedRun(ctx, &p, since, err)
	}
	each := func(ctx context.Context) (failed error) {
		v, failed = op(ctx)
		return failed
	}
	if r == nil {
		r = newRun(ctx, &p, 0, each)
	}
	err = r.finish(&p, each)
	return v, err
}

// first makes the first attempt under a plain policy, and returns when it began. It is apart
// because it has room for another T, and is over before the error is judged: see type run.
//
//go:noinline
func first[T any](ctx context.Context, op func(context.Context) (T, error), v *T) (since time.Duration, err error) {
	since = time.Since(epoch)
	*v, err = op(ctx)
	return since, err
}

// plain reports whether a first attempt needs no run: nothing is called before it or
// closed after it, whatever op does, and op gets ctx unchanged.
func (p *Policy) plain(ctx context.Context) bool {
	h := &p.Hooks
	return p.Budget == nil && p.AttemptTimeout <= 0 && p.Clock == nil &&
		h.Start == nil && !h.timed() &&
		len(p.Guards) == 0 &&
		ctx != nil && ctx.Err() == nil && AttemptNumber(ctx) == 1
}

// Run is [Do] for an op without a value.
func Run(ctx context.Context, p Policy, op func(context.Context) error) error {
	if op == nil {
		panic("retry: nil op")
	}
	if p.plain(ctx) { // as in Do
		since := time.Since(epoch)
		if err := op(ctx); err != nil {
			return newFailedRun(ctx, &p, since, err).finish(&p, op)
		}
		return nil
	}
	return newRun(ctx, &p, 0, op).finish(&p, op)
}

// Until turns a value for which accept returns false into a failed attempt with the error
// [ErrRejected], and still returns the value. Use it to poll. If a value means failure, op must
// return an error instead: no budget limits retries after ErrRejected, and no alert counts them. A
// nil accept takes every value. Until panics if op is nil.
func Until[T any](op func(context.Context) (T, error), accept func(T) bool) func(context.Context) (T, error) {
	if op == nil {
		panic("retry: nil op")
	}
	return func(ctx context.Context) (T, error) {
		v, err := op(ctx)
		if err == nil && accept != nil && !accept(v) {
			err = ErrRejected
		}
		return v, err
	}
}
