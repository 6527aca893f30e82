// Package pacing decides when attempts that share a quota start. It has no clock, no lock and no
// goroutine: package pace waits by it, and package storm simulates processes that do.
//
// A [Pacer] keeps the attempts that wait in a queue (queue.go). It lets them start by a quota that it was
// told (quota.go), when the slots come that a store gives out (shared.go, store.go, slots.go), or, while the store
// does not answer, by a rate of its own (own.go). If nobody passes any more, package health holds them. What a
// store decides is in state.go.
//
// # What callers must know
//
// A caller passes the time, and calls [Pacer.Stirred] after each other call, to wake whom that names: all others
// know how long to sleep.
package pacing

import (
	"math"
	"time"

	"github.com/goretry/retry/internal/health"
)

const (
	mostHold = 75 * time.Second      // the longest hold
	lag      = 10 * time.Millisecond // by which a timer may be late, so that what should have started meanwhile may
	refusal  = 2 * time.Second       // that a throttled attempt takes: one that takes longer may take a minute, and no longer decides alone whether others start
	still    = 5 * time.Second       // a clock that is back by so much was set
)

const tiny = 1e-9 // is less than any part of a unit that matters: numbers of units are sums, which are rounded

// roundUp makes up for what inSeconds cuts off: nothing starts a nanosecond early.
const roundUp time.Duration = 1

// Never is a wait of which only another attempt, or a store, knows the end: that of an attempt which
// is not the first of the queue, or waits for an answer.
const Never time.Duration = math.MaxInt64

// Soon is the wait of an attempt that nothing delays, as far as is known, but others that are to start
// before it, or an answer of a store.
const Soon time.Duration = 1

// mode says which part of a Pacer decides when an attempt starts.
//
// Know and Tell make it limited. Join makes it reserve. Alone and Part leave it alone, until the store has
// Answered, or the next Join.
type mode uint8

const (
	open      mode = iota // nothing limits the rate
	limited               // quota is known, and this process has it for itself
	reserving             // store gives out slots of quota, which others use too
	alone                 // own is the rate, while the store does not answer, or after Part
)

// Pacer is the state of one pace. The zero value is open. It is not safe for concurrent use.
//
//	            an attempt waits for    debt falls at
//	open        nothing                 –
//	limited     debt to be paid         quota.rate
//	reserving   its slot                –
//	alone       debt to be paid         own.rate
//
// Whatever the mode, nothing starts before hold, and no debt is paid until then. Under a quota nothing starts either
// while health is closed, but for the one attempt that decides whether it opens. Debt is paid meanwhile.
type Pacer struct {
	mode  mode
	quota quota
	debt  float64 // units whose time has to pass before the next may start; below 0 what may start now
	own   ownRate
	store store

	hold    time.Time // nothing starts before
	health  health.Health
	refused health.Row // its evidence
	row     time.Time  // since when nobody passes: when the first attempt was throttled since one has passed; zero: none was
	tally   tally      // what became of the attempts

	queue queue

	now     time.Time     // as of which all this is: it never goes back
	setBack time.Duration // by which clocks were, and which now is ahead of them
}

// Open reports whether attempts may start without a Turn.
func (p *Pacer) Open() bool {
	return p.mode == open && p.Len() == 0 && !p.hold.After(p.now)
}

// Paces reports whether a turn that starts now does so by a quota.
func (p *Pacer) Paces() bool { return p.mode != open }

// Len returns how many attempts wait.
func (p *Pacer) Len() int { return p.queue.came.Len() }

// First returns the attempt that is to start next, or nil.
func (p *Pacer) First() *Turn { return p.queue.first() }

// Stirred returns the first, if it sleeps for longer than it has to, or nil. What its owner was told is compared with
// what is now, so no method has to know whom it concerns.
func (p *Pacer) Stirred() *Turn {
	first := p.First()
	if first != nil && !first.wakes.IsZero() && p.now.Add(p.firstWait(first)).After(first.wakes.Add(-time.Microsecond)) {
		return nil // it wakes in time; sums are rounded
	}
	return first
}

// Rate returns how many units start in a second: +Inf if nothing limits that.
func (p *Pacer) Rate(now time.Time) float64 {
	p.advance(now)
	rate, _ := p.bucket()
	return rate
}

// Wait returns how long an attempt of one unit that comes now has to wait.
func (p *Pacer) Wait(now time.Time) time.Duration {
	p.advance(now)
	wait, _ := p.forecast(p.queue.size, 1)
	return wait
}

// Quota returns the quota that p keeps, in units per second, which part of the attempts of about the
// last minute, or of the last sixty, was throttled all the same, and what the quota seems to be. Without one all are 0.
func (p *Pacer) Quota(now time.Time) (rate, throttled, seem float64) {
	p.advance(now)
	throttled = p.tally.part(p.now, p.quota.rate)
	return p.quota.rate, throttled, seems(p.quota.rate, throttled)
}

// Know lets p keep a quota that is known: so many units of cost in a second, and so many at once
// after a pause, at least one. A unit is an attempt without a cost. It is for a Pacer that nobody has used.
func (p *Pacer) Know(now time.Time, rate, burst float64) {
	p.advance(now)
	p.quota = quota{rate: rate, burst: max(burst, 1), inUnits: true}
	p.become(limited)
	p.debt = -p.quota.burst
	p.own.began = p.now
}

// Tell lets p keep a quota that a server states, in the answer to an attempt before which so many attempts
// had started as before says, and after which so many have started as since says. It changes nothing after
// Know, nor if the answer to a later attempt has come before.
func (p *Pacer) Tell(now time.Time, s Stated, before uint64, since float64) {
	p.advance(now)
	if p.quota.inUnits {
		return
	}
	renewed, ok := p.quota.told.hear(before, before+uint64(since), s.Remaining)
	if !ok {
		return
	}
	p.quota.rate, p.quota.burst = s.Rate, s.Burst
	if p.mode == open {
		p.become(limited)
		renewed = true
	}
	free := min(max(s.Remaining-since, 0), s.Burst) // whatever has started since, what remains comes back by time
	if renewed || -free > p.debt {
		p.debt = -free
	}
}

// Hold lets nothing start for d, mostHold at most.
func (p *Pacer) Hold(now time.Time, d time.Duration) {
	p.advance(now)
	if d > 0 {
		p.hold = later(p.hold, p.now.Add(min(d, mostHold)))
	}
}

// Enter lets t start if it may start now, and returns 0. Otherwise it puts t into the queue, and returns how
// long t has to wait, as far as that is known. But if that is longer than patience, which is half of the time that t has, t
// does not wait: Enter reports false.
func (p *Pacer) Enter(now time.Time, t *Turn, patience time.Duration) (wait time.Duration, ok bool) {
	p.advance(now)
	t.size = 1
	if p.quota.inUnits {
		t.size = t.Bill.size()
	}
	t.said = t.Bill.said()
	t.urgent = patience < hurried
	if patience < Never/2 {
		t.latest, t.ends = p.now.Add(patience), p.now.Add(2*patience)
	}
	if p.Len() == 0 {
		p.store.forgetFlow() // what the store has answered to others is too old to refuse t
	}
	p.queue.push(t)
	if p.First() == t && p.firstWait(t) <= 0 {
		p.take(t)
		return 0, true
	}
	if wait, _ = p.forecast(p.queue.ahead(t), t.size); p.mode == reserving && t.urgent {
		wait = p.rest() // it may get a slot ahead of those of others
	}
	if wait = max(wait, Soon); wait > patience {
		p.queue.remove(t)
		return wait, false
	}
	return wait, true
}

// TryStart lets t start if it waits and may start now, and reports whether it does. t leaves the queue, too, if
// it depends on an attempt of which nobody knows when it ends, and its patience is over.
func (p *Pacer) TryStart(now time.Time, t *Turn) bool {
	p.advance(now)
	switch {
	case p.First() != t:
		return false
	case p.firstWait(t) <= 0:
		p.take(t)
		return true
	case p.trial() > 0 && t.left(p.now) == 0:
		t.Late = p.trial()
		p.queue.remove(t)
	}
	return false
}

// Sleep returns how long t, which waits, sleeps until its owner calls TryStart, if only time ends that. If not,
// the owner hears of it by Stirred.
func (p *Pacer) Sleep(t *Turn) (wait time.Duration, timed bool) {
	t.wakes = time.Time{}
	if p.First() != t {
		return 0, false
	}
	wait = p.firstWait(t)
	t.wakes = p.now.Add(wait)
	return wait, wait < Never
}

// Expect returns how long t, which does not sleep, may have to wait; Gap at least, after which one may look again.
func (p *Pacer) Expect(t *Turn) time.Duration {
	wait, _ := p.forecast(p.queue.ahead(t), t.size)
	return max(wait, Gap)
}

// Leave takes t, which waits, from the queue.
func (p *Pacer) Leave(t *Turn) { p.queue.remove(t) }

// Return takes back that t has started, whose attempt was not made. The next may start in its place, unless t is used up, or
// another part of p decides now. It is given no time.
func (p *Pacer) Return(t *Turn, used bool) {
	p.end(t, health.News{})
	p.own.starts = max(p.own.starts-t.size, 0)
	switch {
	case used || t.mode != p.mode:
	case p.mode == reserving:
		p.store.back += t.size
	default:
		p.owe(-t.size)
	}
}

// End notes what has become of the attempt of t, which has started by a quota: Failed means that it was throttled, with
// the server's hint, 0 if there was none, and Passed that the quota had room for it. If settles is set, what t's Bill says
// that it has cost is paid, in place of what it was to cost.
func (p *Pacer) End(now time.Time, t *Turn, outcome health.Outcome, hint time.Duration, settles bool) {
	p.advance(now)
	p.end(t, health.News{Outcome: outcome, Hint: hint})
	if outcome != health.Nothing {
		p.learn(outcome == health.Failed)
	}
	cost, said := t.Bill.saidSince(t.said)
	switch {
	case !said || !settles || !p.quota.inUnits:
	case p.mode == reserving:
		p.store.spent += cost - t.size
	default:
		p.owe(cost - t.size)
	}
}

// learn learns whether an attempt was throttled, which has passed otherwise.
func (p *Pacer) learn(throttled bool) {
	p.tally.add(p.now, p.quota.rate, throttled)
	if p.mode == alone {
		p.own.ended(p.now, throttled, p.quota.rate)
	}
	switch {
	case throttled && p.row.IsZero():
		p.row = p.now
	case throttled:
	case p.health.Closed(): // it began before that, and says nothing of what follows
		p.row, p.store.passed = p.now.Add(p.health.Left(p.now)), p.now
	default:
		p.row, p.store.passed = time.Time{}, p.now
	}
}

// end tells health what has become of the attempt of t.
func (p *Pacer) end(t *Turn, n health.News) {
	if t.ticket > 0 {
		n.Ticket = t.ticket
		p.health.End(p.now, n)
	}
}

// bucket returns by how much debt falls in a second, and how far below zero. The rate is +Inf if
// nothing limits it.
func (p *Pacer) bucket() (rate, burst float64) {
	switch p.mode {
	case open:
		return math.Inf(1), 0
	case alone:
		return p.own.rate, 1
	}
	return p.quota.rate, p.quota.burst
}

// rest returns for how long nothing may start, as far as that is known: not while an attempt decides that.
func (p *Pacer) rest() time.Duration {
	rest := max(p.hold.Sub(p.now), 0)
	if !p.health.Trying() {
		rest = max(rest, p.health.Ready(p.now))
	}
	return rest
}

// trial returns how long it takes until an attempt no longer decides alone whether others start. If there is none, it is 0.
func (p *Pacer) trial() time.Duration {
	if !p.health.Trying() {
		return 0
	}
	return p.health.Ready(p.now)
}

// forecast returns how long an attempt of a size has to wait if so many units start before it, and
// whether that is sure, or only what to expect until the store says more. An attempt that is larger
// than the burst starts when the burst is whole.
func (p *Pacer) forecast(ahead, size float64) (wait time.Duration, sure bool) {
	wait = p.rest()
	if p.mode == reserving {
		slot, reserved := p.store.slot(p.now, ahead+size)
		held := wait > 0 // there is time to ask the store
		return max(wait, slot), reserved || held
	}
	rate, burst := p.bucket()
	if n := p.debt + ahead + min(size, burst); n > tiny {
		wait = max(wait, max(p.hold.Sub(p.now), 0)+inSeconds(n/rate)+roundUp)
	}
	return wait, true
}

// firstWait returns how long t has to wait, which is the first: Never if the store has to say first, also if t is urgent and
// its slot comes too late. While another attempt decides whether t may start, it is until that hangs, or until t's
// patience is over.
func (p *Pacer) firstWait(t *Turn) time.Duration {
	if hangs := p.trial(); hangs > 0 {
		return min(hangs, max(t.left(p.now), Soon))
	}
	wait, sure := p.forecast(0, t.size)
	if !sure || p.mode == reserving && t.urgent && wait > t.left(p.now) {
		return Never
	}
	return wait
}

// take lets t start, which is the first.
func (p *Pacer) take(t *Turn) {
	p.queue.remove(t)
	p.queue.served++
	switch t.mode = p.mode; p.mode {
	case open:
		return
	case reserving:
		p.store.slots.use(t.size)
	default:
		p.debt += t.size
	}
	p.own.start(p.now, t.size)
	t.ticket = p.health.Start(p.now)
}

// owe adds units to debt, or takes them from it.
func (p *Pacer) owe(units float64) {
	_, burst := p.bucket()
	p.debt = max(p.debt+units, -burst)
}

// become changes the mode. Debt begins anew.
func (p *Pacer) become(m mode) {
	p.mode, p.debt = m, 0
	p.health.Rule = health.Rule{Evidence: &p.refused, Wait: health.Hold, Hang: func(_, _ time.Duration) time.Duration { return refusal }}
}

// advance moves the time to now. What time brings happens here. A reading that is older than the latest counts as that
// one. But one that is older by still means that a clock was set back: from then on its readings count for later ones.
func (p *Pacer) advance(now time.Time) {
	now = now.Add(p.setBack)
	if back := p.now.Sub(now); back > 0 {
		if back >= still {
			p.setBack += back
		}
		return
	}
	from := p.now
	p.now = now
	p.queue.expire(now)
	if p.mode == open {
		return
	}
	p.store.lapse(now, p.need().next)
	p.pay(now.Sub(later(from, p.hold)).Seconds()) // without those of a hold
}

// pay lets debt fall for some seconds, if any: while attempts wait, also by what should have started in them, since
// a timer may be late.
func (p *Pacer) pay(seconds float64) {
	rate, saved := p.bucket()
	if p.Len() > 0 {
		saved += math.Floor(rate * lag.Seconds())
	}
	if seconds > 0 {
		p.debt = max(p.debt-seconds*rate, -saved)
	}
}

// inSeconds returns so many seconds, Most at most.
func inSeconds(s float64) time.Duration { return time.Duration(bounded(s) * float64(time.Second)) }

func bounded(x float64) float64 { return min(max(x, -Most), Most) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
