package failover_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/failover"
	"github.com/goretry/retry/internal/race"
	"github.com/goretry/retry/pace"
)

// provider answers 100 requests per second in 30 to 70 ms, and refuses more. The first of a simulation is ill for
// a minute.
type provider struct {
	mu       sync.Mutex
	r        *rand.Rand
	ill      string // how; "" is never
	from, to time.Duration
	start    time.Time
	tokens   float64
	last     time.Time
	fails    float64       // a part of the requests at random
	hint     time.Duration // with a 429 then; 0: a 503

	attempts, whileIll int
	slots              map[time.Duration]int // of 100 ms
}

func (s *provider) call(ctx context.Context) error {
	s.mu.Lock()
	now := time.Now()
	at := now.Sub(s.start)
	s.attempts++
	s.slots[at.Truncate(100*time.Millisecond)]++
	luck, takes := s.r.Float64(), time.Duration(30+40*s.r.Float64())*time.Millisecond
	rate, ill := 100.0, ""
	if s.ill != "" && at >= s.from && at < s.to {
		s.whileIll++
		ill = s.ill
	} else if back := at - s.to; s.ill == "refuses all, then is cold" && back >= 0 && back < 5*time.Second {
		rate = 20 + 16*back.Seconds()
	}
	full := false
	if ill == "" || ill == "slow, 1.5 to 3.5 s" || ill == "fails half" {
		s.tokens = min(s.tokens+rate*now.Sub(s.last).Seconds(), 10)
		s.last = now
		if full = s.tokens < 1; !full {
			s.tokens--
		}
	}
	s.mu.Unlock()
	wait := func(d time.Duration, err error) error {
		select {
		case <-time.After(d):
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	switch {
	case ill == "refuses all, then is cold":
		return wait(time.Millisecond, status(503))
	case ill == "hangs":
		return wait(time.Hour, nil)
	case ill == "429, Retry-After 20":
		return wait(5*time.Millisecond, told(20*time.Second))
	case luck < s.fails && s.hint > 0:
		return wait(5*time.Millisecond, told(s.hint))
	case full, ill == "fails half" && luck < .5, luck < s.fails:
		return wait(5*time.Millisecond, status(503))
	case ill == "slow, 1.5 to 3.5 s":
		takes = time.Duration(1500+2000*luck) * time.Millisecond
	}
	return wait(takes, nil)
}

// figures are what a simulation has come to.
type figures struct {
	calls, lost     int
	first, attempts float64       // attempts at the first per second while it is ill; of all per call
	again           time.Duration // when it is used again after that
	burst           int           // the most attempts in 100 ms in the half minute then
}

func (f figures) lostPercent() float64 { return 100 * float64(f.lost) / float64(f.calls) }

func (f figures) String() string {
	return fmt.Sprintf("%.2f %% / %.1f / %.2f", f.lostPercent(), f.first, f.attempts)
}

// client makes a call, given its number.
type client func(ctx context.Context, n int) error

// ways are how the calls are made: a third of them to each, a loop over the providers, and Do.
var ways = []func(p retry.Policy, s []*provider) client{
	func(p retry.Policy, s []*provider) client {
		budgets := make([]retry.EarnedBudget, len(s))
		return func(ctx context.Context, n int) error {
			p := p
			p.Budget = &budgets[n%len(s)]
			return retry.Run(ctx, p, s[n%len(s)].call)
		}
	},
	func(p retry.Policy, s []*provider) client {
		return func(ctx context.Context, _ int) (err error) {
			for _, s := range s {
				ctx, cancel := context.WithTimeout(ctx, p.AttemptTimeout)
				err = s.call(ctx)
				if cancel(); err == nil {
					break
				}
			}
			return err
		}
	},
	func(p retry.Policy, s []*provider) client { return over(p, s, 0, nil) },
	func(p retry.Policy, s []*provider) client {
		return over(p, s, 0, func() []retry.Guard { return []retry.Guard{&pace.Pace{Quota: 95, Burst: 5}} })
	},
}

func over(p retry.Policy, s []*provider, failures int, guards func() []retry.Guard) client {
	set := &failover.Set[*provider]{Failures: failures}
	for i, s := range s {
		target := &failover.Target[*provider]{Name: fmt.Sprint(i), Value: s}
		if guards != nil {
			target.Guards = guards()
		}
		set.Targets = append(set.Targets, target)
	}
	return func(ctx context.Context, _ int) error {
		_, err := failover.Do(ctx, p, set, func(ctx context.Context, t *failover.Target[*provider]) (int, error) { return 0, t.Value.call(ctx) })
		return err
	}
}

// load is the calls of a simulation.
type load struct {
	perSecond float64
	deadline  time.Duration
}

func simulate(t *testing.T, calls load, from, to, end time.Duration, providers []*provider, way func(retry.Policy, []*provider) client) (f figures) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		for i, s := range providers {
			*s = provider{ill: s.ill, fails: s.fails, hint: s.hint, r: rand.New(rand.NewPCG(7, uint64(i))), from: from, to: to, start: start, last: start, tokens: 10, slots: map[time.Duration]int{}}
		}
		random := rand.New(rand.NewPCG(3, 3))
		var mu sync.Mutex
		p := retry.Policy{MaxAttempts: 4, AttemptTimeout: 2 * time.Second, Budget: new(retry.EarnedBudget), Rand: func() float64 {
			mu.Lock()
			defer mu.Unlock()
			return random.Float64()
		}}
		call := way(p, providers)
		arrivals := rand.New(rand.NewPCG(5, 5))
		var wg sync.WaitGroup
		for {
			time.Sleep(time.Duration(arrivals.ExpFloat64() / calls.perSecond * float64(time.Second)))
			if time.Since(start) >= end {
				break
			}
			n := f.calls
			f.calls++
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), calls.deadline)
				defer cancel()
				if call(ctx, n) != nil {
					mu.Lock()
					f.lost++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
	})
	all := 0
	for _, s := range providers {
		all += s.attempts
	}
	f.first, f.attempts, f.again = float64(providers[0].whileIll)/(to-from).Seconds(), float64(all)/float64(f.calls), end
	for at, n := range providers[0].slots {
		if at >= to && at < to+30*time.Second {
			f.again, f.burst = min(f.again, at-to), max(f.burst, n)
		}
	}
	return f
}

// Three providers of 100 calls per second each and 150 calls per second, while the first is ill. With
// RETRY_LONG=1 and -v it prints, among others, the figures of docs/failover.md.
func TestFirstIsIll(t *testing.T) {
	if race.Enabled {
		t.Skip("simulations, which other tests of this package make with the race detector")
	}
	from, to, end := 5*time.Second, 15*time.Second, 20*time.Second
	long := os.Getenv("RETRY_LONG") != ""
	if long {
		from, to, end = 30*time.Second, 90*time.Second, 3*time.Minute
	}
	for _, tt := range []struct {
		ill      string
		lost     float64 // percent at most
		first    float64 // attempts at the first per second while it is ill, at most
		attempts float64 // per call at most
	}{
		{"refuses all, then is cold", .1, 10, 1.3},
		{"hangs", 1, 10, 1.3},
		{"fails half", .1, 30, 1.3},
		{"429, Retry-After 20", .1, 5, 1.3},
		{"slow, 1.5 to 3.5 s", .5, 25, 1.3},
		{"", .1, 80, 1.3},
	} {
		line := fmt.Sprintf("| %s |", tt.ill)
		for i, way := range ways {
			if !long && i != 2 {
				continue
			}
			f := simulate(t, load{150, 8 * time.Second}, from, to, end, []*provider{{ill: tt.ill}, {}, {}}, way)
			line += fmt.Sprintf(" %v |", f)
			if i == 2 {
				line += fmt.Sprintf(" again after %v, %d in 100 ms |", f.again, f.burst)
			}
			if i == 2 && (f.lostPercent() > tt.lost || long && f.first > tt.first || f.attempts > tt.attempts || f.burst > 30) {
				t.Errorf("the first %q: %v, %d attempts in 100 ms", tt.ill, f, f.burst)
			}
		}
		t.Log(line)
	}
}

// Two targets lose at most a point more than the better one alone, whatever the other does, be it the first or the
// second. If that one fails a third of its attempts at random, it takes more Failures than three.
func TestNoWorseThanTheBetterOne(t *testing.T) {
	if race.Enabled {
		t.Skip("simulations, which other tests of this package make with the race detector")
	}
	from, end := 5*time.Second, 2*time.Minute
	long := os.Getenv("RETRY_LONG") != ""
	if long {
		end = 5 * time.Minute
	}
	free := func(way func(retry.Policy, []*provider) client) func(retry.Policy, []*provider) client {
		return func(p retry.Policy, s []*provider) client {
			p.Budget = nil
			return way(p, s)
		}
	}
	alone := free(func(p retry.Policy, s []*provider) client {
		return func(ctx context.Context, _ int) error { return retry.Run(ctx, p, s[0].call) }
	})
	for _, ill := range []string{"refuses all, then is cold", "hangs", "429, Retry-After 20", "slow, 1.5 to 3.5 s"} {
		for _, fails := range []float64{0, .05, .2, .33} {
			if !long && fails != .2 {
				continue
			}
			failures := 0
			if fails > .3 {
				failures = 10
			}
			both := free(func(p retry.Policy, s []*provider) client { return over(p, s, failures, nil) })
			better := simulate(t, load{20, 8 * time.Second}, from, end, end, []*provider{{fails: fails}}, alone)
			for _, first := range []bool{true, false} {
				providers := []*provider{{ill: ill}, {fails: fails}}
				if !first {
					providers[0], providers[1] = providers[1], providers[0]
				}
				both := simulate(t, load{20, 8 * time.Second}, from, end, end, providers, both)
				t.Logf("%s, first %v; the other fails %.2f: lost %.2f %%, the better one alone %.2f %%", ill, first, fails, both.lostPercent(), better.lostPercent())
				if both.lostPercent() > better.lostPercent()+1 {
					t.Errorf("%s, first %v; the other fails %.2f: lost %.2f %%, the better one alone %.2f %%", ill, first, fails, both.lostPercent(), better.lostPercent())
				}
			}
		}
	}
}

// Three targets that are keys of one server, which can do 100/s and gets 150: a budget keeps their refusals from
// multiplying its load.
func TestKeysOfOneServer(t *testing.T) {
	if race.Enabled {
		t.Skip("simulations, which other tests of this package make with the race detector")
	}
	attempts := func(way func(p retry.Policy, s []*provider) client) float64 {
		return simulate(t, load{150, 8 * time.Second}, 0, time.Minute, 30*time.Second, []*provider{{}}, way).attempts
	}
	same := func(s []*provider) []*provider { return []*provider{s[0], s[0], s[0]} }
	do := attempts(func(p retry.Policy, s []*provider) client { return over(p, same(s), 0, nil) })
	run := attempts(func(p retry.Policy, s []*provider) client { return ways[0](p, s) })
	loop := attempts(func(p retry.Policy, s []*provider) client { return ways[1](p, same(s)) })
	t.Logf("attempts per call: failover.Do %.2f, retry.Run %.2f, a loop %.2f", do, run, loop)
	if do > 1.3*run {
		t.Errorf("%.2f attempts per call, and %.2f by retry.Run", do, run)
	}
}

// One of twenty attempts gets a 429 with a wait of 20 s, and callers have a second: that rests no target for
// others, and with two of them hardly a call is lost.
func TestStray429(t *testing.T) {
	if race.Enabled {
		t.Skip("simulations, which other tests of this package make with the race detector")
	}
	lost := func(n int, way func(retry.Policy, []*provider) client) float64 {
		providers := make([]*provider, n)
		for i := range providers {
			providers[i] = &provider{fails: .05, hint: 20 * time.Second}
		}
		return simulate(t, load{20, time.Second}, 0, time.Minute, time.Minute, providers, way).lostPercent()
	}
	run, one, two, three := lost(1, ways[0]), lost(1, ways[2]), lost(2, ways[2]), lost(3, ways[2])
	t.Logf("lost: retry.Run %.1f %%; one target %.1f %%, two %.1f %%, three %.1f %%", run, one, two, three)
	if one > run || two > .5 || three > .5 {
		t.Errorf("lost: retry.Run %.1f %%; one target %.1f %%, two %.1f %%, three %.1f %%", run, one, two, three)
	}
}
