// Package pace holds attempts back while a server refuses them for their number: see [Pace], a
// [retry.Guard] like any other.
package pace

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/internal/paced"
	"github.com/goretry/retry/internal/pacing"
	"github.com/goretry/retry/internal/readings"
)

// Pace holds attempts back while a server refuses them for their number. Share one
// among all calls that count against the same quota: a key, an account, a model. A Pace
// for calls with different quotas is worse than none, since one of them slows down the
// others. If one model of ten has no quota left, most calls for the others fail under one Pace that
// learns, and none if each model has its own: see [retry.PerKey].
//
// If you know the quota, set Quota, Per and Burst. Attempts then start at that rate, from the first
// one on. The quota is that of this process alone, unless [Pace.Share] shares it with others. One
// throttled attempt makes only its own run wait. If half of at least four within two seconds are
// throttled, the server's hint holds all, for at most 75 seconds. A wrong number is not corrected:
// [Pace.Status] shows it.
//
// Without a Quota a Pace learns, unless the server states it: see [Pace.Tell]. It is open until
// attempts are [retry.Throttled]: then it takes no lock. With the first throttled attempt it begins
// to count. When two more, and an eighth of those of the last ten seconds, are throttled, it lets
// attempts start one by one, at the rate at which they passed. The rate falls with the part of the
// recent attempts that is throttled, and grows while attempts wait, faster if it has lost more than
// half within the last half minute, or while the server refused all.
//
// Some attempts may be throttled whatever the rate is, say one in ten, and their retries no more
// often than others. If cuts do not help, a Pace that lets more than four attempts start per second
// tries half of the rate. If the same part is throttled there, that part does not count for some
// time, and the rate comes back.
//
// If more than a quarter of the recent attempts is throttled, a server's hint holds all attempts
// for as long, but for at most a minute, and a random part of up to a quarter longer. After ten
// seconds in which none waited and none was throttled, and the time of eight attempts more, a
// Pace is open again. If one is throttled within five minutes, the Pace goes on at once, at the
// rate that it had.
//
// With and without a Quota, attempts that have less time until their deadline start first: up to 8
// seconds, two minutes, half an hour, or more; of those with as much time, retries before first
// attempts. But every fifth turn goes to who came first, so a backlog and callers who wait for an
// answer can share a Pace.
//
// A Pace is a [retry.Guard]: set it in Policy.Guards, before those that hold a place. An attempt
// whose turn would take more than half of the time until the caller's deadline or the end of
// Policy.MaxElapsed does not wait: ten milliseconds later its run ends with [retry.ErrPaced]. One
// that waits ends so when it learns that its turn comes too late. A turn whose attempt a later guard refuses
// is used up; one that is not used for another reason goes to the next attempt.
//
// A retry that follows a Throttled attempt under a Pace takes nothing from Policy.Budget. A
// Guard around a Pace returns its Pass unchanged.
//
// The zero Pace is ready. It must not be copied after the first use. A nil *Pace holds
// nothing back. A Pace is safe for concurrent use.
type Pace struct {
	// Quota is how many attempts may start in Per, each at its cost: see [WithCost]. Zero means that
	// the quota is learned. If it is negative or not finite, or less than one in thirty years or more
	// than 1e9 in a second, no attempt is made: each run ends with an error that says so.
	Quota float64

	// Per is the time of Quota: a second if it is zero. A negative one is as bad as a negative Quota.
	Per time.Duration

	// Burst is how many attempts may start at once after a pause. Less than one means one: a server that
	// counts in a window, or whose bucket you do not know, may refuse more. One that is negative
	// or not finite is as bad as a negative Quota.
	Burst float64

	// Clock measures time. Nil means the clock of the first policy that uses the Pace.
	Clock clockx.Clock

	first  atomic.Pointer[origin] // of the first policies that had their own
	active atomic.Bool            // the pacer is not open
	mu     sync.Mutex
	pacer  pacing.Pacer[chan struct{}]
	ready  bool  // the pacer knows Quota
	bad    error // what is wrong with Quota, Per or Burst

	shared    bool          // Share runs
	tell      chan struct{} // gets an element when Share is to look
	err       error         // of the latest exchange with the store
	exchanges uint64
}

// pause is what a refused attempt takes at most, so that a loop of calls which are refused
// cannot spin.
const pause = 10 * time.Millisecond

// origin is where the time and the chance of a Pace come from. Nil means the system's.
type origin struct {
	clock clockx.Clock
	rand  func() float64
}

// turn is an attempt that waits under a Pace, or has started there. Its owner gets an
// element when it has become the first of the queue.
type turn = pacing.Turn[chan struct{}]

// Rate returns how many attempts of average cost, or units of Quota, start in a second: +Inf while
// p is open or nil.
func (p *Pace) Rate() float64 {
	if p.open() {
		return math.Inf(1)
	}
	now := p.lock()
	defer p.unlock()
	if p.bad != nil {
		return 0
	}
	return p.pacer.Rate(now)
}

// Wait returns how long a first attempt of average cost, or of one unit of Quota, that comes now has
// to wait, as far as that is known: 0 while p is open or nil.
func (p *Pace) Wait() time.Duration {
	if p.open() {
		return 0
	}
	now := p.lock()
	defer p.unlock()
	return p.pacer.Wait(now)
}

// Hold lets no attempt start for d, or for a minute if d is longer, and for up to a quarter
// more, at random, so that not all processes go on at once. Then it lets those that have
// come meanwhile start one by one. With a Quota it is 75 seconds at most, without a random part, and
// with [Pace.Share] the store delays the slots of all. The random part is Policy.Rand's, of the first
// policy that has one. Call it if the server says with a success that the quota is used up. Package
// retryhttp does that for Transport.PaceByHeaders. A nil p ignores it, and so does every Pace if d is
// zero or negative.
func (p *Pace) Hold(d time.Duration) {
	if p == nil {
		return
	}
	now := p.lock()
	defer p.unlock()
	p.chance()
	p.pacer.Hold(now, d)
}

// Tell says what a server states of its quota with a success: how many attempts may start in per, and
// how many of them remain now, which may start at once. If p has no Quota, it keeps this one. If
// a twentieth of about the last minute's attempts, twenty or more, are throttled all the same, others
// use the quota too, or it is another one: then p learns from that on, and ignores Tell. It also
// ignores numbers that make no sense. A nil p ignores all. Package retryhttp calls Tell for
// Transport.PaceByHeaders.
func (p *Pace) Tell(quota float64, per time.Duration, remaining float64) {
	rate := quota / per.Seconds()
	if p == nil || p.Quota != 0 || per <= 0 || !(rate >= 1/most && rate <= most && quota <= most && remaining >= 0) {
		return
	}
	now := p.lock()
	defer p.unlock()
	p.pacer.Tell(now, rate, quota, remaining)
	p.wakeFirst()
}

type costKey struct{}

// WithCost returns a context whose calls cost so much under a [Pace]: one with twice the
// average cost takes twice the time. The unit is that of Pace.Quota, or without one any, such as the
// tokens of a prompt, but the same for all calls of a Pace. Calls without a cost, or with one that
// is not positive or not finite, count as one unit of Pace.Quota, or without one as the average.
// WithCost panics if ctx is nil.
func WithCost(ctx context.Context, cost float64) context.Context {
	return context.WithValue(ctx, costKey{}, cost)
}

func (p *Pace) clock() clockx.Clock {
	if p.Clock != nil {
		return p.Clock
	}
	if first := p.first.Load(); first != nil && first.clock != nil {
		return first.clock
	}
	return clockx.System()
}

// on gives p the clock and the random numbers of a policy, where it has none.
func (p *Pace) on(clock clockx.Clock, rand func() float64) {
	if readings.System(clock) {
		clock = nil
	}
	old := p.first.Load()
	var has origin
	if old != nil {
		has = *old
	}
	if (clock == nil || has.clock != nil) && (rand == nil || has.rand != nil) {
		return
	}
	first := has // or each call would allocate
	if first.clock == nil {
		first.clock = clock
	}
	if first.rand == nil {
		first.rand = rand
	}
	p.first.CompareAndSwap(old, &first) // if another policy was faster, it is the first
}

// chance gives the pacer the random numbers of p. The caller has locked p.
func (p *Pace) chance() {
	if first := p.first.Load(); first != nil && first.rand != nil {
		p.pacer.Rand = func() float64 {
			if x := first.rand(); x > 0 { // not NaN
				return min(x, 1)
			}
			return 0
		}
	}
}

// open reports whether an attempt may start without a turn. It belongs to no round then:
// what becomes of it says nothing about a later rate.
func (p *Pace) open() bool { return p == nil || p.Quota == 0 && !p.active.Load() }

// lock returns the time. It is read under the lock, so that nobody comes with an older reading than the
// one before. If the clock panics, p is not locked.
func (p *Pace) lock() (now time.Time) {
	p.mu.Lock()
	read := false
	defer func() {
		if !read {
			p.mu.Unlock()
		}
	}()
	now, read = p.clock().Now(), true
	if !p.ready {
		p.ready = true
		if p.Quota != 0 {
			p.bad = p.know(now, p.Quota, p.Per, p.Burst)
		}
	}
	return now
}

// know tells the pacer a quota. The caller has locked p.
func (p *Pace) know(now time.Time, quota float64, per time.Duration, burst float64) error {
	if per == 0 {
		per = time.Second
	}
	rate := quota / per.Seconds()
	if per < 0 || !(rate >= 1/most && rate <= most) || !(burst >= 0 && burst <= most) {
		return fmt.Errorf("pace: a Quota of %v per %v with a Burst of %v makes no sense", quota, per, burst)
	}
	p.pacer.Know(now, rate, burst)
	return nil
}

// unlock publishes whether p is open, and lets Share look.
func (p *Pace) unlock() {
	if active := !p.pacer.Open(); active != p.active.Load() { // else the cores that only read it go on sharing it
		p.active.Store(active)
	}
	if p.shared && p.pacer.Due() {
		select {
		case p.tell <- struct{}{}:
		default:
		}
	}
	p.mu.Unlock()
}

// Enter gives the attempt a turn. See [retry.Guard].
func (p *Pace) Enter(ctx context.Context, e retry.Entry) (retry.Pass, error) {
	if p == nil {
		return retry.Pass{}, nil
	}
	if t, waits := e.Earlier.Held.(*turn); waits {
		return p.again(t)
	}
	p.on(e.Clock, e.Rand) // also while it is open: it may be held
	if p.open() {
		return retry.Pass{Paces: true}, nil
	}
	patience := e.Patience
	if patience < math.MaxInt64 {
		patience /= 2
	}
	pass, wait, err := p.queue(ctx, e, patience)
	if err == nil || wait == 0 {
		return pass, err
	}
	if e.Patience > 0 && !e.Hedge {
		_ = e.Clock.Sleep(ctx, max(min(pause, patience), 1)) // if ctx ends, so does the run
	}
	return retry.Pass{}, err
}

// queue gives an attempt a turn, unless it would have to wait for longer than patience.
func (p *Pace) queue(ctx context.Context, e retry.Entry, patience time.Duration) (retry.Pass, time.Duration, error) {
	t := &turn{Owner: make(chan struct{}, 1), Retry: e.Number > 1}
	t.Cost, _ = ctx.Value(costKey{}).(float64)
	now := p.lock()
	defer p.unlock()
	if p.bad != nil {
		return retry.Pass{}, 0, retry.Stop(p.bad)
	}
	switch wait, ok := p.pacer.Enter(now, t, patience); {
	case !ok:
		return retry.Pass{}, wait, retry.Stop(paced.Late(wait))
	case wait > 0:
		return p.waiting(now, t, wait), wait, nil
	}
	return started(t), 0, nil
}

// again looks whether t, which waits, may start.
func (p *Pace) again(t *turn) (retry.Pass, error) {
	now := p.lock()
	defer p.unlock()
	if t.Late > 0 { // it has left the queue
		return retry.Pass{}, retry.Stop(paced.Late(t.Late))
	}
	if wait := p.pacer.TryStart(now, t); wait > 0 {
		return p.waiting(now, t, wait), nil
	}
	p.wakeFirst()
	return started(t), nil
}

// started returns the Pass of a turn that has come.
func started(t *turn) retry.Pass { return retry.Pass{Paces: true, Held: t, Round: t.Round} }

// waiting returns the Pass of a turn that waits. The first of the queue sleeps, and only it: the
// others' waits depend on what it learns, so it wakes them. An answer of a store, a turn that comes
// back, or another quota ends its sleep. Another clock than the system's may stand still while nobody
// sleeps, so there all do, for as long as they expect.
func (p *Pace) waiting(now time.Time, t *turn, wait time.Duration) retry.Pass {
	pass := retry.Pass{Wait: wait, Wake: t.Owner, Timed: true, Again: true, Paces: true, Held: t}
	asksStore := p.shared && wait <= pacing.Soon
	if p.pacer.First() == t && wait < pacing.Never && !asksStore {
		return pass
	}
	pass.Timed = !readings.System(p.clock())
	switch {
	case wait == pacing.Never: // the pacer has no time for it yet
		pass.Wait = p.pacer.Expect(now, t)
	case wait <= pacing.Soon && !pass.Timed: // nobody knows
		pass.Wait = 0
	}
	return pass
}

// Leave learns from what has become of the attempt. See [retry.Guard].
func (p *Pace) Leave(pass retry.Pass, x retry.Exit) {
	switch t, has := pass.Held.(*turn); {
	case p == nil:
	case x.Ending != retry.NotMade && x.Verdict.Class == retry.Throttled:
		p.throttled(pacing.Refusal{Open: !has, Round: pass.Round, Took: x.Took, Hint: x.Verdict.Hint}, x)
	case x.Ending == retry.NotMade && has:
		p.abandon(t, x.Verdict.Err != nil)
	case x.Ending == retry.Returned && has:
		now := p.lock()
		defer p.unlock()
		p.pacer.Ended(now)
	}
}

// abandon ends a turn whose attempt was not made. It reads no clock, which may panic: then the
// turn would be lost. A turn that a later guard has refused is over: given to the next, that
// guard would refuse the whole queue at once.
func (p *Pace) abandon(t *turn, refused bool) {
	p.mu.Lock()
	defer p.unlock()
	switch {
	case t.Waits():
		p.pacer.Leave(t)
		p.wakeFirst()
	case t.Late > 0:
	case refused:
		p.pacer.Unsent(t)
	default:
		p.pacer.Return(t)
		p.wakeFirst()
	}
}

// throttled notes that an attempt was throttled, with the round of its turn, 0 if it had
// none.
func (p *Pace) throttled(r pacing.Refusal, x retry.Exit) {
	p.on(x.Clock, nil)
	now := p.lock()
	defer p.unlock()
	p.chance()
	told := p.pacer.Knows()
	if p.pacer.Throttled(now, r); told != p.pacer.Knows() { // it learns from now on
		p.wakeFirst()
	}
}

func (p *Pace) wakeFirst() {
	if t := p.pacer.First(); t != nil {
		wake(t)
	}
}

func wake(t *turn) {
	select {
	case t.Owner <- struct{}{}:
	default: // it has not yet seen that it is the first
	}
}
