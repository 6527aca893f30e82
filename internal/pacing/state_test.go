package pacing_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/goretry/retry/internal/pacing"
)

const day = 86400.

func round(x float64) float64 { return math.Round(x*1e4) / 1e4 }

// Asks and answers, one after the other.
func TestState(t *testing.T) {
	type step struct {
		at      float64
		a       pacing.Ask
		n, wait float64
		moved   float64 // since the first
		why     string
	}
	ten := func(a pacing.Ask) pacing.Ask { a.Rate, a.Burst = 10, 1; return a }
	for name, steps := range map[string][]step{
		"one after the other": {
			{0, ten(pacing.Ask{Want: 1, Least: 1, Patience: 9}), 1, 0, 0, ""},
			{0, ten(pacing.Ask{Want: 1, Least: 1, Patience: 9}), 1, .1, 0, ""},
			{.05, ten(pacing.Ask{Want: 1, Least: 1, Patience: 9}), 1, .15, 0, ""},
			{5, ten(pacing.Ask{Want: 1, Least: 1, Patience: 9}), 1, 0, 0, "a slot is saved, and no more"},
			{5, ten(pacing.Ask{Want: 1, Least: 1, Patience: 9}), 1, .1, 0, ""},
		},
		"too late": {
			{0, ten(pacing.Ask{Want: 30, Least: 30, Patience: 9}), 30, 0, 0, ""},
			{0, ten(pacing.Ask{Want: 1, Least: 1, Patience: 2.9}), 0, 3, 0, "it has three seconds to wait"},
			{0, ten(pacing.Ask{Want: 1, Least: 1, Patience: 3.1}), 1, 3, 0, ""},
		},
		"a dear one": {
			{0, ten(pacing.Ask{Want: 100, Least: 50, Patience: 9}), 50, 0, 0, "no more than it needs to start"},
		},
		"those in a hurry": {
			{0, ten(pacing.Ask{Want: 50, Least: 50, Patience: 9}), 50, 0, 0, ""},
			{0, ten(pacing.Ask{Want: 1, Least: 1, Patience: 1.9}), 1, 0, 0, "ahead of the others"},
			{0, ten(pacing.Ask{Want: 1, Least: 1, Patience: 1.9}), 1, .5, 0, "one of five"},
			{0, ten(pacing.Ask{Want: 1, Least: 1, Patience: .9}), 0, 5.2, 0, ""},
			{0, ten(pacing.Ask{Want: 1, Least: 1, Patience: 2}), 0, 5.2, 0, "not in a hurry"},
			{0, ten(pacing.Ask{Want: 5, Least: 5, Patience: 1.9}), 0, 5.6, 0, "a dear one is not, however it hurries"},
		},
		"given back": {
			{0, ten(pacing.Ask{Want: 50, Least: 50, Patience: 9}), 50, 0, 0, ""},
			{0, ten(pacing.Ask{Unused: 10}), 0, 0, 0, ""},
			{0, ten(pacing.Ask{Want: 1, Least: 1, Patience: 9}), 1, 0, 0, "one that is free"},
			{0, ten(pacing.Ask{Want: 1, Least: 1, Patience: 9}), 1, .735, 0, "the next lies further"},
			{2, ten(pacing.Ask{Want: 1, Least: 1, Patience: 9}), 1, 0, 0, "those that have passed are lost"},
			{9, ten(pacing.Ask{Want: 1, Least: 1, Patience: 9}), 1, 0, 0, ""},
		},
		"given back late": {
			{0, pacing.Ask{Rate: 10, Burst: 5, Want: 5, Least: 5, Patience: 9}, 5, -.4, 0, ""},
			{0, pacing.Ask{Rate: 10, Burst: 5, Unused: 3}, 0, 0, 0, ""},
			{0, pacing.Ask{Rate: 10, Burst: 5, Want: 5, Least: 5, Patience: 9}, 5, -.2, 0, "three are saved"},
		},
		"used beyond": {
			{0, ten(pacing.Ask{Want: 1, Least: 1, Patience: 9}), 1, 0, 0, ""},
			{0, ten(pacing.Ask{Spent: 30}), 0, 0, 0, ""},
			{0, ten(pacing.Ask{Want: 1, Least: 1, Patience: 9}), 1, 3.1, 0, ""},
		},
		"used less": {
			{0, pacing.Ask{Rate: 10, Burst: 5, Want: 30, Least: 30, Patience: 9}, 30, -.4, 0, ""},
			{0, pacing.Ask{Rate: 10, Burst: 5, Spent: -10}, 0, 0, 0, ""},
			{0, pacing.Ask{Rate: 10, Burst: 5, Want: 1, Least: 1, Patience: 9}, 1, 1.6, 0, ""},
			{0, pacing.Ask{Rate: 10, Burst: 5, Spent: -1000}, 0, 0, 0, ""},
			{0, pacing.Ask{Rate: 10, Burst: 5, Want: 1, Least: 1, Patience: 9}, 1, -.4, 0, "no more than the Burst is saved"},
		},
		"a hold": {
			{0, ten(pacing.Ask{Hold: 5, Row: 2}), 0, 0, 5, ""},
			{1, ten(pacing.Ask{Hold: 4, Row: 3}), 0, 0, 5, "it is the same"},
			{1, ten(pacing.Ask{Want: 1, Least: 1, Patience: 9}), 1, 4.1, 5, ""},
			{2, ten(pacing.Ask{Hold: 500}), 0, 0, 77, "75 seconds at most"},
		},
		"others pass": {
			{0, ten(pacing.Ask{Passed: 1}), 0, 0, 0, ""},
			{1, ten(pacing.Ask{Hold: 5, Row: 2.5}), 0, 0, 0, "since the row began"},
			{1, ten(pacing.Ask{Hold: 5, Row: 1.5}), 0, 0, 5, "before"},
		},
		"ten a day": {
			{0, pacing.Ask{Rate: 10 / day, Burst: 1, Want: 1, Least: 1, Patience: 9}, 1, 0, 0, ""},
			{9000, pacing.Ask{Rate: 10 / day, Burst: 1, Want: 1, Least: 1, Patience: 9}, 1, 0, 0, "at once"},
			{9001, pacing.Ask{Rate: 10 / day, Burst: 1, Want: 1, Least: 1, Patience: 1}, 0, 8639, 0, "nobody is in such a hurry"},
		},
		"a clock that is set back": {
			{100, ten(pacing.Ask{Want: 20, Least: 20, Patience: 9}), 20, 0, 0, ""},
			{98, ten(pacing.Ask{Want: 1, Least: 1, Patience: 9}), 1, 2, 0, "it stands still"},
			{50, ten(pacing.Ask{Want: 1, Least: 1, Patience: 9}), 1, 2.1, 0, "what lies ahead keeps its distance"},
		},
	} {
		var s pacing.State
		began := 1.7e9
		for i, x := range steps {
			got := s.Reserve(began+x.at, x.a)
			if got.N != x.n || round(got.Wait) != x.wait && !(x.n > 0 && x.wait < 0 && got.Wait <= 0) || round(got.Moved+began+steps[0].at) != x.moved {
				t.Errorf("%s, step %d: %v slots in %v, moved by %v; want %v, %v, %v: %s", name, i, got.N, round(got.Wait), round(got.Moved+began+steps[0].at), x.n, x.wait, x.moved, x.why)
			}
		}
	}
}

// Whatever is asked for, given back and held, no more slots come than the quota allows, but for those that are given ahead.
func TestStateGivesNoMoreThanTheQuota(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 9))
		var s pacing.State
		rate, burst := math.Exp(2*rng.NormFloat64()), 1+float64(rng.IntN(20))
		now, used, begun := 1.7e9, 0., 1.7e9
		unused := 0.
		for range 2000 {
			now += rng.ExpFloat64() / rate * 3
			a := pacing.Ask{Rate: rate, Burst: burst, Want: float64(rng.IntN(6)), Patience: rng.ExpFloat64() * 20 / rate}
			a.Least = min(a.Want, float64(rng.IntN(4)))
			if unused > 0 && rng.IntN(3) == 0 {
				a.Unused = unused
				used -= unused
				unused = 0
			}
			if rng.IntN(50) == 0 {
				a.Hold, a.Row = rng.ExpFloat64()*20/rate, 1
			}
			got := s.Reserve(now, a)
			if got.N < 0 || got.N > a.Want || math.IsNaN(got.Wait) || s.Free < -1e-6 || s.Tat < now-burst/rate-1e-3 {
				t.Fatalf("seed %d: %+v answers %+v, and keeps %+v", seed, a, got, s)
			}
			used += got.N
			if got.N > 0 && rng.IntN(3) == 0 {
				unused += got.N
			}
		}
		if most := (s.Tat-begun)*rate + burst + 1; used > most {
			t.Errorf("seed %d: %v slots until the last one, want %v at most", seed, used, most)
		}
	}
}

func TestHowLongAStateIsKept(t *testing.T) {
	for _, tt := range []struct {
		s    pacing.State
		a    pacing.Ask
		want time.Duration
	}{
		{pacing.State{Tat: 100, At: 100}, pacing.Ask{Rate: 10, Burst: 1}, 10 * time.Minute},
		{pacing.State{Tat: 1000, At: 100}, pacing.Ask{Rate: 10, Burst: 1}, 900*time.Second + 100*time.Millisecond},
		{pacing.State{Tat: 100, At: 100}, pacing.Ask{Rate: 10. / day, Burst: 10}, 24 * time.Hour},
	} {
		if got := tt.s.Keep(tt.a).Round(time.Millisecond); got != tt.want {
			t.Errorf("%+v, %+v: %v, want %v", tt.s, tt.a, got, tt.want)
		}
	}
}

func TestAStateIsNotKeptForever(t *testing.T) {
	a := pacing.Ask{Rate: 1e-9, Burst: 1, Spent: 1e9}
	s := new(pacing.State)
	s.Reserve(1e9, a)
	if kept := s.Keep(a); kept != 1e9*time.Second {
		t.Errorf("Keep returns %v, want the longest", kept)
	}
}

// An answer says for how long all are held, by whom ever: less than was asked for if others have passed.
func TestHeld(t *testing.T) {
	var s pacing.State
	for i, step := range []struct{ at, hold, row, passed, want float64 }{
		{at: 0, want: 0},
		{at: 1, hold: 5, row: 1, want: 5},
		{at: 2, hold: 3, row: 1, want: 4},
		{at: 3, hold: 90, want: 75},
		{at: 40, want: 38},
		{at: 50, passed: 1, want: 28},
		{at: 80, hold: 9, row: 60, want: 0},
		{at: 81, hold: 9, row: 2, want: 9},
	} {
		got := s.Reserve(1e9+step.at, pacing.Ask{Rate: 10, Burst: 1, Hold: step.hold, Row: step.row, Passed: step.passed})
		if round(got.Held) != step.want {
			t.Errorf("step %d: held for %v, want %v", i, got.Held, step.want)
		}
	}
}
