package pace_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/pace"
)

// chance is random numbers for many goroutines.
type chance struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func (c *chance) below(n int) int { return int(c.upTo(time.Duration(n - 1))) }

func (c *chance) upTo(d time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Duration(c.rng.Int64N(int64(d) + 1))
}

// moody is a guard that refuses one attempt of ten.
type moody struct{ *chance }

func (g moody) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	if g.below(10) == 0 {
		return retry.Pass{}, errFull
	}
	return retry.Pass{}, nil
}

func (moody) Leave(retry.Pass, retry.Exit) {}

// faulty is a Store that is slow, fails, is silent, and now and then says what makes no sense.
type faulty struct {
	memory
	*chance
}

func (s *faulty) Reserve(ctx context.Context, a pace.Ask) (pace.Slots, error) {
	time.Sleep(s.upTo(100 * time.Millisecond))
	switch s.below(12) {
	case 0:
		<-ctx.Done()
		return pace.Slots{}, context.Cause(ctx)
	case 1:
		return pace.Slots{}, errFlaky
	case 2:
		return pace.Slots{N: float64(s.below(3)), Wait: 1e12 * float64(s.below(3)-1), Moved: float64(s.below(100))}, nil
	case 3:
		s.forget()
	}
	return s.memory.Reserve(ctx, a)
}

// Whatever becomes of attempts, of the store and of what the server states, nobody waits for ever: a wake that is lost would
// be a deadlock here.
func TestEveryoneGetsATurn(t *testing.T) {
	seeds := uint64(150)
	if longTests {
		seeds = 6000
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			c := &chance{rng: rand.New(rand.NewPCG(seed, 3))}
			p := new(pace.Pace)
			kind := []string{"open", "a quota", "shared", "stated"}[seed%4]
			if kind == "a quota" || kind == "shared" {
				p.Quota, p.Burst = float64(1+c.below(20)), float64(c.below(5))
			}
			ctx, cancel := context.WithCancel(t.Context())
			var sharing, calls sync.WaitGroup
			for life := range 2 {
				share, part := context.WithCancel(ctx)
				defer part()
				if kind == "shared" && (life == 0 || p.Status().Since.IsZero()) {
					sharing.Go(func() { _ = p.Share(share, &faulty{chance: c}) })
				}
				for range 5 + c.below(50) {
					at, lasts, cost := c.upTo(5*time.Second), c.upTo(40*time.Second), float64(c.below(4))
					calls.Go(func() { c.live(ctx, p, kind, at, lasts, cost) })
				}
				if life == 0 {
					time.Sleep(c.upTo(10 * time.Second))
				}
				if c.below(2) == 0 && life == 0 {
					part()
					sharing.Wait()
				}
			}
			done := make(chan struct{})
			go func() { calls.Wait(); close(done) }()
			select {
			case <-done:
			case <-time.After(6 * time.Hour):
				t.Errorf("seed %d, %s: some wait after six hours: %+v", seed, kind, p.Status())
			}
			cancel()
			calls.Wait()
			sharing.Wait()
			if n := p.Status().Waiting; n != 0 {
				t.Errorf("seed %d, %s: %d wait after all", seed, kind, n)
			}
		})
	}
}

// live makes a call to which anything may happen.
func (c *chance) live(ctx context.Context, p *pace.Pace, kind string, at, lasts time.Duration, cost float64) {
	time.Sleep(at)
	switch c.below(3) {
	case 0:
		limited, cancel := context.WithTimeout(ctx, lasts)
		defer cancel()
		ctx = limited
	case 1:
		canceled, cancel := context.WithCancel(ctx)
		defer cancel()
		defer time.AfterFunc(lasts, cancel).Stop()
		ctx = canceled
	}
	if cost > 0 {
		ctx = pace.WithCost(ctx, cost)
	}
	policy := retry.Policy{MaxAttempts: 3, Guards: []retry.Guard{p, moody{c}}}
	_ = retry.Run(ctx, policy, func(ctx context.Context) error {
		started := p.Started()
		time.Sleep(c.upTo(500 * time.Millisecond))
		if kind == "stated" && c.below(3) == 0 {
			p.Tell(float64(1+c.below(100)), time.Duration(1+c.below(60))*time.Second, float64(c.below(20)), started)
		}
		pace.Spent(ctx, float64(c.below(6)))
		switch c.below(8) {
		case 0, 1, 2:
			return retry.After(errors.New("429"), c.upTo(3*time.Second))
		case 3:
			p.Hold(c.upTo(2 * time.Second))
		case 4:
			return errFlaky
		case 5:
			time.Sleep(c.upTo(30 * time.Second))
		}
		return nil
	})
}
