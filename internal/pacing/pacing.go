// Package pacing decides when attempts that share a quota start. It has no clock, no lock and no
// goroutine: package pace waits by it, and package storm simulates processes that do.
//
// A [Pacer] keeps the attempts that wait in a queue, and lets them start in one of four modes: by a
// rate that it learns (law.go), by a quota that is known (quota.go), when the slots come that a store
// gives out (store.go), or, while the store does not answer, by a rate of its own (own.go).
package pacing

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	mostHold      = time.Minute           // the longest hold while a Pacer learns,
	holdSpread    = .25                   // and the part of it by which ends differ at random
	mostQuotaHold = 75 * time.Second      // the longest hold under a quota
	timerLag      = 10 * time.Millisecond // by which a timer may be late, so that it is made up for
	mostDebt      = 1e9                   // seconds of a wait until debt is paid
	still         = 5 * time.Second       // time stands still for an older reading than the latest; one that is older by so much means that the clock was set back
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
// Know and Tell make it limited, and a quota that the server stated and that turns out to be wrong
// makes it learn again. Join makes it reserve. Alone and Part leave it alone, until the store has
// Answered, or the next Join.
type mode uint8

const (
	learning  mode = iota // law finds the rate
	limited               // quota is known, and this process has it for itself
	reserving             // store gives out slots of quota, which others use too
	alone                 // own is the rate, while the store does not answer, or after Part
)

// Pacer is the state of one pace. The zero value is open. Its time is what its methods
// are given. It is not safe for concurrent use.
//
// Whatever the mode, nothing starts before hold, and no debt is paid until then.
//
//	            an attempt waits for   debt falls at   a throttled attempt      a hold is of
//	learning    debt to be paid        law.rate        changes law.rate         this process
//	limited     debt to be paid        quota.rate      may lead to a hold       this process
//	reserving   its slot               none            may lead to a hold       all processes
//	alone       debt to be paid        own.rate        as limited; lowers own   this process
type Pacer[T any] struct {
	Rand func() float64 // uniform in [0,1); nil means math/rand/v2

	mode   mode
	law    law
	quota  quota
	store  store
	own    ownRate
	doubts bool // a quota that the server stated was wrong: p ignores the next

	queue queue[T]
	mean  float64   // cost of an attempt; 0 before the first
	now   time.Time // as of which all this is
	hold  time.Time // nothing starts before
	debt  float64   // units whose time has to pass before the next may start; below 0 what may start now
	term  uint64    // counts up when debt begins anew
}

// Open reports whether attempts may start without a Turn. Their round is 0.
func (p *Pacer[T]) Open() bool { return p.mode == learning && p.law.state == open }

// Knows reports whether p keeps a quota, so that it does not learn.
func (p *Pacer[T]) Knows() bool { return p.mode != learning }

// Len returns how many attempts wait.
func (p *Pacer[T]) Len() int { return p.queue.len() }

// First returns the attempt that is to start next, or nil.
func (p *Pacer[T]) First() *Turn[T] { return p.queue.first() }

// Rate returns how many attempts of average cost, or units of a quota, start in a second: +Inf if
// that is not limited.
func (p *Pacer[T]) Rate(now time.Time) float64 {
	p.advance(now)
	rate, _ := p.bucket()
	return rate
}

// Wait returns how long a first attempt of average cost, or of one unit of a quota, that comes now has
// to wait.
func (p *Pacer[T]) Wait(now time.Time) time.Duration {
	p.advance(now)
	wait, _ := p.forecast(p.queue.size(), 1)
	return wait
}

// Quota returns the quota that p keeps, in units per second, which part of the attempts of about the
// last minute was throttled all the same, and what the quota seems to be. While p learns, all are 0.
func (p *Pacer[T]) Quota(now time.Time) (rate, throttled, seems float64) {
	if p.mode == learning {
		return 0, 0, 0
	}
	p.advance(now)
	throttled, seems = p.quota.tally.throttled(), p.quota.rate
	if p.quota.wrong() {
		seems *= 1 - throttled
	}
	return p.quota.rate, throttled, seems
}

// Enter lets t start if it may start now, and returns 0. Otherwise it returns how long t
// has to wait, as far as that is known, and puts t into the queue; but not if the wait is
// longer than patience: then Enter reports false. The less patience, the more urgent is t.
func (p *Pacer[T]) Enter(now time.Time, t *Turn[T], patience time.Duration) (wait time.Duration, ok bool) {
	p.advance(now)
	p.measure(t)
	t.line = lineOf(patience, t.Retry)
	if p.Len() == 0 {
		p.store.flow = math.Inf(1) // what the store has answered to others is too old to refuse t
	}
	if wait, _ = p.forecast(p.queue.ahead(t.line), t.size); wait <= 0 {
		p.start(t)
		return 0, true
	}
	if wait > patience {
		return wait, false
	}
	if patience < Never {
		t.deadline = now.Add(patience)
	}
	p.queue.push(now, t)
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
	return max(min(wait, t.left(now)), Gap)
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
	p.law.busy = now
	p.queue.served++
	p.queue.remove(t)
	p.start(t)
	return 0
}

// Leave takes t, which waits, from the queue.
func (p *Pacer[T]) Leave(t *Turn[T]) { p.queue.remove(t) }

// Unsent notes that nothing was sent for t. Nothing changes if t has not started.
func (p *Pacer[T]) Unsent(t *Turn[T]) { p.law.unstart(t.Round) }

// Return takes back that t has started: nothing was sent, and the next may start in its place, if t
// has paid for its start, and debt has not begun anew since.
func (p *Pacer[T]) Return(t *Turn[T]) {
	p.Unsent(t)
	switch {
	case !t.paid || t.term != p.term:
	case p.mode == reserving:
		p.store.slots = slices.Insert(p.store.slots, 0, batch{at: p.now, n: t.size})
	default:
		_, burst := p.bucket()
		p.debt = max(p.debt-t.size, -burst)
	}
}

// Refusal is an attempt that was throttled.
type Refusal struct {
	Open  bool          // it had no Turn: it says nothing about a quota that the Pacer has known since
	Round uint64        // of the Pacer, when it started
	Took  time.Duration // until it was throttled
	Hint  time.Duration // the server's; 0 if there was none
}

// Throttled notes that an attempt was throttled. Under a quota a single one says nothing: its own run
// waits. If half of them are throttled, the server's hint holds all.
func (p *Pacer[T]) Throttled(now time.Time, r Refusal) {
	p.advance(now)
	switch {
	case p.mode == learning:
		if p.law.state == open {
			p.renew()
		}
		if p.law.throttled(now, r) {
			p.holdFor(r.Hint, true)
		}
	case !r.Open:
		p.quota.tally.add(1)
		switch {
		case p.quota.stated && p.quota.wrong():
			p.doubt()
		case p.quota.tally.holds():
			p.holdFor(r.Hint, p.store.reports())
		}
	}
}

// Ended notes that an attempt has ended that was sent, and was not throttled. It changes nothing
// while p learns.
func (p *Pacer[T]) Ended(now time.Time) {
	if p.mode == learning {
		return
	}
	p.tick(now)
	p.quota.tally.add(0)
	p.store.report.works = true
}

// Hold lets nothing start for d. While p learns, that is mostHold at most, and a random part of spread
// more; after it what came meanwhile starts at twice the rate at which it came since the first.
func (p *Pacer[T]) Hold(now time.Time, d time.Duration) {
	p.advance(now)
	p.holdFor(d, true) // the caller knows
}

// Know lets p keep a quota that is known: so many units of cost in a second, and so many at once
// after a pause, at least one. A unit is an attempt without a cost.
func (p *Pacer[T]) Know(now time.Time, rate, burst float64) {
	p.advance(now)
	burst = max(burst, 1)
	if p.mode == learning {
		p.law.reopen() // a hold goes on
		p.become(limited)
		p.debt = -burst
	}
	p.quota.rate, p.quota.burst, p.quota.stated = rate, burst, false
}

// Tell lets p keep a quota that the server states, and of which so much is left. If the quota turns
// out to be wrong, since others use it too, p learns from then on. Tell changes nothing after that,
// after Know, and while attempts wait at a rate that p has learned.
func (p *Pacer[T]) Tell(now time.Time, rate, burst, left float64) {
	switch {
	case p.doubts, p.mode == learning && p.Len() > 0, p.inUnits():
		return
	}
	p.Know(now, rate, burst)
	p.quota.stated = true
	p.debt = max(p.debt, -left)
}

// doubt lets p learn, from the rate on at which attempts passed in the last two seconds.
func (p *Pacer[T]) doubt() {
	latest := p.quota.tally.latest()
	p.law.paceAfresh(p.now, (latest.sent-latest.lost)/2)
	p.quota, p.store, p.doubts = quota{}, store{}, true
	p.become(learning)
}

// Join lets attempts wait for slots of a store. Know has said what the quota is.
func (p *Pacer[T]) Join(now time.Time) {
	p.advance(now)
	if p.mode == limited {
		p.own = ownRate{asOf: now, began: now}
	}
	p.store.join(now)
	p.become(reserving)
}

// Part ends that. If p has spare slots, a gives them back to the store. Others still use the quota, so p
// goes on at the rate of its own starts.
func (p *Pacer[T]) Part(now time.Time) (a Ask, spare bool) {
	p.advance(now)
	p.store.giveBack(now, p.store.have())
	a = Ask{Rate: p.quota.rate, Burst: p.quota.burst, Unused: p.store.unused}
	p.Alone(now)
	return a, a.Unused > tiny
}

// Alone notes that the store does not answer.
func (p *Pacer[T]) Alone(now time.Time) {
	p.advance(now)
	p.store.unused = 0 // nobody knows whether they were given back
	if p.mode == alone {
		return
	}
	p.hold = later(p.hold, now.Add(inSeconds(p.store.report.hold)))
	p.own.set(now, p.quota.rate)
	p.store.changed, p.store.report.hold = now, 0
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
	if early := Gap - now.Sub(p.store.asked); early > 0 && early <= Gap { // more: the clock was set back
		return Ask{}, false, early
	}
	if !p.Due() {
		return Ask{}, false, mostWait * time.Second
	}
	a = p.store.ask(now, p.quota, p.need())
	if a.Want > 0 {
		a.Patience = min(p.queue.patience(now).Seconds(), mostWait)
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
	if p.mode == alone || p.store.heard.IsZero() {
		p.store.changed = now
		p.become(reserving)
	}
	p.store.answered(now, a, s)
	if s.N > tiny || a.Least <= tiny || a.Want <= tiny {
		return nil
	}
	return p.queue.removeLate(now, inSeconds(min(max(s.Wait, 0), mostWait)))
}

// bucket returns by how much debt falls in a second, and how far below zero. The rate is +Inf if
// nothing limits it.
func (p *Pacer[T]) bucket() (rate, burst float64) {
	switch {
	case p.mode == alone:
		return p.own.rate, 1
	case p.mode != learning:
		return p.quota.rate, p.quota.burst
	case p.law.state == paced:
		return p.law.rate, 0
	}
	return math.Inf(1), 0
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
	case learning:
		t.Round = p.law.round
		if p.law.start(); p.law.state == counting { // there is no rate yet
			return
		}
		p.debt += t.size
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

// inUnits reports whether p keeps a quota of units of cost, which Know has given it: one that the
// server states is of attempts.
func (p *Pacer[T]) inUnits() bool { return p.mode != learning && !p.quota.stated }

// measure sets the size of t, which takes part in the average.
func (p *Pacer[T]) measure(t *Turn[T]) {
	if !(t.Cost > 0) || math.IsInf(t.Cost, 1) {
		t.Cost, t.size = 0, 1
		return
	}
	if p.inUnits() {
		t.size = t.Cost
		return
	}
	if p.mean == 0 {
		p.mean = t.Cost
	}
	p.mean += (t.Cost - p.mean) / 64
	t.size = t.Cost / p.mean
}

// holdFor lets nothing start for d, in this process, or in all that use the store if reports is set.
// While p learns, a random part comes on top: all processes get the same hint, and must not go on at
// the same time.
func (p *Pacer[T]) holdFor(d time.Duration, reports bool) {
	switch {
	case d <= 0:
	case p.mode == learning:
		if p.law.state < held {
			p.law.startHold(p.now)
			p.renew()
		}
		p.law.busy = p.now
		d = min(d, mostHold)
		d += inSeconds(p.chance() * holdSpread * d.Seconds())
		p.hold = later(p.hold, p.now.Add(d))
	case p.mode == reserving && reports:
		p.store.report.hold = max(p.store.report.hold, min(d, mostQuotaHold).Seconds())
	default:
		p.hold = later(p.hold, p.now.Add(min(d, mostQuotaHold)))
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

// chance returns the next of Rand's numbers.
func (p *Pacer[T]) chance() float64 {
	if p.Rand != nil {
		return p.Rand()
	}
	return rand.Float64()
}

// advance moves the time to now. What time brings happens here, but for the second that Ended ends.
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
	seconds := now.Sub(later(from, p.hold)).Seconds() // without those of a hold
	if p.mode == learning {
		p.endHold()
		if seconds > 0 {
			p.law.lapse(seconds, p.Len() > 0)
		}
		p.pay(seconds)
		p.openIfCalm()
		return
	}
	p.tick(now)
	p.store.expire(now, p.need().first)
	p.pay(seconds)
}

// setBack moves every time that p keeps as the clock was set back, so that what is past stays as long
// ago, and what is to come as far ahead.
func (p *Pacer[T]) setBack(by time.Duration) {
	p.hold = p.hold.Add(by)
	p.law.busy, p.law.since = p.law.busy.Add(by), p.law.since.Add(by)
	p.own.asOf, p.own.began = p.own.asOf.Add(by), p.own.began.Add(by)
	p.quota.tally.second = p.now.Unix() // it goes on
	p.queue.shift(by)
	p.store.shift(by)
}

// endHold ends a hold that began before the law knew a rate, for those that wait.
func (p *Pacer[T]) endHold() {
	if p.law.state == held && p.Len() > 0 && !p.hold.After(p.now) {
		p.law.endHold(p.hold, p.queue.size(), p.queue.began)
	}
}

// openIfCalm opens p if nothing more is to be expected: not in a hold, since what comes is to be held.
func (p *Pacer[T]) openIfCalm() {
	if p.Len() == 0 && !p.hold.After(p.now) && p.law.calmed(p.now) {
		p.law.reopen()
		p.hold = time.Time{}
	}
}

// tick ends the second that was underway, if now is not in it.
func (p *Pacer[T]) tick(now time.Time) {
	ended, seconds := p.quota.tally.tick(now)
	if p.mode == alone && ended.sent > 0 {
		p.own.adapt(ended, seconds, p.quota.rate)
	}
}

// pay lets debt fall for some seconds, if any. While p learns, no turn is saved up, but for those that
// came late because a timer did.
func (p *Pacer[T]) pay(seconds float64) {
	rate, saved := p.bucket()
	if seconds <= 0 || math.IsInf(rate, 1) {
		return
	}
	if p.mode == learning && p.Len() > 0 {
		saved = rate * timerLag.Seconds()
	}
	p.debt = max(p.debt-seconds*rate, -saved)
}

func inSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
