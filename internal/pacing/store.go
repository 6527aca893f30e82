package pacing

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Ask is a question to a store, and Slots are its answer: see package pace.
type (
	Ask struct {
		Rate, Burst, Want, Least, Unused, Spent, Hold, Row, Passed, Patience float64
	}
	Slots struct{ N, Wait, Moved float64 }
)

const (
	Gap     = 50 * time.Millisecond  // between two exchanges with a store, at least, if the first has given no slots that were wanted,
	quick   = 5 * time.Millisecond   // and otherwise
	Timeout = 500 * time.Millisecond // of one

	lead      = 250 * time.Millisecond // before its last slot a process asks for more
	hurried   = 2 * time.Second        // who has to start within it may get a slot ahead of those of others
	fresh     = time.Second            // for which an answer is good: slots that are used later need another one
	grace     = 250 * time.Millisecond // after its time, in which a slot can still be used
	orphaned  = 500 * time.Millisecond // for which slots are still good when the store has lost its state
	mostMoved = 3600                   // seconds by which holds move slots while somebody waits for them, at most
	most      = 1e9                    // no number of a store or an Ask that is larger counts
)

// store is what a process knows of a store, which gives out slots of a quota that others use too: units
// that may start at a time. The process asks for what those that wait need, and tells the store of the
// server's holds. The store delays the slots of all processes then, also those that are reserved.
type store struct {
	asked   time.Time     // when the latest Ask went out
	gap     time.Duration // until the next may
	heard   time.Time     // when the latest answer came; zero: none yet
	changed time.Time     // when the store began to answer, or to fail
	failing bool          // it does not answer
	called  bool          // another process may have held all since

	slots  []batch // that are reserved and not used up, in order
	back   float64 // slots that were used, but not by an attempt: the next may use them
	unused float64 // slots to give back
	spent  float64 // that attempts have used beyond what they were to cost, and that the store does not know
	flow   float64 // slots in a second, by the latest answer that had some, with the wait for them; +Inf: nothing is known
	moved  float64 // Slots.Moved of the latest answer
	hurry  bool    // the latest Ask is for who has to start earliest
	urgent bool    // and so are the next slots

	until  time.Time // when a hold ends that is to be reported; zero: there is none
	row    time.Time // when the row of throttled attempts began that is its reason
	passed time.Time // when an attempt passed last, if the store has not been told; zero: it has
}

// batch is slots of a store: n of them, the first at a time, each of the others a gap later. Of
// {12:00:00, 100ms, 3} the second unit may start 100 ms after noon: an attempt of size 2 that is next
// starts then.
type batch struct {
	at  time.Time
	gap time.Duration
	n   float64
}

// after returns the time of the slot after n others of b.
func (b *batch) after(n float64) time.Time {
	return b.at.Add(time.Duration(float64(b.gap) * max(n, 0)))
}

// last returns the time of the last slot of b.
func (b *batch) last() time.Time { return b.after(b.n - 1) }

// come returns how many slots of b come until now.
func (b *batch) come(now time.Time) float64 {
	past := now.Sub(b.at)
	switch {
	case past < 0:
		return 0
	case b.gap == 0:
		return b.n
	}
	return min(math.Floor(float64(past)/float64(b.gap))+1, b.n)
}

// skip takes the first n slots of b away.
func (b *batch) skip(n float64) {
	b.at = b.after(n)
	b.n -= n
}

// need is what those that wait need of a store.
type need struct {
	next, all float64       // slots of the one that has to know first when it starts, and of all
	ahead     float64       // that start before it
	left      time.Duration // for which it may wait yet
	urgent    bool          // it may get slots ahead of those of others
}

// have returns how many slots are left.
func (s *store) have() (n float64) {
	for _, b := range s.slots {
		n += b.n
	}
	return n
}

// slot returns how long it takes until the n-th slot comes, which is when n more units may have
// started. It is sure if that slot is reserved, but not if the slot could be used now and the latest
// answer is old: a hold may have moved it.
func (s *store) slot(now time.Time, n float64) (wait time.Duration, sure bool) {
	last := now
	for _, b := range s.slots {
		if n <= b.n+tiny {
			wait = b.after(math.Ceil(n-tiny) - 1).Sub(now)
			if wait <= 0 && now.Sub(s.heard) > fresh {
				return Soon, false
			}
			return max(wait, 0), true
		}
		n -= b.n
		last = later(last, b.last())
	}
	return last.Sub(now) + Soon + inSeconds(min(n/s.flow, most)), false
}

// use takes the first n slots away.
func (s *store) use(n float64) {
	for len(s.slots) > 0 && n > tiny {
		b := &s.slots[0]
		if n < b.n-tiny {
			b.skip(n)
			return
		}
		n -= b.n
		s.slots = s.slots[1:]
	}
}

// lapse lets the next attempt use slots of attempts that were not made, and drops those whose time is over, but for
// those that it collects: one that is larger than a slot starts when its last slot comes.
func (s *store) lapse(now time.Time, next float64) {
	over := -max(next-1, 0)
	for _, b := range s.slots {
		come := b.come(now.Add(-grace))
		if come == 0 {
			break
		}
		over += come
	}
	s.use(over)
	if s.back > 0 {
		s.insert(batch{at: now, n: s.back})
		s.back = 0
	}
}

// insert adds slots, in order.
func (s *store) insert(b batch) {
	i, _ := slices.BinarySearchFunc(s.slots, b, func(x, b batch) int { return cmp.Or(x.at.Compare(b.at), -1) }) // after its equals
	s.slots = slices.Insert(s.slots, i, b)
}

// giveBack gives back the last n slots, if they are yet to come.
func (s *store) giveBack(now time.Time, n float64) {
	for len(s.slots) > 0 && n > tiny {
		b := &s.slots[len(s.slots)-1]
		part := min(n, b.n)
		if !b.last().Before(now) {
			s.unused += part
		}
		n -= part
		if b.n -= part; b.n <= tiny {
			s.slots = s.slots[:len(s.slots)-1]
		}
	}
}

// shift moves all times, since the clock was set back.
func (s *store) shift(by time.Duration) {
	for _, t := range []*time.Time{&s.asked, &s.changed, &s.heard, &s.until, &s.row, &s.passed} {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
	for i := range s.slots {
		s.slots[i].at = s.slots[i].at.Add(by)
	}
}

// report has the next Ask report a hold, because of a row of throttled attempts that began at a time.
func (s *store) report(until, row time.Time) {
	if until.After(s.until) {
		s.until, s.row = until, row
	}
}

// due reports whether there is something to ask the store.
func (s *store) due(now time.Time, n need) bool {
	if s.heard.IsZero() || s.called || s.unused > tiny || math.Abs(s.spent) > tiny || s.until.After(now) || s.have() > n.all+tiny {
		return true
	}
	want, _ := s.wants(now, n)
	return want > 0
}

// wants returns how many more slots those that wait need, if it is time to ask for them, and how many
// of these before the next of them can start: 0 if it can already, or will in time.
func (s *store) wants(now time.Time, n need) (want, least float64) {
	if n.next == 0 {
		return 0, 0
	}
	have := s.have()
	wait, sure := s.slot(now, n.ahead+n.next)
	switch {
	case n.urgent && (wait > n.left || !sure && n.ahead > 0): // there are some, but too late for it
		least = n.next
	case have < n.next-tiny:
		least = n.next - have
	case s.slots[len(s.slots)-1].last().Sub(now) > lead:
		return 0, 0
	}
	want = max(n.all-have, least)
	if want <= tiny {
		return 0, 0
	}
	return want, least
}

// join begins to use the store.
func (s *store) join(now time.Time) {
	s.heard, s.changed, s.failing, s.called = time.Time{}, now, false, false
	s.until = time.Time{}
	s.forgetFlow()
}

// forgetFlow forgets how fast slots come.
func (s *store) forgetFlow() { s.flow = math.Inf(1) }

// fails notes that the store does not answer.
func (s *store) fails(now time.Time) {
	s.unused, s.spent = 0, 0 // nobody knows whether it was told
	if !s.failing {
		s.failing, s.changed, s.until = true, now, time.Time{}
	}
}

// news returns an Ask that wants nothing, but tells what the store does not know.
func (s *store) news(now time.Time, q quota) (a Ask) {
	a = Ask{Rate: q.rate, Burst: q.burst, Unused: min(s.unused, most), Spent: min(max(s.spent, -most), most)}
	if s.until.After(now) {
		a.Hold, a.Row = s.until.Sub(now).Seconds(), min(max(now.Sub(s.row).Seconds(), 0), most)
	}
	return a
}

// ask returns the Ask of now, which gives back slots that nobody waits for. longest says how long the most patient
// waits.
func (s *store) ask(now time.Time, q quota, n need, longest func(time.Time) time.Duration) (a Ask) {
	s.giveBack(now, s.have()-n.all)
	a = s.news(now, q)
	if !s.passed.IsZero() {
		a.Passed = min(max(now.Sub(s.passed).Seconds(), tiny), most)
		s.passed = time.Time{}
	}
	if want, least := s.wants(now, n); want > 0 {
		a.Want, a.Least = min(want, most), min(least, most)
		patience := n.left
		if least == 0 {
			patience = longest(now) // the first has its slots
		}
		a.Patience = min(patience.Seconds(), most)
		s.hurry = least > 0 && n.urgent
	}
	s.asked, s.called = now, false
	return a
}

// answered notes the answer to a. It reports whether the store has begun to answer, and whether it holds nobody though a asks
// for that, because others pass.
func (s *store) answered(now time.Time, a Ask, answer Slots) (begins, othersPass bool) {
	if begins = s.failing || s.heard.IsZero(); begins {
		s.failing, s.changed = false, now
	}
	othersPass = a.Hold > 0 && answer.Moved <= s.moved
	s.unused, s.spent = max(s.unused-a.Unused, 0), s.spent-a.Spent
	s.follow(now, answer.Moved)
	if s.until.Sub(s.asked) <= inSeconds(a.Hold)+roundUp { // otherwise another one has begun meanwhile
		s.until = time.Time{}
	}
	s.heard, s.gap = now, quick
	if answer.N <= tiny && a.Want > 0 {
		s.gap = Gap
	}
	if answer.N > tiny {
		s.add(now, answer, a.Rate)
		s.urgent = s.urgent || s.hurry
	}
	return begins, othersPass
}

// follow moves the slots that were reserved before as the store has moved all.
func (s *store) follow(now time.Time, moved float64) {
	switch by := moved - s.moved; {
	case s.heard.IsZero() || by == 0:
	case by > 0 && by < mostMoved: // a hold
		for i := range s.slots {
			s.slots[i].at = s.slots[i].at.Add(inSeconds(by))
		}
	default: // the store has lost what it knew
		for i := range s.slots {
			s.slots[i].n = s.slots[i].come(now.Add(orphaned))
		}
		s.slots = slices.DeleteFunc(s.slots, func(b batch) bool { return b.n <= tiny })
	}
	s.moved = moved
}

// add takes the slots of an answer. Those whose time has come before may be used now.
func (s *store) add(now time.Time, answer Slots, rate float64) {
	n, wait := answer.N, min(max(answer.Wait, -most), most)
	if wait < 0 {
		come := min(math.Floor(-wait*rate+tiny)+1, n)
		s.insert(batch{at: now, n: come})
		n, wait = n-come, wait+come/rate
	}
	if n > tiny {
		s.insert(batch{at: now.Add(inSeconds(wait)), gap: inSeconds(1 / rate), n: n})
	}
	s.forgetFlow() // more slots of before are free
	if until := answer.Wait + answer.N/rate; until > 0 {
		s.flow = answer.N / until
	}
}
