// Package trial asks whether the rate of attempts is the reason why a server throttles some
// of them. It is arithmetic, for the law of package pacing.
package trial

import "math"

// The constants of trials. Those without a reason are fitted: chosen by simulations of
// quotas on some seeds, and tested on others.
const (
	gap     = 7   // throttled attempts were to be expected: that none came is chance once in e⁷ times
	quick   = 4.4 // attempts per second, below which a trial takes longer than most quotas stay as they are; fitted
	shown   = .08 // share from which on a trial begins: the growth of the rate makes up for what is less, up to about a twentieth
	unmoved = .35 // share above which none begins: a quota that ran out looks like that; fitted
	deep    = .7  // of the rate before the cuts: a trial begins where a cut would go lower. They are rare: a process has few attempts
	least   = 12  // throttled attempts to be expected in a trial: their number scatters by less than a third
	fewer   = .5  // times as many as expected, or
	more    = 1.4 // times as many, are too few or too many for chance alone; fitted
	leap    = 2   // times as many as expected, and
	luck    = 3   // more, end a trial at once: that is chance in one of some hundred
	respite = 20  // seconds for which the first verdict holds, so that a false one costs little; fitted
	longest = 8   // times as long does one hold after some in a row; fitted
	beyond  = 1.5 // times the rate before the cuts, up to which that is sought
	usual   = .2  // share at which a rate loses a fifth
	most    = .5  // of a rate is lost at a time
)

// Loss returns the part of a rate that throttled attempts cost, which are a share of the recent
// ones: little, if the rate may not be the reason.
func Loss(share float64) float64 { return min(2*share*share/(share+usual), most) }

// Trial asks whether the rate is the reason why attempts are throttled: some are whatever it
// is, at random. Cuts would then end at the lowest rate. So after some cuts, without a gap between
// them in which several throttled attempts were to be expected, a lower rate is tried. A server that
// throttles for the rate throttles a smaller part of the attempts then. If the part is the same, the
// rate comes back, and for a respite only what is throttled beyond that part lowers it.
//
// A process that is one of many sees mostly what the others do. But all of them cut at once
// if their quota is used up, and where the part rises they do not agree by chance.
//
// The zero value is no trial.
type Trial struct {
	Top    float64 // the rate before the cuts; 0 without any
	Round  uint64  // the first of the trial; 0 before it
	Before float64 // the rate before the trial
	Cut    float64 // the rate if there had been a cut instead
	Share  float64 // that was throttled
	Seen   bool    // one of its attempts was throttled. Sent and Lost count from there on, and so latency cancels out
	Sent   float64
	Lost   float64
}

// Respite is what a trial has shown.
type Respite struct {
	Left     float64 // seconds for which it holds
	Base     float64 // share that does not depend on the rate
	Again    float64 // the rate that came back for that reason
	Verdicts float64 // in a row, that said so: doubled with each
}

// Doubt notes that an attempt was throttled at a rate, after so many that were not since the
// last one. It begins to doubt anew if the cuts so far have led to a gap, or have been made up
// for.
func (t *Trial) Doubt(rate, passed, share float64) {
	if rate > t.Top || passed*t.Share > gap {
		*t = Trial{Top: rate}
	}
	t.Share = max(share, shown)
}

// Due reports whether a trial is due instead of a cut to rate.
func (t *Trial) Due(rate, share float64) bool {
	return t.Top >= quick && rate <= deep*t.Top && shown <= share && share <= unmoved
}

// Begin begins a trial in a round, instead of a cut of a rate.
func (t *Trial) Begin(round uint64, rate, cut, share float64) {
	t.Round, t.Before, t.Cut, t.Share = round, rate, cut, share
}

// Note counts a throttled attempt of the trial.
func (t *Trial) Note() {
	if !t.Seen {
		t.Seen, t.Sent, t.Lost = true, 0, 0
		return
	}
	t.Lost++
}

// share is the part of the trial's attempts that was throttled.
func (t *Trial) share() float64 { return min(t.Lost/max(t.Sent, 1), 1) }

// A Verdict is what a trial has shown.
type Verdict int

const (
	Undecided Verdict = iota
	Other             // a part is throttled that depends on the rate
	Same              // the rate is not the reason
)

// Verdict returns what the attempts so far have shown.
func (t *Trial) Verdict() Verdict {
	expected := t.Sent * t.Share
	switch {
	case !t.Seen && expected < gap:
		return Undecided
	case !t.Seen:
		return Other
	case t.Lost > leap*expected+luck || t.Lost >= more*least:
		return Other
	case expected < least:
		return Undecided
	case t.Lost < fewer*least:
		return Other
	}
	return Same
}

// After returns the rate after a trial which has shown that the rate is the reason: the cut
// that was due, in proportion to what is still throttled.
func (t *Trial) After(rate float64) float64 {
	cut := t.Cut + (t.Before-t.Cut)*min(t.share()/t.Share, 1)
	return max(rate, min(cut, t.Top*(1-t.share())))
}

// Begin begins a respite after a trial which has shown that the rate is not the reason.
func (r *Respite) Begin(t Trial) {
	r.Base, r.Again = (t.Share+t.share())/2, t.Top
	r.Verdicts = min(max(2*r.Verdicts, 1), longest)
	r.Left = respite * r.Verdicts
}

// Doubt ends a respite if none of the last attempts was throttled, so many that some should
// have been: the verdict was false.
func (r *Respite) Doubt(passed float64) {
	if r.Left > 0 && passed*r.Base > gap {
		r.Left, r.Verdicts = 0, 0
	}
}

// Unrelated returns the share that is known not to depend on the rate.
func (r *Respite) Unrelated() float64 {
	if r.Left > 0 {
		return r.Base
	}
	return 0
}

// Excess returns by how much a share, of so many attempts, is beyond that. What chance adds
// to it does not count: one standard deviation.
func (r *Respite) Excess(share, attempts float64) float64 {
	return max(share-r.Base-math.Sqrt(r.Base*(1-r.Base)/attempts), 0)
}

// Seeks reports whether a rate is to grow because it may have been too low before: calm does
// not show that in a respite.
func (r *Respite) Seeks(rate float64) bool { return r.Left > 0 && rate < beyond*r.Again }
