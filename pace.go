package retry

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/internal/pacing"
	"github.com/goretry/retry/internal/timers"
)

// Pace holds attempts back while a server refuses them for their number. Share one
// among all calls that count against the same quota: a key, an account, a model. A Pace
// for calls with different quotas is worse than none, since one of them slows down the
// others.
//
// A Pace is open until attempts are [Throttled]: then an attempt costs one atomic load.
// After the first throttled attempt it counts. If two more, and at least an eighth of
// all, are throttled, it lets attempts start one by one, retries before first attempts,
// otherwise in the order in which they came. Its rate falls with the part of the recent
// attempts that was throttled, and grows while attempts wait, faster if it has lost more
// than half within the last half minute. If that part is a quarter or more, a server's
// hint holds all attempts for as long, but for at most a minute, and a random part of up
// to a quarter longer. After ten seconds in which none waited and none was throttled,
// and the time of eight attempts more, a Pace is open again. If one is throttled within
// five minutes, the Pace goes on at once, at the rate that it had.
//
// An attempt whose turn would take more than half of the time until the caller's
// deadline or the end of Policy.MaxElapsed does not wait: its run ends with [ErrPaced].
// So does one whose turn has not come when MaxElapsed ends.
//
// The zero Pace is ready. It must not be copied after the first use. A nil *Pace holds
// nothing back. A Pace is safe for concurrent use.
type Pace struct {
	// Clock measures waits. Nil means clockx.System(). Give it the policies' clock.
	Clock clockx.Clock

	active atomic.Bool // the pacer is not open
	mu     sync.Mutex
	pacer  pacing.Pacer[chan struct{}]
}

// turn is an attempt that waits under a Pace, or has started there. Its owner gets an
// element when it has become the first of the queue.
type turn = pacing.Turn[chan struct{}]

// Rate returns how many attempts of average cost start in a second: +Inf while p is
// open or nil.
func (p *Pace) Rate() float64 {
	if p.open() {
		return math.Inf(1)
	}
	now := p.clock().Now()
	p.mu.Lock()
	defer p.unlock()
	return p.pacer.Rate(now)
}

// Wait returns how long a first attempt that comes now has to wait, as far as that is
// known: 0 while p is open or nil.
func (p *Pace) Wait() time.Duration {
	if p.open() {
		return 0
	}
	now := p.clock().Now()
	p.mu.Lock()
	defer p.unlock()
	return p.pacer.Wait(now)
}

// Hold lets no attempt start for d, but for at most a minute, and then those that have
// come meanwhile one by one. Call it if the server says with a success that the quota is
// used up. Package retryhttp does that for Transport.PaceByHeaders. A nil p ignores it,
// and so does every Pace if d is zero or negative.
func (p *Pace) Hold(d time.Duration) {
	if p == nil {
		return
	}
	now := p.clock().Now()
	p.mu.Lock()
	defer p.unlock()
	p.pacer.Hold(now, d)
}

// ErrPaced is in the [Error] of a run that has ended because its turn under a [Pace]
// would have come too late. It is Unprocessed: nothing was sent.
var ErrPaced error = errPaced{}

type errPaced struct{}

func (errPaced) Error() string     { return "retry: its turn would come too late" }
func (errPaced) ErrorType() string { return "retry.paced" } // the error.type of telemetry
func (errPaced) SafeToRetry() bool { return true }

// latePace is the cause of a run that ended with ErrPaced.
type latePace struct {
	errPaced
	wait time.Duration // 0: it has waited for as long as it may
}

func (e latePace) Error() string {
	if e.wait == 0 {
		return "its turn has not come"
	}
	return "its turn would come in " + brief(e.wait).String()
}
func (e latePace) Is(target error) bool { return target == ErrPaced }

// paced reports whether the run ended because its next turn would have come too late.
func (e *Error) paced() bool {
	_, ok := e.Cause.(latePace)
	return ok
}

type costKey struct{}

// WithCost returns a context whose calls cost so much under a [Pace]: one with twice the
// average cost takes twice the time. The unit is any, such as the tokens of a prompt,
// but must be the same for all calls of a Pace. Calls without a cost, or with one that
// is not positive or not finite, count as the average. WithCost panics if ctx is nil.
func WithCost(ctx context.Context, cost float64) context.Context {
	return context.WithValue(ctx, costKey{}, cost)
}

func (p *Pace) clock() clockx.Clock {
	if p.Clock == nil {
		return clockx.System()
	}
	return p.Clock
}

// open reports whether an attempt may start without a turn. It belongs to no round then:
// what becomes of it says nothing about a later rate.
func (p *Pace) open() bool { return p == nil || !p.active.Load() }

// unlock publishes whether p is open.
func (p *Pace) unlock() {
	if active := !p.pacer.Open(); active != p.active.Load() { // else the cores that only read it go on sharing it
		p.active.Store(active)
	}
	p.mu.Unlock()
}

// enter returns the turn of an attempt, and how long it is expected to wait: if that is
// not 0, await follows. If it is longer than patience, enter returns no turn. Who has a
// turn makes the attempt, or calls abandon.
func (p *Pace) enter(ctx context.Context, retry bool, patience time.Duration) (t *turn, wait time.Duration) {
	t = &turn{Owner: make(chan struct{}, 1), Retry: retry}
	t.Cost, _ = ctx.Value(costKey{}).(float64)
	now := p.clock().Now()
	p.mu.Lock()
	defer p.unlock()
	wait, ok := p.pacer.Enter(now, t, patience)
	if !ok {
		return nil, wait
	}
	return t, wait
}

// await waits until t starts, but not after done is closed, the Done of ctx, and not for
// longer than rest: then t may still wait. It returns an error if p.Clock cannot sleep.
// With the system's clock no code of others is called.
func (p *Pace) await(ctx context.Context, done <-chan struct{}, t *turn, rest time.Duration) error {
	var late <-chan struct{}
	if rest < math.MaxInt64 {
		limit, cancel := p.clock().WithTimeoutCause(context.Background(), rest, nil)
		defer cancel()
		late = limit.Done()
	}
	end := p.clock().Now().Add(rest)
	for {
		rest = end.Sub(p.clock().Now())
		if rest <= 0 { // before t starts: a turn that nobody takes would delay the others
			return nil
		}
		switch wait := p.ready(t); {
		case wait == 0:
			return nil
		case wait == pacing.Never:
			select {
			case <-t.Owner:
			case <-done:
			case <-late:
				return nil
			}
		case p.onSystemClock(): // the first sleeps, and only it: the others' waits depend on what it learns
			timers.Sleep(done, min(wait, rest))
		default:
			if err := p.Clock.Sleep(ctx, min(wait, rest)); err != nil {
				return err
			}
		}
		select {
		case <-done:
			return nil
		default:
		}
	}
}

func (p *Pace) onSystemClock() bool { return p.Clock == nil || p.Clock == clockx.System() }

func (p *Pace) ready(t *turn) time.Duration {
	now := p.clock().Now()
	p.mu.Lock()
	defer p.unlock()
	wait := p.pacer.Ready(now, t)
	if wait == 0 {
		p.wakeFirst()
	}
	return wait
}

// abandon ends a turn whose attempt was not made.
func (p *Pace) abandon(t *turn) {
	p.mu.Lock()
	defer p.unlock()
	if !t.Waits() {
		p.pacer.Return(t)
		return
	}
	p.pacer.Leave(t)
	p.wakeFirst()
}

func (p *Pace) wakeFirst() {
	if t := p.pacer.First(); t != nil {
		select {
		case t.Owner <- struct{}{}:
		default: // it has not yet seen that it is the first
		}
	}
}

// throttled notes that an attempt was throttled, with the round of its turn, 0 if it had
// none.
func (p *Pace) throttled(round uint64, hint time.Duration) {
	now := p.clock().Now()
	p.mu.Lock()
	defer p.unlock()
	p.pacer.Throttled(now, round, hint)
}
