package after

import (
	"context"
	"time"

	"github.com/goretry/retry"

	"github.com/goretry/retry/retryvet/behaviour"
)

var (
	tries = uint(4)
)

var retryPolicy = retry.Policy{
	MaxAttempts: int(tries), // as often as tries said when the program began
	Backoff:     retry.Constant(100 * time.Millisecond),
	Classify:    unlessUnrecoverable,
}

// withWait returns the policy with a hook that is called before each wait.
func withWait(p retry.Policy, wait func(context.Context, retry.Attempt)) retry.Policy {
	p.Hooks.Wait = wait
	return p
}

// Avast4Shared sets the limit after the options have been made with it.
func Avast4Shared(ctx context.Context, s *behaviour.Service) error {
	tries = 6
	return retry.Run(ctx, withWait(retryPolicy, func(_ context.Context, a retry.Attempt) {
		if a.Number < 3 {
			s.Told = append(s.Told, a.Err.Error())
		}
	}), func(context.Context) error { return s.Ping() })
}

// Avast4SharedToo has the same options.
func Avast4SharedToo(ctx context.Context, s *behaviour.Service) error {
	return retry.Run(ctx, retryPolicy, func(context.Context) error { return s.Ping() })
}

var pause = 100 * time.Millisecond

// pausesPolicy returns waits as long as pause says at the time, for five retries.
func pausesPolicy() retry.Policy {
	return retry.Policy{MaxAttempts: 6, Backoff: retry.Constant(pause), Classify: unlessPermanent}
}

// Backoff4Shared sets the wait before the backoff is made with it.
func Backoff4Shared(ctx context.Context, s *behaviour.Service) error {
	pause = 200 * time.Millisecond
	return retry.Run(ctx, pausesPolicy(), func(context.Context) error { return s.Ping() })
}

// Backoff4SharedToo sets another.
func Backoff4SharedToo(ctx context.Context, s *behaviour.Service) error {
	pause = 300 * time.Millisecond
	return retry.Run(ctx, withWait(pausesPolicy(), func(_ context.Context, a retry.Attempt) {
		s.Told = append(s.Told, a.Err.Error()+" "+a.Delay.String())
	}), func(context.Context) error { return s.Ping() })
}
