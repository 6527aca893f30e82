package fleetpace

import (
	"math"

	"github.com/goretry/retry/internal/trial"
)

// The constants of the law. Those without a reason are fitted: chosen by simulations of
// fleets on some seeds, and tested on others.
const (
	maxHold = 60.     // seconds, the longest hold
	spread  = .25     // of a hold, at random: so many processes must not go on at once
	quiet   = 10.     // seconds without waits and throttled attempts, before it is open
	slow    = 8.      // attempts whose time that takes too: at a low rate ten seconds show nothing
	known   = 300.    // seconds for which an open State remembers its rate
	lowest  = 1. / 60 // attempts per second of the fleet
	highest = 1e9     // which is no limit: but an infinite rate could never fall
	jumps   = 60.     // seconds by which a clock that goes back was put back: by less, it is another process's

	window  = 1.     // seconds of counting
	grace   = .25    // seconds for the last reports
	trips   = 4.     // throttled attempts that end the counting
	some    = 1. / 8 // share of throttled attempts that does
	watched = 64.    // attempts after which it ends without

	memory = 16.    // attempts of which share is the throttled part
	enough = 1. / 4 // share from which on a hint holds all
	fallen = 1. / 4 // of the highest of the last minute: late news must not ruin the rate
	apart  = 1.     // seconds between two cuts: so long it takes until all know of one
	recent = 4.     // seconds over which starts and throttled attempts are averaged,
	least  = 64.    // but at least so many attempts
	shows  = 2.     // seconds of waits after which it is known what passes

	calmly = 2000. // square seconds of calm per gain; fitted
	near   = .9    // of what passed, below which it grows back
	half   = .5    // of the highest that passed in the last minute, below which too
	forget = 60.   // seconds in which that falls by the factor e
	back   = .1    // of the rate is gained so in a second; fitted
	seek   = .1    // of the rate is gained in a second while no cut has shown what passes; fitted
	spared = .02   // of the rate is gained in a second in a respite; fitted
	each   = .0002 // of the rate is gained with each attempt, while others wait,
	fast   = .02   // but so much in a second at most: what is throttled whatever the rate is it makes up for
	lower  = .75   // of what passed is tried: a quota that is the reason throttles nothing there; fitted
	skip   = 4.    // times the rate is how fast head goes at most
	prices = 64.   // attempts in which the average cost changes by the factor e
)

// trials of a fleet cost less than those of a process: it has more attempts.
var trials = trial.Law{Ask: .85, Shown: .03}

// State is what a store keeps for a quota. The zero State is that of a quota of which nothing
// is known, and of one that was lost.
type State struct {
	// Numbers alone, so that a script can have them too. Times are seconds of the store's
	// clock, sizes are attempts of average cost, rates are per second.
	epoch float64 // differs if the state was lost
	mode  float64
	round float64 // counts the cuts, and all else that begins anew

	rate   float64 // the last one known while it is open
	share  float64 // of the recent attempts, those that were throttled
	calm   float64 // seconds of waits since one was throttled
	got    float64 // recent starts,
	lost   float64 // those of them that were throttled,
	span   float64 // and the seconds in which attempts waited for them
	passed float64 // the rate that passed, at the last cut
	was    float64 // the highest that passed of late
	cut    float64 // when the rate was set last
	sure   float64 // 1: a cut has shown what passes
	clean  float64 // attempts since one was throttled

	trial trial.Trial   // is the rate the reason?
	spare trial.Respite // if it is not

	head float64 // the number up to which turns have come
	tail float64 // that of the last one given
	gaps float64 // size of the turns between them that were given back

	at    float64 // the time
	hold  float64 // nothing starts before
	busy  float64 // when attempts last waited, or one was throttled
	since float64 // when the counting or the hold began
	sent  float64 // attempts since the counting began
	hits  float64 // those of them that were throttled
	mean  float64 // cost of an attempt; 0 before the first
}

// numbers are those of s in the order of its text.
func (s *State) numbers() []*float64 {
	return []*float64{
		&s.epoch, &s.mode, &s.round, &s.rate, &s.share, &s.calm, &s.got, &s.lost, &s.span,
		&s.passed, &s.was, &s.cut, &s.sure, &s.clean,
		&s.trial.Top, &s.trial.Round, &s.trial.Before, &s.trial.Cut, &s.trial.Share, &s.trial.Seen, &s.trial.Sent, &s.trial.Lost,
		&s.spare.Left, &s.spare.Base, &s.spare.Again, &s.spare.Verdicts,
		&s.head, &s.tail, &s.gaps,
		&s.at, &s.hold, &s.busy, &s.since, &s.sent, &s.hits, &s.mean,
	}
}

// Apply changes s by a report, and returns the answer to it. now is the time of the store's
// clock in seconds since any moment; one that goes back by less than a minute counts as
// standing still. random is uniform in [0,1).
//
// The order of the steps is part of the law: the script of package retryredis has the same.
func (s *State) Apply(now, random float64, r Report) Answer {
	before := s.mode
	if s.epoch == 0 {
		*s = begin(now, random, r)
	}
	s.advance(now)
	s.price(r)

	// What was counted and given back is known before what was throttled is judged.
	same := r.Epoch == s.epoch
	if s.mode == counting && r.Counted {
		s.sent += r.Started
		s.hits += r.Hits
	}
	if same && r.Returned > 0 {
		s.gaps = min(s.gaps+r.Returned, max(s.tail-s.head, 0))
	}
	if r.Hits > 0 {
		s.throttled(r, same, random)
	}
	if s.mode == counting {
		s.decide(r, random)
	}
	if r.Hold > 0 {
		s.beginHold(r.Hold, random)
	}

	// Turns are given by the rate and the hold that hold now.
	a := Answer{Epoch: s.epoch, Round: s.round, Mode: Mode(s.mode), Hold: max(s.hold-s.at, 0), Mean: s.mean}
	a.First, a.Size = s.give(r, a.Hold)
	a.Head, a.Tail = s.head, s.tail
	switch a.Mode {
	case Counting:
		if a.Count = s.since + window - s.at; a.Count <= 0 {
			a.Count = window
		}
	case Paced:
		a.Rate, a.Speed = s.rate, s.speed()
	}
	a.News = s.mode != before && s.mode != open
	return a
}

// The modes of a State.
const (
	open     = float64(Open)
	counting = float64(Counting)
	held     = float64(Held)
	paced    = float64(Paced)
)

// begin returns the state of a quota after the first report, or after it was lost: who comes
// first brings the rate.
func begin(now, random float64, r Report) State {
	s := State{epoch: math.Floor(random*(1<<52)) + 1, at: now, round: r.Round + 1}
	if r.Rate > 0 {
		s.mode, s.rate, s.busy, s.share, s.sure = paced, min(max(r.Rate, lowest), highest), now, some, 1
	}
	return s
}

// advance moves the time to now. What time brings happens here alone.
func (s *State) advance(now float64) {
	from := s.at
	if now <= from {
		if from-now > jumps { // it was put back: nothing lies further ahead than it can
			s.at, s.busy, s.since, s.cut = now, min(s.busy, now), min(s.since, now), min(s.cut, now)
			s.hold = min(s.hold, now+maxHold)
		}
		return
	}
	s.at = now
	fade := math.Exp(-(now - from) / max(recent, least/max(s.rate, lowest)))
	s.got, s.lost, s.span = s.got*fade, s.lost*fade, s.span*fade
	s.was *= math.Exp(-(now - from) / forget)
	s.spare.Left = max(s.spare.Left-(now-from), 0)
	if s.mode == held && s.hold <= now {
		s.release()
		from = s.hold
	}
	if s.mode == paced {
		s.move(max(from, s.hold))
	}
	if s.mode == counting && now-s.busy > quiet {
		s.mode = open
	}
}

// move lets turns come from a time on.
func (s *State) move(from float64) {
	if s.at > from {
		s.serve(from, s.at-from)
	}
	if s.tail <= s.head && s.hold <= s.at && s.at-s.busy > quiet+slow/s.rate {
		s.mode = open
	}
}

// serve moves head for some seconds, and learns from those who have started.
func (s *State) serve(from, seconds float64) {
	rate, speed := s.rate, s.speed() // both grow only for what comes later
	if waited := min(seconds, (s.tail-s.head)/speed); waited > 0 {
		s.busy = from + waited
		s.grow(waited)
	}
	head := min(s.head+seconds*speed, s.tail+1) // no turn is saved up, but one
	passed := max(min(head, s.tail)-min(s.head, s.tail), 0)
	n := passed * rate / speed // without those that were given back
	s.gaps = min(max(s.gaps-(passed-n), 0), max(s.tail-head, 0))
	s.head = head
	s.share *= math.Pow(1-1/memory, n)
	s.got += n
	s.clean += n
	s.span += n / rate
	if s.trial.Round > 0 {
		s.trial.Sent += n
		s.judge()
	}
}

// speed is that of head. It is not known which turns between head and tail were given back: as
// if they were evenly spread, head goes the faster the more there are.
func (s *State) speed() float64 {
	given := s.tail - s.head
	if s.gaps <= 0 || given <= 0 {
		return s.rate
	}
	return s.rate * (given / max(given-s.gaps, given/skip))
}

// grow raises the rate after some seconds in which attempts waited. A calm second says less if
// hardly an attempt started in it.
func (s *State) grow(seconds float64) {
	s.calm += seconds
	if s.trial.Round > 0 {
		return // its attempts start at one rate
	}
	gain := s.calm/calmly + min(each*s.rate, fast)
	if s.rate < max(near*s.passed, half*s.was) {
		gain += back
	}
	if s.sure == 0 {
		gain += seek
	} else if s.spare.Seeks(s.rate) {
		gain += spared
	}
	gain *= min(max(s.rate, s.rate*s.calm/memory), 1)
	s.rate = min(s.rate+s.rate*min(seconds*gain, 1), highest)
}

// price lets the costs of a report take part in the average.
func (s *State) price(r Report) {
	if !(r.Priced > 0) || !(r.Costs > 0) {
		return
	}
	if s.mean == 0 {
		s.mean = r.Costs / r.Priced
	}
	s.mean += (r.Costs/r.Priced - s.mean) * (1 - math.Exp(-r.Priced/prices))
}

// throttled learns from attempts that were throttled.
func (s *State) throttled(r Report, same bool, random float64) {
	remembered := s.rate > 0 && s.at-s.busy < known
	s.busy = s.at
	switch s.mode {
	case open:
		s.round++
		s.since, s.sent, s.hits, s.head = s.at, 0, 0, s.tail
		s.mode = counting
		if remembered {
			s.forgetTrials()
			s.mode, s.share, s.calm = paced, some, 0
		}
	case paced:
		s.lost = min(s.lost+r.Hits, s.got)
		if !same || r.Round != s.round || r.Fresh <= 0 {
			return // they were under way when the rate was lowered
		}
		s.calm = 0
		s.share = min(s.share+r.Fresh/memory, 1)
		s.refused(r.Fresh)
		if s.share >= enough+s.spare.Unrelated() {
			s.holdFor(r.Hint, random)
		}
	}
}

// recentShare is the share of the recent attempts that was throttled.
func (s *State) recentShare() float64 { return min(s.lost/max(s.got, 1), 1) }

// refused lowers the rate after attempts of its round that were throttled, unless it has been
// lowered just now.
func (s *State) refused(fresh float64) {
	cut := s.at-s.cut >= apart
	s.spare.Doubt(s.clean)
	switch {
	case s.spare.Left > 0:
		if x := s.spare.Excess(s.recentShare(), least); x > 0 && cut {
			s.setRate(s.rate * (1 - trial.Loss(x)))
		}
	case s.trial.Round > 0:
		s.trial.Note(fresh)
	default:
		s.trial.Doubt(trials, s.rate, s.clean, s.recentShare())
		if cut {
			s.lowerRate()
		}
	}
	s.clean = 0
}

// lowerRate cuts the rate, but not below what passed.
func (s *State) lowerRate() {
	rate := max(s.rate*(1-trial.Loss(s.share)), min(fallen*s.was, s.rate))
	if s.span < shows {
		s.setRate(rate)
		return
	}
	s.passed = min(max(s.got-s.lost, 0)/s.span, s.rate)
	s.was = max(s.was, s.passed)
	if s.share >= some {
		s.sure = 1
	}
	rate = max(rate, s.passed)
	if s.trial.Due(trials, rate, s.recentShare()) {
		s.trial.Begin(s.round+1, s.rate, rate, s.recentShare())
		s.setRate(min(lower*s.passed, s.rate))
	} else {
		s.setRate(rate)
	}
}

// judge ends a trial if it shows enough.
func (s *State) judge() {
	t := s.trial
	switch t.Verdict() {
	case trial.Undecided:
		return
	case trial.Same:
		s.spare.Begin(t)
		s.lost = s.spare.Base * s.got
		s.setRate(t.Top)
	case trial.Other:
		s.spare.Verdicts /= 2
		s.setRate(t.After(s.rate))
	}
	s.trial = trial.Trial{}
}

// forgetTrials forgets all doubts whether the rate is the reason.
func (s *State) forgetTrials() { s.trial, s.spare = trial.Trial{}, trial.Respite{} }

// decide ends the counting, if enough is known.
func (s *State) decide(r Report, random float64) {
	took := s.at - s.since - grace
	switch {
	case took < window:
	case s.hits >= trips && s.hits >= some*s.sent:
		passed := max(s.sent-s.hits, 1) / took
		s.head, s.gaps = s.tail, 0
		s.beginPaced(passed)
		s.passed, s.was = passed, passed
		if s.hits >= enough*s.sent {
			s.holdFor(r.Hint, random)
		}
	case s.sent > watched:
		s.mode = open
	}
}

// beginPaced begins at a rate of which nothing is known but what led to it. A rate that is
// remembered goes on with what was learned, and so does not begin here.
func (s *State) beginPaced(rate float64) {
	s.share, s.calm, s.sure = some, 0, 0
	s.got, s.lost, s.span, s.passed, s.was = 0, 0, 0, 0, 0
	s.forgetTrials()
	s.setRate(rate)
}

// setRate sets the rate, and begins a round.
func (s *State) setRate(rate float64) {
	s.mode, s.rate, s.cut = paced, min(max(rate, lowest), highest), s.at
	s.round++
}

// holdFor lets nothing start for a hint.
func (s *State) holdFor(hint, random float64) {
	d := min(hint, maxHold)
	s.hold = max(s.hold, s.at+d+random*spread*d)
}

// beginHold lets nothing start for so long, though nothing was refused.
func (s *State) beginHold(d, random float64) {
	if s.mode == open || s.mode == counting {
		s.mode, s.since, s.head = held, s.at, s.tail
		s.round++
	}
	s.busy = s.at
	s.holdFor(d, random)
}

// release ends a hold before which the rate was not known: what has come meanwhile starts at
// twice the rate at which it came.
func (s *State) release() {
	s.mode = open
	if s.tail > s.head {
		s.beginPaced(2 * (s.tail - s.head) / max(s.hold-s.since, 1))
	}
}

// give gives turns, as many as come within the report's patience.
func (s *State) give(r Report, hold float64) (first, size float64) {
	if s.mode != paced && s.mode != held {
		return 0, 0
	}
	size = max(r.Take, 0)
	if s.mode == paced {
		size = max(min(size, (r.Patience-hold)*s.rate+s.head+s.gaps-s.tail), 0)
	} else if hold > r.Patience {
		size = 0
	}
	first = s.tail
	s.tail += size
	if s.tail > s.head {
		s.busy = s.at
	}
	return first, size
}
