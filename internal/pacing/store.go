package pacing

import (
	"math"
	"time"
)

// Ask is a question to a store, and Slots are its answer: see package pace.
type (
	Ask struct {
		Rate, Burst, Want, Least, Unused, Spent, Hold, Row, Passed, Patience float64
	}
	Slots struct{ N, Wait, Moved, Held float64 }
)

const (
	Gap     = 50 * time.Millisecond  // between two exchanges with a store, at least, if the first has given no slots that were wanted,
	quick   = 5 * time.Millisecond   // and otherwise
	Timeout = 500 * time.Millisecond // of one

	lead      = 250 * time.Millisecond // before its last slot a process asks for more
	hurried   = 2 * time.Second        // who has to start within it may get a slot ahead of those of others
	fresh     = time.Second            // for which an answer is good: slots that are used later need another one
	mostMoved = 3600                   // seconds by which holds move slots while somebody waits for them, at most
)

// Most is the largest number of an Ask, and of what else counts: units, and seconds.
const Most = 1e9

// store is what a process knows of a store, which gives out slots of a quota that others use too: units
// that may start at a time. The process asks for what those that wait need, and tells the store of the
// server's holds. The store delays the slots of all processes then, also those that are reserved.
type store struct {
	// The link:
	asked   time.Time     // when the latest Ask went out
	gap     time.Duration // until the next may
	heard   time.Time     // when the latest answer came; zero: none yet
	changed time.Time     // when the store began to answer, or to fail
	called  bool          // another process may have held all since the latest Ask

	// What it has given:
	slots slots
	back  float64 // slots that were used, but not by an attempt: the next may use them
	flow  float64 // slots in a second, by the latest answer that had some, with the wait for them; +Inf: nothing is known
	moved float64 // Slots.Moved of the latest answer

	// What it does not know yet:
	unused float64   // slots to give back
	spent  float64   // that attempts have used beyond what they were to cost
	passed time.Time // when an attempt passed last; zero: it knows

	told time.Time // the end of the longest hold that it knows of
}

// need is what those that wait need of a store.
type need struct {
	turn      *Turn         // the one that has to know first when it starts; nil: none
	next, all float64       // its slots, and those of all
	ahead     float64       // that start before it
	left      time.Duration // for which it may wait yet
}

// hold is what a store is to be told of a hold.
type hold struct {
	ends time.Time
	row  time.Time // since when nobody has passed in this process, which is its reason; zero: the server has asked for it
}

// urgent reports whether a asks for slots of one that may get them ahead of others.
func (a *Ask) urgent() bool { return a.Least > 0 && a.Patience < hurried.Seconds() }

// slot returns how long it takes until the n-th slot comes, which is when n more units may have
// started. It is sure if that slot is reserved, but not if the slot could be used now and the latest
// answer is old: a hold may have moved it.
func (s *store) slot(now time.Time, n float64) (wait time.Duration, sure bool) {
	at, ok := s.slots.at(n)
	switch {
	case !ok:
		return s.slots.end(now).Sub(now) + Soon + inSeconds((n-s.slots.count())/s.flow), false
	case !at.After(now) && now.Sub(s.heard) > fresh:
		return Soon, false
	}
	return max(at.Sub(now), 0), true
}

// lapse lets the next attempt, of a size, use slots of attempts that were not made, and drops those whose time is over, but for
// those that it collects: one that is larger than a slot starts when its last slot comes.
func (s *store) lapse(now time.Time, size float64) {
	s.slots.lapse(now, max(size-1, 0))
	if s.back > 0 {
		s.slots.add(batch{at: now, n: s.back})
		s.back = 0
	}
}

// due reports whether there is something to ask the store.
func (s *store) due(now time.Time, n need, h hold) bool {
	if s.heard.IsZero() || s.called || s.owes() || h.ends.After(later(s.told, now)) || s.slots.count() > n.all+tiny {
		return true
	}
	want, _ := s.wants(now, n)
	return want > 0
}

// owes reports whether there are slots to give back, or to pay for.
func (s *store) owes() bool { return s.unused > tiny || math.Abs(s.spent) > tiny }

// wants returns how many more slots those that wait need, if it is time to ask for them, and how many
// of these before the next of them can start: 0 if it can already, or will in time.
func (s *store) wants(now time.Time, n need) (want, least float64) {
	if n.next == 0 {
		return 0, 0
	}
	have, needs := s.slots.count(), n.ahead+n.next
	wait, _ := s.slot(now, needs)
	switch {
	case n.turn.urgent && wait > n.left: // there are some, but too late for it
		least = n.next
	case have < needs-tiny:
		least = needs - have
	case s.slots.end(now).Sub(now) > lead:
		return 0, 0
	}
	if want = max(n.all-have, least); want <= tiny {
		return 0, 0
	}
	return want, least
}

// join begins to use the store.
func (s *store) join(now time.Time) {
	s.heard, s.told, s.changed, s.called = time.Time{}, time.Time{}, now, false
	s.forgetFlow()
}

// forgetFlow forgets how fast slots come.
func (s *store) forgetFlow() { s.flow = math.Inf(1) }

// news returns an Ask that wants nothing, but tells what the store does not know.
func (s *store) news(now time.Time, q quota, h hold) (a Ask) {
	a = Ask{Rate: q.rate, Burst: q.burst, Unused: bounded(s.unused), Spent: bounded(s.spent)}
	if h.ends.After(later(s.told, now)) {
		a.Hold = h.ends.Sub(now).Seconds()
		if !h.row.IsZero() {
			a.Row = now.Sub(h.row).Seconds()
		}
	}
	if !s.passed.IsZero() {
		a.Passed = max(now.Sub(s.passed).Seconds(), tiny) // 0 would be none
	}
	return a
}

// ask returns the Ask of now, which gives back slots that nobody waits for. longest says how long the most patient
// waits.
func (s *store) ask(now time.Time, q quota, n need, h hold, longest func(time.Time) time.Duration) (a Ask) {
	s.unused += s.slots.cut(now, s.slots.count()-n.all)
	a = s.news(now, q, h)
	if want, least := s.wants(now, n); want > 0 {
		a.Want, a.Least = bounded(want), bounded(least)
		patience := n.left
		if least == 0 {
			patience = longest(now) // the first has its slots
		}
		a.Patience = bounded(patience.Seconds())
	}
	s.asked, s.called, s.passed = now, false, time.Time{}
	return a
}

// answered notes the answer to a. It reports whether the store holds nobody though this process has had a row of throttled
// attempts, because others pass.
func (s *store) answered(now time.Time, a Ask, answer Slots) (othersPass bool) {
	othersPass = a.Row > 0 && answer.Held < a.Hold-.001 // both are rounded
	s.unused, s.spent = 0, s.spent-a.Spent              // more may be spent meanwhile
	if !othersPass {
		s.told = later(s.told, s.asked.Add(inSeconds(a.Hold)+roundUp))
	}
	s.follow(answer.Moved)
	s.heard, s.gap = now, quick
	switch {
	case answer.N > tiny:
		s.add(now, answer, a.Rate)
	case a.Want > 0:
		s.gap = Gap
	}
	return othersPass
}

// follow moves the slots that were reserved before as the store has moved all.
func (s *store) follow(moved float64) {
	switch by := moved - s.moved; {
	case by == 0:
	case by > 0 && by < mostMoved: // a hold
		s.slots.move(inSeconds(by))
	default: // the store has lost what it knew, and gives them to others
		s.slots = nil
	}
	s.moved = moved
}

// add takes the slots of an answer. Those whose time has come before may be used now.
func (s *store) add(now time.Time, answer Slots, rate float64) {
	n, wait := answer.N, bounded(answer.Wait)
	if wait < 0 {
		come := min(math.Floor(-wait*rate+tiny)+1, n)
		s.slots.add(batch{at: now, n: come})
		n, wait = n-come, wait+come/rate
	}
	if n > tiny {
		s.slots.add(batch{at: now.Add(inSeconds(wait)), gap: inSeconds(1 / rate), n: n})
	}
	s.flow = answer.N / max(answer.Wait+answer.N/rate, 0)
}
