package pace_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
)

// longTests says that tests may take minutes: RETRY_LONG is 1, as CI sets it.
var longTests = os.Getenv("RETRY_LONG") == "1"

var (
	errFlaky = errors.New("flaky")
	errFull  = errors.New("full")
	epoch    = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

// status is the error of a server that answers with a status.
type status int

func (s status) Error() string   { return fmt.Sprintf("status %d", int(s)) }
func (s status) StatusCode() int { return int(s) }

// virtual returns a policy on a virtual clock, without random numbers.
func virtual() (retry.Policy, *clockx.Virtual) {
	v := clockx.NewVirtual(epoch)
	return retry.Policy{Clock: v, MaxAttempts: 5, Backoff: retry.Exponential{Base: time.Second, Jitter: retry.NoJitter}, Rand: func() float64 { return 0 }}, v
}

// events is what hooks saw, in order.
type events struct {
	words   []string
	waits   []retry.Attempt
	held    []retry.Held
	summary retry.Summary
}

func (e *events) String() string { return strings.Join(e.words, " ") }

// record makes p's hooks write down what they see.
func record(p *retry.Policy) *events {
	e := new(events)
	add := func(format string, args ...any) { e.words = append(e.words, fmt.Sprintf(format, args...)) }
	p.Hooks = retry.Hooks{
		Start:       func(ctx context.Context, _ retry.Policy) context.Context { add("start"); return ctx },
		Attempt:     func(ctx context.Context, a retry.Attempt) context.Context { add("attempt(%d)", a.Number); return ctx },
		AttemptDone: func(_ context.Context, a retry.Attempt) { add("attemptDone(%d)", a.Number) },
		Wait:        func(_ context.Context, a retry.Attempt) { e.waits = append(e.waits, a) },
		Guard: func(_ context.Context, h retry.Held) {
			add("guard(%v)", h.Delay)
			e.held = append(e.held, h)
		},
		Done: func(_ context.Context, s retry.Summary) {
			add("done(%v)", s.Reason)
			e.summary = s
		},
	}
	return e
}

// strict is a budget that refuses all.
type strict struct {
	asked, ended int
	retried      retry.Class
}

func (b *strict) Withdraw(retry.Withdrawal) bool { b.asked++; return false }
func (b *strict) End(o retry.Outcome)            { b.ended++; b.retried = o.Retried }

// places are those of a limit.
type places chan struct{}

func (p places) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	select {
	case p <- struct{}{}:
		return retry.Pass{}, nil
	default:
		return retry.Pass{}, errFull
	}
}

func (p places) Leave(retry.Pass, retry.Exit) { <-p }

// closed refuses all, and ends their runs.
type closed struct{}

func (closed) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	return retry.Pass{}, retry.Stop(errFull)
}

func (closed) Leave(retry.Pass, retry.Exit) {}
