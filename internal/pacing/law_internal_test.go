package pacing

import (
	"math"
	"testing"
	"time"

	"github.com/goretry/retry/internal/trial"
)

var noon = time.Unix(1e9, 0)

// spared returns a law in a respite: an eighth of the attempts is throttled whatever the rate.
func spared() law {
	return law{
		state: paced, rate: 10, round: 5, since: noon.Add(-time.Second), busy: noon,
		recent: sample{recentMemory, recentMemory / 8}, cuts: cuts{respite: trial.Respite{Left: 20, Base: 1. / 8, Again: 10, Verdicts: 4}},
	}
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-9*math.Abs(want) }

// A respite takes time, and ends at once with a gap in which seven throttled attempts were due.
func TestRespite(t *testing.T) {
	l := spared()
	if l.lapse(5, false); l.cuts.respite.Left != 15 {
		t.Errorf("%v s are left of 20 after 5", l.cuts.respite.Left)
	}
	if l.lapse(1000, false); l.cuts.respite.Left != 0 {
		t.Errorf("%v s are left", l.cuts.respite.Left)
	}
	for starts, ends := range map[int]bool{40: false, 56: false, 57: true, 200: true} {
		l := spared()
		for range starts {
			l.start()
		}
		l.throttled(noon, Refusal{Round: l.round})
		if ended := l.cuts.respite.Left == 0; ended != ends || ended != (l.cuts.respite.Verdicts == 0) {
			t.Errorf("after %d attempts without a throttled one: %v s and %v verdicts", starts, l.cuts.respite.Left, l.cuts.respite.Verdicts)
		}
		if l.passed != 0 {
			t.Errorf("%v passed since one was throttled", l.passed)
		}
	}
	l = spared()
	l.passed, l.cuts.respite.Left = 57, .5
	if l.throttled(noon, Refusal{Round: l.round}); l.cuts.respite.Left != 0 || l.cuts.respite.Verdicts != 0 {
		t.Errorf("a gap in the last second of a respite: %+v", l)
	}
	// Without a respite there is no gap.
	l = law{state: paced, rate: 10, round: 5, cuts: cuts{respite: trial.Respite{Base: 1. / 8, Verdicts: 2}}, passed: 1000}
	if l.throttled(noon, Refusal{Round: 5}); l.cuts.respite.Verdicts != 2 {
		t.Errorf("%v verdicts, want 2", l.cuts.respite.Verdicts)
	}
}

// In a respite only what is throttled beyond the share that does not depend on the rate costs
// rate: one standard deviation does not count.
func TestCutsInARespite(t *testing.T) {
	for _, tt := range []struct {
		lost float64
		late bool // the cut before was long ago, and the attempt is of this round
		cuts bool
	}{
		{recentMemory / 8, true, false}, {18, true, false}, {23, true, true}, {40, true, true}, {40, false, false},
	} {
		l := spared()
		l.recent.lost = tt.lost
		round := l.round
		if !tt.late {
			l.since = noon.Add(-cutApart + 1)
		}
		l.throttled(noon, Refusal{Round: round})
		if cut := l.rate < 10; cut != tt.cuts || cut != (l.round > round) || l.rate < 5 || l.cuts.trial != (trial.Trial{}) {
			t.Errorf("%v of 128: a rate of %v", tt.lost, l.rate)
		}
	}
	l := spared()
	l.recent.lost, l.cuts.respite.Left = 40, .5
	if l.throttled(noon, Refusal{Round: l.round}); l.rate >= 10 || l.cuts.trial != (trial.Trial{}) {
		t.Errorf("in the last second of a respite: %+v", l)
	}
	l = spared()
	l.recent.lost = 40
	if l.throttled(noon, Refusal{Round: l.round - 1}); l.rate != 10 {
		t.Errorf("an attempt of the round before led to %v", l.rate)
	}
}

// A cut has to show what it has done before the next.
func TestCutsAreApart(t *testing.T) {
	for since, cuts := range map[time.Duration]bool{0: false, cutApart - 1: false, cutApart: true, time.Second: true} {
		l := law{state: paced, rate: 2, round: 5, since: noon.Add(-since), lately: .2}
		if l.throttled(noon, Refusal{Round: 5}); l.rate < 2 != cuts {
			t.Errorf("%v after a cut: a rate of %v", since, l.rate)
		}
	}
}

// After a verdict the rate grows up to half more than before the cuts, if attempts wait.
func TestGrowthInARespite(t *testing.T) {
	calm := 1. / gainCalm
	for _, tt := range []struct {
		rate, spare, gain float64
	}{
		{10, 20, gainPerStart*10 + calm + gainRespite},
		{14.9, 20, gainPerStart*14.9 + calm + gainRespite},
		{10, .5, gainPerStart*10 + calm + gainRespite},
		{15, 20, gainPerStart*15 + calm},
		{10, 0, gainPerStart*10 + calm},
	} {
		l := spared()
		l.rate, l.cuts.respite.Left = tt.rate, tt.spare
		if l.grow(1); !near(l.rate, tt.rate*(1+tt.gain)) {
			t.Errorf("%v grows to %v in a second, want to %v", tt.rate, l.rate, tt.rate*(1+tt.gain))
		}
	}
	l := spared()
	l.cuts.trial.Round = 5
	if l.grow(1); l.rate != 10 || l.calm != 1 {
		t.Errorf("in a trial the rate grows to %v", l.rate)
	}
}

// In a respite a hint counts only beyond the share that does not depend on the rate.
func TestHintsInARespite(t *testing.T) {
	for share, want := range map[float64]bool{hintShare - 1./shareMemory - .01: false, hintShare: false, hintShare + 1./8: true} {
		l := spared()
		l.lately = share
		if holds := l.throttled(noon, Refusal{Round: l.round}); holds != want {
			t.Errorf("a share of %v, and one more: holds %v", share, holds)
		}
	}
}

// What was learned of a trial is of no use to the next time the pace begins; the rate is.
func TestOpenForgetsTrials(t *testing.T) {
	l := spared()
	l.cuts.peak, l.cuts.trial = 30, trial.Trial{Top: 3}
	l.reopen()
	if want := (law{state: open, rate: 10, round: 5, since: l.since, busy: noon, recent: l.recent}); l != want {
		t.Errorf("%+v, want %+v", l, want)
	}
	l.passed, l.census.took, l.census.stragglers, l.lately = 4, 3, 2, 1
	l.count(noon)
	if want := (law{state: counting, rate: 10, round: 6, oldest: 6, since: noon, busy: noon}); l != want {
		t.Errorf("%+v, want %+v", l, want)
	}
}

// All that is counted fades alike.
func TestCountingFades(t *testing.T) {
	l := law{state: counting, recent: sample{100, 10}, census: census{stragglers: 20}}
	l.lapse(10, false)
	if f := 1 / math.E; !near(l.recent.sent, 100*f) || !near(l.recent.lost, 10*f) || !near(l.census.stragglers, 20*f) || !near(l.census.took, 10*(1-f)) {
		t.Errorf("%+v", l)
	}
	l = law{recent: sample{10, 3}}
	for range 20 {
		l.unstart(0)
	}
	if l.recent != (sample{3, 3}) {
		t.Errorf("%+v of which nothing was sent but what was throttled", l.recent)
	}
	l = law{recent: sample{10, 3}}
	if l.unstart(0); l.recent != (sample{9, 3}) {
		t.Errorf("%+v", l.recent)
	}
}

// The counting ends by two throttled attempts since, an eighth, and a tenth of a second.
func TestCountingEndsExactly(t *testing.T) {
	for _, tt := range []struct {
		sent, lost float64
		after      time.Duration
		ends       bool
	}{
		{8, 1, time.Second, true}, {8, .5, time.Second, true}, {8, .49, time.Second, false}, {16, 1, time.Second, true}, {17, 1, time.Second, false},
		{8, 1, countLeast, true}, {8, 1, countLeast - 1, false},
	} {
		l := law{state: counting, round: 3, oldest: 3, since: noon.Add(-tt.after), recent: sample{tt.sent, tt.lost}, census: census{took: 2}}
		l.throttled(noon, Refusal{Round: 3})
		if ended := l.state == paced; ended != tt.ends || ended && (!near(l.rate, max(tt.sent-tt.lost-1, 1)/2) || l.round != 4) {
			t.Errorf("%v of %v after %v: %+v", tt.lost+1, tt.sent, tt.after, l)
		}
	}
	l := law{state: counting, round: 3, oldest: 3, since: noon.Add(-time.Minute), recent: sample{300, 60}, census: census{took: 10}}
	if l.throttled(noon, Refusal{Round: 3}); l.recent.sent != recentMemory || !near(l.recent.lost, 61*recentMemory/300.) {
		t.Errorf("%+v are remembered of 300", l.recent)
	}
}

// A hint holds if sixteen that were under way are throttled, and two fifths.
func TestFlood(t *testing.T) {
	for _, tt := range []struct {
		under, sent float64
		holds       bool
	}{{14, 0, false}, {15, 0, true}, {15, 24, true}, {15, 24.1, false}} {
		l := law{state: counting, round: 3, oldest: 3, census: census{stragglers: tt.under}, recent: sample{sent: tt.sent}}
		if holds := l.throttled(noon, Refusal{Round: 2}); holds != tt.holds || l.census.stragglers != tt.under+1 {
			t.Errorf("%v and %v since: holds %v", tt.under+1, tt.sent, holds)
		}
	}
	l := law{state: held, round: 3, oldest: 3}
	if before := l; l.throttled(noon, Refusal{Round: 3}) || l.round != before.round || l.state != held {
		t.Errorf("in a hold: %+v", l)
	}
	l = law{state: paced, round: 3, oldest: 3, census: census{stragglers: 40}}
	if l.throttled(noon, Refusal{Round: 2}) || l.census.stragglers != 40 {
		t.Error("held by attempts of before")
	}
}

// A hold that is not of a second counts as one; a rate has no reason to fall with time alone.
func TestReleaseAndForget(t *testing.T) {
	l := law{state: held, since: noon}
	if l.endHold(noon.Add(time.Second), 3, noon.Add(900*time.Millisecond)); l.rate != 6 || l.ramp != 6 {
		t.Errorf("three in a tenth of a second start at %v, up to %v", l.rate, l.ramp)
	}
	// Refusals that come late count as a long hold does: what starts before is too much.
	l = law{state: held, since: noon, delay: 10}
	if l.endHold(noon.Add(time.Second), 3, noon.Add(900*time.Millisecond)); !near(l.rate, 6./5) || l.ramp != 6 {
		t.Errorf("if refusals take ten seconds, three start at %v, up to %v", l.rate, l.ramp)
	}
	if l.grow(10); !near(l.rate, 12./5) {
		t.Errorf("ten seconds later the rate is %v, want twice as much", l.rate)
	}
	l = law{state: paced, rate: 10, cuts: cuts{peak: 100}}
	if l.grow(peakFade * 2); l.cuts.peak != 0 {
		t.Errorf("%v is remembered after a minute", l.cuts.peak)
	}
	for was, more := range map[float64]bool{20: false, 20. * peakFade / (peakFade - 1.): false, 30: true} {
		l := law{state: paced, rate: 10, cuts: cuts{peak: was}}
		l.grow(1)
		if want := 10 * (1 + gainPerStart*10 + 1./gainCalm); l.rate > want*(1+1e-9) != more {
			t.Errorf("a rate of 10 that was %v grows to %v, want more than %v: %v", was, l.rate, want, more)
		}
	}
}

// Eight throttled attempts in a row say that the server has closed: the rate at which attempts
// came before is that to which the rate grows back, and is not forgotten meanwhile.
func TestDrought(t *testing.T) {
	closed := func() law { return law{state: paced, rate: 1, round: 5, since: noon, arrivals: 16} }
	for row, want := range map[int]float64{7: 1, 8: 16, 9: 16} {
		l := closed()
		for range row {
			l.start()
			l.throttled(noon.Add(-time.Hour), Refusal{Round: l.round}) // no cut
		}
		l.cuts.peak = max(l.cuts.peak, l.rate)
		if l.cuts.peak != want || l.cuts.row != row {
			t.Errorf("after %d in a row the rate before is %v, want %v", row, l.cuts.peak, want)
		}
		before := l.cuts.peak
		if l.grow(3); (l.cuts.peak == before) != (row >= 8) {
			t.Errorf("after %d in a row %v is left of %v", row, l.cuts.peak, before)
		}
	}
	l := closed()
	for range 20 { // every second one passes
		l.start()
		l.start()
		l.throttled(noon.Add(-time.Hour), Refusal{Round: l.round})
	}
	if l.cuts.row != 0 || l.cuts.peak != 0 {
		t.Errorf("%+v though some pass", l)
	}
	l = law{state: counting, round: 3, oldest: 3, since: noon.Add(-time.Minute), recent: sample{20, 10}, census: census{took: 4}}
	if l.throttled(noon, Refusal{Round: 3}); l.arrivals != 5 {
		t.Errorf("twenty in four seconds came at %v", l.arrivals)
	}
}

// The gain until a refusal is known is the same however late refusals come.
func TestGrowsByLessIfRefusalsComeLate(t *testing.T) {
	for late, want := range map[time.Duration]float64{0: .015, 300 * time.Millisecond: .015, 3 * time.Second: .0015} {
		l := law{state: paced, rate: 10, round: 1, oldest: 1}
		for range 400 {
			l.throttled(noon, Refusal{Took: late, Round: 0})
		}
		l.calm, l.cuts.peak, l.rate = -1, 0, 10 // so that calm gains nothing in this second
		if l.grow(1); math.Abs(l.rate/10-1-want) > 1e-6 {
			t.Errorf("refusals after %v: it grows by %v in a second, want %v", late, l.rate/10-1, want)
		}
	}
}
