package health

import "time"

// Evidence counts the attempts of a Health that is well, or on the ramp, until they show that
// what they call is down.
type Evidence interface {
	Failed(now time.Time, id string) (enough bool)
	Passed(now time.Time)
	Reset() // it begins anew
}

// Row is enough when so many attempts have failed without a success between them, the first of
// them at least some time before the last.
//
// The zero Row takes six, and two seconds: if a third of all attempts fails at random, six in a
// row are one of 729, and as all of two seconds rare also among many.
type Row struct {
	Least int           // attempts; 0: six, and two seconds
	Over  time.Duration // between the first and the last

	N     int       // so many have failed in a row
	First time.Time // when the first of them ended
}

func (r *Row) Failed(now time.Time, _ string) bool {
	least, over := r.Least, r.Over
	if least == 0 {
		least, over = 6, 2*time.Second
	}
	if r.N == 0 || now.Before(r.First) {
		r.First = now
	}
	r.N++
	return r.N >= least && now.Sub(r.First) >= over
}

func (r *Row) Passed(time.Time) { r.N = 0 }
func (r *Row) Reset()           { r.N = 0 }

// Share is the evidence of a circuit breaker: at least twenty attempts of the last ten seconds
// have ended, and nine tenths of them have failed. One in use may be up to a tenth of a second
// shorter.
type Share struct {
	epoch time.Time   // of the first slot
	slot  int64       // the one underway
	slots [100]counts // in a ring
	all   counts      // of them
}

type counts struct{ ended, failed uint32 }

const slotLength = time.Second / 10

func (s *Share) Failed(now time.Time, _ string) bool {
	s.add(now, 1)
	return s.all.ended >= 20 && 10*s.all.failed >= 9*s.all.ended
}

func (s *Share) Passed(now time.Time) { s.add(now, 0) }
func (s *Share) Reset()               { *s = Share{} }

func (s *Share) add(now time.Time, failed uint32) {
	length := int64(len(s.slots))
	slot := int64(now.Sub(s.epoch) / slotLength)
	if slot > s.slot+length || slot < s.slot-int64(slack/slotLength) { // all is old, or the clock was set back
		*s, slot = Share{epoch: now}, 0
	}
	for s.slot < slot {
		s.slot++
		old := &s.slots[s.slot%length]
		s.all.ended -= old.ended
		s.all.failed -= old.failed
		*old = counts{}
	}
	at := &s.slots[s.slot%length]
	at.ended++
	at.failed += failed
	s.all.ended++
	s.all.failed += failed
}

// Score is the evidence of a queue's gate, whose failures may be those of bad messages. A failure
// of each message counts one, and a success takes Failures away, never below 0. It is enough when
// the score is Failures or more, and left 0 at least half a second ago: when more than five of six
// fail. It never exceeds twice Failures, so that two successes are enough to begin anew.
//
// In a queue of few messages that is never reached. So twice Failures of at least two messages
// without a success between them are enough too, the first at least ten seconds before the last.
type Score struct {
	Failures int // below 1: five

	score int
	seen  map[string]bool // the messages that have counted
	since time.Time       // the score is above 0

	row     Row
	one     string // of the row
	several bool   // another one has failed too
}

func (s *Score) Failed(now time.Time, id string) bool {
	limit := s.limit()
	if s.score == 0 || now.Before(s.since) {
		s.since = now
	}
	if s.score < 2*limit && !s.seen[id] {
		s.score++
		if s.seen == nil {
			s.seen = map[string]bool{}
		}
		s.seen[id] = id != "" // a message without an ID is always another one
	}
	if s.row.N == 0 {
		s.one, s.several = id, false
	} else if id != s.one {
		s.several = true
	}
	s.row.Least, s.row.Over = 2*limit, 10*time.Second
	long := s.row.Failed(now, id) && s.several
	return long || s.score >= limit && now.Sub(s.since) >= time.Second/2
}

func (s *Score) Passed(now time.Time) {
	s.row.Reset()
	if s.score -= s.limit(); s.score <= 0 {
		s.Reset()
	}
}

func (s *Score) Reset() {
	s.score = 0
	clear(s.seen)
	s.row.Reset()
}

func (s *Score) limit() int {
	if s.Failures < 1 {
		return 5
	}
	return s.Failures
}
