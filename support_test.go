package retry_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
)

// longTests says that tests may take minutes: RETRY_LONG is 1, as CI sets it.
var longTests = os.Getenv("RETRY_LONG") == "1"

// events is what hooks saw, in order.
type events struct {
	mu       sync.Mutex
	words    []string
	attempts []retry.Attempt // as AttemptDone saw them
	waits    []retry.Attempt
	held     []retry.Held
	begun    []retry.Attempt // as Attempt saw them
	summary  retry.Summary
}

func (e *events) add(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.words = append(e.words, fmt.Sprintf(format, args...))
}

func (e *events) String() string { return strings.Join(e.words, " ") }

// record makes p's hooks write down what they see, before those it has.
func record(p *retry.Policy) *events {
	e := new(events)
	p.Hooks = retry.JoinHooks(retry.Hooks{
		Start: func(ctx context.Context, _ retry.Policy) context.Context {
			e.add("start")
			return ctx
		},
		Attempt: func(ctx context.Context, a retry.Attempt) context.Context {
			e.add("attempt(%d)", a.Number)
			e.begun = append(e.begun, a)
			return ctx
		},
		AttemptDone: func(_ context.Context, a retry.Attempt) {
			e.add("attemptDone(%d)", a.Number)
			e.attempts = append(e.attempts, a)
		},
		Wait: func(_ context.Context, a retry.Attempt) {
			e.add("wait(%v)", a.Delay)
			e.waits = append(e.waits, a)
		},
		Guard: func(_ context.Context, h retry.Held) {
			e.add("guard(%v)", h.Delay)
			e.held = append(e.held, h)
		},
		Done: func(_ context.Context, s retry.Summary) {
			e.add("done(%v)", s.Reason)
			e.summary = s
		},
	}, p.Hooks)
	return e
}

// countingBudget counts what it is told.
type countingBudget struct {
	refuse       bool
	ended, asked int
	retried      retry.Class
	ok           bool
}

// counting gives p a budget that counts, and grants all.
func counting(p *retry.Policy) *countingBudget {
	b := new(countingBudget)
	p.Budget = b
	return b
}

func (b *countingBudget) Withdraw(retry.Withdrawal) bool {
	b.asked++
	return !b.refuse
}

func (b *countingBudget) End(o retry.Outcome) {
	b.ended++
	b.retried, b.ok = o.Retried, o.OK
}

func works(context.Context) error { return nil }

// failFirst returns an op that fails once.
func failFirst(err error) func(context.Context) error {
	return func(context.Context) (now error) {
		now, err = err, nil
		return now
	}
}

// sleepless cannot sleep.
type sleepless struct {
	clockx.Clock
	err error
}

func (s sleepless) Sleep(context.Context, time.Duration) error { return s.err }

// limited returns a context that ends after limit on a clock, or with the test. Zero is no limit.
func limited(t *testing.T, clock clockx.Clock, limit time.Duration) context.Context {
	if limit == 0 {
		return t.Context()
	}
	ctx, cancel := clock.WithTimeoutCause(t.Context(), limit, nil)
	t.Cleanup(cancel)
	return ctx
}
