package retry

// May call: none of its neighbours.

import "context"

// AttemptNumber returns the number of the attempt that ctx belongs to: 1 for a run's first
// attempt, and for a context that belongs to no run.
func AttemptNumber(ctx context.Context) int {
	if c, ok := ctx.Value(attemptKey{}).(*attemptContext); ok {
		return int(c.number)
	}
	return 1
}

type attemptKey struct{}

// attemptContext is the context of a retry, and of a first attempt within one of another run.
type attemptContext struct {
	context.Context
	number int32 // at most that many, to be small: a run has room for three of these
	class  Class // of the latest error before it: see Entry.Class
}

func (c *attemptContext) Value(key any) any {
	if _, ok := key.(attemptKey); ok {
		return c
	}
	return c.Context.Value(key)
}
