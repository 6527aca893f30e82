package retryhttp_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry/retryhttp"
)

func TestDetach(t *testing.T) {
	type key struct{}
	for name, limit := range map[string]time.Duration{"with a deadline": time.Minute, "without": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				caller, hangUp := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
				if limit > 0 {
					caller, hangUp = context.WithTimeout(caller, limit)
				}
				ctx, cancel := retryhttp.Detach(caller)
				hangUp()
				synctest.Wait()
				if ctx.Err() != nil || ctx.Value(key{}) != "value" {
					t.Errorf("after the caller has left: %v, value %v", ctx.Err(), ctx.Value(key{}))
				}
				if deadline, ok := ctx.Deadline(); ok != (limit > 0) || ok && time.Until(deadline) != limit {
					t.Errorf("deadline in %v, %v; want %v", time.Until(deadline), ok, limit)
				}
				time.Sleep(2 * time.Minute)
				if limit > 0 != errors.Is(ctx.Err(), context.DeadlineExceeded) {
					t.Errorf("after 2m: %v", ctx.Err())
				}
				if cancel(); ctx.Err() == nil {
					t.Error("cancel does not end it")
				}
			})
		})
	}
}
