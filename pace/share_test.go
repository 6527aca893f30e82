package pace_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/pace"
)

// A number that makes no sense is an error of each run and of Share. Nothing waits.
func TestBadQuotas(t *testing.T) {
	for _, p := range []*pace.Pace{
		{Quota: -1}, {Quota: math.NaN()}, {Quota: math.Inf(1)}, {Quota: math.Inf(-1)}, {Quota: 1e-300}, {Quota: 1e10},
		{Quota: 1, Per: -1}, {Quota: 1e9, Per: 1}, {Quota: 1, Burst: -1}, {Quota: 1, Burst: math.NaN()}, {Quota: 1, Burst: math.Inf(1)},
	} {
		err := retry.Run(t.Context(), retry.Policy{Guards: []retry.Guard{p}}, func(context.Context) error { t.Error("op is called"); return nil })
		e, ok := errors.AsType[*retry.Error](err)
		if !ok || e.Reason != retry.ReasonGuard || !strings.Contains(err.Error(), "makes no sense") || errors.Is(err, retry.ErrPaced) {
			t.Errorf("%v per %v, burst %v: %v", p.Quota, p.Per, p.Burst, err)
		}
		if r, w := p.Rate(), p.Wait(); r != 0 || w != 0 {
			t.Errorf("%v: rate %v, wait %v", p.Quota, r, w)
		}
		shared := p.Share(t.Context(), new(memory))
		if s := p.Status(); shared == nil || s.Err == nil || s.Err.Error() != shared.Error() || s.Quota != 0 {
			t.Errorf("%v: Share returns %v, Status is %+v", p.Quota, shared, s)
		}
	}
}

func TestSharesThatCannotBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := &pace.Pace{Quota: 1}
		stated := new(pace.Pace)
		stated.Tell(25, time.Second, 25, 0)
		ctx, end := context.WithCancelCause(t.Context())
		ended := make(chan error)
		go func() { ended <- model.Share(ctx, new(memory)) }()
		synctest.Wait()
		for name, err := range map[string]error{
			"no Pace":                               (*pace.Pace)(nil).Share(t.Context(), new(memory)),
			"no Store":                              new(pace.Pace).Share(t.Context(), nil),
			"no Quota":                              new(pace.Pace).Share(t.Context(), new(memory)),
			"no Quota but one that a server states": stated.Share(t.Context(), new(memory)),
			"once again":                            model.Share(t.Context(), new(memory)),
		} {
			if err == nil {
				t.Errorf("%s: no error", name)
			}
		}
		why := errors.New("why")
		end(why)
		if err := <-ended; err != why {
			t.Error(err)
		}
		if s := model.Status(); s.Shared || !s.Since.IsZero() || s.Quota != 1 || s.Exchanges == 0 {
			t.Errorf("after Share: %+v", s)
		}
		if s := (*pace.Pace)(nil).Status(); s != (pace.Status{}) {
			t.Errorf("of nil: %+v", s)
		}
	})
}

// bad is a store that says something else.
type bad struct {
	memory
	slots pace.Slots
}

func (b *bad) Reserve(context.Context, pace.Ask) (pace.Slots, error) { return b.slots, nil }

// Why a process is alone is seen, and attempts go on.
func TestWhyAProcessIsAlone(t *testing.T) {
	wrongType := errors.New("WRONGTYPE Operation against a key holding the wrong kind of value")
	answers := func(s pace.Slots) pace.Store { return &bad{slots: s} }
	for name, c := range map[string]struct {
		store pace.Store
		want  string
	}{
		"an error":          {&memory{fails: func(time.Duration) error { return wrongType }}, wrongType.Error()},
		"silence":           {&memory{fails: func(time.Duration) error { return errSilent }}, "pace: the store has not answered within 500ms"},
		"too many slots":    {answers(pace.Slots{N: 2}), "pace: the store has given 2 slots"},
		"less than none":    {answers(pace.Slots{N: -1}), "pace: the store has given -1 slots"},
		"no number":         {answers(pace.Slots{N: math.NaN()}), "pace: the store has answered {NaN 0 0 0}"},
		"an infinite wait":  {answers(pace.Slots{Wait: math.Inf(1)}), "pace: the store has answered {0 +Inf 0 0}"},
		"a delay of no end": {answers(pace.Slots{Moved: math.Inf(-1)}), "pace: the store has answered {0 0 -Inf 0}"},
	} {
		synctest.Test(t, func(t *testing.T) {
			model := &pace.Pace{Quota: 25}
			ctx, end := context.WithCancel(t.Context())
			defer end()
			go model.Share(ctx, c.store)
			begin := time.Now()
			for range 3 {
				if err := retry.Run(t.Context(), retry.Policy{Guards: []retry.Guard{model}}, works); err != nil {
					t.Error(err)
				}
			}
			if took := time.Since(begin); took > 4*time.Second { // half a second of silence, and one a second
				t.Errorf("%s: three attempts take %v", name, took)
			}
			s := model.Status()
			if s.Shared || s.Err == nil || !strings.HasPrefix(s.Err.Error(), c.want) || s.Since.Before(begin) {
				t.Errorf("%s: %+v, want %q", name, s, c.want)
			}
			if r := model.Rate(); r > 2 {
				t.Errorf("%s: alone at %v in a second", name, r)
			}
		})
	}
}

// Once the store answers again, nothing is left of its error.
func TestAStoreThatIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memory{fails: func(at time.Duration) error {
			if at < 10*time.Second {
				return errFlaky
			}
			return nil
		}}
		model := &pace.Pace{Quota: 25}
		ctx, end := context.WithCancel(t.Context())
		defer end()
		go model.Share(ctx, store)
		time.Sleep(9 * time.Second)
		if s := model.Status(); s.Shared || s.Err != errFlaky || time.Since(s.Since) != 9*time.Second {
			t.Errorf("%+v", s)
		}
		time.Sleep(3 * time.Second)
		if s := model.Status(); !s.Shared || s.Err != nil || time.Since(s.Since) > 2*time.Second || model.Rate() != 25 {
			t.Errorf("%+v", s)
		}
	})
}

// A process without callers asks nothing.
func TestAnIdleProcessIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := &pace.Pace{Quota: 25}
		ctx, end := context.WithCancel(t.Context())
		defer end()
		go model.Share(ctx, new(memory))
		time.Sleep(24 * time.Hour)
		if n := model.Status().Exchanges; n != 1 {
			t.Errorf("%d exchanges in a day", n)
		}
		for range 10 {
			_ = retry.Run(t.Context(), retry.Policy{Guards: []retry.Guard{model}}, works)
			time.Sleep(time.Second)
		}
		if n := model.Status().Exchanges; n != 11 {
			t.Errorf("%d exchanges for ten calls, want one each", n-1)
		}
	})
}

// A hold that one process reports moves the slots of the others, which hear of it by the news.
func TestAHoldForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(memory)
		a, b := &pace.Pace{Quota: 10}, &pace.Pace{Quota: 10}
		ctx, end := context.WithCancel(t.Context())
		defer end()
		go a.Share(ctx, store)
		go b.Share(ctx, store)
		synctest.Wait()
		time.Sleep(time.Second)
		begin := time.Now()
		a.Hold(20 * time.Second)
		time.Sleep(time.Second)
		if err := retry.Run(t.Context(), retry.Policy{Guards: []retry.Guard{b}}, works); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took < 20*time.Second || took > 20200*time.Millisecond {
			t.Errorf("the other process starts after %v, want 20s", took)
		}
	})
}

// A call that would start too late ends at once, with a wait that is not older than the call.
func TestTooLateForTheFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memory{took: 2 * time.Millisecond}
		model := &pace.Pace{Quota: 10}
		ctx, end := context.WithCancel(t.Context())
		defer end()
		go model.Share(ctx, store)
		time.Sleep(time.Second)
		other := pace.Ask{Rate: 10, Burst: 1, Hold: 60}
		if _, err := store.Reserve(ctx, other); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		p := retry.Policy{Guards: []retry.Guard{model}, MaxElapsed: 30 * time.Second}
		err := retry.Run(t.Context(), p, works)
		late, ok := errors.AsType[interface {
			error
			RetryAfter() time.Duration
		}](err)
		if !errors.Is(err, retry.ErrPaced) || !ok || late.RetryAfter() < 59*time.Second || time.Since(begin) > 100*time.Millisecond {
			t.Fatalf("%v after %v", err, time.Since(begin))
		}
		store.forget() // whoever clears the store ends that
		begin = time.Now()
		if err := retry.Run(t.Context(), p, works); err != nil || time.Since(begin) > 100*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}

// A call whose turn comes in time starts then, though another one would have to wait for as long as
// it has waited, and it has not so much time left.
func TestATurnThatComesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memory{took: 2 * time.Millisecond}
		if _, err := store.Reserve(t.Context(), pace.Ask{Rate: 10, Burst: 1, Want: 99.8, Least: 99.8, Patience: 60}); err != nil {
			t.Fatal(err)
		}
		model := &pace.Pace{Quota: 10}
		ctx, end := context.WithCancel(t.Context())
		defer end()
		go model.Share(ctx, store)
		synctest.Wait()
		begin := time.Now()
		err := retry.Run(ctx, retry.Policy{Guards: []retry.Guard{model}, MaxElapsed: 20 * time.Second}, works)
		if took := time.Since(begin); err != nil || took < 9900*time.Millisecond || took > 10*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// The number is wrong if attempts are throttled though they are paced.
func TestStatusSaysThatTheNumberIsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := &pace.Pace{Quota: 25}
		p := retry.Policy{Guards: []retry.Guard{model}, MaxAttempts: 1}
		for i := range 500 {
			_ = retry.Run(t.Context(), p, func(context.Context) error {
				if i%5 == 0 {
					return status(429)
				}
				return nil
			})
		}
		time.Sleep(time.Second)
		if s := model.Status(); s.Quota != 25 || math.Abs(s.Throttled-.2) > .01 || math.Abs(s.Seems-20) > .3 {
			t.Errorf("%+v, want a quota of 20", s)
		}
	})
}

// An attempt starts with its last slot, however many it needs.
func TestCostsUnderShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := &pace.Pace{Quota: 10, Burst: 10}
		ctx, end := context.WithCancel(t.Context())
		defer end()
		go model.Share(ctx, new(memory))
		begin := time.Now()
		for i, cost := range []float64{10, 1, 3, 4, 5, 10, 25} {
			if err := retry.Run(pace.WithCost(t.Context(), cost), retry.Policy{Guards: []retry.Guard{model}}, works); err != nil {
				t.Fatalf("a cost of %v: %v", cost, err)
			}
			if took := time.Since(begin); took > time.Duration(i+1)*500*time.Millisecond+time.Duration(cost/10*2*float64(time.Second))+4*time.Second {
				t.Errorf("a cost of %v starts after %v", cost, took)
			}
		}
		if n := model.Status().Exchanges; n > 40 {
			t.Errorf("%d exchanges", n)
		}
	})
}

// A hold that the store has not heard of holds the process itself.
func TestHoldWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		model := &pace.Pace{Quota: 10}
		ctx, end := context.WithCancel(t.Context())
		defer end()
		go model.Share(ctx, &memory{fails: func(time.Duration) error {
			if away.Load() {
				return errFlaky
			}
			return nil
		}})
		time.Sleep(2 * time.Second)
		away.Store(true)
		model.Hold(30 * time.Second)
		time.Sleep(time.Second)
		if d := model.Wait(); d < 28*time.Second || d > 31*time.Second {
			t.Errorf("after a hold of 30 s that was not reported, the next waits %v", d)
		}
	})
}

// Calls that come together may use the whole burst, also through a store.
func TestBurstUnderShare(t *testing.T) {
	for _, gap := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			model := &pace.Pace{Quota: 60, Per: time.Minute, Burst: 10}
			share, end := context.WithCancel(t.Context())
			defer end()
			go model.Share(share, &memory{took: 2 * time.Millisecond})
			time.Sleep(200 * time.Millisecond)
			ctx, cancel := context.WithTimeout(t.Context(), 800*time.Millisecond)
			defer cancel()
			var calls sync.WaitGroup
			for range 5 {
				time.Sleep(gap)
				calls.Go(func() {
					if err := retry.Run(ctx, retry.Policy{Guards: []retry.Guard{model}}, works); err != nil {
						t.Errorf("%v apart: %v", gap, err)
					}
				})
			}
			calls.Wait()
		})
	}
}

// A wait for an answer of the store is one that is not known.
func TestWaitForTheStoreIsNotKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := &pace.Pace{Quota: 1}
		ctx, end := context.WithCancel(t.Context())
		defer end()
		go model.Share(ctx, &memory{took: 2 * time.Millisecond})
		synctest.Wait()
		var delays []time.Duration
		p := retry.Policy{Guards: []retry.Guard{model}, Hooks: retry.Hooks{Guard: func(_ context.Context, h retry.Held) { delays = append(delays, h.Delay) }}}
		for range 2 {
			if err := retry.Run(t.Context(), p, works); err != nil {
				t.Fatal(err)
			}
		}
		for _, d := range delays {
			if d != 0 && d < time.Second/10 {
				t.Errorf("waits %v", delays)
			}
		}
	})
}

// subscribed is a store whose subscription takes so long to end.
type subscribed struct {
	memory
	ends  time.Duration // negative: it never ends
	ended atomic.Bool
}

func (s *subscribed) News(ctx context.Context) <-chan struct{} {
	news := make(chan struct{}, 1)
	context.AfterFunc(ctx, func() {
		news <- struct{}{}
		if s.ends >= 0 {
			time.Sleep(s.ends)
			s.ended.Store(true)
			close(news)
		}
	})
	return news
}

// Share returns when the store's subscription has ended, or half a second after ctx.
func TestShareAwaitsTheEndOfNews(t *testing.T) {
	for ends, want := range map[time.Duration]time.Duration{0: 0, 30 * time.Millisecond: 30 * time.Millisecond, -1: 500 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			over := errors.New("over")
			time.AfterFunc(time.Minute, func() { cancel(over) })
			store, begin := &subscribed{ends: ends}, time.Now()
			model := pace.Pace{Quota: 10}
			err := model.Share(ctx, store)
			if took := time.Since(begin) - time.Minute; err != over || took != want || store.ended.Load() != (ends >= 0) {
				t.Errorf("a subscription that ends after %v: Share returns %v after %v, ended %v, want %v after %v", ends, err, took, store.ended.Load(), over, want)
			}
		})
	}
}
