package pacing

// tiny is less than any part of a turn that matters. Numbers of turns are sums of floats, in the
// process and in the store: what ought to be equal differs by a rounding error.
const tiny = 1e-9

// span is the turns (from, to].
type span struct{ from, to float64 }

// turns are those that a process was given and has not used up, in order.
type turns []span

// size returns how many there are.
func (ts turns) size() (n float64) {
	for _, s := range ts {
		n += s.to - s.from
	}
	return n
}

// last returns the number of the last one, 0 if there is none.
func (ts turns) last() float64 {
	if len(ts) == 0 {
		return 0
	}
	return ts[len(ts)-1].to
}

// end returns the number at which turns of a size end that begin with the first. If there are
// fewer, those that are missing come after tail.
func (ts turns) end(size, tail float64) float64 {
	for _, s := range ts {
		d := s.to - s.from
		if size <= d+tiny {
			return s.from + size
		}
		size -= d
	}
	return tail + size
}

// take uses up turns of a size, the first first.
func (ts *turns) take(size float64) {
	for len(*ts) > 0 && size > tiny {
		s := &(*ts)[0]
		d := s.to - s.from
		if size < d-tiny {
			s.from += size
			return
		}
		size -= d
		*ts = (*ts)[1:]
	}
}

// drop takes turns of a size away, the last first.
func (ts *turns) drop(size float64) {
	for n := len(*ts); n > 0 && size > tiny; n-- {
		s := &(*ts)[n-1]
		d := s.to - s.from
		if size < d-tiny {
			s.to -= size
			return
		}
		size -= d
		*ts = (*ts)[:n-1]
	}
}

// add puts turns after the others.
func (ts *turns) add(s span) { *ts = append(*ts, s) }

// putBack puts turns before the others.
func (ts *turns) putBack(s span) { *ts = append(turns{s}, *ts...) }
