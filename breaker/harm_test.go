package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/breaker"
)

// life is a service that is called for some minutes, and those who call it.
type life struct {
	rate   float64 // calls per second, at random times
	fails  float64 // the part of the attempts that fails at random
	outage bool    // it is down in the second minute
	hangs  bool    // it does not answer then
	long   time.Duration
}

// live returns how many calls there were, how many of them were lost, and how many attempts the
// service got while it was down.
func (l life) live(t *testing.T, b *breaker.Breaker) (calls, lost, down int) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		start := time.Now()
		var mu sync.Mutex
		var wg sync.WaitGroup
		for time.Since(start) < l.long {
			time.Sleep(time.Duration(r.ExpFloat64() / l.rate * float64(time.Second)))
			luck := rand.New(rand.NewPCG(r.Uint64(), 3))
			p := retry.Policy{AttemptTimeout: 5 * time.Second, Rand: luck.Float64}
			if b != nil {
				p.Guards = []retry.Guard{b}
			}
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				err := retry.Run(ctx, p, func(ctx context.Context) error {
					bad := l.outage && time.Since(start)/time.Minute == 1
					mu.Lock()
					if bad {
						down++
					}
					mu.Unlock()
					if bad && l.hangs {
						<-ctx.Done()
						return context.Cause(ctx)
					}
					time.Sleep(50 * time.Millisecond)
					if bad || luck.Float64() < l.fails {
						return errors.New("503")
					}
					return nil
				})
				mu.Lock()
				defer mu.Unlock()
				calls++
				if err != nil {
					lost++
				}
			})
		}
		wg.Wait()
	})
	return calls, lost, down
}

// What a Breaker costs where attempts fail at random, and what it spares where all fail. With
// RETRY_LONG=1 and -v it prints the table of docs/guards.md.
func TestPrice(t *testing.T) {
	long := 2 * time.Minute
	if os.Getenv("RETRY_LONG") != "" {
		long = time.Hour
	}
	lost := func(l life, b *breaker.Breaker) string {
		calls, lost, _ := l.live(t, b)
		return fmt.Sprintf("%.1f %%", 100*float64(lost)/float64(calls))
	}
	for _, fails := range []float64{.33, .5, .67, .8, .9, .95} {
		for _, rate := range []float64{2, 20} {
			l := life{rate: rate, fails: fails, long: long}
			without, with := lost(l, nil), lost(l, new(breaker.Breaker))
			t.Logf("%.0f %% fail at random, %g calls per second: lost %s, without %s", 100*fails, rate, with, without)
			if fails < .4 && with != without {
				t.Errorf("%.0f %% fail at random, %g calls per second: lost %s, without %s", 100*fails, rate, with, without)
			}
		}
	}
	for _, hangs := range []bool{false, true} {
		l := life{rate: 20, outage: true, hangs: hangs, long: 3 * time.Minute}
		_, lost, down := l.live(t, nil)
		_, lostWith, downWith := l.live(t, new(breaker.Breaker))
		t.Logf("a minute in which it is down, hangs %v: %d attempts in it, without %d; lost %d calls, without %d", hangs, downWith, down, lostWith, lost)
		if downWith > down/4 || lostWith > lost*3/2 {
			t.Errorf("a minute in which it is down, hangs %v: %d attempts in it, without %d; lost %d calls, without %d", hangs, downWith, down, lostWith, lost)
		}
	}
}
