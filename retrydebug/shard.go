package retrydebug

import (
	"slices"
	"sync"
	"time"

	"github.com/goretry/retry"
)

const (
	// mostShards is enough for cores not to wait for each other, and few enough for
	// the memory that each takes.
	mostShards = 32

	// mostListed is how many runs underway are listed.
	mostListed = 1 << 16

	// oldest is how many of them are shown.
	oldest = 100
)

// shard is a part of the runs underway, taken at random, and what has been counted of
// them in one second. When the second is over, or when the page is served, the counts
// go to the operations. So cores that make runs rarely meet.
type shard struct {
	recorder *Recorder
	room     int // how many runs may be listed

	mu      sync.Mutex
	second  int64             // that is counted
	tallies [names + 1]*tally // by operation; nil without runs
	first   *run              // of the list of runs underway, in the order of their first attempts
	last    *run
	listed  int
}

// tally is what a shard knows of an operation.
type tally struct {
	op      *operation
	in      [over]int // runs underway, by their state
	counted bool      // there is something for the operation
	counts  counts
	last    lastError
	causes  []tallied // at most mostCauses
}

// tally returns that of an operation.
func (s *shard) tally(op *operation) *tally {
	t := s.tallies[op.index]
	if t == nil {
		t = &tally{op: op}
		s.tallies[op.index] = t
	}
	return t
}

// enter makes a run that is not over attempting, waiting or guarded, and lists it if it
// is not yet listed.
func (s *shard) enter(n *run, next state) {
	t := s.tally(n.op)
	if n.state == unbegun {
		s.list(n)
	} else {
		t.in[n.state]--
	}
	t.in[next]++
	n.state = next
}

// end takes a run that is over off the list, and counts it.
func (s *shard) end(n *run, at time.Duration, o outcome, sum *retry.Summary) {
	t := s.tally(n.op)
	if n.state != unbegun {
		t.in[n.state]--
		s.unlist(n)
	}
	n.state = over
	s.turn(at)
	t.counts.count(o, sum)
	t.counted = true
}

// failed notes what an attempt has failed with.
func (s *shard) failed(op *operation, e lastError, f failure) {
	s.caused(op, e.at, f)
	s.tally(op).last.latest(e)
}

// caused notes why an attempt has failed, or why a guard has refused it.
func (s *shard) caused(op *operation, at time.Duration, f failure) {
	at = min(at, time.Since(s.recorder.since)) // hooks may be called with any time
	c := s.cause(op, at, f.key)
	if at >= c.at {
		c.at, c.text = at, f.text
	}
	if c.n++; c.n == 1 {
		c.failure = f // till now only its key was known
		c.code = line(f.code, longest)
	}
}

// lost notes that a run has failed because of what its last attempt has failed with, or was refused by.
func (s *shard) lost(op *operation, at time.Duration, key uint64) {
	s.cause(op, at, key).runs++
}

// cause returns what is counted of a cause in the second of at.
func (s *shard) cause(op *operation, at time.Duration, key uint64) *tallied {
	t := s.tally(op)
	s.turn(at)
	i := slices.IndexFunc(t.causes, func(c tallied) bool { return c.key == key })
	if i < 0 {
		if len(t.causes) == mostCauses {
			t.flush(s.second)
		}
		i = len(t.causes)
		t.causes = append(t.causes, tallied{failure: failure{key: key}})
	}
	t.counted = true
	return &t.causes[i]
}

func (s *shard) list(n *run) {
	if s.listed == s.room {
		return
	}
	s.listed++
	n.listed = true
	n.prev = s.last
	if s.last == nil {
		s.first = n
	} else {
		s.last.next = n
	}
	s.last = n
}

func (s *shard) unlist(n *run) {
	if !n.listed {
		return
	}
	s.listed--
	n.listed = false
	if n.prev == nil {
		s.first = n.next
	} else {
		n.prev.next = n.next
	}
	if n.next == nil {
		s.last = n.prev
	} else {
		n.next.prev = n.prev
	}
	n.prev, n.next = nil, nil
}

// turn goes on to the second of at, if that is later.
func (s *shard) turn(at time.Duration) {
	if second := int64(at / time.Second); second > s.second {
		s.flush()
		s.second = second
	}
}

// flush hands what was counted to the operations.
func (s *shard) flush() {
	for _, t := range s.tallies {
		if t != nil && t.counted {
			t.flush(s.second)
		}
	}
}

func (t *tally) flush(second int64) {
	t.op.add(second, t)
	clear(t.causes)
	t.counts, t.last, t.causes, t.counted = counts{}, lastError{}, t.causes[:0], false
}
