package pacing

import (
	"math"
	"testing"
	"time"
)

func TestVerdictOfATrial(t *testing.T) {
	for _, tt := range []struct {
		seen       bool
		sent, lost float64 // at half of a rate at which a quarter was throttled
		want       verdict
	}{
		{false, 27, 0, undecided}, {false, 28, 0, other}, // seven were due
		{true, 47, 5, undecided}, {true, 48, 5, other}, {true, 48, 6, same}, {true, 48, 16, same}, {true, 48, 17, other}, // twelve were due
		{true, 0, 3, undecided}, {true, 0, 4, other}, {true, 8, 7, undecided}, {true, 8, 8, other}, // at once, if it is far more
		{true, 60, 30, other},
	} {
		x := trial{share: .25, seen: tt.seen, low: sample{tt.sent, tt.lost}}
		if got := x.verdict(); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt, got, tt.want)
		}
	}
}

// What had started before a trial says nothing, and the first one that is throttled in it says
// only that the answers to its attempts have begun to come.
func TestNotesOfATrial(t *testing.T) {
	x := trial{round: 7, low: sample{sent: 30}}
	x.note(6)
	if x.seen || x.low.sent != 30 {
		t.Errorf("%+v", x)
	}
	x.note(7)
	if !x.seen || x.low != (sample{}) {
		t.Errorf("%+v", x)
	}
	x.note(8)
	if x.low.lost != 1 {
		t.Errorf("%+v", x)
	}
}

// Cuts without a gap between them are doubted together.
func TestDoubt(t *testing.T) {
	for _, tt := range []struct {
		top, rate, passed, share float64
		anew                     bool
	}{
		{0, 5, 0, 0, true},
		{10, 9, 0, .25, false},
		{10, 10, 28, .25, false}, // seven were due
		{10, 10, 29, .25, true},
		{10, 10.1, 0, .25, true}, // the cuts have been made up for
	} {
		l := law{rate: tt.rate, passed: tt.passed, trial: trial{top: tt.top, share: tt.share, cut: 1}, recent: sample{100, 20}}
		l.doubt()
		if anew := l.trial.cut == 0; anew != tt.anew || anew && l.trial.top != tt.rate || l.trial.share != .2 {
			t.Errorf("%+v: %+v", tt, l.trial)
		}
	}
	l := law{rate: 5, recent: sample{100, 1}}
	if l.doubt(); l.trial.share != shown {
		t.Errorf("%+v", l.trial)
	}
}

// A trial takes the place of a cut below seven tenths of the rate before the first, if some
// attempts are throttled, but not many, and the rate shows something soon.
func TestATrialIsDue(t *testing.T) {
	for _, tt := range []struct {
		top, to, lost float64
		due           bool
	}{
		{10, 7, 20, true}, {10, 7.01, 20, false}, {4.4, 3, 20, true}, {4.39, 3, 20, false},
		{10, 7, 8, true}, {10, 7, 7.99, false}, {10, 7, 35, true}, {10, 7, 35.01, false},
	} {
		l := law{trial: trial{top: tt.top}, recent: sample{100, tt.lost}}
		if got := l.doubtful(tt.to); got != tt.due {
			t.Errorf("%+v: due %v", tt, got)
		}
	}
	for rate, want := range map[float64]float64{9: 5, 4: 4} { // half of the rate before the first cut, or that after the cuts
		l := law{state: paced, rate: rate, round: 3, trial: trial{top: 10}, recent: sample{100, 20}}
		l.try(noon, 3)
		if l.rate != want || l.round != 4 || l.trial != (trial{top: 10, before: rate, cut: 3, share: .2, round: 4}) {
			t.Errorf("%+v", l)
		}
	}
}

// tried returns a law in a trial at half of a rate of 10, at which a quarter was throttled:
// after it what was throttled now is known. The cut would have led to 7.
func tried(lost float64) law {
	return law{
		state: paced, rate: 5, round: 4, since: noon.Add(-time.Second), recent: sample{100, 25},
		trial: trial{top: 10, before: 9, cut: 7, share: .25, round: 4, seen: true, low: sample{47, lost}},
	}
}

func TestTheSameAtHalfOfTheRate(t *testing.T) {
	l := tried(10)
	for i, spare := range []float64{20, 40, 80, 160, 160} {
		l.start() // twelve were due
		base := (.25 + 10./48) / 2
		if l.rate != 10 || l.again != 10 || !near(l.base, base) || l.spare != spare || l.round != 5 || l.trial != (trial{}) || !near(l.recent.share(), base) || l.recent.sent != window {
			t.Fatalf("verdict %d: %+v", i+1, l)
		}
		next := tried(10)
		next.verdicts = l.verdicts
		l = next
	}
}

// If less is throttled, the cut is made, and part of it the more is; but never below the rate
// of the trial, nor above what passes of the rate before.
func TestLessAtHalfOfTheRate(t *testing.T) {
	for lost, want := range map[float64]float64{
		0: 7, 3: 7 + 2*3./48/.25, 5: 7 + 2*5./48/.25,
		17: 10 * (1 - 17./48), 30: 5,
	} {
		l := tried(lost)
		l.verdicts = 4
		l.start()
		if !near(l.rate, want) || l.spare != 0 || l.verdicts != 2 || l.round != 5 || l.trial != (trial{}) {
			t.Errorf("%v of 48 throttled: %+v, want a rate of %v", lost, l, want)
		}
	}
	l := tried(3)
	l.trial.low.sent = 40
	if l.start(); l.trial.low.sent != 41 || l.rate != 5 || l.round != 4 {
		t.Errorf("undecided: %+v", l)
	}
}

func TestUnrelatedShare(t *testing.T) {
	l := spared()
	if got := l.unrelated(); got != 1./8 {
		t.Errorf("%v in a respite", got)
	}
	l.recent.lost = 40
	if got, want := l.excess(), 40./128-1./8-math.Sqrt(7./64/128); !near(got, want) {
		t.Errorf("excess %v, want %v", got, want)
	}
	if l.recent.lost = 0; l.excess() != 0 {
		t.Errorf("excess %v of none", l.excess())
	}
	if l.spare = 0; l.unrelated() != 0 {
		t.Errorf("%v without a respite", l.unrelated())
	}
	for n, want := range map[sample]float64{{0, 0}: 0, {.5, .25}: .25, {10, 5}: .5, {10, 20}: 1} {
		if got := n.share(); got != want {
			t.Errorf("%+v: a share of %v", n, got)
		}
	}
}
