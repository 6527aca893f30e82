package retryqueue_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryqueue"
)

// A server's wait never kills a message, unless MaxRetryAfter is set. Marks, NonIdempotent and the
// number of deliveries go first.
func TestAServersWaitKillsNoMessage(t *testing.T) {
	asks := func(d time.Duration) error { return retry.After(errDown, d) }
	gaveUp := &retry.Error{Reason: retry.ReasonRetryAfter, Attempts: 1, Errs: []error{asks(10 * time.Minute)}}
	for _, tt := range []struct {
		name   string
		err    error
		edit   func(p *retry.Policy, m *retryqueue.Delivery)
		action retryqueue.Action
		delay  time.Duration
		reason retry.Reason
	}{
		{"ten minutes", asks(10 * time.Minute), nil, retryqueue.Retry, 10*time.Minute + time.Second, 0},
		{"of an inner run", gaveUp, nil, retryqueue.Retry, 10*time.Minute + time.Second, 0},
		{"of an inner run, wrapped", fmt.Errorf("x: %w", gaveUp), nil, retryqueue.Retry, 10*time.Minute + time.Second, 0},
		{"a day", asks(24 * time.Hour), nil, retryqueue.Retry, 12 * time.Hour, 0},
		{"a hair below twelve hours", asks(12*time.Hour - 1), nil, retryqueue.Retry, 12 * time.Hour, 0},
		{"a refusal's", retry.Refuse(asks(10 * time.Minute)), nil, retryqueue.Retry, 10*time.Minute + time.Second, 0},
		{"beyond MaxElapsed", asks(time.Hour), func(p *retry.Policy, m *retryqueue.Delivery) {
			p.MaxElapsed, m.Stored = 30*time.Minute, now.Add(-20*time.Minute)
		},
			retryqueue.Retry, 10 * time.Minute, 0},
		{"after MaxElapsed", asks(time.Hour), func(p *retry.Policy, m *retryqueue.Delivery) {
			p.MaxElapsed, m.Stored = 30*time.Minute, now.Add(-30*time.Minute)
		},
			retryqueue.Dead, 0, retry.ReasonMaxElapsed},
		{"a day, within a longer MaxElapsed", asks(24 * time.Hour), func(p *retry.Policy, _ *retryqueue.Delivery) {
			p.MaxElapsed = 13 * time.Hour
		},
			retryqueue.Retry, 12 * time.Hour, 0},
		{"the end of MaxElapsed is far", asks(24 * time.Hour), func(p *retry.Policy, _ *retryqueue.Delivery) {
			p.Backoff, p.MaxElapsed = retry.Constant(60*time.Hour), 50*time.Hour
		}, retryqueue.Retry, 12 * time.Hour, 0},
		{"a second, before a long backoff", asks(time.Second), func(p *retry.Policy, _ *retryqueue.Delivery) { p.Backoff = retry.Constant(20 * time.Hour) },
			retryqueue.Retry, 20 * time.Hour, 0},
		{"a second, before a long backoff, with an empty budget", asks(time.Second), func(p *retry.Policy, _ *retryqueue.Delivery) {
			p.Backoff, p.Budget = retry.Constant(20*time.Hour), &ledger{refuse: true}
		}, retryqueue.Retry, 40*time.Hour + time.Second, 0},
		{"MaxRetryAfter", asks(10 * time.Minute), func(p *retry.Policy, _ *retryqueue.Delivery) { p.MaxRetryAfter = time.Minute }, retryqueue.Dead, 0, retry.ReasonRetryAfter},
		{"the last delivery", asks(10 * time.Minute), func(_ *retry.Policy, m *retryqueue.Delivery) { m.Number = 3 }, retryqueue.Dead, 0, retry.ReasonMaxAttempts},
		{"NonIdempotent", asks(10 * time.Minute), func(p *retry.Policy, _ *retryqueue.Delivery) { p.NonIdempotent = true }, retryqueue.Dead, 0, retry.ReasonNotIdempotent},
		{"Stop", retry.Stop(asks(10 * time.Minute)), nil, retryqueue.Dead, 0, retry.ReasonPermanent},
		{"an empty budget", asks(10 * time.Minute), func(p *retry.Policy, _ *retryqueue.Delivery) { p.Budget = &ledger{refuse: true} }, retryqueue.Retry, 20*time.Minute + 3*time.Second, 0},
		{"an empty budget, a day", asks(24 * time.Hour), func(p *retry.Policy, _ *retryqueue.Delivery) { p.Budget = &ledger{refuse: true} }, retryqueue.Retry, 12 * time.Hour, 0},
	} {
		p := retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(time.Second), Rand: func() float64 { return 0 }}
		m := retryqueue.Delivery{Number: 1, Stored: now, Now: now}
		if tt.edit != nil {
			tt.edit(&p, &m)
		}
		d := m.After(p, tt.err)
		var reason retry.Reason
		if d.Err != nil && d.Action == retryqueue.Dead {
			reason = d.Err.Reason
		}
		if d.Action != tt.action || d.Delay != tt.delay || reason != tt.reason {
			t.Errorf("%s: %v after %v, %v; want %v after %v, %v", tt.name, d.Action, d.Delay, d.Err, tt.action, tt.delay, tt.reason)
		}
	}
}

// "Not yet" is no failure: it costs no delivery and no token, and ends with MaxElapsed, or after a day.
func TestNotYet(t *testing.T) {
	notYet := retry.ErrRejected
	polled := &retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 3, Errs: []error{notYet}}
	for _, tt := range []struct {
		name      string
		err       error
		edit      func(p *retry.Policy, m *retryqueue.Delivery)
		action    retryqueue.Action
		delay     time.Duration
		uncounted bool
		reason    retry.Reason
	}{
		{"first", notYet, nil, retryqueue.Retry, 2 * time.Second, true, 0},
		{"wrapped", fmt.Errorf("the report is not ready: %w", notYet), nil, retryqueue.Retry, 2 * time.Second, true, 0},
		{"joined", errors.Join(errDown, notYet), nil, retryqueue.Retry, 2 * time.Second, true, 0},
		{"by its age", notYet, age(30 * time.Second), retryqueue.Retry, 32 * time.Second, true, 0}, // 2, 4, 8, 16
		{"between two waits", notYet, age(29 * time.Second), retryqueue.Retry, 16 * time.Second, true, 0},
		{"whatever its number", notYet, func(_ *retry.Policy, m *retryqueue.Delivery) { m.Number = 99 }, retryqueue.Retry, 2 * time.Second, true, 0},
		{"of no backoff", notYet, func(p *retry.Policy, _ *retryqueue.Delivery) { p.Backoff = retry.Constant(0) }, retryqueue.Retry, time.Second, true, 0},
		{"after", retry.After(notYet, time.Minute), age(30 * time.Second), retryqueue.Retry, time.Minute + 2*time.Second, true, 0},
		{"after, whatever its number", retry.After(notYet, time.Minute), func(_ *retry.Policy, m *retryqueue.Delivery) { m.Number = 99 }, retryqueue.Retry, time.Minute + 2*time.Second, true, 0},
		{"by its age, with jitter", notYet, func(p *retry.Policy, m *retryqueue.Delivery) {
			p.Backoff, p.Rand = retry.Exponential{Base: time.Minute, Max: time.Hour}, func() float64 { return .5 }
			m.Stored = now.Add(-2 * time.Minute) // 30 s, one minute, two
		}, retryqueue.Retry, 2 * time.Minute, true, 0},
		{"by its age, with the default", notYet, func(p *retry.Policy, m *retryqueue.Delivery) {
			p.Backoff, p.Rand = nil, func() float64 { return .5 }
			m.Stored = now.Add(-time.Hour)
		}, retryqueue.Retry, 10 * time.Second, true, 0},
		{"an empty budget", notYet, func(p *retry.Policy, _ *retryqueue.Delivery) { p.Budget = &ledger{refuse: true} }, retryqueue.Retry, 2 * time.Second, true, 0},
		{"of an old message, with short waits", notYet, func(p *retry.Policy, m *retryqueue.Delivery) { // at once
			p.Backoff, p.MaxElapsed, m.Stored = retry.Constant(0), math.MaxInt64, now.AddDate(-200, 0, 0)
		}, retryqueue.Retry, time.Second, true, 0},
		{"after a day", notYet, age(24 * time.Hour), retryqueue.Dead, 0, false, retry.ReasonMaxElapsed},
		{"after a day, of an unknown number", notYet, func(_ *retry.Policy, m *retryqueue.Delivery) {
			m.Number, m.Stored = 0, now.Add(-24*time.Hour)
		}, retryqueue.Dead, 0, false, retry.ReasonMaxElapsed},
		{"MaxElapsed", notYet, func(p *retry.Policy, m *retryqueue.Delivery) {
			p.MaxElapsed, m.Stored = time.Minute, now.Add(-59*time.Second)
		}, retryqueue.Dead, 0, false, retry.ReasonMaxElapsed},
		{"a longer MaxElapsed", notYet, func(p *retry.Policy, m *retryqueue.Delivery) {
			p.MaxElapsed, m.Stored = 100*time.Hour, now.Add(-24*time.Hour)
		}, retryqueue.Retry, 64 * time.Second, true, 0},
		{"the queue counts", notYet, func(_ *retry.Policy, m *retryqueue.Delivery) { m.Number, m.Counted = 2, true }, retryqueue.Retry, 2 * time.Second, true, 0},
		{"the queue counts, the last", notYet, func(_ *retry.Policy, m *retryqueue.Delivery) { m.Number, m.Counted = 3, true }, retryqueue.Dead, 0, false, retry.ReasonMaxAttempts},
		{"the queue counts, no limit", notYet, func(p *retry.Policy, m *retryqueue.Delivery) {
			m.Number, m.Counted, p.MaxAttempts = 99, true, retry.Unlimited
		}, retryqueue.Retry, 2 * time.Second, true, 0},
		{"Stop", retry.Stop(notYet), nil, retryqueue.Dead, 0, false, retry.ReasonPermanent},
		{"Answer", retry.Answer(notYet), nil, retryqueue.Ack, 0, false, 0},
		{"a run that gave up polling", polled, nil, retryqueue.Retry, 2 * time.Second, false, 0},
		{"a failure", errDown, nil, retryqueue.Retry, 2 * time.Second, false, 0},
	} {
		p := retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: 2 * time.Second, Max: 64 * time.Second, Jitter: retry.NoJitter}, Rand: func() float64 { return 0 }}
		m := retryqueue.Delivery{Number: 1, Stored: now, Now: now}
		if tt.edit != nil {
			tt.edit(&p, &m)
		}
		d := m.After(p, tt.err)
		var reason retry.Reason
		if d.Err != nil {
			reason = d.Err.Reason
		}
		if d.Action != tt.action || d.Delay != tt.delay || d.Uncounted != tt.uncounted || reason != tt.reason {
			t.Errorf("%s: %v after %v, uncounted %v, %v; want %v after %v, %v, %v", tt.name, d.Action, d.Delay, d.Uncounted, d.Err, tt.action, tt.delay, tt.uncounted, tt.reason)
		}
		if b, ok := p.Budget.(*ledger); ok && len(b.asked) > 0 {
			t.Errorf("%s: the budget was asked", tt.name)
		}
		if d.Action == retryqueue.Dead && (d.Err.Attempts != max(m.Number, 1) || d.Err.Last() == nil || errors.Is(d.Err, retryqueue.ErrCrashed)) {
			t.Errorf("%s: the dead letter says %+v", tt.name, d.Err)
		}
	}
}

func age(d time.Duration) func(*retry.Policy, *retryqueue.Delivery) {
	return func(_ *retry.Policy, m *retryqueue.Delivery) { m.Stored = now.Add(-d) }
}
