package pacing

import (
	"math"
	"time"
)

const (
	window  = 128     // attempts of which the longer share is the throttled part
	gap     = 7       // throttled attempts were to be expected: that none came is chance once in e⁷ times
	ask     = 7. / 10 // of the rate before some cuts: a trial begins where a cut would go lower; fitted
	lower   = 1. / 2  // of that rate is tried: a quota that is the reason throttles far less, or nothing
	quick   = 4.4     // attempts per second, below which a trial takes longer than most quotas stay as they are; fitted
	shown   = .08     // share from which on a trial begins: up to about a twentieth the growth makes up for; fitted
	unmoved = .35     // share above which none begins: a quota that ran out looks like that; fitted
	least   = 12      // throttled attempts to be expected in a trial: their number scatters by less than a third
	fewer   = .5      // times as many as expected, or
	more    = 1.4     // times as many, are too few or too many for chance alone; fitted
	leap    = 2       // times as many as expected, and
	luck    = 3       // more, end a trial at once: that is chance in one of some hundred
	respite = 20      // seconds for which the first verdict holds, so that a false one costs little; fitted
	longest = 8       // times as long does one hold after some in a row; fitted
	seek    = .02     // of the rate is gained in a second meanwhile; fitted
	beyond  = 1.5     // times the rate before the cuts, up to which that goes
)

// sample is some attempts, and how many of them were throttled.
type sample struct{ sent, lost float64 }

func (s sample) share() float64 { return min(s.lost/max(s.sent, 1), 1) }

// limit keeps the share, but of so many attempts at most.
func (s *sample) limit(n float64) {
	if s.sent > n {
		s.sent, s.lost = n, s.lost*n/s.sent
	}
}

// A trial asks whether the rate is the reason why attempts are throttled: some are
// whatever it is, because one model or tenant of many has no quota left. Cuts would then
// end at the lowest rate. So after some cuts, without a gap between them in which several
// throttled attempts were to be expected, half of the rate before them is tried. A server
// that throttles for the rate throttles a smaller part of the attempts then. If the part
// is the same, the rate comes back, and for a respite only what is throttled beyond that
// part lowers it.
//
// A process that is one of many sees mostly what the others do. But all of them cut at
// once if their quota is used up, and where the part rises they do not agree by chance.
type trial struct {
	top float64 // the rate before the cuts; 0 without any

	round  uint64 // the first of the trial; 0 before it
	before float64
	cut    float64 // the rate if there had been a cut instead
	share  float64 // that was throttled
	seen   bool    // one of its attempts was throttled: low counts from there on, and so latency cancels out
	low    sample
}

type verdict uint8

const (
	undecided verdict = iota
	other             // a part is throttled that depends on the rate
	same              // the rate is not the reason
)

func (t *trial) verdict() verdict {
	expected := t.low.sent * t.share
	switch {
	case !t.seen && expected < gap:
		return undecided
	case !t.seen:
		return other
	case t.low.lost > leap*expected+luck || t.low.lost >= more*least:
		return other
	case expected < least:
		return undecided
	case t.low.lost < fewer*least:
		return other
	}
	return same
}

// note counts a throttled attempt of a trial.
func (t *trial) note(round uint64) {
	switch {
	case round < t.round: // it had started before
	case !t.seen:
		t.seen, t.low = true, sample{}
	default:
		t.low.lost++
	}
}

// doubt begins to doubt anew if the cuts so far have led to a gap, or have been made up for.
func (l *law) doubt() {
	t := &l.trial
	if t.top == 0 || l.rate > t.top || l.passed*t.share > gap {
		*t = trial{top: l.rate}
	}
	t.share = max(l.recent.share(), shown)
}

// doubtful reports whether a trial is due instead of a cut to rate.
func (l *law) doubtful(rate float64) bool {
	s := l.recent.share()
	return l.trial.top >= quick && rate <= ask*l.trial.top && s >= shown && s <= unmoved
}

// try begins a trial instead of a cut to rate.
func (l *law) try(now time.Time, rate float64) {
	t := &l.trial
	t.before, t.cut, t.share = l.rate, rate, l.recent.share()
	l.set(now, min(lower*t.top, l.rate))
	t.round = l.round
}

// judge ends a trial if it shows enough.
func (l *law) judge() {
	t := l.trial
	v := t.verdict()
	if v == undecided {
		return
	}
	l.trial = trial{}
	l.round++
	switch v {
	case same:
		l.base, l.again, l.rate = (t.share+t.low.share())/2, t.top, t.top
		l.recent = sample{window, window * l.base}
		l.verdicts = min(max(2*l.verdicts, 1), longest)
		l.spare = respite * l.verdicts
	case other:
		t.cut += (t.before - t.cut) * min(t.low.share()/t.share, 1)
		l.rate = max(l.rate, min(t.cut, t.top*(1-t.low.share())))
		l.verdicts /= 2
	}
}

// unrelated returns the share that is known not to depend on the rate.
func (l *law) unrelated() float64 {
	if l.spare > 0 {
		return l.base
	}
	return 0
}

// excess returns by how much more than that is throttled. What chance adds to it does not
// count: one standard deviation.
func (l *law) excess() float64 {
	return max(l.recent.share()-l.base-math.Sqrt(l.base*(1-l.base)/window), 0)
}
