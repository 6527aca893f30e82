package retry

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/internal/pacing"
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
// A Pace is a [Guard]: set it in Policy.Guards, before those that hold a place. An attempt
// whose turn would take more than half of the time until the caller's deadline or the end of
// Policy.MaxElapsed does not wait: its run ends with [ErrPaced]. So does one whose turn has not
// come when MaxElapsed ends. While a Pace is open, and no other guard is in the policy, its
// Enter is not called. A Guard around a Pace costs a little more, and must have the method
// Paces too.
//
// The zero Pace is ready. It must not be copied after the first use. A nil *Pace holds
// nothing back. A Pace is safe for concurrent use.
type Pace struct {
	// Clock measures time. Nil means the clock of the first policy that uses the Pace.
	Clock clockx.Clock

	first  atomic.Pointer[clockx.Clock] // of the first policy that had one, if Clock is nil
	active atomic.Bool                  // the pacer is not open
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

// Hold lets no attempt start for d, or for a minute if d is longer, and for up to a quarter
// more, at random, so that not all processes go on at once. Then it lets those that have
// come meanwhile start one by one. Call it if the server says with a success that the quota
// is used up. Package retryhttp does that for Transport.PaceByHeaders. A nil p ignores it,
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

// ErrPaced is the Cause of an [Error] with [ReasonGuard] if a guard, such as a [Pace], would
// have admitted the next attempt too late. It is Unprocessed: nothing was sent.
var ErrPaced error = errPaced{}

type errPaced struct{}

func (errPaced) Error() string     { return "retry: its turn would come too late" }
func (errPaced) ErrorType() string { return "retry.paced" } // the error.type of telemetry
func (errPaced) SafeToRetry() bool { return true }

// latePace is an ErrPaced that says how long the wait would have been.
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

type costKey struct{}

// WithCost returns a context whose calls cost so much under a [Pace]: one with twice the
// average cost takes twice the time. The unit is any, such as the tokens of a prompt,
// but must be the same for all calls of a Pace. Calls without a cost, or with one that
// is not positive or not finite, count as the average. WithCost panics if ctx is nil.
func WithCost(ctx context.Context, cost float64) context.Context {
	return context.WithValue(ctx, costKey{}, cost)
}

func (p *Pace) clock() clockx.Clock {
	if p.Clock != nil {
		return p.Clock
	}
	if first := p.first.Load(); first != nil {
		return *first
	}
	return clockx.System()
}

// on makes clock, a policy's, the one of p if p has none.
func (p *Pace) on(clock clockx.Clock) {
	if p.Clock == nil && clock != clockx.System() && p.first.Load() == nil {
		first := clock // or each call would allocate
		p.first.CompareAndSwap(nil, &first)
	}
}

// open reports whether an attempt may start without a turn. It belongs to no round then:
// what becomes of it says nothing about a later rate.
func (p *Pace) open() bool { return p == nil || !p.active.Load() }

// openOn is open for a policy on clock, nil for the system's.
func (p *Pace) openOn(clock clockx.Clock) bool {
	if clock != nil && p != nil {
		p.on(clock) // even if it is not entered: it may be held
	}
	return p.open()
}

// unlock publishes whether p is open.
func (p *Pace) unlock() {
	if active := !p.pacer.Open(); active != p.active.Load() { // else the cores that only read it go on sharing it
		p.active.Store(active)
	}
	p.mu.Unlock()
}

// Paces reports that p limits the retries that follow a Throttled attempt, so that a
// Policy.Budget need not.
func (p *Pace) Paces() bool { return p != nil }

// Enter gives the attempt a turn. See [Guard].
func (p *Pace) Enter(ctx context.Context, e Entry) (Pass, error) {
	t, waits := e.Earlier.Held.(*turn)
	switch {
	case waits:
		return p.again(t), nil
	case p.open():
		return Pass{}, nil
	}
	p.on(e.Clock)
	patience := e.Patience
	if patience < math.MaxInt64 {
		patience /= 2
	}
	t = &turn{Owner: make(chan struct{}, 1), Retry: e.Number > 1}
	t.Cost, _ = ctx.Value(costKey{}).(float64)
	now := p.clock().Now()
	p.mu.Lock()
	defer p.unlock()
	wait, ok := p.pacer.Enter(now, t, patience)
	if !ok {
		return Pass{}, Stop(latePace{wait: wait})
	}
	if wait > 0 {
		return p.waiting(now, t, wait), nil
	}
	return Pass{Held: t, Round: t.Round}, nil
}

// again looks whether t, which waits, may start.
func (p *Pace) again(t *turn) Pass {
	now := p.clock().Now()
	p.mu.Lock()
	defer p.unlock()
	if wait := p.pacer.Ready(now, t); wait > 0 {
		return p.waiting(now, t, wait)
	}
	p.wakeFirst()
	return Pass{Held: t, Round: t.Round}
}

// waiting returns the Pass of a turn that waits. The first of the queue sleeps, and only it:
// the others' waits depend on what it learns.
func (p *Pace) waiting(now time.Time, t *turn, wait time.Duration) Pass {
	pass := Pass{Wait: wait, Again: true, Held: t}
	if p.pacer.First() != t {
		pass.wake = t.Owner
	}
	if wait == pacing.Never { // it is not known how long
		pass.Wait = 1
	}
	return pass
}

// Leave learns from what has become of the attempt. See [Guard].
func (p *Pace) Leave(pass Pass, x Exit) {
	switch t, has := pass.Held.(*turn); {
	case p == nil:
	case x.Ending != NotMade && x.Verdict.Class == Throttled:
		p.throttled(pass.Round, x)
	case x.Ending == NotMade && has:
		p.abandon(t)
	}
}

// abandon ends a turn whose attempt was not made. It reads no clock, which may panic: then the
// turn would be lost.
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

// throttled notes that an attempt was throttled, with the round of its turn, 0 if it had
// none.
func (p *Pace) throttled(round uint64, x Exit) {
	p.on(x.Clock)
	now := p.clock().Now()
	p.mu.Lock()
	defer p.unlock()
	p.pacer.Throttled(now, round, x.Verdict.Hint)
}

func (p *Pace) wakeFirst() {
	if t := p.pacer.First(); t != nil {
		select {
		case t.Owner <- struct{}{}:
		default: // it has not yet seen that it is the first
		}
	}
}
