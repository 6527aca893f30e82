package trial_test

import (
	"math"
	"testing"

	"github.com/goretry/retry/internal/trial"
)

func near(got, want float64) bool { return math.Abs(got-want) < 1e-9 }

func TestLoss(t *testing.T) {
	for share, want := range map[float64]float64{0: 0, .05: .02, .2: .2, .5: .5, 1: .5} {
		if got := trial.Loss(share); !near(got, want) {
			t.Errorf("a share of %v costs %v of the rate, want %v", share, got, want)
		}
	}
}

func TestVerdict(t *testing.T) {
	for _, tt := range []struct {
		seen       bool
		sent, lost float64 // at a rate below one at which a quarter was throttled
		want       trial.Verdict
	}{
		{false, 27, 0, trial.Undecided}, {false, 28, 0, trial.Other}, // seven were due
		{true, 47, 5, trial.Undecided}, {true, 48, 5, trial.Other}, {true, 48, 6, trial.Same}, {true, 48, 16, trial.Same}, {true, 48, 17, trial.Other}, // twelve were due
		{true, 0, 3, trial.Undecided}, {true, 0, 4, trial.Other}, {true, 8, 7, trial.Undecided}, {true, 8, 8, trial.Other}, // at once, if it is far more
		{true, 60, 30, trial.Other}, {true, 60, 16.8, trial.Other}, {true, 60, 16.7, trial.Same},
	} {
		x := trial.Trial{Share: .25, Seen: tt.seen, Sent: tt.sent, Lost: tt.lost}
		if got := x.Verdict(); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt, got, tt.want)
		}
	}
}

// The first one that is throttled in a trial says only that the answers to its attempts have
// begun to come.
func TestNote(t *testing.T) {
	x := trial.Trial{Round: 7, Sent: 30}
	if x.Note(); x != (trial.Trial{Round: 7, Seen: true}) {
		t.Errorf("%+v", x)
	}
	x.Note()
	if x.Note(); x.Lost != 2 {
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
		x := trial.Trial{Top: tt.top, Share: tt.share, Cut: 1}
		x.Doubt(tt.rate, tt.passed, .2)
		if anew := x.Cut == 0; anew != tt.anew || anew && x.Top != tt.rate || x.Share != .2 {
			t.Errorf("%+v: %+v", tt, x)
		}
	}
	var x trial.Trial
	if x.Doubt(5, 0, .01); x.Share != .08 {
		t.Errorf("%+v", x)
	}
}

// A trial takes the place of a cut below a part of the rate before the first, if some attempts
// are throttled, but not many, and the rate shows something soon.
func TestDue(t *testing.T) {
	for _, tt := range []struct {
		top, to, share float64
		due            bool
	}{
		{10, 7, .2, true}, {10, 7.01, .2, false}, {4.4, 3, .2, true}, {4.39, 3, .2, false},
		{10, 7, .08, true}, {10, 7, .0799, false}, {10, 7, .35, true}, {10, 7, .3501, false},
	} {
		x := trial.Trial{Top: tt.top}
		if got := x.Due(tt.to, tt.share); got != tt.due {
			t.Errorf("%+v: due %v", tt, got)
		}
	}
	x := trial.Trial{Top: 10}
	if x.Begin(4, 9, 7, .2); x != (trial.Trial{Top: 10, Round: 4, Before: 9, Cut: 7, Share: .2}) {
		t.Errorf("%+v", x)
	}
}

// If less is throttled, the cut is made, and part of it the more is; but never below the rate
// of the trial, nor above what passes of the rate before.
func TestAfter(t *testing.T) {
	for lost, want := range map[float64]float64{0: 7, 3: 7 + 2*3./48/.25, 17: 10 * (1 - 17./48), 30: 5, 60: 5} {
		x := trial.Trial{Top: 10, Before: 9, Cut: 7, Share: .25, Sent: 48, Lost: lost}
		if got := x.After(5); !near(got, want) {
			t.Errorf("%v of 48 throttled: %v, want %v", lost, got, want)
		}
	}
	x := trial.Trial{Top: 100, Before: 9, Cut: 7, Share: .25, Sent: 48, Lost: 17}
	if got := x.After(5); got != 9 {
		t.Errorf("more than before throttled: %v, want the rate before", got)
	}
}

func TestRespite(t *testing.T) {
	var r trial.Respite
	x := trial.Trial{Top: 10, Share: .25, Sent: 48, Lost: 10}
	for i, seconds := range []float64{20, 40, 80, 160, 160} {
		if r.Begin(x); r.Left != seconds || r.Again != 10 || !near(r.Base, (.25+10./48)/2) {
			t.Errorf("verdict %d: %+v", i+1, r)
		}
	}
	for lost, base := range map[float64]float64{.25: .25, .5: .375, 20: .625} { // of half an attempt
		if r.Begin(trial.Trial{Share: .25, Sent: .5, Lost: lost}); r.Base != base {
			t.Errorf("%v throttled: %+v, want a share of %v", lost, r, base)
		}
	}
	last := trial.Respite{Left: .5, Base: 1. / 8, Again: 10, Verdicts: 4}
	if last.Unrelated() != 1./8 || !last.Seeks(10) {
		t.Errorf("in its last half second: %+v", last)
	}
	if last.Doubt(57); last.Left != 0 {
		t.Errorf("%+v", last)
	}
	r = trial.Respite{Left: 20, Base: 1. / 8, Again: 10, Verdicts: 4}
	if got := r.Unrelated(); got != 1./8 {
		t.Errorf("%v in a respite", got)
	}
	if got, want := r.Excess(.3, 128), .3-1./8-math.Sqrt(7./64/128); !near(got, want) {
		t.Errorf("excess %v, want %v", got, want)
	}
	if got := r.Excess(.13, 128); got != 0 {
		t.Errorf("excess %v by chance", got)
	}
	if !r.Seeks(14.9) || r.Seeks(15) {
		t.Error("half as much again is sought")
	}
	if r.Doubt(56); r.Left != 20 { // seven were due
		t.Errorf("%+v", r)
	}
	if r.Doubt(57); r.Left != 0 || r.Verdicts != 0 {
		t.Errorf("none of 57 was throttled: %+v", r)
	}
	if r.Unrelated() != 0 || r.Seeks(1) {
		t.Errorf("without a respite: %+v", r)
	}
	r = trial.Respite{Base: 1. / 8, Verdicts: 2}
	if r.Doubt(1e6); r.Verdicts != 2 {
		t.Errorf("%+v", r)
	}
}
