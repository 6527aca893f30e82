package retry

import "time"

// stopwatch measures the age of a run. If nobody can see when the run began, it counts
// from epoch, which costs half as much as time.Now.
type stopwatch struct {
	start    time.Time
	since    time.Duration // since epoch, if relative
	relative bool
}

var epoch = time.Now()

func (s *stopwatch) begin(p *Policy) {
	s.relative = p.Clock == nil && p.Hooks.Wait == nil && p.Hooks.Guard == nil && !p.Hooks.timesFirstTry()
	if s.relative {
		s.since = time.Since(epoch)
	} else {
		s.start = p.clock().Now()
	}
}

func (s *stopwatch) elapsed(p *Policy) time.Duration {
	switch {
	case s.relative:
		return time.Since(epoch) - s.since
	case p.Clock == nil:
		return time.Since(s.start)
	}
	return p.Clock.Now().Sub(s.start)
}
