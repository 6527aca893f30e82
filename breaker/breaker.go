package breaker

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/internal/health"
	"github.com/goretry/retry/internal/readings"
)

// ErrOpen is the error with which a [Breaker] refuses an attempt. To [retry.DefaultClassifier] it
// is Unprocessed: nothing was sent. The error of a refusal has a method RetryAfter()
// time.Duration: see [Breaker.Enter].
var ErrOpen error = open(0)

// open is an ErrOpen with how long to wait.
type open time.Duration

func (open) Error() string               { return "the circuit is open, because most attempts have failed" } // without the time: texts of one kind are equal
func (open) Is(target error) bool        { return target == ErrOpen }
func (open) SafeToRetry() bool           { return true }           // nothing was sent
func (open) ErrorType() string           { return "breaker.open" } // the error.type of telemetry
func (e open) RetryAfter() time.Duration { return time.Duration(e) }

// Breaker is a circuit breaker for the attempts at one dependency: see the package documentation.
// It is a [retry.Guard]: set it in Policy.Guards, after those that have attempts wait. The zero
// value is closed and ready. Use it by pointer, one for all attempts at one dependency, and do not
// copy it after the first use. It is safe for concurrent use. A nil Breaker admits all attempts.
type Breaker struct {
	mu     sync.Mutex
	health health.Health
	share  health.Share
	clock  clockx.Clock   // of the latest attempt; nil: there was none
	random func() float64 // of the one that enters or leaves; nil means math/rand/v2
}

// mostProbation is how long a refused attempt waits at most for one that is tried: until that fails
// may be long, but if it succeeds, all may go.
const mostProbation = time.Second

// Enter admits the attempt, or refuses it. The run of a refused one makes its next attempt when the
// Breaker will be half-open, or after a second at most if another attempt is being tried, and not
// before its backoff. If the caller's deadline, Policy.MaxElapsed or Policy.MaxRetryAfter comes first,
// or that was the last of MaxAttempts, the run ends at once.
func (b *Breaker) Enter(_ context.Context, e retry.Entry) (retry.Pass, error) {
	if b == nil {
		return retry.Pass{}, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clock = e.Clock
	var now time.Time
	if !b.health.Well() { // else the time does not count, and reading a clock is half of the work
		now = readings.Clock(e.Clock).Now()
		if wait := b.health.Ready(now); wait > 0 {
			if b.health.Trying() {
				wait = min(wait, mostProbation)
			}
			return retry.Pass{}, open(wait)
		}
	}
	b.random = e.Rand
	pass := retry.Pass{Round: b.health.Start(now)}
	if e.Rand != nil {
		pass.Held = e.Rand
	}
	return pass, nil
}

// Leave counts an attempt that has ended:
//
//   - One that was not made, that its caller or another copy has ended, or that has panicked, is
//     not counted.
//   - A success, [retry.ErrRejected], a [retry.Answer] and a Permanent error are answers. The
//     dependency works.
//   - All else has failed: errors that are Transient, TimedOut, Throttled or Unprocessed, as a
//     refused connection is, those of [retry.Refuse], and whatever has taken until its deadline.
//
// One that was admitted while the Breaker is half-open, and does not end, counts as failed when as
// long has passed as the Breaker was open before. If it succeeds later, it closes the
// Breaker all the same. What began before the Breaker opened or closed does not open it, nor close it.
func (b *Breaker) Leave(p retry.Pass, x retry.Exit) {
	if b == nil {
		return
	}
	outcome := outcomeOf(x)
	now := readings.Clock(x.Clock).Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.health.Rule.Evidence == nil {
		b.health.Rule = health.Rule{Evidence: &b.share, Wait: b.wait, Hang: hang}
	}
	b.random, _ = p.Held.(func() float64)
	b.health.End(now, health.News{Ticket: p.Round, Outcome: outcome})
}

func outcomeOf(x retry.Exit) health.Outcome {
	v := &x.Verdict
	switch {
	case x.Ending != retry.Returned && x.Ending != retry.Expired:
		return health.Nothing
	case v.Err == nil, v.Answered, v.Class == retry.Permanent && !v.Refused:
		return health.Passed
	}
	return health.Failed
}

// wait returns how long b is open for the nth time since it was closed.
func (b *Breaker) wait(n int, _ time.Duration) time.Duration {
	random := b.random
	if random == nil {
		random = rand.Float64
	}
	return time.Duration((.8 + .4*random()) * float64(health.Hold(n, 0)))
}

// hang is how long an attempt that does not end keeps others away: as long again as b was open, and then the next wait.
func hang(wait, next time.Duration) time.Duration { return wait + next }

// Open returns how long it is until the next attempt may start: 0 if the Breaker is closed, or half-open
// and trying none. While an attempt is tried, that is how long it has until it counts as failed, and
// the wait after that.
func (b *Breaker) Open() (wait time.Duration) {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	clock := b.clock
	b.mu.Unlock()
	now := readings.Clock(clock).Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.health.Ready(now)
}
