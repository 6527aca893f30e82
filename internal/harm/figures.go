package harm

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Figures say what a subject has cost.
type Figures struct {
	Deadline      time.Duration // of a call; 0 if it has none
	With, Without Outcomes
}

// Outcomes are those of the calls of all seeds.
type Outcomes struct {
	Calls, Lost           int
	EarlyCalls, EarlyLost int           // of the first half minute
	P50, P99              time.Duration // of the calls that succeed both with and without: others are lost
}

func (o *Outcomes) add(h history) {
	for _, calls := range h {
		for _, c := range calls {
			lost := 0
			if !c.ok {
				lost = 1
			}
			o.Calls++
			o.Lost += lost
			if c.start < early {
				o.EarlyCalls++
				o.EarlyLost += lost
			}
		}
	}
}

// times are those of calls that succeed both with and without.
type times struct{ with, without []time.Duration }

func (ts *times) add(with, without history) {
	for i := range with {
		for j := range min(len(with[i]), len(without[i])) {
			if a, b := with[i][j], without[i][j]; a.ok && b.ok {
				ts.with, ts.without = append(ts.with, a.took), append(ts.without, b.took)
			}
		}
	}
}

func quantile(ts []time.Duration, q float64) time.Duration {
	if len(ts) == 0 {
		return 0
	}
	slices.Sort(ts)
	return ts[int(q*float64(len(ts)-1)+.5)]
}

// lost returns how many more of a hundred calls are lost, of all and of the first half minute.
func (f Figures) lost() (all, early float64) {
	return percent(f.With.Lost, f.With.Calls) - percent(f.Without.Lost, f.Without.Calls),
		percent(f.With.EarlyLost, f.With.EarlyCalls) - percent(f.Without.EarlyLost, f.Without.EarlyCalls)
}

func percent(part, of int) float64 { return 100 * float64(part) / float64(max(of, 1)) }

// Harm says what is out of bound, "" if nothing is: more than one call of a hundred is lost, of all
// or of those of the first half minute, or the 99th percentile is longer by more than a tenth of the
// deadline. Without a deadline no call may be lost, and a tenth of the percentile is the bound.
//
// A sample of the seeds says less than all of them. Then what is lost counts only beyond three
// standard errors, so that a sample does not contradict the whole.
func (f Figures) Harm(sample bool) string {
	if !sample {
		return f.over(1, func(int, int) float64 { return 0 })
	}
	return f.over(1, func(lost, calls int) float64 {
		return 3 * 100 * math.Sqrt(float64(lost)) / float64(max(calls, 1)) // of two counts of the same calls the difference varies at most as their sum does
	})
}

// well says that f is within nine tenths of each bound. What is owed must not go and come back because
// two events at one instant had another order.
func (f Figures) well() bool { return f.over(.9, func(int, int) float64 { return 0 }) == "" }

// over says what is above so much of its bound, and a margin of points.
func (f Figures) over(part float64, margin func(lost, calls int) float64) string {
	points, slack := part, part*float64(f.Deadline)/10
	if f.Deadline == 0 {
		points, slack = 0, part*float64(f.Without.P99)/10
	}
	const exact = 1e-9
	a, b := f.With, f.Without
	all, early := f.lost()
	var out []string
	if all > points+margin(a.Lost+b.Lost, a.Calls)+exact {
		out = append(out, "lost")
	}
	if early > points+margin(a.EarlyLost+b.EarlyLost, a.EarlyCalls)+exact {
		out = append(out, "early")
	}
	if float64(a.P99-b.P99) > slack {
		out = append(out, "p99")
	}
	return strings.Join(out, ", ")
}

// String has all figures: with / without.
func (f Figures) String() string {
	a, b := f.With, f.Without
	ms := func(d time.Duration) string { return fmt.Sprintf("%.5g", float64(d.Microseconds())/1e3) }
	return fmt.Sprintf("lost %.1f / %.1f %%, first 30 s %.1f / %.1f %%, p50 %s / %s ms, p99 %s / %s ms",
		percent(a.Lost, a.Calls), percent(b.Lost, b.Calls), percent(a.EarlyLost, a.EarlyCalls), percent(b.EarlyLost, b.EarlyCalls),
		ms(a.P50), ms(b.P50), ms(a.P99), ms(b.P99))
}
