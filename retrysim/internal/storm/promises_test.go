package storm_test

import (
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/retrysim/internal/storm"
)

// What EarnedBudget and budget.Ratio promise to fleets of any size, each process with a
// budget of its own. The server does 200 requests per second, a client waits for one
// second, and calls make four attempts.
var fleet = storm.Service{Workers: 10, Latency: 50 * ms, Timeout: s, Failure: .01}

const capacity = 200

var (
	unlimited = retry.Policy{Name: "unlimited", MaxAttempts: 4, Backoff: retry.Exponential{Base: 100 * ms, Max: 10 * s}}
	earned    = budgeted("earned", &retry.EarnedBudget{})
	tenth     = budgeted("ratio", &budget.Ratio{})
)

func budgeted(name string, b retry.Budget) retry.Policy {
	p := unlimited.Named(name)
	p.Budget = b
	return p
}

// The servers, by what becomes of requests that wait for long.
var servers = []struct {
	name string
	set  func(x *storm.Service)
}{
	{"oldest first", func(*storm.Service) {}},
	{"newest first", func(x *storm.Service) { x.Discipline = storm.LIFO }},
	{"a queue of 100", func(x *storm.Service) { x.Queue = 100 }},
	{"abandoned dropped", func(x *storm.Service) { x.Drop = true }},
}

// The disturbances, from 10 s to 13 s.
var disturbances = []struct {
	name string
	storm.Outage
}{
	{"hang", storm.Outage{}},
	{"refused", storm.Outage{Answer: storm.Refused}},
	{"503", storm.Outage{Answer: storm.Unavailable}},
	{"three times slower", storm.Outage{Answer: storm.Slow, Factor: 3}},
}

// begins and over are when a disturbance begins and ends.
const begins, over = 10 * s, 13 * s

// outage returns the fleet with so many processes that make so many calls per second,
// and a disturbance. It lasts as long as the budgets may take to recover.
func outage(processes int, rate float64, disturbance storm.Outage) storm.Service {
	x := fleet
	x.Processes, x.Rate, x.Seed = processes, rate, 1
	disturbance.From, disturbance.To = begins, over
	x.Outages = []storm.Outage{disturbance}
	spare := capacity - rate
	x.Duration = time.Duration(55+2.5*3*rate/spare+1.3*float64(processes)/spare) * s
	return x
}

// recoveries returns how long after the disturbance each seed's calls succeed again;
// less than 0 if they do not by the end.
func recoveries(results []*storm.Result) (all []time.Duration) {
	for _, r := range results {
		ending, after := r.Ending(begins, over)
		if ending != storm.Recovered {
			after = -1
		}
		all = append(all, after)
	}
	return all
}

// selected reports whether a case is one of the few that are run without RETRY_LONG.
func selected(i int) bool { return os.Getenv("RETRY_LONG") == "1" || i%151 == 0 }

// If the server recovers without retries, it recovers with EarnedBudget and with
// budget.Ratio, whatever the fleet, the load, the server and the disturbance.
func TestBudgetsLetTheServerRecover(t *testing.T) {
	notUnderRace(t)
	i := 0
	for _, processes := range []int{1, 10, 30, 100, 300, 1000} {
		for _, rate := range []float64{.45 * capacity, .75 * capacity, .9 * capacity, .97 * capacity} {
			for _, server := range servers {
				for _, d := range disturbances {
					if i++; !selected(i) {
						continue
					}
					x := outage(processes, rate, d.Outage)
					server.set(&x)
					results := x.Trials(t.Context(), []retry.Policy{atOnce(1), earned, tenth}, 3)
					none := recoveries(results[0])
					for p, name := range []string{"earned", "ratio"} {
						for seed, after := range recoveries(results[1+p]) {
							if none[seed] >= 0 && after < 0 {
								t.Errorf("%s, %d processes, %v/s, %s, %s, seed %d: the server stays down, and recovers in %v without retries",
									name, processes, rate, server.name, d.name, seed+1, none[seed])
							}
						}
					}
				}
			}
		}
	}
}

// Each process may make as many retries after timeouts as its tokens pay, and each doubles
// the price: one of a process that makes five calls per second, four of one that makes 180.
// So the median recovery takes longer by their number/(capacity - rate) at most, though
// single ones take longer than that. Up to 100 processes that is within half of the time
// without retries and a second, if the server hangs. budget.Ratio's retries also take up
// to a tenth of what the server does: it may take 2.3 times as long, and a second.
func TestRecoveryTakesAsLongAsTheLawSays(t *testing.T) {
	notUnderRace(t)
	const chance = 1.12 // the last call that fails is late by chance, where the load is high
	i := 100
	for _, processes := range []int{1, 10, 30, 100, 300, 1000} {
		for _, rate := range []float64{.45 * capacity, .6 * capacity, .75 * capacity, .9 * capacity} {
			for _, d := range disturbances {
				if i++; !selected(i) {
					continue
				}
				x := outage(processes, rate, d.Outage)
				results := x.Trials(t.Context(), []retry.Policy{atOnce(1), earned, tenth}, 20)
				none := recoveries(results[0])
				without := storm.Quantile(slices.Clone(none), .5).Seconds()
				tokens := 10 + .8*rate/float64(processes) // a tenth for each success, which fades in 8 s
				unearned := math.Floor(math.Log2(tokens/10 + 1))
				if d.Answer != storm.Hang && d.Answer != storm.Slow {
					unearned = 5 // of retries after quick failures four are not earned, and some calls have earned more
				}
				law := float64(processes) * unearned / (capacity - rate)
				for p, slower := range []float64{1, 2.3} {
					besides := []float64{.5, 1}[p]
					var longer []float64 // than without retries, as many times as long
					took := recoveries(results[1+p])
					for seed := range took {
						longer = append(longer, took[seed].Seconds()-slower*none[seed].Seconds())
					}
					name, median := []string{"earned", "ratio"}[p], storm.Quantile(took, .5).Seconds()
					if got := storm.Quantile(longer, .5); got > chance*law+besides {
						t.Errorf("%s, %d processes, %v/s, %s: it takes %.1f s, %.1f s more than %v times the %.1f s without retries; want %.1f s more at most",
							name, processes, rate, d.name, median, got, slower, without, law)
					}
					if p == 0 && processes <= 100 && d.Answer != storm.Slow && median > 1.5*without+1 {
						t.Errorf("earned, %d processes, %v/s, %s: it takes %.1f s, and %.1f s without retries", processes, rate, d.name, median, without)
					}
				}
			}
		}
	}
}

// While the server hangs, a process makes one retry if ten of its calls have succeeded
// since it started, else none, and no more until calls succeed again. Here it had ten
// seconds for that.
func TestOneUnearnedRetryAfterATimeout(t *testing.T) {
	notUnderRace(t)
	for processes, want := range map[int][2]int{30: {29, 30}, 100: {90, 100}, 300: {0, 30}, 1000: {0, 0}} {
		x := outage(processes, .9*capacity, storm.Outage{})
		x.Failure = 0
		r := x.Run(earned)
		_, after := r.Ending(begins, over)
		if b := r.Sum(0, over+after); b.Sent-b.Asked > want[1] || b.Sent-b.Asked < want[0] {
			t.Errorf("%d processes make %d retries in a hang and the %v after it, want %d to %d", processes, b.Sent-b.Asked, after, want[0], want[1])
		}
	}
}

// Of failures at random EarnedBudget loses hardly more calls than unlimited retries.
// Where answers get lost, each retry follows a timeout and costs at least five times as
// much; and a process makes none before ten of its calls have succeeded.
func TestEarnedBudgetLosesHardlyACall(t *testing.T) {
	notUnderRace(t)
	type load struct {
		processes int
		rate      float64
		duration  time.Duration
	}
	loads := []load{{30, 90, 60 * s}}
	if os.Getenv("RETRY_LONG") == "1" {
		loads = []load{
			{1, 90, 180 * s}, {10, 90, 180 * s}, {30, 90, 180 * s}, {100, 90, 180 * s}, {300, 90, 180 * s}, {1000, 90, 180 * s},
			{1, 120, 180 * s}, {30, 120, 180 * s}, {100, 120, 180 * s}, {1000, 120, 180 * s},
			{10, 10. / 60, 24 * time.Hour}, {30, .5, 8 * time.Hour}, {300, 5, time.Hour}, // a call a minute
		}
	}
	for _, l := range loads {
		x := fleet
		x.Processes, x.Rate, x.Duration, x.Seed = l.processes, l.rate, l.duration, 1
		lost := func() (unlimitedly, earnedly float64) {
			rows := x.Trials(t.Context(), []retry.Policy{unlimited, earned}, 2)
			return 1 - storm.Merge(rows[0]).Success(), 1 - storm.Merge(rows[1]).Success()
		}
		for _, x.Failure = range []float64{.01, .05, .1, .2, .3} {
			most := .003
			if x.Failure > .2 { // the first retries of a process are not enough
				most = .016
			}
			if without, with := lost(); with > 1.1*without+most {
				t.Errorf("%d processes, %.3g/s, of which %v fail: %.4f are lost, and %.4f with unlimited retries", l.processes, l.rate, x.Failure, with, without)
			}
		}
		x.Failure, x.Lost = 0, .1
		most := .07
		if l.rate <= float64(l.processes)/60 {
			most = .08
		}
		if without, with := lost(); with > without+most {
			t.Errorf("%d processes, %.3g/s, of whose answers a tenth gets lost: %.4f are lost, and %.4f with unlimited retries", l.processes, l.rate, with, without)
		}
	}
}

// Over ten minutes, when the tokens of the start have long been spent, an EarnedBudget loses
// less than half of the calls whose answers got lost or that have failed quickly, if the
// retries of most of them succeed. If the server rejects for its load, it loses no more. The
// table of bench/EXPERIMENTS.md has other budgets too.
func TestEarnedBudgetForTenMinutes(t *testing.T) {
	notUnderRace(t)
	seeds, shown := 1, []retry.Policy{earned}
	if os.Getenv("RETRY_LONG") == "1" {
		seeds, shown = 5, storm.DocumentedBudgets.Policies
	}
	table := [][]string{{"calls that are lost, in percent"}}
	for _, p := range shown {
		table = append(table, []string{p.Name})
	}
	for _, tt := range []struct {
		name  string
		set   func(x *storm.Service)
		most  float64
		shown bool // on the page
	}{
		{"a fifth of the answers get lost, .2 calls a second", func(x *storm.Service) { x.Lost, x.Processes = .2, 450 }, .12, true},
		{"a fifth of the answers get lost, 3 calls a second", func(x *storm.Service) { x.Lost = .2 }, .08, false},
		{"a fifth of the answers get lost, 10 calls a second", func(x *storm.Service) { x.Lost, x.Processes = .2, 9 }, .04, false},
		{"half fail quickly", func(x *storm.Service) { x.Failure = .5 }, .2, true},
		{"a third fail quickly", func(x *storm.Service) { x.Failure = 1. / 3 }, .02, false},
		{"half fail quickly, three hundred processes", func(x *storm.Service) { x.Failure, x.Processes = .5, 300 }, .3, false},
		{"rejections that cost as much as the work, load .9", func(x *storm.Service) {
			x.Rate, x.Queue, x.Full, x.Refusing, x.Exponential = .9*capacity, 20, storm.TooMany, 50*ms, true
		}, .15, true},
	} {
		x := fleet
		x.Processes, x.Rate, x.Failure, x.Duration, x.Seed = 30, .45*capacity, 0, 10*time.Minute, 1
		tt.set(&x)
		policies := []retry.Policy{earned}
		if tt.shown {
			policies = shown
			table[0] = append(table[0], tt.name)
		}
		for i, runs := range x.Trials(t.Context(), policies, seeds) {
			got := 1 - storm.Merge(runs).Success()
			if tt.shown {
				table[1+i] = append(table[1+i], fmt.Sprintf("%.0f", 100*got))
			}
			if _, ok := policies[i].Budget.(*retry.EarnedBudget); ok && got > tt.most {
				t.Errorf("%s: %.3f are lost, want %v at most", tt.name, got, tt.most)
			}
		}
	}
	if seeds > 1 {
		compareTable(t, "ten minutes", table)
	}
}

// budget.Ratio loses what exceeds its ratio, and the fewer the calls of a process are
// the more.
func TestRatioLosesWhatExceedsTheRatio(t *testing.T) {
	x := fleet
	x.Processes, x.Rate, x.Duration, x.Failure, x.Seed = 10, 90, 60*s, .3, 1
	if lost := 1 - x.Run(tenth).Success(); lost < .2 || lost > .3 {
		t.Errorf("of 30 %% failures %.3f are lost with a ratio of a tenth, want two thirds of them or more", lost)
	}
}
