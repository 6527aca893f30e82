package pacing

import (
	"testing"
	"time"

	"github.com/goretry/retry/internal/trial"
)

// A trial is of half of the rate before the first cut, or of that after the cuts.
func TestATrialBegins(t *testing.T) {
	for rate, want := range map[float64]float64{9: 5, 4: 4} {
		l := law{state: paced, rate: rate, round: 3, lately: 1, cuts: cuts{trial: trial.Trial{Top: 10, Share: .2}}, recent: sample{100, 20}}
		l.cut(noon, 3)
		if l.rate != want || l.round != 4 || l.cuts.trial != (trial.Trial{Top: 10, Before: rate, Cut: rate / 2, Share: .2, Round: 4}) {
			t.Errorf("%+v", l)
		}
	}
}

// tried returns a law in a trial at half of a rate of 10, at which a quarter was throttled:
// after it what was throttled now is known. The cut would have led to 7.
func tried(lost float64) law {
	return law{
		state: paced, rate: 5, round: 4, since: noon.Add(-time.Second), recent: sample{100, 25},
		cuts: cuts{trial: trial.Trial{Top: 10, Before: 9, Cut: 7, Share: .25, Round: 4, Seen: true, Sent: 47, Lost: lost}},
	}
}

func TestTheSameAtHalfOfTheRate(t *testing.T) {
	l := tried(10)
	for i, spare := range []float64{20, 40, 80, 160, 160} {
		l.start() // twelve were due
		base := (.25 + 10./48) / 2
		if l.rate != 10 || l.cuts.respite.Again != 10 || !near(l.cuts.respite.Base, base) || l.cuts.respite.Left != spare || l.round != 5 || l.cuts.trial != (trial.Trial{}) || !near(l.recent.share(), base) || l.recent.sent != recentMemory {
			t.Fatalf("verdict %d: %+v", i+1, l)
		}
		next := tried(10)
		next.cuts.respite.Verdicts = l.cuts.respite.Verdicts
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
		l.cuts.respite.Verdicts = 4
		l.start()
		if !near(l.rate, want) || l.cuts.respite.Left != 0 || l.cuts.respite.Verdicts != 2 || l.round != 5 || l.cuts.trial != (trial.Trial{}) {
			t.Errorf("%v of 48 throttled: %+v, want a rate of %v", lost, l, want)
		}
	}
	l := tried(3)
	l.cuts.trial.Sent = 40
	if l.start(); l.cuts.trial.Sent != 41 || l.rate != 5 || l.round != 4 {
		t.Errorf("undecided: %+v", l)
	}
}

// An attempt that was not sent is none: neither of a trial, nor of the share, nor of those since
// one was throttled.
func TestUnsentAttemptsAreNotOfATrial(t *testing.T) {
	l := tried(10)
	l.lately, l.passed, l.cuts.trial.Sent = .3, 5, 20
	before := l
	for range 500 {
		l.start()
		l.unstart(l.round)
	}
	if !near(l.lately, before.lately) || l.passed != before.passed || l.cuts.trial != before.cuts.trial || l.state != paced || l.rate != before.rate {
		t.Errorf("%+v, want %+v", l, before)
	}
	l.unstart(l.round - 1) // it had started before the trial
	if l.cuts.trial != before.cuts.trial {
		t.Errorf("%+v, want %+v", l.cuts.trial, before.cuts.trial)
	}
	l = law{state: counting, round: 3, oldest: 3, recent: sample{10, 3}}
	if l.unstart(2); l.recent != (sample{10, 3}) {
		t.Errorf("%+v after one was not sent that had started before the counting", l.recent)
	}
	l = law{state: paced, round: 3, lately: 1, cuts: cuts{trial: trial.Trial{Round: 3}}}
	if l.unstart(3); l.lately != 1 || l.passed != 0 || l.cuts.trial.Sent != 0 {
		t.Errorf("%+v", l)
	}
}

func TestShareOfASample(t *testing.T) {
	for n, want := range map[sample]float64{{0, 0}: 0, {.5, .25}: .25, {10, 5}: .5, {10, 20}: 1} {
		if got := n.share(); got != want {
			t.Errorf("%+v: a share of %v", n, got)
		}
	}
}
