package bench

import (
	"context"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
)

// failsafeGo is used as in the README, policy and executor made once, both of
// which “are concurrency safe”. Of its calls Get is the one that copies least.
var failsafeGo = Peer{
	Name:   "failsafe-go",
	Module: "github.com/failsafe-go/failsafe-go",
	New: func(s Spec) Call {
		if s.Virtual || s.Tokens {
			return nil
		}
		executor := failsafe.With[Row](failsafePolicy(s))
		return func(ctx context.Context, op Op) (Row, error) {
			return executor.WithContext(ctx).Get(func() (Row, error) { return op(ctx) })
		}
	},
	Inline: func(ctx context.Context, op Op) (Row, error) {
		p := retrypolicy.NewBuilder[Row]().WithMaxAttempts(4).WithBackoff(100*time.Millisecond, 10*time.Second).Build()
		return failsafe.With[Row](p).WithContext(ctx).Get(func() (Row, error) { return op(ctx) })
	},
}

func failsafePolicy(s Spec) retrypolicy.RetryPolicy[Row] {
	b := retrypolicy.NewBuilder[Row]().WithMaxAttempts(s.Attempts)
	if s.Attempts == 0 {
		b.WithMaxAttempts(-1)
	}
	if s.Max > 0 {
		b.WithBackoff(s.Wait, s.Max)
	} else {
		b.WithDelay(s.Wait)
	}
	if s.Jitter {
		b.WithJitterFactor(.5)
	}
	if s.Listener != nil {
		b.OnRetryScheduled(func(failsafe.ExecutionScheduledEvent[Row]) { s.Listener() })
	}
	return b.Build()
}
