// Package pacing decides when attempts that share a quota start. It has no clock, no lock and no
// goroutine: package pace waits by it, and package storm simulates processes that do.
//
// A [Pacer] keeps the attempts that wait in a queue (queue.go). It lets them start by a quota that it was
// told (quota.go), when the slots come that a store gives out (store.go), or, while the store does not
// answer, by a rate of its own (own.go). If nobody passes any more, package health holds them.
//
// # What callers must know
//
// Time does not go back for a Pacer: a reading that is older than the latest counts as that one. Only one that is
// older by five seconds means that a clock was set back.
//
// After each call the caller wakes those of whom [Pacer.Stirred] says that something has changed for them: the others
// know how long to sleep.
package pacing

import (
	"math"
	"time"

	"github.com/goretry/retry/internal/health"
)

const (
	mostHold = 75 * time.Second      // the longest hold
	mostDebt = 1e9                   // seconds of a wait until debt is paid
	lag      = 10 * time.Millisecond // by which a timer may be late, so that what should have started meanwhile may
	refusal  = 2 * time.Second       // that a throttled attempt takes: one that takes longer may take a minute, and no longer decides alone whether others start
	still    = 5 * time.Second       // a clock that is back by so much was set
	idle     = time.Hour             // until Share looks at a store again, unless there is a reason before
)

const (
	tiny     = 1e-9 // is less than any part of a unit that matters: numbers of units are sums, which are rounded
	smallest = 1e-6 // cost of an attempt
)

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

// Pacer is the state of one pace. The zero value is open. Its time is what its methods
// are given. It is not safe for concurrent use.
//
//	            an attempt waits for    debt falls at
//	open        nothing                 –
//	limited     debt to be paid         quota.rate
//	reserving   its slot                –
//	alone       debt to be paid         own.rate
//
// Whatever the mode, nothing starts before hold, and no debt is paid until then. Under a quota nothing starts either
// while health is closed, but for the one attempt that decides whether it opens.
type Pacer[T any] struct {
	mode  mode
	quota quota
	tally tally // what became of the attempts
	store store
	own   ownRate

	health health.Health
	row    time.Time // when the first attempt was throttled since one has passed; zero: none was
	closed time.Time // when the latest wait of health ends

	queue   queue[T]
	late    []*Turn[T] // that have left it since their turns come too late, and whose owners do not know yet
	stirred bool       // the first of the queue may start earlier than its owner knows, or is another one

	now  time.Time // as of which all this is
	hold time.Time // nothing starts before
	debt float64   // units whose time has to pass before the next may start; below 0 what may start now
	term uint64    // counts up when debt begins anew
}

// Open reports whether attempts may start without a Turn.
func (p *Pacer[T]) Open() bool {
	return p.mode == open && p.Len() == 0 && !p.hold.After(p.now)
}

// Paces reports whether a turn that starts now does so by a quota.
func (p *Pacer[T]) Paces() bool { return p.mode != open }

// Len returns how many attempts wait.
func (p *Pacer[T]) Len() int { return p.queue.came.Len() }

// First returns the attempt that is to start next, or nil.
func (p *Pacer[T]) First() *Turn[T] { return p.queue.first(p.mode == reserving && p.store.urgent) }

// Stirred returns the turns of whose owners each has to look again: those that have left the queue
// because they come too late, and the first, nil if nothing has changed for it.
func (p *Pacer[T]) Stirred() (late []*Turn[T], first *Turn[T]) {
	late = p.late
	if p.stirred {
		first = p.First()
	}
	p.late, p.stirred = nil, false
	return late, first
}

// Rate returns how many units start in a second: +Inf if nothing limits that.
func (p *Pacer[T]) Rate(now time.Time) float64 {
	p.advance(now)
	rate, _ := p.bucket()
	return rate
}

// Wait returns how long an attempt of one unit that comes now has to wait.
func (p *Pacer[T]) Wait(now time.Time) time.Duration {
	p.advance(now)
	wait, _ := p.forecast(p.queue.size, 1)
	return wait
}

// Quota returns the quota that p keeps, in units per second, which part of the attempts of about the
// last minute was throttled all the same, and what the quota seems to be. Without one all are 0.
func (p *Pacer[T]) Quota(now time.Time) (rate, throttled, seems float64) {
	p.advance(now)
	return p.quota.rate, p.tally.throttled(), p.tally.seems(p.quota.rate)
}

// Enter lets t start if it may start now, and returns 0. Otherwise it puts t into the queue, and returns how
// long t has to wait, as far as that is known. But if that is longer than patience, which is half of the time that t has, t
// does not wait: Enter reports false. The less patience, the earlier is t's turn.
func (p *Pacer[T]) Enter(now time.Time, t *Turn[T], patience time.Duration) (wait time.Duration, ok bool) {
	p.advance(now)
	t.size = 1
	if t.Bill != nil && p.quota.inUnits && sensible(t.Bill.Cost) {
		t.size = min(max(t.Bill.Cost, smallest), most)
	}
	t.said, _ = t.Bill.Said()
	if t.urgent = patience < hurried; patience < Never/2 {
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

// TryStart lets t, which waits, start if it may start now, and reports whether it does. t leaves the queue, too, if
// it depends on an attempt of which nobody knows when it ends, and its patience is over.
func (p *Pacer[T]) TryStart(now time.Time, t *Turn[T]) bool {
	p.advance(now)
	switch {
	case p.First() != t:
		return false
	case p.firstWait(t) <= 0:
		p.take(t)
		return true
	case p.trial() > 0 && t.left(p.now) == 0:
		t.Late = p.trial()
		p.Leave(t)
	}
	return false
}

// Sleep returns how long t, which waits, sleeps until its owner calls TryStart, if only time ends that. If not,
// the owner hears of it by Stirred.
func (p *Pacer[T]) Sleep(t *Turn[T]) (wait time.Duration, timed bool) {
	if p.First() != t {
		return 0, false
	}
	wait = p.firstWait(t)
	return wait, wait < Never
}

// Expect returns how long t, which does not sleep, may have to wait, but not for longer than its patience.
func (p *Pacer[T]) Expect(t *Turn[T]) time.Duration {
	wait, _ := p.forecast(p.queue.ahead(t), t.size)
	return max(min(wait, t.left(p.now)), Gap)
}

// Leave takes t, which waits, from the queue.
func (p *Pacer[T]) Leave(t *Turn[T]) {
	p.queue.remove(t)
	p.stirred = true
}

// Return takes back that t has started, whose attempt was not made. The next may start in its place, unless t is used up, or
// debt has begun anew since.
func (p *Pacer[T]) Return(t *Turn[T], used bool) {
	p.end(t, health.News{})
	switch {
	case used || !t.paid || t.term != p.term:
		return
	case p.mode == reserving:
		p.store.back += t.size
	default:
		p.owe(-t.size)
	}
	p.stirred = true
}

// End notes what has become of the attempt of t, which has started by a quota: Failed means that it was throttled, with
// the server's hint, 0 if there was none, and Passed that the quota had room for it. If settles is set, what t's Bill says
// that it has cost is paid, in place of what it was to cost.
func (p *Pacer[T]) End(now time.Time, t *Turn[T], outcome health.Outcome, hint time.Duration, settles bool) {
	p.advance(now)
	switch outcome {
	case health.Passed:
		p.tally.add(0)
		p.row, p.store.passed = time.Time{}, p.now
	case health.Failed:
		p.tally.add(1)
		if p.row.IsZero() {
			p.row = p.now
		}
	}
	p.end(t, health.News{Outcome: outcome, Hint: hint})
	if times, cost := t.Bill.Said(); settles && p.quota.inUnits && times > t.said && sensible(cost) {
		p.settle(min(cost, most) - t.size)
	}
}

// sensible reports whether a cost says something.
func sensible(cost float64) bool { return cost > 0 && !math.IsInf(cost, 1) }

// end tells health what has become of the attempt of t. If that begins a wait, all processes of a store wait.
func (p *Pacer[T]) end(t *Turn[T], n health.News) {
	if t.ticket == 0 {
		return
	}
	well := p.health.Well()
	n.Ticket = t.ticket
	p.health.End(p.now, n)
	if well && p.health.Well() {
		return
	}
	p.stirred = true
	if until := p.now.Add(p.rest()); p.health.Closed() && until.After(p.closed) {
		p.closed = until
		p.store.report(until, p.row)
	}
}

// settle pays for so many units more than a turn was to cost, or takes them back.
func (p *Pacer[T]) settle(more float64) {
	if p.mode == reserving {
		p.store.spent += more
	} else {
		p.owe(more)
	}
	p.stirred = true
}

// Hold lets nothing start for d, mostHold at most.
func (p *Pacer[T]) Hold(now time.Time, d time.Duration) {
	p.advance(now)
	if d = min(d, mostHold); d <= 0 {
		return
	}
	p.hold = later(p.hold, p.now.Add(d)) // also when a store that is told fails later
	if p.mode == reserving {
		p.store.report(p.hold, p.now) // the caller knows
	}
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
	if debt := max(since-s.Remaining, -s.Burst); renewed || debt > p.debt {
		p.debt = debt
	}
	p.stirred = true
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

// Part ends that. If there is something to tell, such as spare slots, a tells it to the store. Others still use the quota, so p
// goes on at the rate of its own starts.
func (p *Pacer[T]) Part(now time.Time) (a Ask, tells bool) {
	p.advance(now)
	p.store.giveBack(p.now, p.store.have())
	a = p.store.news(p.now, p.quota)
	p.Alone(now)
	return a, a.Unused > tiny || math.Abs(a.Spent) > tiny || a.Hold > 0
}

// Alone notes that the store does not answer.
func (p *Pacer[T]) Alone(now time.Time) {
	p.advance(now)
	p.store.fails(p.now)
	if p.mode == alone {
		return
	}
	p.own.set(p.now, p.quota.rate)
	p.become(alone)
}

// Shared reports whether slots come from a store, and since when, or since when it fails.
func (p *Pacer[T]) Shared() (ok bool, since time.Time) {
	return p.mode == reserving && !p.store.heard.IsZero(), p.store.changed
}

// News notes that another process may have held all.
func (p *Pacer[T]) News() { p.store.called = true }

// Due reports whether there is something to ask the store.
func (p *Pacer[T]) Due() bool {
	switch p.mode {
	case alone:
		return true
	case reserving:
		first := p.First()
		return p.store.due(p.now, p.need()) || first != nil && p.firstWait(first) == Never
	}
	return false
}

// Ask returns what to ask the store now, if anything is due. Otherwise it returns when to look again,
// unless Due reports true before.
func (p *Pacer[T]) Ask(now time.Time) (a Ask, due bool, next time.Duration) {
	p.advance(now)
	if early := p.store.gap - p.now.Sub(p.store.asked); early > 0 && early <= Gap { // more: the clock was set back
		return Ask{}, false, early
	}
	if !p.Due() {
		return Ask{}, false, idle
	}
	return p.store.ask(p.now, p.quota, p.need(), p.queue.longest), true, 0
}

// need returns what those that wait need of a store: nothing while they may not start anyway.
func (p *Pacer[T]) need() need {
	first := p.First()
	if first == nil || p.health.Ready(p.now) > 0 {
		return need{}
	}
	if head := p.queue.head(); head.urgent {
		n := need{next: head.size, all: p.queue.size, left: head.left(p.now), urgent: true}
		if head != first {
			n.ahead = first.size
		}
		return n
	}
	return need{next: first.size, all: p.queue.size, left: max(first.left(p.now), hurried)} // it gets no slot ahead of others
}

// Answered notes the answer to a. Those whose turns would come too late leave the queue.
func (p *Pacer[T]) Answered(now time.Time, a Ask, s Slots) {
	p.advance(now)
	begins, othersPass := p.store.answered(p.now, a, s)
	if begins {
		p.become(reserving)
	}
	if othersPass {
		p.health.Hold(p.now, 0)
	}
	p.stirred = true
	if s.N > tiny || a.Least <= tiny || a.Want <= tiny {
		return
	}
	own := func(t *Turn[T]) time.Duration { // if its slots were the next
		return inSeconds(min(s.Wait-max(a.Least-t.size, 0)/a.Rate, most))
	}
	for _, t := range p.queue.removeIf(func(t *Turn[T]) bool { return own(t) > t.left(p.now) && (p.store.hurry || !t.urgent) }) {
		t.Late = own(t)
		p.late = append(p.late, t)
	}
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

// rest returns for how long nothing may start, as far as that is known.
func (p *Pacer[T]) rest() time.Duration {
	rest := max(p.hold.Sub(p.now), 0)
	if !p.health.Trying() {
		rest = max(rest, p.health.Ready(p.now))
	}
	return rest
}

// trial returns how long it takes until an attempt no longer decides alone whether others start. If there is none, it is 0.
func (p *Pacer[T]) trial() time.Duration {
	if !p.health.Trying() {
		return 0
	}
	return p.health.Ready(p.now)
}

// forecast returns how long an attempt of a size has to wait if so many units start before it, and
// whether that is sure, or only what to expect until the store says more. An attempt that is larger
// than the burst starts when the burst is whole.
func (p *Pacer[T]) forecast(ahead, size float64) (wait time.Duration, sure bool) {
	wait = p.rest()
	if p.mode == reserving {
		slot, reserved := p.store.slot(p.now, ahead+size)
		return max(wait, slot), reserved || wait > 0 // in a hold there is time to ask the store
	}
	rate, burst := p.bucket()
	if n := p.debt + ahead + min(size, burst); n > tiny && !math.IsInf(rate, 1) {
		paid := max(p.hold.Sub(p.now), 0) + roundUp + inSeconds(min(n/rate, mostDebt)) // not while Hold holds, but while health is closed
		wait = max(wait, paid)
	}
	return wait, true
}

// firstWait returns how long t has to wait, which is the first: Never if the store has to say first. While another
// attempt decides whether t may start, it is until that hangs, or until t's patience is over.
func (p *Pacer[T]) firstWait(t *Turn[T]) time.Duration {
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
func (p *Pacer[T]) take(t *Turn[T]) {
	p.queue.served++
	p.store.urgent = false
	p.Leave(t)
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
	t.ticket = p.health.Start(p.now)
	t.paid, t.term = true, p.term
}

// owe adds units to debt, or takes them from it.
func (p *Pacer[T]) owe(units float64) {
	_, burst := p.bucket()
	p.debt = max(p.debt+units, -burst)
}

// become changes the mode. Debt begins anew: Return gives nothing back for starts of before.
func (p *Pacer[T]) become(m mode) {
	p.mode, p.debt, p.stirred = m, 0, true
	p.term++
	p.health.Rule.Hang = func(_, _ time.Duration) time.Duration { return refusal }
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
	if p.queue.expire(now) {
		p.stirred = true
	}
	if p.mode == open {
		return
	}
	ended, seconds := p.tally.tick(now)
	if p.mode == alone && ended.sent > 0 {
		p.own.adapt(ended, seconds, p.quota.rate)
	}
	p.store.lapse(now, p.need().next)
	p.pay(now.Sub(later(from, p.hold)).Seconds()) // without those of a hold
}

// setBack moves every time that p keeps as the clock was set back, so that what is past stays as long
// ago, and what is to come as far ahead. Health does so for itself.
func (p *Pacer[T]) setBack(by time.Duration) {
	for _, t := range []*time.Time{&p.hold, &p.row, &p.closed, &p.own.asOf, &p.own.began} {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
	p.tally.second = p.now.Unix() // it goes on
	p.queue.shift(by)
	p.store.shift(by)
}

// pay lets debt fall for some seconds, if any: while attempts wait, also by what should have started in them, since
// a timer may be late.
func (p *Pacer[T]) pay(seconds float64) {
	rate, saved := p.bucket()
	if p.Len() > 0 {
		saved += math.Floor(rate * lag.Seconds())
	}
	if seconds > 0 {
		p.debt = max(p.debt-seconds*rate, -saved)
	}
}

func inSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
