// Package pacing decides when attempts that share a quota start. It has no clock, no lock and no
// goroutine: package pace waits by it, and package storm simulates processes that do.
//
// A [Pacer] keeps the attempts that wait in a queue. It lets them start by a quota that it was told
// (quota.go), when the slots come that a store gives out (store.go), or, while the store does not
// answer, by a rate of its own (own.go).
package pacing

import (
	"math"
	"time"
)

const (
	mostHold = 75 * time.Second // the longest hold
	mostDebt = 1e9              // seconds of a wait until debt is paid
	still    = 5 * time.Second  // time stands still for an older reading than the latest; one that is older by so much means that the clock was set back
)

// tiny is less than any part of a unit that matters: numbers of units are sums, which are rounded.
const tiny = 1e-9

// roundUp makes up for what inSeconds cuts off: nothing starts a nanosecond early.
const roundUp time.Duration = 1

// Never is a wait of which only another attempt, or a store, knows the end: that of an attempt which
// is not the first of the queue, or waits for an answer.
const Never time.Duration = math.MaxInt64

// Soon is the wait of an attempt that nothing delays, as far as is known, but an answer of a store.
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

// Pacer is the state of one pace. The zero value is open. Its time is what its methods
// are given. It is not safe for concurrent use.
//
// Whatever the mode, nothing starts before hold, and no debt is paid until then.
//
//	            an attempt waits for   debt falls at   a hold is of
//	open        nothing                –               this process
//	limited     debt to be paid        quota.rate      this process
//	reserving   its slot               none            all processes
//	alone       debt to be paid        own.rate        this process
type Pacer[T any] struct {
	mode  mode
	quota quota
	store store
	own   ownRate

	queue queue[T]
	now   time.Time // as of which all this is
	hold  time.Time // nothing starts before
	debt  float64   // units whose time has to pass before the next may start; below 0 what may start now
	term  uint64    // counts up when debt begins anew
}

// Open reports whether attempts may start without a Turn.
func (p *Pacer[T]) Open() bool {
	return p.mode == open && p.Len() == 0 && !p.hold.After(p.now)
}

// Len returns how many attempts wait.
func (p *Pacer[T]) Len() int { return p.queue.len() }

// First returns the attempt that is to start next, or nil.
func (p *Pacer[T]) First() *Turn[T] { return p.queue.first() }

// Rate returns how many units start in a second: +Inf if nothing limits that.
func (p *Pacer[T]) Rate(now time.Time) float64 {
	p.advance(now)
	rate, _ := p.bucket()
	return rate
}

// Wait returns how long an attempt of one unit that comes now has to wait.
func (p *Pacer[T]) Wait(now time.Time) time.Duration {
	p.advance(now)
	wait, _ := p.forecast(p.queue.size(), 1)
	return wait
}

// Quota returns the quota that p keeps, in units per second, which part of the attempts of about the
// last minute was throttled all the same, and what the quota seems to be. Without one all are 0.
func (p *Pacer[T]) Quota(now time.Time) (rate, throttled, seems float64) {
	p.advance(now)
	return p.quota.rate, p.quota.tally.throttled(), p.quota.seems()
}

// Paces reports whether a turn that starts now does so by a quota.
func (p *Pacer[T]) Paces() bool { return p.mode != open }

// Enter lets t start if it may start now, and returns 0. Otherwise it returns how long t
// has to wait, as far as that is known, and puts t into the queue; but not if the wait is
// longer than patience: then Enter reports false. The less patience, the more urgent is t.
func (p *Pacer[T]) Enter(now time.Time, t *Turn[T], patience time.Duration) (wait time.Duration, ok bool) {
	p.advance(now)
	t.size = 1
	if p.quota.inUnits && t.Cost > 0 && !math.IsInf(t.Cost, 1) {
		t.size = t.Cost
	}
	t.line = lineOf(patience, t.Retry)
	if p.Len() == 0 {
		p.store.forgetFlow() // what the store has answered to others is too old to refuse t
	}
	if patience < Never {
		t.deadline = p.now.Add(patience)
	}
	wait, _ = p.forecast(p.queue.ahead(t.line), t.size)
	p.queue.push(t)
	if wait <= 0 && p.First() == t { // else the first is late, and goes before t
		p.take(t)
		return 0, true
	}
	if wait = max(wait, Soon); wait > patience {
		p.queue.remove(t)
		return wait, false
	}
	return wait, true
}

// Expect returns how long t, whose TryStart returns Never, may have to wait: for those before it, but not
// for longer than its patience. If its turn would come too late, Answered sets Late.
func (p *Pacer[T]) Expect(now time.Time, t *Turn[T]) time.Duration {
	p.advance(now)
	ahead := 0.
	if p.First() != t {
		ahead = p.queue.ahead(t.line) - t.size
	}
	wait, _ := p.forecast(ahead, t.size)
	return max(min(wait, t.left(p.now)), Gap)
}

// TryStart lets t, which waits, start if it may start now, and returns 0. Otherwise it
// returns how long t has to wait: Never if it is not the first, or a store has to say.
func (p *Pacer[T]) TryStart(now time.Time, t *Turn[T]) time.Duration {
	p.advance(now)
	if p.First() != t {
		return Never
	}
	if wait := p.firstWait(t); wait > 0 {
		return wait
	}
	p.take(t)
	return 0
}

// take lets t start, which is the first.
func (p *Pacer[T]) take(t *Turn[T]) {
	p.queue.served++
	p.queue.remove(t)
	p.start(t)
}

// Leave takes t, which waits, from the queue.
func (p *Pacer[T]) Leave(t *Turn[T]) { p.queue.remove(t) }

// Return takes back that t has started: nothing was sent, and the next may start in its place, if t
// has paid for its start, and debt has not begun anew since.
func (p *Pacer[T]) Return(t *Turn[T]) {
	switch {
	case !t.paid || t.term != p.term:
	case p.mode == reserving:
		p.store.putBack(p.now, t.size)
	default:
		_, burst := p.bucket()
		p.debt = max(p.debt-t.size, -burst)
	}
}

// Throttled notes that an attempt was throttled that has started by a quota. A single one says nothing:
// its own run waits. If half of them are throttled, the server's hint, 0 if there was none, holds all.
func (p *Pacer[T]) Throttled(now time.Time, hint time.Duration) {
	p.advance(now)
	p.quota.tally.add(1)
	if p.quota.tally.holds() {
		p.holdFor(hint, p.store.reports())
	}
}

// Ended notes that an attempt has ended that has started by a quota, and was not throttled.
func (p *Pacer[T]) Ended(now time.Time) {
	p.advance(now)
	p.quota.tally.add(0)
	p.store.report.works = true
}

// Hold lets nothing start for d, mostHold at most.
func (p *Pacer[T]) Hold(now time.Time, d time.Duration) {
	p.advance(now)
	p.holdFor(d, true) // the caller knows
}

// Know lets p keep a quota that is known: so many units of cost in a second, and so many at once
// after a pause, at least one. A unit is an attempt without a cost. It is for a Pacer that nobody has used.
func (p *Pacer[T]) Know(now time.Time, rate, burst float64) {
	p.advance(now)
	p.quota = quota{rate: rate, burst: max(burst, 1), inUnits: true}
	p.become(limited)
	p.debt = -p.quota.burst
}

// Tell lets p keep a quota that a server states, in the answer to an attempt before which so many attempts
// had started as before says, and after which so many have started as since says. It changes nothing after
// Know, nor if the answer to a later attempt has come before.
func (p *Pacer[T]) Tell(now time.Time, s Stated, before uint64, since float64) {
	p.advance(now)
	if p.quota.inUnits || !p.quota.told.latest(before) {
		return
	}
	renewed := p.quota.told.renewed(s.Remaining)
	p.quota.rate, p.quota.burst = s.Rate, s.Burst
	if p.mode == open {
		p.become(limited)
		renewed = true
	}
	if debt := since - s.Remaining; renewed || debt > p.debt {
		p.debt = debt
	}
}

// Join lets attempts wait for slots of a store. Know has said what the quota is.
func (p *Pacer[T]) Join(now time.Time) {
	p.advance(now)
	if p.mode == limited {
		p.own = ownRate{asOf: p.now, began: p.now}
	}
	p.store.join(p.now)
	p.become(reserving)
}

// Part ends that. If p has spare slots, a gives them back to the store. Others still use the quota, so p
// goes on at the rate of its own starts.
func (p *Pacer[T]) Part(now time.Time) (a Ask, spare bool) {
	p.advance(now)
	p.store.giveBack(p.now, p.store.have())
	a = Ask{Rate: p.quota.rate, Burst: p.quota.burst, Unused: p.store.unused}
	p.Alone(now)
	return a, a.Unused > tiny
}

// Alone notes that the store does not answer.
func (p *Pacer[T]) Alone(now time.Time) {
	p.advance(now)
	hold := p.store.fails(p.now)
	if p.mode == alone {
		return
	}
	p.hold = later(p.hold, p.now.Add(hold))
	p.own.set(p.now, p.quota.rate)
	p.become(alone)
}

// Shared reports whether slots come from a store, and since when, or since when it fails.
func (p *Pacer[T]) Shared() (ok bool, since time.Time) {
	return p.mode == reserving && !p.store.heard.IsZero(), p.store.changed
}

// News notes that another process may have held all.
func (p *Pacer[T]) News() { p.store.news = true }

// Due reports whether there is something to ask the store.
func (p *Pacer[T]) Due() bool {
	switch p.mode {
	case alone:
		return true
	case reserving:
		first := p.First()
		return p.store.due(p.need()) || first != nil && p.firstWait(first) == Never
	}
	return false
}

// Ask returns what to ask the store now, if anything is due. Otherwise it returns when to look again,
// unless Due reports true before.
func (p *Pacer[T]) Ask(now time.Time) (a Ask, due bool, next time.Duration) {
	p.advance(now)
	if early := Gap - p.now.Sub(p.store.asked); early > 0 && early <= Gap { // more: the clock was set back
		return Ask{}, false, early
	}
	if !p.Due() {
		return Ask{}, false, mostWait * time.Second
	}
	a = p.store.ask(p.now, p.quota, p.need())
	if a.Want > 0 {
		a.Patience = min(p.queue.patience(p.now).Seconds(), mostWait)
	}
	return a, true, 0
}

// need returns what those that wait need of a store.
func (p *Pacer[T]) need() need {
	if first := p.First(); first != nil {
		return need{first.size, p.queue.size()}
	}
	return need{}
}

// Answered notes the answer to a. Those whose turns would come too late leave the queue, with
// Late set: Answered returns them.
func (p *Pacer[T]) Answered(now time.Time, a Ask, s Slots) (refused []*Turn[T]) {
	p.advance(now)
	if p.store.answered(p.now, a, s) {
		p.become(reserving)
	}
	if s.N > tiny || a.Least <= tiny || a.Want <= tiny {
		return nil
	}
	return p.queue.removeLate(p.now, inSeconds(min(max(s.Wait, 0), mostWait)))
}

// bucket returns by how much debt falls in a second, and how far below zero. The rate is +Inf if
// nothing limits it.
func (p *Pacer[T]) bucket() (rate, burst float64) {
	switch p.mode {
	case open:
		return math.Inf(1), 0
	case alone:
		return p.own.rate, 1
	}
	return p.quota.rate, p.quota.burst
}

// forecast returns how long an attempt of a size has to wait if so many units start before it, and
// whether that is sure, or only what to expect until the store says more. An attempt that is larger
// than the burst starts when the burst is whole.
func (p *Pacer[T]) forecast(ahead, size float64) (wait time.Duration, sure bool) {
	wait = max(p.hold.Sub(p.now), 0)
	if p.mode == reserving {
		slot, reserved := p.store.slot(p.now, ahead+size)
		return max(wait, slot), reserved || wait > 0 // in a hold there is time to ask the store
	}
	rate, burst := p.bucket()
	if n := p.debt + ahead + min(size, burst); n > tiny && !math.IsInf(rate, 1) {
		wait += roundUp + inSeconds(min(n/rate, mostDebt))
	}
	return wait, true
}

// firstWait returns how long t has to wait, which is the first: Never if the store has to say first.
func (p *Pacer[T]) firstWait(t *Turn[T]) time.Duration {
	if wait, sure := p.forecast(0, t.size); sure {
		return wait
	}
	return Never
}

// start lets t start: it pays with a slot, or makes debt.
func (p *Pacer[T]) start(t *Turn[T]) {
	switch p.mode {
	case open:
		return
	case limited:
		p.debt += t.size
	case reserving:
		p.own.start(p.now, t.size)
		p.store.use(t.size)
	case alone:
		p.own.start(p.now, t.size)
		p.debt += t.size
	}
	t.paid, t.term = true, p.term
}

// holdFor lets nothing start for d, in this process, or in all that use the store if reports is set.
func (p *Pacer[T]) holdFor(d time.Duration, reports bool) {
	switch d = min(d, mostHold); {
	case d <= 0:
	case p.mode == reserving && reports:
		p.store.report.holdFor(d)
	default:
		p.hold = later(p.hold, p.now.Add(d))
	}
}

// become changes the mode.
func (p *Pacer[T]) become(m mode) {
	p.mode = m
	p.renew()
}

// renew lets debt begin anew: Return gives nothing back for starts of before.
func (p *Pacer[T]) renew() {
	p.debt = 0
	p.term++
}

// advance moves the time to now. What time brings happens here.
func (p *Pacer[T]) advance(now time.Time) {
	from := p.now
	switch back := from.Sub(now); {
	case back >= still:
		p.now = now
		p.setBack(-back)
		return
	case back > 0:
		return
	}
	p.now = now
	if p.mode == open {
		return
	}
	ended, seconds := p.quota.tally.tick(now)
	if p.mode == alone && ended.sent > 0 {
		p.own.adapt(ended, seconds, p.quota.rate)
	}
	p.store.expire(now, p.need().first)
	p.pay(now.Sub(later(from, p.hold)).Seconds()) // without those of a hold
}

// setBack moves every time that p keeps as the clock was set back, so that what is past stays as long
// ago, and what is to come as far ahead.
func (p *Pacer[T]) setBack(by time.Duration) {
	p.hold = p.hold.Add(by)
	p.own.asOf, p.own.began = p.own.asOf.Add(by), p.own.began.Add(by)
	p.quota.tally.second = p.now.Unix() // it goes on
	p.queue.shift(by)
	p.store.shift(by)
}

// pay lets debt fall for some seconds, if any.
func (p *Pacer[T]) pay(seconds float64) {
	if rate, burst := p.bucket(); seconds > 0 {
		p.debt = max(p.debt-seconds*rate, -burst)
	}
}

func inSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
