package pacing

import (
	"container/list"
	"math"
	"math/rand/v2"
	"time"
)

const (
	maxHold = time.Minute      // the longest hold for a hint
	spread  = .25              // of a hold, by which its end differs from one process to another
	quiet   = 10 * time.Second // without waits and throttled attempts, before a Pacer is open
	slow    = 8                // attempts whose time that takes too: at a low rate ten seconds show nothing
	known   = 5 * time.Minute  // for which an open Pacer remembers its rate
	lowest  = 1. / 20          // attempts per second
	highest = 1e9              // which is no limit: but an infinite rate could never fall
	memory  = 16               // attempts of which share is the throttled part
	enough  = 1. / 4           // share from which on a hint holds all attempts
	some    = 1. / 8           // share of the first attempts that ends the counting
	watched = 32               // attempts that are counted after the first throttled one
	usual   = 1. / 5           // share at which the rate loses a fifth
	most    = 1. / 2           // of the rate is lost at a time
	each    = .0015            // of the rate is gained with each attempt, while others wait
	fast    = .15              // of the rate is gained so in a second, at most
	calmly  = 75               // square root of the time in which a gain per second grows by 1
	fallen  = 1. / 2           // of the rate before its cuts, below which it grows back faster
	regain  = 30               // seconds in which that gain per second grows by 1, at a rate e times lower
	forget  = 30               // seconds in which the rate before the cuts falls by the factor e
)

// Never is the wait of an attempt that is not the first of the queue.
const Never time.Duration = math.MaxInt64

// Pacer is the state of one pace. The zero value is open. Its time is what its methods
// are given. It is not safe for concurrent use.
type Pacer[T any] struct {
	Rand func() float64 // uniform in [0,1); nil means math/rand/v2

	state state
	round uint64    // counts how often the rate was lowered
	rate  float64   // attempts per second; the last one known while the Pacer is open
	was   float64   // the highest rate before the recent cuts; 0 before the first
	share float64   // of the recent attempts, those that were throttled
	mean  float64   // cost of an attempt; 0 before the first
	debt  float64   // attempts, or a part of one, whose time has to pass before the next may start
	now   time.Time // of debt
	hold  time.Time // nothing starts before, and debt does not fall
	calm  float64   // seconds since the last throttled attempt in which attempts waited, and none was held
	busy  time.Time // when an attempt last had to wait, or was throttled

	// Since counting began:
	since  time.Time
	oldest uint64  // the round then
	sent   float64 // attempts
	hits   int     // those that were throttled

	queues [2]queue[T] // of retries, which go first, and of first attempts
}

type state uint8

const (
	open     state = iota // nothing waits, and nothing is counted
	counting              // nothing waits: is it the rate that is throttled, or one attempt in many?
	held                  // all wait, since a server that throttled nothing said so: the rate is not known
	paced                 // attempts start one by one, at the rate
)

// Turn is an attempt that a Pacer has let start, or that waits.
type Turn[T any] struct {
	Owner T       // for the caller
	Cost  float64 // in any unit; one that is not positive, or not finite, counts as the average
	Retry bool    // goes before first attempts
	Round uint64  // of the Pacer, when the attempt started

	size  float64 // the cost as a multiple of the average
	place *list.Element
}

// Waits reports whether t is in the queue. Only who owns t may call it.
func (t *Turn[T]) Waits() bool { return t.place != nil }

type queue[T any] struct {
	turns list.List
	size  float64 // the sum of theirs
}

func (t *Turn[T]) queue(p *Pacer[T]) *queue[T] {
	if t.Retry {
		return &p.queues[0]
	}
	return &p.queues[1]
}

// Open reports whether attempts may start without a Turn: they are in Round.
func (p *Pacer[T]) Open() bool { return p.state == open }

// Round returns the round of attempts that start now.
func (p *Pacer[T]) Round() uint64 { return p.round }

// Len returns how many attempts wait.
func (p *Pacer[T]) Len() int { return p.queues[0].turns.Len() + p.queues[1].turns.Len() }

// First returns the attempt that is to start next, or nil.
func (p *Pacer[T]) First() *Turn[T] {
	for i := range p.queues {
		if e := p.queues[i].turns.Front(); e != nil {
			return e.Value.(*Turn[T])
		}
	}
	return nil
}

// Enter lets t start if it may start now, and returns 0. Otherwise it returns how long t
// has to wait, as far as that is known, and puts t into the queue; but not if the wait is
// longer than patience: then Enter reports false.
func (p *Pacer[T]) Enter(now time.Time, t *Turn[T], patience time.Duration) (wait time.Duration, ok bool) {
	p.advance(now)
	p.measure(t)
	q := t.queue(p)
	ahead := p.queues[0].size
	if !t.Retry {
		ahead += q.size
	}
	if wait = p.until(ahead); wait <= 0 {
		p.start(t)
		return 0, true
	}
	if wait > patience {
		return wait, false
	}
	q.size += t.size
	t.place = q.turns.PushBack(t)
	return wait, true
}

// Ready lets t, which waits, start if it may start now, and returns 0. Otherwise it
// returns how long t has to wait if it is the first, and Never if it is not.
func (p *Pacer[T]) Ready(now time.Time, t *Turn[T]) time.Duration {
	p.advance(now)
	if p.First() != t {
		return Never
	}
	if wait := p.until(0); wait > 0 {
		return wait
	}
	p.busy = p.now
	p.remove(t)
	p.start(t)
	return 0
}

// Leave takes t, which waits, from the queue.
func (p *Pacer[T]) Leave(t *Turn[T]) { p.remove(t) }

// Return takes back that t has started: nothing was sent.
func (p *Pacer[T]) Return(t *Turn[T]) {
	if p.state == counting {
		p.sent = max(p.sent-t.size, 0)
	}
	p.debt = max(p.debt-t.size, 0)
}

// Throttled notes that an attempt which started in a round was throttled, with the
// server's hint, 0 if there was none.
func (p *Pacer[T]) Throttled(now time.Time, round uint64, hint time.Duration) {
	p.advance(now)
	remembered := p.rate > 0 && p.now.Sub(p.busy) < known
	p.busy, p.calm = p.now, 0
	switch {
	case p.state == open:
		p.round++
		p.oldest, p.since, p.sent, p.hits, p.debt = p.round, p.now, 0, 0, 0
		if p.state, p.share = counting, 0; remembered {
			p.state, p.share = paced, some
		}
		return
	case round < p.oldest || p.state == held: // it was under way when the counting or the hold began
		return
	case p.state == counting:
		p.share = min(p.share+1./memory, 1)
		if p.hits++; p.hits < 2 || float64(p.hits) < some*p.sent {
			return
		}
		took := max(p.now.Sub(p.since), time.Millisecond)
		p.share = max(p.share, some)
		p.pace(max(p.sent-float64(p.hits), 1) / took.Seconds())
	default:
		if round == p.round {
			p.pace(p.rate * (1 - min(2*p.share*p.share/(p.share+usual), most))) // by little if the rate may not be the reason
		}
		p.share = min(p.share+1./memory, 1) // more at once: many were under way
	}
	if p.share >= enough {
		p.holdFor(hint)
	}
}

// Hold lets nothing start for so long, or for maxHold if that is shorter, and for a random
// part of spread more. After that what came meanwhile starts at twice the rate at which it
// came.
func (p *Pacer[T]) Hold(now time.Time, d time.Duration) {
	if p.advance(now); d <= 0 {
		return
	}
	if p.state < held {
		p.round++
		p.state, p.oldest, p.since, p.share, p.debt = held, p.round, p.now, some, 0
	}
	p.busy = p.now
	p.holdFor(d)
}

// Rate returns how many attempts of average cost start in a second: +Inf if it is not
// limited.
func (p *Pacer[T]) Rate(now time.Time) float64 {
	if p.advance(now); p.state != paced {
		return math.Inf(1)
	}
	return p.rate
}

// Wait returns how long a first attempt that comes now has to wait.
func (p *Pacer[T]) Wait(now time.Time) time.Duration {
	p.advance(now)
	return p.until(p.size())
}

// size returns how many attempts of average cost wait.
func (p *Pacer[T]) size() float64 { return p.queues[0].size + p.queues[1].size }

// pace lowers the rate, and begins a round.
func (p *Pacer[T]) pace(rate float64) {
	if p.state == paced {
		p.was = max(p.was, p.rate)
	}
	p.state, p.rate = paced, max(rate, lowest)
	p.round++
}

// grow raises the rate after some seconds in which attempts waited. Whether an attempt
// succeeds is known up to a minute later, so only the time that has passed since one was
// throttled says that the rate is too low.
//
// The first part makes up for what attempts cost that are throttled whatever the rate
// is, up to one in twenty. The second part lets slow processes and fast ones find the
// same rate: fast ones are throttled more often.
//
// The third part brings a process back that lost nearly all of its rate by chance, when
// the quota was used up: below half of the rate that it had before its recent cuts it
// grows the faster the more it has lost. A second without a throttled attempt says less
// if hardly one started in it, so below one attempt per second it grows by less.
func (p *Pacer[T]) grow(seconds float64) {
	p.calm += seconds
	p.was -= p.was * min(seconds/forget, 1)
	gain := min(each*p.rate, fast) + p.calm/(calmly*calmly)
	if lost := p.was * fallen / p.rate; lost > 1 {
		gain += math.Log(lost) * p.calm / regain * min(p.rate, 1)
	}
	p.rate = min(p.rate+p.rate*min(seconds*gain, 1), highest)
}

// holdFor holds all attempts. A random part comes on top: all processes get the same
// hint, and its end must not be theirs.
func (p *Pacer[T]) holdFor(d time.Duration) {
	random := rand.Float64
	if p.Rand != nil {
		random = p.Rand
	}
	d = min(d, maxHold)
	d += inSeconds(random() * spread * d.Seconds())
	if at := p.now.Add(d); at.After(p.hold) {
		p.hold = at
	}
}

// advance moves the time to now. What time brings happens here alone.
func (p *Pacer[T]) advance(now time.Time) {
	from := p.now
	p.now = now
	if now.Before(from) { // the clock was put back: nothing lies further ahead than it can
		p.busy, p.since, p.hold = earlier(p.busy, now), earlier(p.since, now), earlier(p.hold, now.Add(maxHold))
		return
	}
	if p.hold.After(from) {
		from = p.hold
	}
	if p.state == held && !p.hold.After(now) {
		if p.pace(2 * p.size() / p.hold.Sub(p.since).Seconds()); p.Len() == 0 {
			p.open()
		}
	}
	if d := now.Sub(from).Seconds(); d > 0 && p.state == paced {
		if p.Len() > 0 {
			p.grow(d)
		}
		p.debt = max(p.debt-d*p.rate, 0)
	}
	if p.Len() == 0 && p.calmed() {
		p.open()
	}
}

// calmed reports whether nothing more is to be expected.
func (p *Pacer[T]) calmed() bool {
	if p.hold.After(p.now) {
		return false // however long nothing comes: what comes next is to be held
	}
	calm := p.now.Sub(p.busy)
	switch p.state {
	case counting:
		return calm > quiet || p.sent > watched
	case paced:
		return calm > quiet+inSeconds(slow/p.rate)
	}
	return false
}

func inSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (p *Pacer[T]) open() { p.state, p.hold, p.was = open, time.Time{}, 0 }

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// until returns how long an attempt has to wait that has so many others before it.
func (p *Pacer[T]) until(ahead float64) time.Duration {
	wait := max(p.hold.Sub(p.now), 0)
	if n := p.debt + ahead; p.state == paced && n > 1e-9 {
		wait += 1 + inSeconds(min(n/p.rate, 1e9))
	}
	return wait
}

// measure sets the size of t, which takes part in the average.
func (p *Pacer[T]) measure(t *Turn[T]) {
	if !(t.Cost > 0) || math.IsInf(t.Cost, 1) {
		t.size = 1
		return
	}
	if p.mean == 0 {
		p.mean = t.Cost
	}
	p.mean += (t.Cost - p.mean) / 64
	t.size = t.Cost / p.mean
}

func (p *Pacer[T]) start(t *Turn[T]) {
	t.Round = p.round
	p.share -= p.share / memory
	if p.state == counting {
		p.sent += t.size
	} else {
		p.debt += t.size
	}
}

func (p *Pacer[T]) remove(t *Turn[T]) {
	q := t.queue(p)
	q.turns.Remove(t.place)
	t.place = nil
	if q.size -= t.size; q.turns.Len() == 0 {
		q.size = 0 // no rounding errors stay
	}
}
