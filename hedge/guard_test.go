package hedge_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/pace"
)

// watched is a guard that writes down what it is told.
type watched struct {
	mu      sync.Mutex
	entries []retry.Entry
	exits   []retry.Exit
	held    int
	hedge   func(context.Context) (retry.Pass, error) // what becomes of a hedge; nil admits it
	leaving func()
}

func (w *watched) Enter(ctx context.Context, e retry.Entry) (retry.Pass, error) {
	var p retry.Pass
	var err error
	if e.Hedge && w.hedge != nil {
		p, err = w.hedge(ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.entries = append(w.entries, e)
	if err == nil {
		w.held++
	}
	return p, err
}

func (w *watched) Leave(_ retry.Pass, x retry.Exit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held--
	w.exits = append(w.exits, x)
	if w.leaving != nil {
		w.leaving()
	}
}

func (w *watched) classes() (all []string) {
	for _, x := range w.exits {
		how := x.Verdict.Class.String()
		if x.Ending != retry.Returned {
			how = [...]string{"not made", "returned", "expired", "canceled", "panicked"}[x.Ending]
		} else if x.Verdict.Err == nil {
			how = "success"
		}
		all = append(all, how)
	}
	slices.Sort(all)
	return all
}

func (w *watched) InFlight() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held
}

// copies makes an op whose copies end as they are told, by number.
func copies(ends ...step) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		n := hedge.Number(ctx)
		s := ends[n-1]
		select {
		case <-time.After(s.takes):
		case <-ctx.Done():
			if !s.deaf {
				return 0, context.Cause(ctx)
			}
			time.Sleep(s.takes)
		}
		return n, s.err
	}
}

// The guards get what each copy came to, once.
func TestGuardsGetTheEndOfEachCopy(t *testing.T) {
	busy := retry.After(errHiccup, 0)
	for name, tt := range map[string]struct {
		first, second step
		want          []string // in alphabetical order
	}{
		"the first is quick":         {step{takes: ms}, step{}, []string{"success"}},
		"the first wins":             {step{takes: 50 * ms}, step{takes: 100 * ms}, []string{"canceled", "success"}},
		"the hedge wins":             {step{takes: 100 * ms}, step{takes: 20 * ms}, []string{"canceled", "success"}},
		"the loser was throttled":    {step{takes: 50 * ms}, step{takes: 20 * ms, err: busy}, []string{"success", "throttled"}},
		"the first was throttled":    {step{takes: 50 * ms, err: busy}, step{takes: 100 * ms}, []string{"success", "throttled"}},
		"both, the hedge last":       {step{takes: 50 * ms, err: busy}, step{takes: 100 * ms, err: retry.Stop(errCough)}, []string{"permanent", "throttled"}},
		"both, the hedge first":      {step{takes: 100 * ms, err: busy}, step{takes: 20 * ms, err: errCough}, []string{"throttled", "transient"}},
		"both, only the hedge busy":  {step{takes: 100 * ms, err: errCough}, step{takes: 20 * ms, err: busy}, []string{"throttled", "transient"}},
		"both, the hedge busy, last": {step{takes: 20 * ms, err: errCough}, step{takes: 100 * ms, err: busy}, []string{"throttled", "transient"}},
		"the loser, after the race":  {step{takes: 50 * ms}, step{takes: 100 * ms, deaf: true, err: busy}, []string{"canceled", "success"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &watched{}
			h := &hedge.Hedge{Delay: 10 * ms, Budget: plenty}
			p := retry.Policy{Name: "op", MaxAttempts: 1, Guards: []retry.Guard{w}}
			_, _ = hedge.Do(t.Context(), p, h, copies(tt.first, tt.second))
			if got := w.classes(); !slices.Equal(got, tt.want) || w.held != 0 {
				t.Errorf("%s: the guard got %v, want %v; %d are held", name, got, tt.want, w.held)
			}
			for i, e := range w.entries {
				if e.Hedge != (i > 0) || e.Number != 1 || e.Name != "op" || e.Clock == nil || e.Hedge && e.Patience != 0 {
					t.Errorf("%s: entry %d is %+v", name, i, e)
				}
			}
		})
	}
}

// What a copy took and was allowed is its own.
func TestGuardsGetTheTimesOfEachCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{}
		h := &hedge.Hedge{Delay: 10 * ms, Budget: plenty}
		p := retry.Policy{MaxAttempts: 1, AttemptTimeout: time.Second, Guards: []retry.Guard{w}}
		_, _ = hedge.Do(t.Context(), p, h, copies(step{takes: 100 * ms}, step{takes: 20 * ms, err: errHiccup}))
		if len(w.exits) != 2 || w.exits[0].Took != 20*ms || w.exits[0].Allowed != 990*ms || w.exits[1].Took != 100*ms || w.exits[1].Allowed != time.Second {
			t.Errorf("exits %+v", w.exits)
		}
		w.exits = nil
		p.AttemptTimeout = 50 * ms
		_, _ = hedge.Do(t.Context(), p, h, copies(step{takes: time.Hour}, step{takes: time.Hour}))
		if got := w.classes(); !slices.Equal(got, []string{"expired", "expired"}) {
			t.Errorf("after the timeout of both the guard got %v", got)
		}
	})
}

// Each copy is told once, when it has ended, with its own times and verdict: also one that
// fails first, or that decides while another does not heed its context.
func TestEachCopyIsToldWhenItEnds(t *testing.T) {
	type told struct {
		at, took, allowed time.Duration
		ending            retry.Ending
		class             retry.Class
		err               error
	}
	busy := retry.After(errHiccup, 0)
	for name, tt := range map[string]struct {
		steps []step
		delay time.Duration
		want  []told
	}{
		"the first fails at once, the hedge goes on": {[]step{{takes: 20 * ms, err: busy}, {takes: 500 * ms}}, 10 * ms, []told{
			{20 * ms, 20 * ms, time.Second, retry.Returned, retry.Throttled, errHiccup},
			{510 * ms, 500 * ms, 990 * ms, retry.Returned, 0, nil}}},
		"three fail": {[]step{{takes: 50 * ms, err: errCough}, {takes: 100 * ms, err: busy}, {takes: 60 * ms, err: retry.Undone(errGone)}}, 10 * ms, []told{
			{50 * ms, 50 * ms, time.Second, retry.Returned, retry.Transient, errCough},
			{80 * ms, 60 * ms, 980 * ms, retry.Returned, retry.Transient, errGone},
			{110 * ms, 100 * ms, 990 * ms, retry.Returned, retry.Throttled, errHiccup}}},
		"the winner is told before a deaf loser ends": {[]step{{takes: 300 * ms, deaf: true, err: busy}, {takes: 10 * ms}}, 100 * ms, []told{
			{110 * ms, 10 * ms, 900 * ms, retry.Returned, 0, nil},
			{410 * ms, 410 * ms, time.Second, retry.Canceled, 0, errHiccup}}}, // deaf: it sleeps once more
		"both expire": {[]step{{takes: time.Hour}, {takes: time.Hour}}, 100 * ms, []told{
			{time.Second, time.Second, time.Second, retry.Expired, retry.TimedOut, retry.ErrAttemptTimeout},
			{time.Second, 900 * ms, 900 * ms, retry.Expired, retry.TimedOut, retry.ErrAttemptTimeout}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var got []told
			begin, w := time.Now(), &watched{}
			w.leaving = func() {
				x := w.exits[len(w.exits)-1]
				got = append(got, told{time.Since(begin), x.Took, x.Allowed, x.Ending, x.Verdict.Class, x.Verdict.Err})
			}
			p := retry.Policy{MaxAttempts: 1, AttemptTimeout: time.Second, Guards: []retry.Guard{w}}
			_, _ = hedge.Do(t.Context(), p, &hedge.Hedge{Delay: tt.delay, MaxInFlight: len(tt.steps), Budget: plenty}, copies(tt.steps...))
			slices.SortStableFunc(got, func(a, b told) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.took, a.took)) })
			if !slices.Equal(got, tt.want) || w.held != 0 {
				t.Errorf("%s: the guard got\n%+v, want\n%+v; %d are held", name, got, tt.want, w.held)
			}
		})
	}
}

// Nobody judges a copy that its caller has ended.
func TestEndsOfCopiesThatNobodyJudges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*ms, cancel)
		p := retry.Policy{Guards: []retry.Guard{w}, Classify: func(err error) retry.Class {
			t.Errorf("Classify is called with %v", err)
			return retry.Throttled
		}}
		_, _ = hedge.Do(ctx, p, &hedge.Hedge{Delay: 10 * ms, Budget: plenty}, copies(step{takes: time.Hour}, step{takes: 60 * ms, deaf: true, err: errHiccup}))
		if len(w.exits) != 2 || w.held != 0 {
			t.Fatalf("exits %+v", w.exits)
		}
		for _, x := range w.exits {
			if x.Ending != retry.Canceled || x.Verdict.Class != retry.Unknown || x.Verdict.Err == nil {
				t.Errorf("a copy that the caller has ended came to %+v", x)
			}
		}
	})
}

// A copy whose op panics has its times, and so has one whose error Classify panics over.
func TestACopyThatPanicsHasItsTimes(t *testing.T) {
	bug := func() { panic("bug") }
	for in, op := range map[string]func(){"op": bug, "Classify": func() {}} {
		synctest.Test(t, func(t *testing.T) {
			w := &watched{}
			p := retry.Policy{Guards: []retry.Guard{w}, AttemptTimeout: time.Second, Classify: func(error) retry.Class { panic("bug") }}
			func() {
				defer func() { _ = recover() }()
				_, _ = hedge.Do(t.Context(), p, &hedge.Hedge{Delay: 10 * ms, Budget: plenty}, func(ctx context.Context) (int, error) {
					if hedge.Number(ctx) == 1 {
						<-ctx.Done()
						return 0, ctx.Err()
					}
					time.Sleep(20 * ms)
					op()
					return 0, errHiccup
				})
			}()
			if len(w.exits) != 2 || w.held != 0 {
				t.Fatalf("%s: exits %+v, %d held", in, w.exits, w.held)
			}
			x := w.exits[0]
			if w.exits[1].Ending == retry.Panicked {
				x = w.exits[1]
			}
			if x.Ending != retry.Panicked || x.Took != 20*ms || x.Allowed != 990*ms || x.Verdict.Err == nil {
				t.Errorf("%s: a copy that has panicked came to %+v", in, x)
			}
		})
	}
}

// A hedge of a retry says to the guards what its run says.
func TestAHedgesEntryHasTheClassOfItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{}
		var n atomic.Int32
		p := retry.Policy{Guards: []retry.Guard{w}, ThrottleBackoff: retry.Constant(0)}
		_, _ = hedge.Do(t.Context(), p, &hedge.Hedge{Delay: 10 * ms, Budget: plenty}, func(ctx context.Context) (int, error) {
			if n.Add(1) == 1 {
				return 0, retry.After(errHiccup, 0)
			}
			time.Sleep(50 * ms)
			return 1, nil
		})
		if len(w.entries) != 3 {
			t.Fatalf("entries %+v", w.entries)
		}
		for i, e := range w.entries[1:] {
			if e.Class != retry.Throttled || e.Number != 2 || e.Hedge != (i == 1) {
				t.Errorf("entry %d: %+v, want a Throttled, attempt 2", i+1, e)
			}
		}
	})
}

func TestNoHedgeThatAGuardRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		refuse func(context.Context) (retry.Pass, error)
		want   error
	}{
		"an error": {func(context.Context) (retry.Pass, error) { return retry.Pass{}, errGone }, errGone},
		"a stop":   {func(context.Context) (retry.Pass, error) { return retry.Pass{}, retry.Stop(errGone) }, errGone},
		"a wait":   {func(context.Context) (retry.Pass, error) { return retry.Pass{Wait: 1}, nil }, retry.ErrPaced},
	} {
		synctest.Test(t, func(t *testing.T) {
			before, w := &watched{}, &watched{hedge: tt.refuse}
			var got []hedge.Summary
			budget, policy := &calls{}, &calls{}
			h := &hedge.Hedge{Delay: 10 * ms, Budget: budget, Hedged: func(_ context.Context, s hedge.Summary) { got = append(got, s) }}
			p := retry.Policy{Guards: []retry.Guard{before, nil, w}, Budget: policy}
			v, err := hedge.Do(t.Context(), p, h, copies(step{takes: 100 * ms}))
			if v != 1 || err != nil || len(got) != 1 || got[0].Started != 1 || !errors.Is(got[0].Refused, tt.want) {
				t.Errorf("%s: %d, %v, summary %+v", name, v, err, got)
			}
			if e, ok := got[0].Refused.(interface{ ErrorType() string }); !ok || e.ErrorType() != "hedge.guard" {
				t.Errorf("%s: refused by %v, which is no hedge.guard", name, got[0].Refused)
			}
			if budget.withdrawn+policy.withdrawn != 0 {
				t.Errorf("%s: the budgets paid for a hedge that was not sent", name)
			}
			if before.held != 0 || w.held != 0 || !slices.Equal(before.classes(), []string{"not made", "success"}) {
				t.Errorf("%s: %d and %d are held, the guard before got %v", name, before.held, w.held, before.classes())
			}
		})
	}
}

// calls is a budget that counts.
type calls struct {
	withdrawn int
	refuse    bool
}

func (c *calls) Withdraw(retry.Withdrawal) bool {
	c.withdrawn++
	return !c.refuse
}
func (*calls) End(retry.Outcome) {}

// A place that the guard before has given is given back if a budget refuses the hedge.
func TestAHedgeThatABudgetRefusesLeavesTheGuards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{}
		h := &hedge.Hedge{Delay: 10 * ms, Budget: &calls{refuse: true}}
		time.AfterFunc(11*ms, func() {
			if n := w.InFlight(); n != 1 {
				t.Errorf("%d held while the first copy goes on, want 1", n)
			}
		})
		_, err := hedge.Do(t.Context(), retry.Policy{Guards: []retry.Guard{w}}, h, copies(step{takes: 100 * ms}))
		if err != nil || w.held != 0 || !slices.Equal(w.classes(), []string{"not made", "success"}) {
			t.Errorf("%v, %d held, the guard got %v", err, w.held, w.classes())
		}
	})
}

// A hedge that has failed frees its place while the first copy goes on.
func TestAHedgeThatHasFailedFreesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{}
		for after, want := range map[time.Duration]int{20 * ms: 2, 50 * ms: 1} {
			time.AfterFunc(after, func() {
				if n := w.InFlight(); n != want {
					t.Errorf("%d held after %v, want %d", n, after, want)
				}
			})
		}
		p := retry.Policy{MaxAttempts: 1, Guards: []retry.Guard{w}}
		_, err := hedge.Do(t.Context(), p, &hedge.Hedge{Delay: 10 * ms, MaxInFlight: 2}, copies(step{takes: 100 * ms}, step{takes: 20 * ms, err: errHiccup}))
		if err != nil || w.held != 0 || !slices.Equal(w.classes(), []string{"success", "transient"}) {
			t.Errorf("%v, %d held, the guard got %v", err, w.held, w.classes())
		}
	})
}

// A guard that asks another process for a hedge ends with the race, and delays no answer.
func TestASlowGuardOfAHedgeDelaysNoAnswer(t *testing.T) {
	for name, first := range map[string]step{"success": {takes: 20 * ms}, "failure": {takes: 20 * ms, err: errHiccup}, "permanent": {takes: 20 * ms, err: retry.Stop(errHiccup)}} {
		synctest.Test(t, func(t *testing.T) {
			w := &watched{hedge: func(ctx context.Context) (retry.Pass, error) {
				if n := hedge.Number(ctx); n != 2 {
					t.Errorf("the guard sees copy %d", n)
				}
				select {
				case <-time.After(time.Minute):
					return retry.Pass{}, nil
				case <-ctx.Done():
					return retry.Pass{}, context.Cause(ctx)
				}
			}}
			begin := time.Now()
			_, err := hedge.Do(t.Context(), retry.Policy{MaxAttempts: 1, Guards: []retry.Guard{w}}, &hedge.Hedge{Delay: 10 * ms, MaxInFlight: 4}, copies(first))
			if took := time.Since(begin); took != 20*ms || (err == nil) != (first.err == nil) || w.held != 0 {
				t.Errorf("%s: %v after %v, %d held", name, err, took, w.held)
			}
		})
	}
}

// An op that must not run twice does not, whatever is around it.
func TestNonIdempotentRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		p := retry.Policy{NonIdempotent: true}
		_, _ = hedge.Do(t.Context(), p, &hedge.Hedge{Delay: ms}, func(context.Context) (int, error) {
			n++
			time.Sleep(time.Second)
			return 0, errHiccup
		})
		if n != 1 {
			t.Errorf("op ran %d times", n)
		}
	})
}

// A panic of a guard in Enter or Leave of a hedge is the caller's.
func TestAGuardThatPanicsForAHedge(t *testing.T) {
	for name, tt := range map[string]func(*watched){
		"Enter": func(w *watched) { w.hedge = func(context.Context) (retry.Pass, error) { panic(errGone) } },
		"Leave": func(w *watched) { w.leaving = func() { panic(errGone) } },
	} {
		synctest.Test(t, func(t *testing.T) {
			before, w := &watched{}, &watched{}
			tt(w)
			var freed []int
			h := &hedge.Hedge{Delay: 10 * ms, Budget: plenty}
			p := retry.Policy{MaxAttempts: 1, Guards: []retry.Guard{before, w}}
			recovered := func() (r any) {
				defer func() { r = recover() }()
				_, _ = hedge.DoValue(t.Context(), p, h, copies(step{takes: 100 * ms}, step{takes: 20 * ms}), hedge.Value[int]{Discard: func(v int) { freed = append(freed, v) }})
				return nil
			}()
			err, _ := recovered.(error)
			if !errors.Is(err, errGone) || before.held != 0 || w.held != 0 {
				t.Errorf("%s: panicked with %v, %d and %d are held", name, recovered, before.held, w.held)
			}
			if name == "Leave" && !slices.Contains(freed, 2) {
				t.Errorf("%s: freed %v, want the winner too", name, freed)
			}
		})
	}
}

// Whatever copies, guards and budgets do, each Enter has one Leave.
func TestRandomRacesLoseNoPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i := range 5000 {
			rng := rand.New(rand.NewPCG(uint64(i), 3))
			var mu sync.Mutex
			random := func(n int) int {
				mu.Lock()
				defer mu.Unlock()
				return rng.IntN(n)
			}
			fault := func() {
				switch random(60) {
				case 0:
					panic(errGone)
				case 1:
					runtime.Goexit()
				}
			}
			guards := []*watched{{}, {}, {}}
			p := retry.Policy{Backoff: retry.Constant(0), Guards: []retry.Guard{nil, new(pace.Pace)}}
			for _, w := range guards {
				w.hedge = func(ctx context.Context) (retry.Pass, error) {
					fault()
					switch random(8) {
					case 0:
						return retry.Pass{}, errHiccup
					case 1:
						return retry.Pass{Wait: ms}, nil
					case 2:
						select {
						case <-time.After(time.Duration(random(50)) * ms):
						case <-ctx.Done():
						}
					}
					return retry.Pass{}, nil
				}
				if random(4) == 0 {
					w.leaving = fault
				}
				p.Guards = append(p.Guards, w)
			}
			h := &hedge.Hedge{Delay: 10 * ms, MaxInFlight: 1 + random(4), Budget: &budget.Token{}}
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random(100))*ms)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				defer func() { _ = recover() }()
				_, _ = hedge.Do(ctx, p, h, func(ctx context.Context) (int, error) {
					for _, w := range guards {
						if w.InFlight() < 1 {
							t.Errorf("%d: a copy runs without a pass", i)
						}
					}
					select {
					case <-time.After(time.Duration(random(60)) * ms):
					case <-ctx.Done():
						return 0, ctx.Err()
					}
					fault()
					switch random(4) {
					case 0:
						return 1, nil
					case 1:
						return 0, retry.After(errHiccup, 0)
					}
					return 0, errCough
				})
			}()
			<-ended
			cancel()
			synctest.Wait()
			for j, w := range guards {
				if w.held != 0 {
					t.Fatalf("run %d: guard %d holds %d", i, j, w.held)
				}
			}
		}
	})
}

// With Keep the passes of the copy whose result Race returns go on, and no others, also if all fail.
func TestKeepGetsThePassesOfTheResult(t *testing.T) {
	for name, tt := range map[string]struct {
		first, second step
		before        []string // what the guards get until Race returns
		kept          string   // and then
	}{
		"the first is quick": {step{takes: ms}, step{}, nil, "success"},
		"the first wins":     {step{takes: 50 * ms}, step{takes: 100 * ms}, []string{"canceled"}, "success"},
		"the hedge wins":     {step{takes: 100 * ms}, step{takes: 20 * ms}, []string{"canceled"}, "success"},
		"both fail":          {step{takes: 50 * ms, err: errCough}, step{takes: 100 * ms, err: retry.After(errHiccup, 0)}, []string{"transient"}, "throttled"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &watched{}
			p := retry.Policy{MaxAttempts: 1, Guards: []retry.Guard{w}}
			a := p.Attempts(t.Context())
			defer a.Close()
			a.Next()
			var leaves []func()
			v := hedge.Value[int]{Take: a.Hold, Keep: func(leave func(retry.Exit), x retry.Exit) {
				leaves = append(leaves, func() { leave(x) })
			}}
			_, err := hedge.Race(a.Context(), p, &hedge.Hedge{Delay: 10 * ms, Budget: plenty}, copies(tt.first, tt.second), v)
			a.Done(err)
			if got := w.classes(); !slices.Equal(got, tt.before) || w.held != 1 || len(leaves) != 1 {
				t.Fatalf("%s: before its end the guard got %v, want %v; %d held, %d kept", name, got, tt.before, w.held, len(leaves))
			}
			w.exits = nil
			leaves[0]()
			if got := w.classes(); !slices.Equal(got, []string{tt.kept}) || w.held != 0 {
				t.Errorf("%s: at the end the guard got %v, want %s; %d held", name, got, tt.kept, w.held)
			}
		})
	}
}

// Without Take the run has the passes of the first copy: there is nothing to keep.
func TestNoKeepWithoutTake(t *testing.T) {
	p := retry.Policy{Guards: []retry.Guard{&watched{}}}
	_, _ = hedge.Race(t.Context(), p, new(hedge.Hedge), copies(step{}), hedge.Value[int]{
		Keep: func(func(retry.Exit), retry.Exit) { t.Error("Keep is called") },
	})
}

// An AttemptTimeout that the context does not have counts from the first copy on.
func TestAHedgeIsAllowedWhatIsLeftOfTheTimeout(t *testing.T) {
	for delay, want := range map[time.Duration]time.Duration{10 * ms: 40 * ms, 60 * ms: 1} {
		synctest.Test(t, func(t *testing.T) {
			w := &watched{}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			p := retry.Policy{AttemptTimeout: 50 * ms, Guards: []retry.Guard{w}}
			_, _ = hedge.Race(ctx, p, &hedge.Hedge{Delay: delay, Budget: plenty}, copies(step{takes: 100 * ms}, step{takes: 5 * ms}), hedge.Value[int]{})
			if len(w.exits) != 1 || w.exits[0].Allowed != want {
				t.Errorf("after %v a hedge came to %+v, want %v allowed", delay, w.exits, want)
			}
		})
	}
}

// Without a timeout a hedge is allowed what is left until the caller's deadline, or anything.
func TestAHedgeIsAllowedWhatIsLeftForTheCaller(t *testing.T) {
	for deadline, want := range map[time.Duration]time.Duration{50 * ms: 40 * ms, 0: 0} {
		synctest.Test(t, func(t *testing.T) {
			w := &watched{}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if deadline > 0 {
				ctx, cancel = context.WithTimeout(ctx, deadline)
				defer cancel()
			}
			_, _ = hedge.Race(ctx, retry.Policy{Guards: []retry.Guard{w}}, &hedge.Hedge{Delay: 10 * ms, Budget: plenty}, copies(step{takes: 100 * ms}, step{takes: 5 * ms}), hedge.Value[int]{})
			if len(w.exits) != 1 || w.exits[0].Allowed != want || w.exits[0].Took != 5*ms {
				t.Errorf("deadline %v: a hedge came to %+v, want %v allowed", deadline, w.exits, want)
			}
		})
	}
}

// Under guards too the value that Do returns is the caller's.
func TestTheValueIsNotClosedUnderGuards(t *testing.T) {
	closed := 0
	p := retry.Policy{Guards: []retry.Guard{&watched{}}}
	_, err := hedge.DoValue(t.Context(), p, new(hedge.Hedge), copies(step{}), hedge.Value[int]{Discard: func(int) { closed++ }})
	if err != nil || closed != 0 {
		t.Errorf("%v, closed %d times", err, closed)
	}
}

// A clock that panics when a copy has panicked keeps no place.
func TestAPanicWithoutATimeLeavesTheGuards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{}
		broken := &failing{in: "Now", left: 1 << 30}
		p := retry.Policy{Clock: failingClock{clockx.System(), broken}, Guards: []retry.Guard{w}}
		func() {
			defer func() { _ = recover() }()
			_, _ = hedge.Race(t.Context(), p, &hedge.Hedge{Delay: 10 * ms, Budget: plenty}, func(ctx context.Context) (int, error) {
				if hedge.Number(ctx) == 1 {
					time.Sleep(100 * ms)
					return 1, nil
				}
				broken.mu.Lock()
				broken.left = 1
				broken.mu.Unlock()
				panic("bug")
			}, hedge.Value[int]{})
		}()
		if len(w.exits) != 1 || w.held > 0 || w.exits[0].Ending != retry.Panicked {
			t.Errorf("the guard got %+v", w.exits)
		}
	})
}

// Take is called once, also if Policy.Classify panics after op has ended.
func TestTakeIsCalledOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{}
		p := retry.Policy{Guards: []retry.Guard{w}, Classify: func(error) retry.Class { panic("classify") }}
		taken, left := 0, 0
		func() {
			defer func() { _ = recover() }()
			_, _ = hedge.Race(t.Context(), p, &hedge.Hedge{Delay: 10 * ms, Budget: plenty}, func(context.Context) (int, error) { return 0, errHiccup },
				hedge.Value[int]{Take: func() func(retry.Exit) { taken++; return func(retry.Exit) { left++ } }})
		}()
		if taken != 1 || left != 1 {
			t.Errorf("Take was called %d times, leave %d times; want once", taken, left)
		}
	})
}

// lateClock has contexts that end a minute after their deadline, as on a busy machine.
type lateClock struct{ clockx.Clock }

type lateContext struct {
	context.Context
	deadline time.Time
}

func (c lateContext) Deadline() (time.Time, bool) { return c.deadline, true }

func (lateClock) WithTimeoutCause(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	deadline := time.Now().Add(d)
	ctx, cancel := context.WithTimeoutCause(ctx, d+time.Minute, cause)
	return lateContext{ctx, deadline}, cancel
}

// A race in which no hedge starts is a run: its guards and its caller get the same, whatever op comes
// to, at whatever moment, under whatever limit.
func TestGuardsHearTheSameOfARaceAsOfARun(t *testing.T) {
	results := map[string]func() error{
		"success":  func() error { return nil },
		"error":    func() error { return errHiccup },
		"stop":     func() error { return retry.Stop(errHiccup) },
		"answer":   func() error { return retry.Answer(errHiccup) },
		"after":    func() error { return retry.After(errHiccup, 2500*ms) },
		"undone":   func() error { return retry.Undone(errHiccup) },
		"rejected": func() error { return retry.ErrRejected },
		"refuse":   func() error { return retry.Refuse(retry.After(errHiccup, 3*time.Second)) },
		"deadline": func() error { return context.DeadlineExceeded },
		"canceled": func() error { return context.Canceled },
		"panic":    func() error { panic("boom") },
		"goexit":   func() error { runtime.Goexit(); return nil },
	}
	moments := map[string]func(ctx context.Context, cancel func()){
		"at once":        func(context.Context, func()) {},
		"after 1s":       func(context.Context, func()) { time.Sleep(time.Second) },
		"at the end":     func(ctx context.Context, _ func()) { <-ctx.Done() },
		"after the end":  func(ctx context.Context, _ func()) { <-ctx.Done(); time.Sleep(time.Second) },
		"after a cancel": func(_ context.Context, cancel func()) { time.Sleep(time.Second); cancel() },
		"after 4.5s":     func(context.Context, func()) { time.Sleep(4500 * ms) },
	}
	type limits struct {
		deadline, timeout time.Duration
		clock             clockx.Clock
		classify          time.Duration // how long Policy.Classify takes
	}
	for name, limit := range map[string]limits{
		"a deadline":           {deadline: 5 * time.Second},
		"a timeout":            {timeout: 4 * time.Second},
		"both":                 {deadline: 6 * time.Second, timeout: 4 * time.Second},
		"a late timeout":       {timeout: 4 * time.Second, clock: lateClock{clockx.System()}},
		"a late deadline":      {deadline: 4 * time.Second, timeout: 5 * time.Second, clock: lateClock{clockx.System()}},
		"a slow Classify":      {timeout: 20 * time.Second, classify: time.Second},
		"a very slow Classify": {timeout: 4 * time.Second, classify: time.Minute},
	} {
		for result, end := range results {
			for moment, pass := range moments {
				var told [2]watched
				var errs [2]string
				for i := range told {
					synctest.Test(t, func(t *testing.T) {
						p := retry.Policy{MaxAttempts: 2, AttemptTimeout: limit.timeout, Clock: limit.clock, Backoff: retry.Constant(time.Second),
							Guards: []retry.Guard{&told[i]}}
						if limit.classify > 0 {
							p.Classify = func(error) retry.Class { time.Sleep(limit.classify); return retry.Unknown }
						}
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						if limit.deadline > 0 {
							ctx, cancel = context.WithTimeout(ctx, limit.deadline)
							defer cancel()
						}
						op := func(ctx context.Context) (int, error) { pass(ctx, cancel); return 1, end() }
						ended := make(chan struct{})
						go func() {
							defer close(ended)
							defer func() { _ = recover() }()
							var err error
							if i == 0 {
								_, err = retry.Do(ctx, p, op)
							} else {
								_, err = hedge.Do(ctx, p, &hedge.Hedge{Delay: time.Hour}, op)
							}
							errs[i] = fmt.Sprint(err)
						}()
						<-ended
						for j := range told[i].exits {
							told[i].exits[j].Clock = nil
						}
						for j := range told[i].entries {
							told[i].entries[j].Clock = nil
						}
					})
				}
				run, race := &told[0], &told[1]
				if limit.classify > limit.timeout { // to a run the race is an op, in which Classify is too late
					race.entries, errs[1] = run.entries, errs[0]
				}
				if errs[0] != errs[1] || !reflect.DeepEqual(run.entries, race.entries) || !reflect.DeepEqual(run.exits, race.exits) {
					t.Errorf("%s, %s, %s:\n run  %+v %+v %s\n race %+v %+v %s", name, result, moment, run.entries, run.exits, errs[0], race.entries, race.exits, errs[1])
				}
			}
		}
	}
}
