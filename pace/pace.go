// Package pace lets attempts start at the rate of a quota: see [Pace], a [retry.Guard] like any other.
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
	"github.com/goretry/retry/internal/health"
	"github.com/goretry/retry/internal/paced"
	"github.com/goretry/retry/internal/pacing"
	"github.com/goretry/retry/internal/readings"
)

// Pace lets attempts start at the rate of a quota. Share one among all calls that count against the same quota: a key,
// an account, a model. For calls with different quotas use a Pace each: see [retry.PerKey].
//
// It has to be told the quota: by Quota, Per and Burst, or by the server, see [Pace.Tell]. Attempts then
// start at that rate, from the first one on. The quota is that of this process alone, unless
// [Pace.Share] shares it with others. A Pace that was told nothing is open: it admits attempts at once,
// limits nothing, and only [Pace.Hold] closes it for a time.
//
// One throttled attempt makes only its own run wait, and a wrong number is not corrected: [Pace.Status] shows it. But
// if nobody passes, all wait: if six attempts in a row are [retry.Throttled], the first at least two seconds before the
// last, and none passes meanwhile, as far as p knows: see [Pace.Share]. They wait as long as the server asks, for at most 75 seconds, or else
// for a second, and twice as long each time, up to a minute. Then one attempt decides whether they go on. A provider
// that refuses a third of all requests at random should have no Pace.
//
// The earliest deadline goes first, but attempts of whose time less than half is left go last, and every fifth
// turn goes to who came first. So a backlog and callers who wait for an answer can share a Pace.
//
// A Pace is a [retry.Guard]: set it in Policy.Guards, before those that hold a place. An attempt
// whose turn would take more than half of the time until the caller's deadline or the end of
// Policy.MaxElapsed does not wait: ten milliseconds later its run ends with [retry.ErrPaced]. One
// that waits ends so when it learns that its turn comes too late. Without a deadline and MaxElapsed
// an attempt waits for as long as it takes. A turn whose attempt a later guard refuses
// is used up; one that is not used for another reason goes to the next attempt.
//
// A retry that follows a Throttled attempt takes nothing from Policy.Budget if that attempt had a turn by
// a quota: the Pace limits such retries itself. A Guard around a Pace returns its Pass unchanged.
//
// The zero Pace is ready, and open. It must not be copied after the first use. A nil *Pace holds
// nothing back. A Pace is safe for concurrent use.
type Pace struct {
	// Quota is how many attempts may start in Per, each at its cost: see [WithCost]. Zero means that only
	// the server says it: see [Pace.Tell]. If it is negative or not finite, or less than one in thirty
	// years or more than 1e9 in a second, no attempt is made: each run ends with an error that says so.
	Quota float64

	// Per is the time of Quota: a second if it is zero. With a Quota a negative one is as bad as a negative Quota. Without
	// one neither Per nor Burst says anything.
	Per time.Duration

	// Burst is how many attempts may start at once after a pause. Less than one means one: a server that
	// counts in a window, or whose bucket you do not know, may refuse more. While attempts wait, those may
	// start at once, too, whose time has come in the last ten milliseconds since a timer was late: ten at 1000 in
	// a second, and none below 100. A Burst that is negative or not finite is as bad as a negative Quota.
	Burst float64

	// Clock measures time. Nil means the system's, or from then on that of the first policy that uses the Pace and has
	// another one.
	Clock clockx.Clock

	first   atomic.Pointer[clockx.Clock] // of the first policy that has another than the system's
	active  atomic.Bool                  // the pacer is not open
	started atomic.Uint64                // attempts, but those that were not made
	mu      sync.Mutex
	pacer   pacing.Pacer
	ready   bool  // the pacer knows Quota
	bad     error // what is wrong with Quota, Per or Burst

	shared    bool          // Share runs
	look      chan struct{} // gets an element when Share is to look
	err       error         // of the latest exchange with the store
	exchanges uint64
}

// pause is what a refused attempt takes at most, so that a loop of calls which are refused cannot spin.
const pause = 10 * time.Millisecond

// turn is an attempt that waits under a Pace, or has started there. Its Owner is a channel, which gets an element when
// it has to be looked at again.
type turn = pacing.Turn

// unpaced is held by an attempt that has started without a turn.
type unpaced struct{}

// Rate returns how many units of the quota start in a second: +Inf if p has no quota or is nil, and 0 if
// Quota, Per or Burst make no sense.
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

// Wait returns how long an attempt of one unit that comes now, and is no more urgent than those that wait,
// has to wait, as far as that is known: 0 while p is open or nil.
func (p *Pace) Wait() time.Duration {
	if p.open() {
		return 0
	}
	now := p.lock()
	defer p.unlock()
	return p.pacer.Wait(now)
}

// Hold lets no attempt start for d, or for 75 seconds if d is longer. Then those that have come meanwhile start as the
// quota allows, and if p has none all at once. With [Pace.Share] the store delays the slots of all processes. Call it
// if the server says with a success that the quota is used up. Package retryhttp does that for Transport.PaceByHeaders.
// A nil p ignores it, and so does every Pace if d is zero or negative.
func (p *Pace) Hold(d time.Duration) {
	if p == nil {
		return
	}
	now := p.lock()
	defer p.unlock()
	p.pacer.Hold(now, d)
}

// Started returns how many attempts have started under p, without those that were not made after all, since a later guard
// has refused them, for instance. See [Pace.Tell]. It is 0 if p is nil.
func (p *Pace) Started() uint64 {
	if p == nil {
		return 0
	}
	return p.started.Load()
}

// Tell says what a server states of its quota with an answer: how many attempts may start in per, and how many of them
// remain. If p has no Quota, it keeps this one: started is what [Pace.Started] has returned when the attempt of that
// answer began, and what has started since takes from what remains.
//
//	started := model.Started()
//	resp, err := send(req)
//	...
//	model.Tell(limit, time.Minute, remaining, started)
//
// If less may start than by p's own count, that is what may start: at the least nothing at once, and then what comes at the
// rate of the quota. More may start only if so much more remains than by the answer before that a new window must have begun. Tell ignores the answer to an attempt that began before that of
// an answer which it has heard, and numbers that make no sense, such as more than have started. A nil p ignores all, and
// so does one with a Quota. Package retryhttp calls Tell for Transport.PaceByHeaders.
func (p *Pace) Tell(quota float64, per time.Duration, remaining float64, started uint64) {
	s, ok := stated(quota, per, remaining)
	if p == nil || p.Quota != 0 || !ok {
		return
	}
	now := p.lock()
	defer p.unlock()
	if all := p.started.Load(); started <= all {
		p.pacer.Tell(now, s, started, float64(all-started))
	}
}

// stated reports whether what a server states makes sense.
func stated(quota float64, per time.Duration, remaining float64) (s pacing.Stated, ok bool) {
	s = pacing.Stated{Rate: quota / per.Seconds(), Burst: quota, Remaining: remaining}
	ok = per > 0 && validRate(s.Rate) && quota <= pacing.Most && remaining >= 0 && remaining <= pacing.Most
	return s, ok
}

// validRate reports whether so many units in a second are a quota.
func validRate(rate float64) bool { return rate >= 1/pacing.Most && rate <= pacing.Most }

type costKey struct{}

// WithCost returns a context whose calls cost so many units of Pace.Quota, such as the tokens of a
// prompt: one that costs twice as much takes twice the time. Calls without a cost, or with one
// that is not positive or not finite, cost one unit. Use one context for one call: what [Spent] says of an attempt
// counts for all that run under it. Without a Quota a cost has no effect: a server states
// how many attempts may start. WithCost panics if ctx is nil.
func WithCost(ctx context.Context, cost float64) context.Context {
	return context.WithValue(ctx, costKey{}, &pacing.Bill{Cost: cost})
}

// Spent says what the attempt of a call has cost, where that is known only afterwards: the tokens of a completion. ctx
// is that of [WithCost], or below it, such as the context of the attempt. What it cost more or less than WithCost has
// said is paid, or given back, when the attempt ends: for retryhttp with its body. The latest call counts. Spent has no
// effect on a ctx without WithCost, and if the attempt is canceled, as one that a hedge has beaten is. Do not call it after
// the attempt: it counts for the next one of ctx, if that has begun.
func Spent(ctx context.Context, cost float64) {
	if b, ok := ctx.Value(costKey{}).(*pacing.Bill); ok {
		b.Say(cost)
	}
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

// on gives p the clock of a policy, if it has none.
func (p *Pace) on(clock clockx.Clock) {
	if p.first.Load() == nil && !readings.System(clock) {
		first := clock // or each call would allocate
		p.first.CompareAndSwap(nil, &first)
	}
}

// open reports whether an attempt may start without a turn.
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
	if per < 0 || !validRate(rate) || !(burst >= 0 && burst <= pacing.Most) {
		return fmt.Errorf("pace: a Quota of %v per %v with a Burst of %v makes no sense: want one in thirty years to 1e9 in a second, and a Burst of 0 to 1e9", quota, per, burst)
	}
	p.pacer.Know(now, rate, burst)
	return nil
}

// unlock wakes the first if it sleeps for too long, publishes whether p is open, and lets Share look.
func (p *Pace) unlock() {
	if first := p.pacer.Stirred(); first != nil {
		wake(first)
	}
	if active := !p.pacer.Open(); active != p.active.Load() { // else the cores that only read it go on sharing it
		p.active.Store(active)
	}
	if p.shared && p.pacer.Due() {
		select {
		case p.look <- struct{}{}:
		default:
		}
	}
	p.mu.Unlock()
}

func wake(t *turn) {
	select {
	case t.Owner.(chan struct{}) <- struct{}{}:
	default: // it has not yet seen that it was woken
	}
}

// Enter gives the attempt a turn. See [retry.Guard].
func (p *Pace) Enter(ctx context.Context, e retry.Entry) (retry.Pass, error) {
	if p == nil {
		return retry.Pass{}, nil
	}
	if t, waits := e.Earlier.Held.(*turn); waits {
		return p.again(t)
	}
	p.on(e.Clock) // also while it is open: it may be held
	if p.open() {
		p.started.Add(1)
		return retry.Pass{Held: unpaced{}}, nil
	}
	patience := e.Patience / 2
	pass, err := p.queue(ctx, patience)
	if err != nil && e.Patience > 0 && !e.Hedge {
		_ = e.Clock.Sleep(ctx, max(min(pause, patience), 1)) // if ctx ends, so does the run
	}
	return pass, err
}

// queue gives an attempt a turn, unless it would have to wait for longer than patience.
func (p *Pace) queue(ctx context.Context, patience time.Duration) (retry.Pass, error) {
	bill, _ := ctx.Value(costKey{}).(*pacing.Bill)
	t := &turn{Owner: make(chan struct{}, 1), Bill: bill}
	now := p.lock()
	defer p.unlock()
	if p.bad != nil {
		return retry.Pass{}, retry.Stop(p.bad)
	}
	switch wait, ok := p.pacer.Enter(now, t, patience); {
	case !ok:
		return retry.Pass{}, retry.Stop(tooLate{paced.Late(wait), patience})
	case wait > 0:
		return p.waiting(t, wait), nil
	}
	return p.start(t), nil
}

// tooLate is the error of an attempt whose turn comes after half of the time that is left to it.
type tooLate struct {
	paced.Late
	half time.Duration // 0: it may not wait at all
}

func (e tooLate) Error() string {
	if e.half <= 0 {
		return e.Late.Error()
	}
	return fmt.Sprintf("%v: more than half of the %v that are left", e.Late, max(2*e.half.Round(time.Millisecond/2), time.Millisecond))
}

// again looks whether t, which waits, may start.
func (p *Pace) again(t *turn) (retry.Pass, error) {
	now := p.lock()
	defer p.unlock()
	switch {
	case p.pacer.TryStart(now, t):
		return p.start(t), nil
	case t.Late > 0: // it has left the queue
		return retry.Pass{}, retry.Stop(paced.Late(t.Late))
	}
	return p.waiting(t, 0), nil
}

// start returns the Pass of a turn that has come. The caller has locked p.
func (p *Pace) start(t *turn) retry.Pass {
	p.started.Add(1)
	return retry.Pass{Paces: p.pacer.Paces(), Held: t}
}

// waiting returns the Pass of a turn that waits, as long as is to expect, 0 if that is not known. The first of the
// queue sleeps, and only it: unlock wakes the others. Another clock than the system's may stand still while nobody
// sleeps, so there all do.
func (p *Pace) waiting(t *turn, expected time.Duration) retry.Pass {
	if p.shared && expected == pacing.Soon {
		expected = 0 // the store has to say
	}
	pass := retry.Pass{Wait: expected, Wake: t.Owner.(chan struct{}), Again: true, Held: t}
	if sleep, timed := p.pacer.Sleep(t); timed {
		pass.Wait, pass.Timed = sleep, true
	} else if !readings.System(p.clock()) {
		pass.Wait, pass.Timed = p.pacer.Expect(t), true
	}
	return pass
}

// Leave notes what has become of an attempt that had a turn. See [retry.Guard].
func (p *Pace) Leave(pass retry.Pass, x retry.Exit) {
	t, has := pass.Held.(*turn)
	switch notMade := x.Ending == retry.NotMade; {
	case p == nil:
	case notMade && pass.Held == unpaced{}:
		p.unstart()
	case !has:
	case notMade:
		p.abandon(t, x.Verdict.Err != nil)
	case pass.Paces:
		p.ended(t, x)
	}
}

// abandon ends a turn whose attempt was not made. It reads no clock, which may panic: then the turn would be lost. A
// turn that a later guard has refused is used up: given to the next, that guard would refuse the whole queue at once.
func (p *Pace) abandon(t *turn, refused bool) {
	p.mu.Lock()
	defer p.unlock()
	switch {
	case t.Waits():
		p.pacer.Leave(t)
	case t.Late == 0:
		p.unstart()
		p.pacer.Return(t, refused)
	}
}

// unstart takes back that an attempt has started: the server has not seen it.
func (p *Pace) unstart() { p.started.Add(^uint64(0)) }

// ended notes what an attempt has come to that has started by the quota.
func (p *Pace) ended(t *turn, x retry.Exit) {
	now := p.lock()
	defer p.unlock()
	outcome := health.Nothing
	switch {
	case x.Verdict.Class == retry.Throttled:
		outcome = health.Failed
	case x.Ending == retry.Returned && (x.Verdict.Err == nil || x.Verdict.Class == retry.Permanent):
		outcome = health.Passed // the quota had room for it
	}
	p.pacer.End(now, t, outcome, x.Verdict.Hint, x.Ending != retry.Canceled)
}
