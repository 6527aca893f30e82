package pace_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/pace"
)

// usage is how a service is used.
type usage struct {
	load      float64 // of the quota, if all calls passed at once
	processes int
	closed    bool // callers make a call after the other, and a pause; else calls come at random, for half a minute each
	paced     bool // each process has a Pace
}

func (u usage) String() string {
	loop := "open"
	if u.closed {
		loop = "closed"
	}
	return fmt.Sprintf("%3.0f %% %-6s %2d", u.load*100, loop, u.processes)
}

// result is what has become of some minutes of usage, in percent.
type result struct {
	refused float64 // of the requests
	goodput float64 // of the quota
	failed  float64 // of the calls
}

func (r result) String() string {
	return fmt.Sprintf("%5.1f %5.1f %5.1f", r.refused, r.goodput, r.failed)
}

func (r *result) add(of result, weight float64) {
	r.refused += of.refused * weight
	r.goodput += of.goodput * weight
	r.failed += of.failed * weight
}

// use calls a service for so long.
func (u usage) use(t *testing.T, of service, seed uint64, d time.Duration) (r result) {
	synctest.Test(t, func(t *testing.T) {
		s := of.serve(seed)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		if s.users != nil {
			wg.Go(func() { s.others(ctx) })
		}
		var calls, failed float64
		call := func(p retry.Policy, patience time.Duration) {
			cost := 1.
			if s.costs {
				cost = -math.Log(1 - s.random())
			}
			ctx, cancel := ctx, func() {}
			if patience > 0 {
				ctx, cancel = context.WithTimeout(ctx, patience)
			}
			err := retry.Run(ctx, p, func(ctx context.Context) error { return s.call(ctx, cost) })
			cancel()
			s.mu.Lock()
			defer s.mu.Unlock()
			if context.Cause(ctx) == context.Canceled && err != nil && patience == 0 {
				return // the test is over
			}
			calls++
			if err != nil {
				failed++
			}
		}
		policies := make([]retry.Policy, u.processes)
		for i := range policies {
			policies[i] = retry.Policy{MaxAttempts: 5, Budget: &retry.EarnedBudget{}, Rand: s.random}
			if u.paced {
				policies[i].Guards = []retry.Guard{new(pace.Pace)}
			}
		}
		rate := u.load * s.quota // calls in a second
		end := time.Now().Add(d)
		pause := func(mean float64) { time.Sleep(time.Duration(-math.Log(1-s.random()) * mean * 1e9)) }
		if u.closed {
			callers := max(24, int(math.Ceil(2*rate*s.took.Seconds())))
			for i := range callers {
				wg.Go(func() {
					for ctx.Err() == nil {
						pause(float64(callers)/rate - s.took.Seconds())
						call(policies[i%len(policies)], 0)
					}
				})
			}
			time.Sleep(d)
		} else {
			for i := 0; time.Now().Before(end); i++ {
				pause(1 / rate)
				wg.Go(func() { call(policies[i%len(policies)], 30*time.Second) })
			}
		}
		s.mu.Lock()
		r.refused = 100 * s.refused / max(s.requests, 1)
		r.goodput = 100 * s.passed / (s.quota * d.Seconds())
		s.mu.Unlock()
		if u.closed {
			stop()
		} else {
			time.Sleep(time.Minute) // for the last ones
			stop()
		}
		wg.Wait()
		r.failed = 100 * failed / max(calls, 1)
	})
	return r
}

// A Pace without a Quota meets what providers document: few requests are refused, most of the
// quota is used, and calls without a deadline pass.
func TestPaceLearnsFromServices(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	loads, processes, seeds, d := []float64{.5, 1.5}, []int{1}, 1, 2*time.Minute
	if longTests {
		loads, processes, seeds, d = []float64{.5, 1, 1.5, 3}, []int{1, 12}, 8, 10*time.Minute
	}
	t.Log("load, loop, processes: refused, goodput, failed with a Pace | without | the worst with a Pace")
	for _, s := range services {
		for _, n := range processes {
			for _, load := range loads {
				for _, closed := range []bool{false, true} {
					u := usage{load, n, closed, true}
					t.Run(fmt.Sprintf("%s/%.0f%%/%v/%d", s.name, load*100, closed, n), func(t *testing.T) { u.compare(t, s, seeds, d) })
				}
			}
		}
	}
}

// compare is about what becomes of calls with a Pace and without.
func (u usage) compare(t *testing.T, s service, seeds int, d time.Duration) {
	var with, without, worst result
	worst.goodput = math.Inf(1)
	for seed := range seeds {
		r := u.use(t, s, uint64(seed), d)
		with.add(r, 1/float64(seeds))
		worst = result{max(worst.refused, r.refused), min(worst.goodput, r.goodput), max(worst.failed, r.failed)}
		alone := u
		alone.paced = false
		without.add(alone.use(t, s, uint64(seed), d), 1/float64(seeds))
	}
	t.Logf("%v: %v | %v | %v", u, with, without, worst)
	if u.load < 1 && s.users == nil && (with.refused > 1 || with.failed > 1) {
		t.Errorf("%.1f %% are refused and %.1f %% of the calls fail at half of the quota", with.refused, with.failed)
	}
	if with.refused > without.refused+1 {
		t.Errorf("%.1f %% are refused, without a Pace %.1f", with.refused, without.refused)
	}
	if u.closed && with.failed > 5 {
		t.Errorf("%.1f %% of the calls fail that have no deadline", with.failed)
	}
	if u.processes > 1 {
		return // each meets few of its refusals
	}
	slack := 0. // for one seed: in one run of twenty a hint that comes late costs much of the quota
	if seeds == 1 {
		slack = 5
	}
	if with.refused > 10+slack || worst.refused > 13+slack {
		t.Errorf("%.1f %% are refused, at worst %.1f", with.refused, worst.refused)
	}
	if u.load > 1 && with.goodput < s.least-5*slack {
		t.Errorf("%.1f %% of the quota are used, want %.0f", with.goodput, s.least)
	}
}

// A provider that refuses late does not make a Pace of an open loop go far beyond the quota, nor
// stand: what starts before the first refusal is known cannot be held.
func TestPaceWithLateRefusals(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of computing")
	}
	quotas, seeds := []float64{20}, 1
	if longTests {
		quotas, seeds = []float64{20, 200, 400}, 4
	}
	none := func(time.Duration) error { return status(429) }
	for _, quota := range quotas {
		for late, most := range map[time.Duration]float64{2 * time.Second: 15, 5 * time.Second: 20, 10 * time.Second: 25} {
			for hint, says := range map[string]func(time.Duration) error{"no hint": none, "seconds": seconds} {
				t.Run(fmt.Sprintf("%.0f/%v/%s", quota, late, hint), func(t *testing.T) {
					var gap time.Duration // without an attempt that passes
					s := service{
						quota: quota, took: late, late: [2]time.Duration{late, late + 1}, says: says,
						count: func(func() float64) counter {
							return &gaps{counter: &bucket{rate: quota, size: quota}, longest: &gap}
						},
					}
					var mean result
					for seed := range seeds {
						r := usage{1.5, 1, false, true}.use(t, s, uint64(seed), 3*time.Minute)
						t.Logf("%v, at most %v without one that passes", r, gap)
						mean.add(r, 1/float64(seeds))
						if r.refused > most+5 {
							t.Errorf("%.1f %% are refused with seed %d, want at most %.0f", r.refused, seed, most+5)
						}
					}
					if mean.refused > most || gap > late+3*time.Second {
						t.Errorf("%.1f %% are refused, and for %v none passes; want at most %.0f %% and %v", mean.refused, gap, most, late+3*time.Second)
					}
				})
			}
		}
	}
}

// gaps measures how long its counter lets nothing pass.
type gaps struct {
	counter
	last    time.Time
	longest *time.Duration
}

func (g *gaps) admit(now time.Time, cost float64) time.Duration {
	wait := g.counter.admit(now, cost)
	if wait == 0 {
		if !g.last.IsZero() {
			*g.longest = max(*g.longest, now.Sub(g.last))
		}
		g.last = now
	}
	return wait
}

// One model of ten has no quota left, at half of the quota that all ten share. Under one Pace most calls
// for the nine others fail too, which is only printed: the refused retries lower the rate and take
// turns. With a Pace for each model none of them fails.
func TestPaceOfTenModels(t *testing.T) {
	for name, one := range map[string]bool{"one pace": true, "a pace for each": false} {
		t.Run(name, func(t *testing.T) {
			seeds := 1
			if longTests {
				seeds = 8
			}
			for seed := range seeds {
				others, all := tenModels(t, one, uint64(seed))
				t.Logf("%.1f %% of the calls for the nine others fail, %.1f %% of all", others, all)
				if !one && others > 1 {
					t.Errorf("%.1f %% of the calls for the others fail", others)
				}
			}
		})
	}
}

// tenModels makes 25 calls a second for four minutes, for any of ten models of which the first answers
// all with a 429. It returns which part of those for the others fails, and of all, in percent.
func tenModels(t *testing.T, one bool, seed uint64) (others, all float64) {
	synctest.Test(t, func(t *testing.T) {
		s := service{quota: 50, took: 200 * time.Millisecond, says: seconds, count: func(func() float64) counter { return &bucket{rate: 50, size: 50} }}.serve(seed)
		var paces retry.PerKey[pace.Pace]
		var calls, failed [2]float64 // for the first model, and for the others
		var wg sync.WaitGroup
		const d = 4 * time.Minute
		for begin := time.Now(); time.Since(begin) < d; {
			time.Sleep(time.Duration(-math.Log(1-s.random()) / 25 * 1e9))
			model := int(10 * s.random())
			key := fmt.Sprint(model)
			if one {
				key = "all"
			}
			p := retry.Policy{MaxAttempts: 5, Rand: s.random, Guards: []retry.Guard{paces.For(key)}}
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				err := retry.Run(ctx, p, func(ctx context.Context) error {
					if model > 0 {
						return s.call(ctx, 1)
					}
					time.Sleep(50 * time.Millisecond)
					return seconds(time.Second)
				})
				s.mu.Lock()
				defer s.mu.Unlock()
				i := min(model, 1)
				if calls[i]++; err != nil {
					failed[i]++
				}
			})
		}
		wg.Wait()
		others, all = 100*failed[1]/calls[1], 100*(failed[0]+failed[1])/(calls[0]+calls[1])
	})
	return others, all
}
