package migrate_test

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	avast "github.com/avast/retry-go/v5"
	"github.com/cenkalti/backoff/v7"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	sethvargo "github.com/sethvargo/go-retry"

	"github.com/goretry/retry"
)

// library calls op up to five times, a second apart.
type library struct {
	name string
	call func(ctx context.Context, op func() error) error
}

var libraries = []library{
	{"cenkalti/backoff", func(ctx context.Context, op func() error) error {
		_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, op() },
			backoff.WithMaxTries(5), backoff.WithBackOff(backoff.NewConstantBackOff(time.Second)))
		return err
	}},
	{"avast/retry-go", func(ctx context.Context, op func() error) error {
		return avast.New(avast.Context(ctx), avast.Attempts(5),
			avast.Delay(time.Second), avast.DelayType(avast.FixedDelay)).Do(op)
	}},
	{"sethvargo/go-retry", func(ctx context.Context, op func() error) error {
		return sethvargo.Do(ctx, sethvargo.WithMaxRetries(4, sethvargo.NewConstant(time.Second)),
			func(context.Context) error { return sethvargo.RetryableError(op()) })
	}},
	{"failsafe-go", func(ctx context.Context, op func() error) error {
		return failsafe.With(retrypolicy.NewBuilder[any]().WithMaxAttempts(5).WithDelay(time.Second).Build()).
			WithContext(ctx).Run(op)
	}},
	{"here", func(ctx context.Context, op func() error) error {
		return retry.Run(ctx, retry.Policy{MaxAttempts: 5, Backoff: retry.Constant(time.Second)},
			func(context.Context) error { return op() })
	}},
}

// each runs f for every library, in a bubble, on a service of its own.
func each(t *testing.T, errs []error, f func(*testing.T, library, *service)) {
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, l, &service{errs: errs}) })
		})
	}
}

// With a context that is done, some call once all the same.
func TestContextDoneBefore(t *testing.T) {
	want := map[string]string{
		"cenkalti/backoff":   "server is down, context canceled; calls 1, waits []",
		"avast/retry-go":     "context canceled; calls 0, waits []",
		"sethvargo/go-retry": "context canceled; calls 0, waits []",
		"failsafe-go":        "context canceled; calls 1, waits []",
		"here":               "context canceled; calls 0, waits []",
	}
	each(t, down(9), func(t *testing.T, l library, s *service) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := l.call(ctx, s.ping)
		equal(t, "outcome", s.outcome("ok", err), want[l.name])
	})
}

// The others sleep towards a deadline that ends the wait anyway, and some forget
// then what the operation said.
func TestDeadlineInAWait(t *testing.T) {
	type end struct {
		outcome string
		at      time.Duration
	}
	want := map[string]end{
		"cenkalti/backoff":   {"server is down, context deadline exceeded; calls 2, waits [1s]", 1500 * time.Millisecond},
		"avast/retry-go":     {"server is down, context deadline exceeded; calls 2, waits [1s]", 1500 * time.Millisecond},
		"sethvargo/go-retry": {"context deadline exceeded; calls 2, waits [1s]", 1500 * time.Millisecond},
		"failsafe-go":        {"context deadline exceeded; calls 2, waits [1s]", 1500 * time.Millisecond},
		"here":               {"server is down, context deadline exceeded; calls 2, waits [1s]", time.Second},
	}
	each(t, down(9), func(t *testing.T, l library, s *service) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		err := l.call(ctx, s.ping)
		equal(t, "end", end{s.outcome("ok", err), time.Since(start)}, want[l.name])
	})
}

// An error that DefaultClassifier knows to be permanent is not retried here.
// Policy.Classify overrules it.
func TestPermanentByType(t *testing.T) {
	want := map[string]int{
		"cenkalti/backoff":   5,
		"avast/retry-go":     5,
		"sethvargo/go-retry": 5,
		"failsafe-go":        5,
		"here":               1,
	}
	missing := []error{fs.ErrNotExist, fs.ErrNotExist, fs.ErrNotExist, fs.ErrNotExist, fs.ErrNotExist}
	each(t, missing, func(t *testing.T, l library, s *service) {
		err := l.call(t.Context(), s.ping)
		equal(t, "calls", len(s.calls), want[l.name])
		equal(t, "error found", errors.Is(err, fs.ErrNotExist), true)
	})

	s := &service{errs: missing}
	retry.Run(t.Context(), retry.Policy{
		MaxAttempts: 5,
		Backoff:     retry.Constant(0),
		Classify:    func(error) retry.Class { return retry.Transient },
	}, func(context.Context) error { return s.ping() })
	equal(t, "calls with Classify", len(s.calls), 5)
}
