package pacing

import (
	"container/list"
	"math"
	"math/rand/v2"
	"time"
)

const (
	maxHold  = time.Minute           // the longest hold for a hint
	spread   = .25                   // of a hold, by which its end differs from one process to another
	timerLag = 10 * time.Millisecond // of a timer, that is made up for
	urgent   = 4 * time.Second       // patience of the most urgent; of the next 16 times, and 256 times that
	classes  = 4                     // of urgency
	fifth    = 5                     // one turn in so many goes to who came first
)

// Never is a wait of which only another attempt, or a store, knows the end: that of an attempt which
// is not the first of the queue, or waits for an answer.
const Never time.Duration = math.MaxInt64

// Soon is the wait of an attempt that nothing delays, as far as is known, but an answer of a store.
const Soon time.Duration = 1

// Pacer is the state of one pace. The zero value is open. Its time is what its methods
// are given. It is not safe for concurrent use.
//
// It works in one of three ways. In all of them attempts wait in the same queues, and nothing starts
// before hold.
//
//	told is nil       the law learns a rate. An attempt waits until debt is paid, at that rate. It
//	                  belongs to a round of the law, which wants to hear what became of it.
//	told              the rate is known. As before, but debt may go below zero: the burst. Throttled
//	                  attempts change no rate, and make a hold only if they are many.
//	told.reserves()   a store gives out slots, and says when all are delayed. There is no debt: an
//	                  attempt waits for the time of its slot, or for an answer of the store.
type Pacer[T any] struct {
	Rand func() float64 // uniform in [0,1); nil means math/rand/v2

	law    law
	told   *told     // nil: the quota is learned, by law
	doubts bool      // what the server states was wrong
	mean   float64   // cost of an attempt; 0 before the first
	debt   float64   // attempts, or a part of one, whose time has to pass before the next may start; below 0 what may start at once
	term   uint64    // counts up when debt begins anew
	now    time.Time // of debt
	hold   time.Time // nothing starts before, and debt does not fall
	first  time.Time // when the queue began that is not empty

	// The more urgent go first; of as urgent ones retries before first attempts.
	queues [2 * classes]queue[T]
	came   uint64 // attempts that have entered a queue
	served uint64 // attempts that have started from one
}

// Turn is an attempt that a Pacer has let start, or that waits.
type Turn[T any] struct {
	Owner T             // for the caller
	Cost  float64       // in any unit; one that is not positive, or not finite, counts as the average
	Retry bool          // goes before first attempts that are as urgent
	Round uint64        // of the Pacer, when the attempt started
	Late  time.Duration // for which t would have to wait, if it has left the queue since that is too long

	class    int       // index of its queue
	number   uint64    // in the order of arrival
	size     float64   // the cost as a multiple of the average
	deadline time.Time // when its patience ends; zero: never
	place    *list.Element
	paid     bool   // its start has made debt
	term     uint64 // of the Pacer then
}

// Waits reports whether t is in the queue. Only who owns t may call it.
func (t *Turn[T]) Waits() bool { return t.place != nil }

type queue[T any] struct {
	turns list.List
	size  float64 // the sum of theirs
}

// Open reports whether attempts may start without a Turn: they are in Round.
func (p *Pacer[T]) Open() bool { return p.told == nil && p.law.state == open }

// Told reports whether p keeps a quota that it was told.
func (p *Pacer[T]) Told() bool { return p.told != nil }

// Round returns the round of attempts that start now.
func (p *Pacer[T]) Round() uint64 { return p.law.round }

// Len returns how many attempts wait.
func (p *Pacer[T]) Len() (n int) {
	for i := range p.queues {
		n += p.queues[i].turns.Len()
	}
	return n
}

// First returns the attempt that is to start next, or nil. Most turns go to the most urgent,
// but every fifth to who came first: so nobody waits for ever.
func (p *Pacer[T]) First() (first *Turn[T]) {
	for i := range p.queues {
		e := p.queues[i].turns.Front()
		if e == nil {
			continue
		}
		t := e.Value.(*Turn[T])
		if p.served%fifth != fifth-1 {
			return t
		}
		if first == nil || t.number < first.number {
			first = t
		}
	}
	return first
}

// Enter lets t start if it may start now, and returns 0. Otherwise it returns how long t
// has to wait, as far as that is known, and puts t into the queue; but not if the wait is
// longer than patience: then Enter reports false. The less patience, the more urgent is t.
func (p *Pacer[T]) Enter(now time.Time, t *Turn[T], patience time.Duration) (wait time.Duration, ok bool) {
	p.advance(now)
	p.measure(t)
	for limit := urgent; t.class < 2*(classes-1) && patience > limit; limit *= 16 {
		t.class += 2
	}
	if !t.Retry {
		t.class++
	}
	if p.told != nil && p.Len() == 0 {
		p.told.flow = math.Inf(1) // only the store knows: no answer is older than the attempt
	}
	if wait = p.until(p.ahead(t.class), t); wait <= 0 {
		p.start(t)
		return 0, true
	}
	if wait > patience {
		return wait, false
	}
	if patience < Never {
		t.deadline = now.Add(patience)
	}
	if p.Len() == 0 {
		p.first = p.now
	}
	p.came++
	t.number = p.came
	q := &p.queues[t.class]
	q.size += t.size
	t.place = q.turns.PushBack(t)
	return wait, true
}

// ahead returns how many attempts of average cost start before one that comes now.
func (p *Pacer[T]) ahead(class int) (n float64) {
	for i := range class + 1 {
		n += p.queues[i].size
	}
	return n + min(n/(fifth-1), p.size()-n) // those that are less urgent have come before
}

// Expect returns how long t, whose Ready returns Never, is to expect to wait: for those before it,
// not those behind, and not for longer than its patience. If it would come too late, the answer of
// the store says so, as Late.
func (p *Pacer[T]) Expect(now time.Time, t *Turn[T]) time.Duration {
	p.advance(now)
	ahead := 0.
	if p.First() != t {
		ahead = p.ahead(t.class) - t.size
	}
	return max(min(p.until(ahead, t), t.left(p.now)), Gap)
}

// Ready lets t, which waits, start if it may start now, and returns 0. Otherwise it
// returns how long t has to wait: Never if it is not the first, or a store has to say.
func (p *Pacer[T]) Ready(now time.Time, t *Turn[T]) time.Duration {
	p.advance(now)
	if p.First() != t {
		return Never
	}
	if wait := p.ready(t); wait > 0 {
		return wait
	}
	p.law.busy = p.now
	p.served++
	p.remove(t)
	p.start(t)
	return 0
}

// Leave takes t, which waits, from the queue.
func (p *Pacer[T]) Leave(t *Turn[T]) { p.remove(t) }

// Unsent notes that nothing was sent for t. Nothing changes if t has not started.
func (p *Pacer[T]) Unsent(t *Turn[T]) { p.law.unstart(t.Round) }

// Return takes back that t has started: nothing was sent, and the next may start in its place.
// Who has not started, has not had to pay, or did so before all began anew, leaves no place.
func (p *Pacer[T]) Return(t *Turn[T]) {
	p.Unsent(t)
	switch {
	case !t.paid || t.term != p.term:
	case p.told == nil:
		p.debt = max(p.debt-t.size, 0)
	case p.told.reserves():
		p.told.slots = append([]batch{{p.now, 0, t.size}}, p.told.slots...)
	default:
		_, burst := p.told.pays()
		p.debt = max(p.debt-t.size, -burst)
	}
}

// renew lets debt and turns begin anew: those of before are not given back.
func (p *Pacer[T]) renew() {
	p.debt = 0
	p.term++
}

// Refusal is an attempt that was throttled.
type Refusal struct {
	Open  bool          // it had no Turn: if the Pacer is told a quota by now, that says nothing about it
	Round uint64        // of the Pacer, when it started
	Took  time.Duration // until it was throttled
	Hint  time.Duration // the server's; 0 if there was none
}

// Throttled notes that an attempt was throttled.
func (p *Pacer[T]) Throttled(now time.Time, r Refusal) {
	p.advance(now)
	if p.told != nil {
		if !r.Open {
			p.throttledTold(r.Hint)
		}
		return
	}
	if p.law.state == open {
		p.renew()
	}
	if p.law.throttled(p.now, r) {
		p.holdFor(r.Hint)
	}
}

// Hold lets nothing start for so long, or for maxHold if that is shorter, and for a random
// part of spread more. After that what came meanwhile starts at twice the rate at which it
// came since the first.
func (p *Pacer[T]) Hold(now time.Time, d time.Duration) {
	p.advance(now)
	if p.told != nil && d > 0 {
		p.holdTold(d, p.told.reserves()) // the caller knows
		return
	}
	p.holdFor(d)
}

// Rate returns how many attempts of average cost start in a second: +Inf if it is not
// limited.
func (p *Pacer[T]) Rate(now time.Time) float64 {
	switch p.advance(now); {
	case p.told != nil && p.told.fails:
		return p.told.own
	case p.told != nil:
		return p.told.rate
	case p.law.state != paced:
		return math.Inf(1)
	}
	return p.law.rate
}

// Wait returns how long a first attempt that comes now has to wait.
func (p *Pacer[T]) Wait(now time.Time) time.Duration {
	p.advance(now)
	return p.until(p.size(), &Turn[T]{size: 1})
}

// size returns how many attempts of average cost wait.
func (p *Pacer[T]) size() (n float64) {
	for i := range p.queues {
		n += p.queues[i].size
	}
	return n
}

// holdFor holds all attempts of this process. A random part comes on top: all processes get the
// same hint, and its end must not be theirs.
func (p *Pacer[T]) holdFor(d time.Duration) {
	if d <= 0 {
		return
	}
	if p.law.state < held {
		p.law.hold(p.now)
		p.renew()
	}
	p.law.busy = p.now
	d = min(d, maxHold)
	d += inSeconds(p.Chance() * spread * d.Seconds())
	p.hold = later(p.hold, p.now.Add(d))
}

// Chance returns the next of Rand's numbers.
func (p *Pacer[T]) Chance() float64 {
	if p.Rand != nil {
		return p.Rand()
	}
	return rand.Float64()
}

// advance moves the time to now. What time brings happens here alone.
func (p *Pacer[T]) advance(now time.Time) {
	from := p.now
	p.now = now
	if now.Before(from) { // the clock was put back: nothing lies further ahead than it can
		p.law.busy, p.law.since, p.first = earlier(p.law.busy, now), earlier(p.law.since, now), earlier(p.first, now)
		p.hold = earlier(p.hold, now.Add(maxHold))
		if p.told != nil {
			p.told.shift(now.Sub(from))
		}
		return
	}
	if p.told != nil {
		p.told.tick(now)
		collects := 0. // slots that come before the last one that it needs
		if first := p.First(); first != nil {
			collects = max(first.size-1, 0)
		}
		p.told.lapse(now, collects)
	}
	if p.hold.After(from) {
		from = p.hold
	}
	if p.law.state == held && !p.hold.After(now) {
		if p.Len() > 0 {
			p.law.release(p.hold, p.size(), p.first)
		} else {
			p.open()
		}
	}
	if d := now.Sub(from).Seconds(); d > 0 {
		p.law.lapse(d, p.Len() > 0)
		p.pay(d)
	}
	if p.told != nil {
		return
	}
	if p.Len() == 0 && !p.hold.After(now) && p.law.calmed(now) { // however long nothing comes in a hold: what comes next is to be held
		p.open()
	}
}

// pay lets the time pass that attempts cost. No turn is saved up, but for those that came
// late because a timer did.
func (p *Pacer[T]) pay(seconds float64) {
	if p.told != nil {
		rate, burst := p.told.pays()
		p.debt = max(p.debt-seconds*rate, -burst)
		return
	}
	if p.law.state != paced {
		return
	}
	saved := 0.
	if p.Len() > 0 {
		saved = p.law.rate * timerLag.Seconds()
	}
	p.debt = max(p.debt-seconds*p.law.rate, -saved)
}

func inSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (p *Pacer[T]) open() {
	p.law.open()
	p.hold = time.Time{}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// ready returns how long t has to wait, which is the first: Never if the store has to say first.
func (p *Pacer[T]) ready(t *Turn[T]) time.Duration {
	k := p.told
	if k == nil || !k.reserves() {
		return p.until(0, t)
	}
	switch slot, reserved := k.slot(p.now, t.size); {
	case p.hold.After(p.now):
		return max(slot, p.hold.Sub(p.now))
	case !reserved, slot == 0 && p.stale():
		return Never
	default:
		return slot
	}
}

// stale reports whether a slot has to be confirmed before it is used: a hold may have moved it.
func (p *Pacer[T]) stale() bool { return p.now.Sub(p.told.heard) > confirmed }

// until returns how long t has to wait if it has so many others before it.
func (p *Pacer[T]) until(ahead float64, t *Turn[T]) time.Duration {
	wait := max(p.hold.Sub(p.now), 0)
	switch k := p.told; {
	case k == nil:
	case k.reserves():
		slot, _ := k.slot(p.now, ahead+t.size)
		if slot == 0 && p.stale() {
			slot = Soon
		}
		return max(wait, slot)
	default:
		return wait + k.wait(p.debt+ahead, t.size)
	}
	if n := p.debt + ahead; p.law.state == paced && n > tiny {
		wait += 1 + inSeconds(min(n/p.law.rate, 1e9))
	}
	return wait
}

// measure sets the size of t, which takes part in the average.
func (p *Pacer[T]) measure(t *Turn[T]) {
	if !(t.Cost > 0) || math.IsInf(t.Cost, 1) {
		t.Cost, t.size = 0, 1
		return
	}
	if p.told != nil && !p.told.stated { // in units of the quota
		t.size = t.Cost
		return
	}
	if p.mean == 0 {
		p.mean = t.Cost
	}
	p.mean += (t.Cost - p.mean) / 64
	t.size = t.Cost / p.mean
}

func (p *Pacer[T]) start(t *Turn[T]) {
	if p.told != nil {
		if p.told.use(p.now, t.size); !p.told.reserves() {
			p.debt += t.size
		}
		t.paid, t.term = true, p.term
		return
	}
	t.Round = p.law.round
	p.law.start()
	if p.law.state != counting {
		p.debt += t.size
		t.paid, t.term = true, p.term
	}
}

func (p *Pacer[T]) remove(t *Turn[T]) {
	q := &p.queues[t.class]
	q.turns.Remove(t.place)
	t.place = nil
	q.size -= t.size
	if q.turns.Len() == 0 {
		q.size = 0 // no rounding errors stay
	}
}
