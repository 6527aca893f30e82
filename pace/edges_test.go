package pace_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/pace"
)

// fleetOf returns a fleet of so many processes, whose server takes so many requests in a second, and a tenth of that at
// once, and that make so many calls, as a part of the quota.
func fleetOf(processes int, rate, load float64) *fleet {
	lasts := 40 * time.Second
	if longTests {
		lasts = 4 * time.Minute
	}
	return &fleet{
		processes: processes, load: load, lasts: lasts,
		provider: provider{rate: rate, bucket: max(rate/10, 1), hint: time.Second}, store: memory{took: 2 * time.Millisecond},
	}
}

// runSeeds runs fleets with seeds of chance, eight with RETRY_LONG=1, and reports an error for each of which less than
// a least comes.
func runSeeds(t *testing.T, name string, least float64, fleet func() *fleet, measure func(figures) float64) {
	t.Helper()
	seeds := uint64(1)
	if longTests {
		seeds = 8
	}
	worst := 1.
	for seed := range seeds {
		f := fleet()
		f.seed = seed
		x := f.run(t)
		worst = min(worst, measure(x))
		if measure(x) < least {
			t.Errorf("%s, seed %d: %.1f %%, want %.0f: %v", name, seed, 100*measure(x), 100*least, x)
		}
	}
	t.Logf("%s: %.1f %%, want %.0f", name, 100*worst, 100*least)
}

func goodput(x figures) float64 { return x.goodput }

// A number that is a little too high, and 429s at random, cost what is refused, and no more: nobody is held while others pass.
func TestANumberThatIsTooHigh(t *testing.T) {
	for _, tt := range []struct {
		processes          int
		rate, told, strays float64
		least              float64
		long               bool
	}{
		{100, 200, 1.05, 0, .98, false}, {100, 200, 1.1, 0, .97, true}, {200, 500, 1.1, 0, .97, true}, {200, 200, 1, .05, .97, true},
		{4, 20, 1.1, 0, .97, false}, {20, 20, 1.1, 0, .97, false}, {12, 25, 2, 0, .97, false},
	} {
		for _, hint := range []time.Duration{0, time.Second, 20 * time.Second} {
			if (tt.long || hint == time.Second) && !longTests {
				continue
			}
			name := fmt.Sprintf("%d processes, %v/s, a number of %v, %v strays, hints of %v", tt.processes, tt.rate, tt.told, tt.strays, hint)
			runSeeds(t, name, tt.least, func() *fleet {
				f := fleetOf(tt.processes, tt.rate, 1.5)
				f.told, f.stray, f.hint = tt.told, tt.strays, hint
				return f
			}, func(x figures) float64 { return x.goodput / (1 - tt.strays) })
		}
	}
}

// Calls that have little time start, however many members have turns that come later.
func TestUrgentCallsOfAFleet(t *testing.T) {
	for _, tt := range []struct {
		processes int
		least     float64
	}{{20, .95}, {100, .95}, {200, .95}, {400, .95}} {
		for _, rate := range []float64{50, 100} {
			if (tt.processes < 200 || rate > 50) && !longTests {
				continue
			}
			runSeeds(t, fmt.Sprintf("%d processes, %v/s", tt.processes, rate), tt.least, func() *fleet {
				f := fleetOf(tt.processes, rate, 1.5)
				f.patience, f.urgent, f.hurry = time.Minute, .02, 3*time.Second
				return f
			}, func(x figures) float64 { return x.urgent })
		}
	}
}

// In one process calls of a shorter deadline pass beside work that has more time.
func TestDeadlinesBesideWork(t *testing.T) {
	for deadline, least := range map[time.Duration]float64{7900 * time.Millisecond: .6, 8500 * time.Millisecond: .6, 15 * time.Second: .7, 30 * time.Second: .9} {
		for _, shared := range []bool{false, true} {
			runSeeds(t, fmt.Sprintf("%v, shared %v", deadline, shared), least, func() *fleet {
				f := fleetOf(1, 10, 1.5)
				f.patience, f.urgent, f.hurry, f.alone, f.lasts = 2*time.Minute, .5, deadline, !shared, 6*time.Minute
				return f
			}, func(x figures) float64 { return x.urgent })
		}
	}
}

// Without the store the members use most of the quota.
func TestAFleetWhoseStoreIsAway(t *testing.T) {
	for _, rate := range []float64{10, 25, 100, 200} {
		for _, since := range []time.Duration{0, 30 * time.Second, 2 * time.Minute} {
			if !longTests && rate != 100 {
				continue
			}
			runSeeds(t, fmt.Sprintf("%v/s, away after %v", rate, since), .75, func() *fleet {
				f := fleetOf(200, rate, .8)
				f.bucket = max(rate/5, 5)
				f.store.fails = func(at time.Duration) error {
					if at >= since {
						return errSilent
					}
					return nil
				}
				return f
			}, goodput)
		}
	}
}

// If all is refused, hardly anything is sent.
func TestAllIsRefused(t *testing.T) {
	for _, tt := range []struct {
		processes int
		perMinute float64
		hint      time.Duration
		lasts     time.Duration
		most      int
	}{
		{1, 20, 30 * time.Second, 5 * time.Minute, 17},
		{1, 60, 30 * time.Second, 5 * time.Minute, 17},
		{5, 300, 30 * time.Second, 5 * time.Minute, 45},
		{1, 1200, 0, time.Minute, 60},
	} {
		for _, load := range []float64{.5, 1, 1.5, 5} {
			f := fleetOf(tt.processes, tt.perMinute/60, load)
			f.hint, f.down, f.lasts, f.alone = tt.hint, true, tt.lasts, tt.processes == 1
			sent := 0.
			f.also = func(f *fleet) {
				time.Sleep(tt.lasts)
				f.provider.mu.Lock()
				defer f.provider.mu.Unlock()
				sent = f.refused
			}
			f.run(t)
			t.Logf("%v a minute, %d processes, load %v: %v requests in %v", tt.perMinute, tt.processes, load, sent, tt.lasts)
			if int(sent) > tt.most {
				t.Errorf("%v a minute, %d processes, load %v: %v requests in %v, want %d at most", tt.perMinute, tt.processes, load, sent, tt.lasts, tt.most)
			}
		}
	}
}

// share shares model in a bubble, until end is called.
func share(t *testing.T, model *pace.Pace, store pace.Store) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var sharing sync.WaitGroup
	sharing.Go(func() { _ = model.Share(ctx, store) })
	time.Sleep(time.Second)
	return func() { cancel(); sharing.Wait() }
}

// A call whose own slots would come too late fails alone.
func TestADearCallThatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := &pace.Pace{Quota: 10}
		defer share(t, model, &memory{took: 2 * time.Millisecond})()
		var calls sync.WaitGroup
		errs := make([]error, 6)
		for i := range errs {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if i == 2 {
				ctx = pace.WithCost(ctx, 500)
			}
			calls.Go(func() { errs[i] = retry.Run(ctx, retry.Policy{Guards: []retry.Guard{model}}, works) })
		}
		calls.Wait()
		for i, err := range errs {
			if (err != nil) != (i == 2) || i == 2 && !errors.Is(err, retry.ErrPaced) {
				t.Errorf("call %d: %v", i, err)
			}
		}
	})
}

// A dear call starts though cheap ones that are more urgent use nearly all of the quota.
func TestADearCallBesideUrgentOnes(t *testing.T) {
	for _, shared := range []bool{false, true} {
		for _, burst := range []float64{1, 100} {
			synctest.Test(t, func(t *testing.T) {
				model := &pace.Pace{Quota: 10, Burst: burst}
				if shared {
					defer share(t, model, &memory{took: 2 * time.Millisecond})()
				}
				ctx, end := context.WithCancel(t.Context())
				var calls sync.WaitGroup
				policy := retry.Policy{Guards: []retry.Guard{model}}
				calls.Go(func() {
					for ctx.Err() == nil {
						time.Sleep(time.Second * 10 / 95)
						calls.Go(func() {
							hurry, cancel := context.WithTimeout(ctx, 10*time.Second)
							defer cancel()
							_ = retry.Run(hurry, policy, works)
						})
					}
				})
				time.Sleep(time.Minute)
				begin := time.Now()
				patient, cancel := context.WithTimeout(pace.WithCost(t.Context(), 100), time.Hour)
				defer cancel()
				err := retry.Run(patient, policy, works)
				if took := time.Since(begin); err != nil || took > 75*time.Second {
					t.Errorf("shared %v, burst %v: it starts after %v: %v", shared, burst, took, err)
				} else {
					t.Logf("shared %v, burst %v: it starts after %v", shared, burst, took)
				}
				end()
				calls.Wait()
			})
		}
	}
}

// Members that end give their slots back, and nobody gets one twice.
func TestMembersThatEnd(t *testing.T) {
	for _, n := range []int{20, 200} {
		for _, rate := range []float64{25, 200} {
			if !longTests && rate == 200 {
				continue
			}
			f := fleetOf(n, rate, 5)
			f.bucket = max(rate/5, 5)
			f.also = func(f *fleet) {
				time.Sleep(warm + 10*time.Second)
				f.provider.mu.Lock()
				passed, refused := f.passed, f.refused
				f.provider.mu.Unlock()
				for _, m := range f.members[:n/2] {
					m.leave()
					m.die()
				}
				time.Sleep(10 * time.Second)
				f.provider.mu.Lock()
				defer f.provider.mu.Unlock()
				passed, refused = f.passed-passed, f.refused-refused
				if part := refused / (passed + refused); part > .005 || passed < 8.5*rate {
					t.Errorf("half of %d members at %v/s end: in the next ten seconds %.1f %% are refused, and %v pass", n, rate, 100*part, passed)
				} else {
					t.Logf("half of %d members at %v/s end: in the next ten seconds %.2f %% are refused, and %v pass", n, rate, 100*part, passed)
				}
			}
			f.run(t)
		}
	}
}

// Equal members get equal parts.
func TestEqualMembers(t *testing.T) {
	for _, rate := range []float64{25, 100} {
		for n := 4; n <= 30; n += 2 {
			if !longTests && n != 8 && n != 14 && n != 22 {
				continue
			}
			var least, most float64
			for try := 0; try == 0 || try < 3 && most > 1.2*least; try++ { // who runs first at a moment is chance
				f := fleetOf(n, rate, 4)
				f.run(t)
				var each []float64
				for _, m := range f.members {
					each = append(each, m.passed)
				}
				least, most = slices.Min(each), slices.Max(each)
			}
			if most > 1.2*least {
				t.Errorf("%d members at %v/s: between %v and %v calls pass", n, rate, least, most)
			} else {
				t.Logf("%d members at %v/s: %.2f : 1", n, rate, most/least)
			}
		}
	}
}

// A hundred a day, as many at once, start at once.
func TestABurstOfADay(t *testing.T) {
	for _, members := range []int{1, 4} {
		synctest.Test(t, func(t *testing.T) {
			store := &memory{took: 2 * time.Millisecond}
			var calls sync.WaitGroup
			for range members {
				model := &pace.Pace{Quota: 100, Per: 24 * time.Hour, Burst: 100}
				defer share(t, model, store)()
				for range 100 / members {
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					defer cancel()
					calls.Go(func() {
						if err := retry.Run(ctx, retry.Policy{Guards: []retry.Guard{model}}, works); err != nil {
							t.Errorf("%d members: %v", members, err)
						}
					})
				}
			}
			calls.Wait()
		})
	}
}

// A turn that comes back long after it came goes to the next attempt.
func TestATurnThatComesBackLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := &pace.Pace{Quota: 1, Per: time.Hour}
		defer share(t, model, &memory{took: 2 * time.Millisecond})()
		ctx, cancel := context.WithCancel(t.Context())
		policy := retry.Policy{Guards: []retry.Guard{model}}
		hooked := policy
		hooked.Hooks.Attempt = func(ctx context.Context, _ retry.Attempt) context.Context {
			time.Sleep(400 * time.Millisecond)
			cancel() // the attempt is not made
			return ctx
		}
		if err := retry.Run(ctx, hooked, works); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		inTime, end := context.WithTimeout(t.Context(), time.Minute)
		defer end()
		if err := retry.Run(inTime, policy, works); err != nil {
			t.Error(err)
		}
	})
}

// However small or large a cost is, the store is asked once, and the call starts or fails.
func TestCostsOfAllSizes(t *testing.T) {
	for _, cost := range []float64{1e-300, 1e-9, 1e-3, .1, 1, 50, 1e5, 1e9, 1e300} {
		synctest.Test(t, func(t *testing.T) {
			model := &pace.Pace{Quota: 10}
			defer share(t, model, &memory{took: 2 * time.Millisecond})()
			before := model.Status().Exchanges
			ctx, cancel := context.WithTimeout(pace.WithCost(t.Context(), cost), time.Minute)
			defer cancel()
			begin := time.Now()
			err := retry.Run(ctx, retry.Policy{Guards: []retry.Guard{model}}, works)
			if (err != nil) != (cost > 1e3) || time.Since(begin) > 20*time.Second {
				t.Errorf("a cost of %v: %v after %v", cost, err, time.Since(begin))
			}
			if n := model.Status().Exchanges - before; n > 20 {
				t.Errorf("a cost of %v: %d exchanges", cost, n)
			}
		})
	}
}

// An estimate that is wrong costs nothing, if what an attempt has spent is said when it is known.
func TestSpent(t *testing.T) {
	for _, shared := range []bool{false, true} {
		for _, estimate := range []float64{250, 500, 1000, 2000} {
			synctest.Test(t, func(t *testing.T) {
				model := &pace.Pace{Quota: 1000, Burst: 8000}
				if shared {
					defer share(t, model, &memory{took: 2 * time.Millisecond})()
				}
				ctx, end := context.WithTimeout(t.Context(), 10*time.Minute)
				defer end()
				var calls sync.WaitGroup
				spent := 0.
				var mu sync.Mutex
				begin := time.Now()
				for range 30 {
					calls.Go(func() {
						for ctx.Err() == nil {
							ctx := pace.WithCost(ctx, estimate)
							_ = retry.Run(ctx, retry.Policy{Guards: []retry.Guard{model}}, func(ctx context.Context) error {
								time.Sleep(2 * time.Second)
								pace.Spent(ctx, 500)
								mu.Lock()
								defer mu.Unlock()
								spent += 500
								return nil
							})
						}
					})
				}
				calls.Wait()
				if used := spent / 1000 / time.Since(begin).Seconds(); used < .95 || used > 1.05 {
					t.Errorf("shared %v, an estimate of %v: %.3f of the quota is used", shared, estimate, used)
				}
			})
		}
	}
	pace.Spent(t.Context(), 1) // of a call without a cost
}

// A provider that refuses a third at random, with a time to wait, should have no Pace: one with few calls is held now and then.
func TestAThirdIsRefusedAtRandom(t *testing.T) {
	seeds := uint64(8)
	if longTests {
		seeds = 64
	}
	for _, rate := range []float64{.5, 1, 2, 3, 10} {
		var lost [2]float64 // with a quota, and without
		for i := range lost {
			calls, failed := 0., 0.
			for seed := range seeds {
				f := fleetOf(1, 100, rate/100)
				f.stray, f.hint, f.alone, f.open, f.lasts, f.seed = .33, 20*time.Second, true, i == 1, 10*time.Minute, seed
				f.run(t)
				calls += f.members[0].calls
				failed += f.members[0].failed
			}
			lost[i] = 100 * failed / calls
		}
		t.Logf("%v calls a second: %.1f %% are lost, without a pace %.1f %%", rate, lost[0], lost[1])
		if lost[0] > lost[1]+4 {
			t.Errorf("%v calls a second: %.1f %% are lost, without a pace %.1f %%", rate, lost[0], lost[1])
		}
	}
}
