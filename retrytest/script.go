package retrytest

import (
	"context"
	"errors"
	"time"

	"github.com/goretry/retry"
)

// Step is what one call of a scripted operation does.
type Step[T any] struct {
	value    T
	err      error
	takes    time.Duration
	optional bool
}

// Fail is a step that returns err.
func Fail[T any](err error) Step[T] { return Step[T]{err: err} }

// Return is a step that returns v.
func Return[T any](v T) Step[T] { return Step[T]{value: v} }

// Taking makes the step last d on the harness's clock. If d is zero or negative, it
// takes no time. If its context ends earlier, the step returns the context's error
// then.
func (s Step[T]) Taking(d time.Duration) Step[T] {
	s.takes = d
	return s
}

// Optional says that a test may end before this step, and so before all later ones.
func (s Step[T]) Optional() Step[T] {
	s.optional = true
	return s
}

var errRanOut = errors.New("retrytest: the script ran out of steps")

// Script returns an operation that does one step per call. A call beyond the last step
// fails the test and ends the run. A step that was not reached fails the test at its
// end, unless it is [Step.Optional].
func Script[T any](h *Harness, steps ...Step[T]) func(context.Context) (T, error) {
	calls := 0
	h.t.Cleanup(func() {
		h.t.Helper()
		h.mu.Lock()
		defer h.mu.Unlock()
		if calls < len(steps) && !steps[calls].optional {
			h.t.Errorf("retrytest: step %d of a script of %d steps was not reached: if that is meant, make it Optional\n%s", calls+1, len(steps), h.story())
		}
	})
	return func(ctx context.Context) (T, error) {
		h.t.Helper()
		h.mu.Lock()
		calls++
		if calls > len(steps) {
			defer h.mu.Unlock()
			h.t.Errorf("retrytest: call %d of an operation with a script of %d steps\n%s", calls, len(steps), h.story())
			return *new(T), retry.Stop(errRanOut)
		}
		s := steps[calls-1]
		h.mu.Unlock()
		if err := h.Clock.Sleep(ctx, s.takes); err != nil {
			return *new(T), err
		}
		return s.value, s.err
	}
}
