package faq_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"
	"golang.org/x/time/rate"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryconf"
)

type User struct{ Name string }

var errDown = errors.New("down")

var breaker = gobreaker.NewCircuitBreaker[User](gobreaker.Settings{Name: "users"})

// judgeBreaker says that an open breaker did not call the server. A breaker waits
// for a minute: longer than a run should.
func judgeBreaker(err error) retry.Class {
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return retry.Permanent
	}
	return retry.Unknown
}

func userBehindBreaker(ctx context.Context, load func(context.Context) (User, error)) (User, error) {
	policy := retry.Policy{Name: "load-user", Classify: judgeBreaker}
	return retry.Do(ctx, policy, func(ctx context.Context) (User, error) {
		return breaker.Execute(func() (User, error) { return load(ctx) })
	})
}

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		breaker = gobreaker.NewCircuitBreaker[User](gobreaker.Settings{Name: "users"})
		calls := 0
		load := func(context.Context) (User, error) {
			calls++
			return User{}, errDown
		}
		var last error
		for range 5 {
			_, last = userBehindBreaker(t.Context(), load)
		}
		e, ok := errors.AsType[*retry.Error](last)
		if !ok || calls != 6 || e.Reason != retry.ReasonPermanent || e.Attempts != 1 || !errors.Is(last, gobreaker.ErrOpenState) {
			t.Errorf("%d calls, %v; want 6, and an open breaker that ends the run", calls, last)
		}
	})
}

var perSecond = rate.NewLimiter(10, 1) // calls a second, retries included

func limited(ctx context.Context, policy retry.Policy, load func(context.Context) (User, error)) (User, error) {
	return retry.Do(ctx, policy, func(ctx context.Context) (User, error) {
		if err := perSecond.Wait(ctx); err != nil {
			return User{}, err
		}
		return load(ctx)
	})
}

func TestRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		perSecond = rate.NewLimiter(10, 1)
		start := time.Now()
		_, err := limited(t.Context(), retry.Policy{Backoff: retry.Constant(0)}, func(context.Context) (User, error) { return User{}, errDown })
		if took := time.Since(start); took != 200*time.Millisecond || err == nil {
			t.Errorf("three calls took %v, %v; want 200ms and an error", took, err)
		}
	})
}

var current atomic.Pointer[retry.Policy]

var budget = &retry.EarnedBudget{}

func change(line string) error {
	p, err := retryconf.Parse(line)
	if err == nil {
		p.Budget = budget // shared; Parse makes a new one
		current.Store(&p)
	}
	return err
}

func TestChangeWhileRunning(t *testing.T) {
	if err := change("attempts=2 backoff=constant(1ms)"); err != nil {
		t.Fatal(err)
	}
	calls := 0
	_ = retry.Run(t.Context(), *current.Load(), func(context.Context) error {
		calls++
		_ = change("attempts=5") // for the next run
		return errDown
	})
	if calls != 2 {
		t.Errorf("%d calls, want the 2 of the policy that the run began with", calls)
	}
	if err := change("attempts=5 budget=earned"); err != nil || current.Load().Budget != budget {
		t.Errorf("error %v, budget %p; want %p, the shared one", err, current.Load().Budget, budget)
	}
	if err := change("attempts=many"); err == nil || current.Load().MaxAttempts != 5 {
		t.Errorf("error %v, policy %+v; want the last good one", err, current.Load())
	}
}

// Full jitter draws from zero on.
func TestAWaitMayBeZero(t *testing.T) {
	p := retry.Policy{Rand: func() float64 { return 0 }}
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_ = retry.Run(t.Context(), p, func(context.Context) error { return errDown })
		if took := time.Since(start); took != 0 {
			t.Errorf("took %v", took)
		}
	})
}

// With MaxElapsed alone there is no limit on attempts; with MaxAttempts both hold.
func TestAttemptsBesideMaxElapsed(t *testing.T) {
	if got := (retry.Policy{MaxElapsed: time.Minute}).AttemptLimit(); got < 1<<30 {
		t.Errorf("AttemptLimit() = %d, want none", got)
	}
	if got := (retry.Policy{}).AttemptLimit(); got != 3 {
		t.Errorf("AttemptLimit() = %d, want 3", got)
	}
}

// The code of docs/faq.md stands in this file, but for indentation.
func TestDocs(t *testing.T) {
	trim := func(s string) string {
		var lines []string
		for line := range strings.Lines(s) {
			lines = append(lines, strings.TrimSpace(line))
		}
		return strings.TrimSpace(strings.Join(lines, "\n"))
	}
	source, err := os.ReadFile("faq_test.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/faq.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	for i, part := range strings.Split(string(page), "```") {
		if code, ok := strings.CutPrefix(part, "go\n"); ok && i%2 == 1 {
			blocks++
			if !strings.Contains(trim(string(source)), trim(code)) {
				t.Errorf("stands in docs/faq.md alone:\n%s", code)
			}
		}
	}
	if blocks == 0 {
		t.Error("docs/faq.md has no code")
	}
}
