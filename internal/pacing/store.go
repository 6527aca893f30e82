package pacing

import (
	"math"
	"slices"
	"time"
)

// Ask is a question to a store, and Slots are its answer: see package pace.
type (
	Ask   struct{ Rate, Burst, Want, Least, Unused, Hold, Patience float64 }
	Slots struct{ N, Wait, Moved float64 }
)

const (
	Gap     = 50 * time.Millisecond  // between two exchanges with a store, at least
	Timeout = 500 * time.Millisecond // of one

	fresh    = time.Second            // for which an answer is good: slots that are used later need another one
	grace    = 250 * time.Millisecond // after its time, in which a slot can still be used
	orphaned = 500 * time.Millisecond // for which slots are still good when the store has lost its state
	mostWait = 3600                   // seconds: no number of a store that is larger counts
)

// store is what a process knows of a store, which gives out slots of a quota that others use too: units
// that may start at a time. The process asks for what those that wait need, and tells the store of the
// server's holds. The store delays the slots of all processes then, also those that are reserved.
type store struct {
	asked   time.Time // when the latest Ask went out
	heard   time.Time // when the latest answer came; zero: none yet
	changed time.Time // when the store began to answer, or to fail
	failing bool      // it does not answer
	news    bool      // another process may have held all since

	slots  []batch // that are reserved and not used up, in order
	unused float64 // slots to give back
	got    float64 // slots that came with the latest answer that had some,
	flow   float64 // and how many a second that was, with the wait for them; +Inf: nothing is known

	moved  float64 // Slots.Moved of the latest answer
	report report
}

// report is what this process has to do with holds of all.
type report struct {
	hold  float64 // seconds of the hold to report; 0: none
	moved float64 // Slots.Moved of the answer to the latest report
	works bool    // an attempt of this process has passed since
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

// need is how many slots those that wait need.
type need struct{ first, all float64 }

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
	return last.Sub(now) + Soon + inSeconds(min(n/s.flow, mostWait)), false
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

// expire drops slots whose time is over, but for those that the next attempt collects: one that is
// larger than a slot starts when its last slot comes.
func (s *store) expire(now time.Time, next float64) {
	over := -max(next-1, 0)
	for _, b := range s.slots {
		come := b.come(now.Add(-grace))
		if come == 0 {
			break
		}
		over += come
	}
	s.use(over)
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
	s.asked, s.changed = s.asked.Add(by), s.changed.Add(by)
	if !s.heard.IsZero() {
		s.heard = s.heard.Add(by)
	}
	for i := range s.slots {
		s.slots[i].at = s.slots[i].at.Add(by)
	}
}

// holdFor has the next Ask report a hold.
func (r *report) holdFor(d time.Duration) { r.hold = max(r.hold, d.Seconds()) }

// reports reports whether a hold is one for all. A process none of whose attempts pass may have a
// wrong key: it holds itself, unless another process has reported a hold too.
func (s *store) reports() bool { return s.report.works || s.moved > s.report.moved }

// due reports whether there is something to ask the store.
func (s *store) due(n need) bool {
	if s.heard.IsZero() || s.news || s.unused > tiny || s.report.hold > 0 || s.have() > n.all+tiny {
		return true
	}
	want, _ := s.wants(n)
	return want > 0
}

// wants returns how many more slots those that wait need, if it is time to ask for them, and how many
// of these before any of them can start: 0 if one can already.
func (s *store) wants(n need) (want, least float64) {
	if n.first == 0 {
		return 0, 0
	}
	have := s.have()
	if least = n.first - have; least <= tiny {
		least = 0
		if have >= s.got/2 {
			return 0, 0
		}
	}
	if want = n.all - have; want <= tiny {
		return 0, 0
	}
	return want, least
}

// join begins to use the store.
func (s *store) join(now time.Time) {
	s.heard, s.changed, s.failing, s.news = time.Time{}, now, false, false
	s.report.hold = 0
	s.forgetFlow()
}

// forgetFlow forgets how fast slots come.
func (s *store) forgetFlow() { s.flow = math.Inf(1) }

// putBack lets the next attempt use n slots, which were not used.
func (s *store) putBack(now time.Time, n float64) {
	s.slots = slices.Insert(s.slots, 0, batch{at: now, n: n})
}

// fails notes that the store does not answer. It returns the hold that was to be reported, which this
// process has to keep alone now.
func (s *store) fails(now time.Time) (hold time.Duration) {
	s.unused = 0 // nobody knows whether they were given back
	if !s.failing {
		hold = inSeconds(s.report.hold)
		s.failing, s.changed, s.report.hold = true, now, 0
	}
	return hold
}

// ask returns the Ask of now, which gives back slots that nobody waits for.
func (s *store) ask(now time.Time, q quota, n need) (a Ask) {
	s.giveBack(now, s.have()-n.all)
	a = Ask{Rate: q.rate, Burst: q.burst, Hold: s.report.hold, Unused: s.unused}
	a.Want, a.Least = s.wants(n)
	s.asked, s.news = now, false
	return a
}

// answered notes the answer to a, and reports whether the store has begun to answer.
func (s *store) answered(now time.Time, a Ask, answer Slots) (begins bool) {
	if begins = s.failing || s.heard.IsZero(); begins {
		s.failing, s.changed = false, now
	}
	s.unused = max(s.unused-a.Unused, 0)
	s.follow(now, answer.Moved)
	if a.Hold > 0 {
		s.report.moved, s.report.works = answer.Moved, false
		if s.report.hold <= a.Hold { // otherwise a longer one has begun meanwhile
			s.report.hold = 0
		}
	}
	s.heard = now
	if answer.N > tiny {
		s.add(now, answer, a.Rate)
	}
	return begins
}

// follow moves the slots that were reserved before as the store has moved all.
func (s *store) follow(now time.Time, moved float64) {
	switch by := moved - s.moved; {
	case s.heard.IsZero():
		s.report.moved = moved
	case by > 0: // a hold
		for i := range s.slots {
			s.slots[i].at = s.slots[i].at.Add(inSeconds(min(by, mostWait)))
		}
	case by < 0: // the store has lost what it knew
		s.report.moved = moved
		for i := range s.slots {
			s.slots[i].n = s.slots[i].come(now.Add(orphaned))
		}
		s.slots = slices.DeleteFunc(s.slots, func(b batch) bool { return b.n <= tiny })
	}
	s.moved = moved
}

// add takes the slots of an answer. Those whose time has come before may be used now.
func (s *store) add(now time.Time, answer Slots, rate float64) {
	b := batch{
		at:  now.Add(inSeconds(min(max(answer.Wait, -mostWait), mostWait))),
		gap: inSeconds(min(1/rate, mostWait)),
		n:   answer.N,
	}
	if b.at.Before(now) {
		come := b.come(now)
		s.slots = append(s.slots, batch{at: now, n: come})
		b.skip(come)
	}
	if b.n > tiny {
		s.slots = append(s.slots, b)
	}
	s.got = answer.N
	s.flow = math.Inf(1) // more slots of before are free
	if until := answer.Wait + answer.N/rate; until > 0 {
		s.flow = answer.N / until
	}
}
