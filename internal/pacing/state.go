package pacing

import (
	"math"
	"time"
)

const (
	// Seconds:
	horizon   = .5   // a process may take half of the slots that are free within it
	longHold  = 75   // that a hold may last
	back      = 5    // a store's clock that was set back by less stands still instead
	mostAhead = 3600 // ahead that a slot may be after the clock was set back
	leastKept = 600  // for which a State is kept at least

	// Slots:
	express = 5   // of so many one may be given ahead of those that were given
	scatter = 1.5 // of so many that are free one is given: where they lie is not known
)

// State is what a store keeps of a quota, see package pace: times, in seconds of its clock, and numbers of slots.
type State struct {
	Tat    float64 // when the last slot is that was given: the theoretical arrival time of GCRA
	At     float64 // when an Ask was last applied
	Moved  float64 // sum of the delays by holds, less the time when the State began
	Until  float64 // when the last hold ends
	Passed float64 // when an attempt of any process passed last; 0: not known
	Ahead  float64 // before which no more slots are given ahead of those that were given
	Free   float64 // slots that were given back: they lie somewhere between
	Freed  float64 // this time and Tat
}

// Keep returns for how long from At on a store keeps s, if a was applied last: then the zero State says as much.
func (s *State) Keep(a Ask) time.Duration {
	return inSeconds(max(s.Tat-s.At+a.Burst/a.Rate, leastKept))
}

// Reserve applies an Ask at now, a time in seconds. The formula is GCRA's (ITU-T I.371), with slots that are
// given before their time. The script of package retryredis does the same.
func (s *State) Reserve(now float64, a Ask) Slots {
	answer := s.reserve(now, a)
	answer.Moved, answer.Held = s.Moved, max(s.Until-s.At, 0)
	return answer
}

func (s *State) reserve(now float64, a Ask) Slots {
	gap := 1 / a.Rate
	s.advance(now, a.Burst*gap)
	if a.Passed > 0 {
		s.Passed = max(s.Passed, s.At-a.Passed)
	}
	s.takeBack(a.Unused, a.Spent, gap, a.Burst*gap)
	if s.Passed <= s.At-a.Row { // nobody has passed since the row of throttled attempts began
		s.hold(a.Hold)
	}
	if a.Want == 0 {
		return Slots{}
	}
	least := max(a.Least, min(a.Want, 1))
	wait := s.Tat + least*gap - s.At
	at, ok := s.giveFree(least, min(wait, a.Patience))
	if !ok && wait > a.Patience {
		at, ok = s.giveAhead(least, gap, a.Patience)
	}
	if ok {
		return Slots{N: least, Wait: at - s.At - (least-1)*gap}
	}
	if wait > a.Patience {
		return Slots{Wait: wait}
	}
	share := math.Floor((s.At+horizon-s.Tat)*a.Rate/2 + dither(s.At))
	n, first := min(a.Want, max(share, least)), s.Tat+gap
	s.Tat += n * gap
	return Slots{N: n, Wait: first - s.At}
}

// dither returns a number from 0 to 1 that looks random. It decides how parts of a slot are rounded: equal processes that ask
// in turns would otherwise always get equal numbers, some of them less than others.
func dither(now float64) float64 {
	x := now * 618.0339887
	return x - math.Floor(x)
}

// advance moves the time to now. Slots that are free and whose time has passed are lost.
func (s *State) advance(now, bucket float64) {
	switch by := now - s.At; {
	case s.At == 0: // nothing is known
		*s = State{Tat: now - bucket, Moved: -now}
	case by < -back: // the clock was set back: what lies ahead keeps its distance
		s.Tat = now + min(max(s.Tat-s.At, -bucket), mostAhead)
		s.Until, s.Passed, s.Ahead, s.Freed = s.Until+by, s.Passed+by, s.Ahead+by, s.Freed+by
	default: // clocks that differ a little must not make time pass twice
		now = max(now, s.At)
	}
	s.At = now
	s.Ahead = max(s.Ahead, now)
	if s.Tat > now && s.Freed < now {
		s.Free *= (s.Tat - now) / (s.Tat - s.Freed)
	}
	s.Freed = max(s.Freed, now)
}

// takeBack takes slots back that were not used. Those that are yet to come are free, and the others are saved. What was
// spent beyond those that were given delays those that are given later, and what was not is there at once.
func (s *State) takeBack(unused, spent, gap, bucket float64) {
	if s.Tat > s.At {
		s.Free += unused
		unused = 0
	}
	s.Tat = max(s.Tat+(spent-unused)*gap, s.At-bucket)
	s.Free = min(s.Free, max(s.Tat-s.Freed, 0)/gap)
}

// hold delays all slots, those that were given too, so that none comes for so many seconds.
func (s *State) hold(seconds float64) {
	until := s.At + min(seconds, longHold)
	if seconds <= 0 || until <= s.Until {
		return
	}
	by := until - max(s.Until, s.At)
	s.Tat, s.Ahead, s.Freed = max(s.Tat, s.At)+by, s.Ahead+by, s.Freed+by
	s.Moved, s.Until = s.Moved+by, until
}

// giveFree gives n of the free slots, if that is sooner than in so many seconds, and returns when the last of them comes. They
// lie as evenly as is known, one in (Tat-Freed)/Free seconds, and the next are taken to begin after scatter times n of these.
// So many are used up, too: where they lie is a guess, and no more slots come than the quota has.
func (s *State) giveFree(n, seconds float64) (at float64, ok bool) {
	used := scatter * n
	if s.Free < used || s.Freed-s.At >= seconds {
		return 0, false
	}
	at = s.Freed
	s.Freed += used * (s.Tat - s.Freed) / s.Free
	s.Free -= used
	return at, true
}

// giveAhead gives n slots ahead of those that were given, to who is in a hurry, and returns when the last of them comes. That
// delays those that are given later. The next such slots come when express times as many have, in which time others have theirs.
func (s *State) giveAhead(n, gap, patience float64) (at float64, ok bool) {
	hurry, every := hurried.Seconds(), n*gap*express
	if patience >= hurry || every > hurry || s.Ahead-s.At > patience {
		return 0, false
	}
	at = s.Ahead
	s.Ahead += every
	s.Tat += n * gap
	return at, true
}
