package failover_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/failover"
	"github.com/goretry/retry/internal/race"
)

// someError returns an error of a random kind. errHang takes until its context ends.
func someError(r *rand.Rand) error {
	switch r.IntN(16) {
	case 0:
		return errBad
	case 1:
		return retry.ErrRejected
	case 2:
		return retry.After(retry.ErrRejected, time.Duration(r.IntN(3000))*time.Millisecond)
	case 3, 4:
		return told(time.Duration(r.IntN(12)) * time.Second)
	case 5:
		return told(time.Duration(r.IntN(12)) * time.Minute)
	case 6:
		return errHang
	case 7:
		return errRefused
	case 8:
		return status(429)
	case 9:
		return atOnce{}
	case 10:
		return nil
	case 11:
		return retry.Refuse(errDown)
	}
	return errDown
}

func somePolicy(r *rand.Rand, clock clockx.Clock) retry.Policy {
	p := retry.Policy{
		Name: "call", Clock: clock, MaxAttempts: []int{0, 1, 2, 5, 12}[r.IntN(5)],
		NonIdempotent: r.IntN(6) == 0,
	}
	if r.IntN(2) == 0 {
		p.AttemptTimeout = time.Duration(1+r.IntN(4000)) * time.Millisecond
	}
	if r.IntN(3) == 0 {
		p.MaxElapsed = time.Duration(r.IntN(60)) * time.Second
	}
	if r.IntN(3) == 0 {
		p.ThrottleBackoff = retry.Constant(3 * time.Second)
	}
	if r.IntN(3) == 0 {
		p.Backoff = retry.Constant(time.Duration(r.IntN(3)) * time.Second)
	}
	return p
}

// With one target Do is retry.Do, attempt for attempt.
func TestOneTargetIsDo(t *testing.T) {
	for seed := range uint64(500) {
		play := func(do func(context.Context, retry.Policy, []retry.Guard, func(context.Context) (int, error)) (int, error)) string {
			r := rand.New(rand.NewPCG(seed, 1))
			clock := clockx.NewVirtual(time.Unix(1e6, 0))
			start := clock.Now()
			p := somePolicy(r, clock)
			jitter := r.Float64()
			p.Rand = func() float64 { return jitter } // rests take some too
			b := new(counted)
			b.refuse = r.IntN(4) == 0
			p.Budget = b
			text := ""
			log := func(format string, args ...any) {
				text += fmt.Sprintf("%v ", clock.Now().Sub(start)) + fmt.Sprintf(format, args...) + "\n"
			}
			p.Hooks.Attempt = func(ctx context.Context, a retry.Attempt) context.Context {
				log("attempt %d", a.Number)
				return ctx
			}
			p.Hooks.AttemptDone = func(_ context.Context, a retry.Attempt) {
				log("done %v %v %v %v", a.Err, a.Class, a.Hint, a.Now)
			}
			p.Hooks.Wait = func(_ context.Context, w retry.Attempt) { log("wait %v", w.Delay) }
			var guards []retry.Guard
			g := &gate{again: r.IntN(2) == 0}
			if r.IntN(2) == 0 {
				g.wait = time.Duration(r.IntN(3)) * time.Second
				if r.IntN(4) == 0 {
					g.err = retry.After(errors.New("full"), time.Second)
				}
				guards = append(guards, g)
			}
			ctx := t.Context()
			if r.IntN(2) == 0 {
				var cancel context.CancelFunc
				ctx, cancel = clock.WithTimeoutCause(ctx, time.Duration(r.IntN(30000))*time.Millisecond, nil)
				defer cancel()
			}
			v, err := do(ctx, p, guards, func(ctx context.Context) (int, error) {
				_ = clock.Sleep(ctx, time.Duration(r.IntN(50))*time.Millisecond)
				err := someError(r)
				if err == errHang {
					_ = clock.Sleep(ctx, time.Minute)
					return -1, context.Cause(ctx)
				}
				return r.IntN(100), err
			})
			log("%v %v %v %d", v, errors.Unwrap(err), b.log, g.entered)
			if e, ok := errors.AsType[*retry.Error](err); ok {
				log("%v %v %v %v %v %v", e.Reason, e.Attempts, e.Elapsed, e.Waited, e.Undone, e.Errs)
			}
			for _, x := range g.exits {
				log("%v %v %v %v %v", x.Ending, x.Verdict.Class, x.Verdict.Err, x.Took, x.Allowed)
			}
			return text
		}
		want := play(func(ctx context.Context, p retry.Policy, guards []retry.Guard, op func(context.Context) (int, error)) (int, error) {
			p.Guards = guards
			return retry.Do(ctx, p, op)
		})
		got := play(func(ctx context.Context, p retry.Policy, guards []retry.Guard, op func(context.Context) (int, error)) (int, error) {
			s := failover.Set[int]{Targets: []*failover.Target[int]{{Guards: guards}}}
			return failover.Do(ctx, p, &s, func(ctx context.Context, _ *failover.Target[int]) (int, error) { return op(ctx) })
		})
		if got != want {
			t.Fatalf("seed %d:\n%s\nwant\n%s", seed, got, want)
		}
	}
}

// Many random calls at random targets, in virtual time, one after the other and beside each other:
// what must be so, whatever happens.
func TestModel(t *testing.T) {
	seeds := uint64(150)
	if race.Enabled {
		seeds = 40
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) { model(t, seed) })
	}
}

// visit is an attempt.
type visit struct {
	target int
	at     time.Time
	end    time.Time
	err    error // it has come to
	class  retry.Class
	poll   bool
}

func model(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 3))
	n := 2 + r.IntN(3)
	dead := r.IntN(n + 1) // it never fails, if there is one such
	s := &failover.Set[int]{
		Elsewhere: func(err error) bool { return errors.Is(err, errFilter) },
		Broken:    func(err error) bool { return errors.Is(err, errKey) },
		Failures:  r.IntN(4),
	}
	gates := make([]*counting, n)
	for i := range n {
		gates[i] = &counting{r: rand.New(rand.NewPCG(seed, uint64(10+i)))}
		target := &failover.Target[int]{Name: fmt.Sprint(i), Value: i}
		if i != dead && r.IntN(2) == 0 {
			gates[i].some = r.IntN(2) == 0
			target.Guards = []retry.Guard{gates[i]}
		}
		s.Targets = append(s.Targets, target)
	}
	var wg sync.WaitGroup
	for range 40 {
		time.Sleep(time.Duration(r.IntN(500)) * time.Millisecond)
		luck := rand.New(rand.NewPCG(r.Uint64(), 1))
		wg.Go(func() {
			p := somePolicy(luck, nil)
			p.Rand = luck.Float64
			p.MaxRetryAfter = time.Minute
			if p.Backoff == retry.Constant(0) { // a round is known by the wait after it
				p.Backoff = retry.Constant(time.Millisecond)
			}
			limit := time.Duration(luck.IntN(60)) * time.Second
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			began := time.Now()
			var visits []visit
			_, err := failover.Do(ctx, p, s, func(ctx context.Context, target *failover.Target[int]) (int, error) {
				if failover.Name(ctx) != target.Name {
					t.Errorf("the name is %q, want %q", failover.Name(ctx), target.Name)
				}
				v := visit{target: target.Value, at: time.Now()}
				time.Sleep(time.Duration(luck.IntN(80)) * time.Millisecond)
				if target.Value != dead {
					switch v.err = someError(luck); {
					case v.err == errHang:
						select {
						case <-ctx.Done():
						case <-time.After(10 * time.Second):
						}
						v.err = errDown
					case luck.IntN(8) == 0:
						v.err = errKey
					case luck.IntN(8) == 0:
						v.err = errFilter
					}
				}
				if v.err != nil {
					j := p.Judge(v.err)
					v.class, v.poll = j.Class, j.Answered || j.Now
				}
				v.end = time.Now()
				visits = append(visits, v)
				return 0, v.err
			})
			if over := time.Since(began) - limit; over > 15*time.Second {
				t.Errorf("seed %d: the run ends %v after its deadline", seed, over)
			}
			round := map[int]bool{}
			not := map[int]time.Time{}
			for i, v := range visits {
				if v.at.Before(not[v.target]) {
					t.Errorf("seed %d: target %d is asked %v too early", seed, v.target, not[v.target].Sub(v.at))
				}
				if i > 0 {
					last := visits[i-1]
					known := errors.Is(last.err, errKey) || errors.Is(last.err, errFilter)
					switch {
					case p.NonIdempotent && !known && !last.poll && last.err != errRefused:
						t.Errorf("seed %d: a call that must not run twice is made again after %v", seed, last.err)
					case last.poll && v.target != last.target:
						t.Errorf("seed %d: a poll goes elsewhere", seed)
					}
				}
				if i > 0 && (visits[i-1].poll || v.at.After(visits[i-1].end)) { // there was a wait
					clear(round)
				}
				if round[v.target] {
					t.Errorf("seed %d: target %d is asked twice in a round: %v", seed, v.target, visits)
				}
				round[v.target] = true
				switch j := p.Judge(v.err); {
				case errors.Is(v.err, errKey), errors.Is(v.err, errFilter):
					not[v.target] = v.at.Add(24 * time.Hour)
				case j.Hint > p.MaxRetryAfter && !j.Answered:
					not[v.target] = v.at.Add(24 * time.Hour)
				case j.Hint > 0 && !j.Answered:
					not[v.target] = v.at.Add(j.Hint)
				}
			}
			if e, ok := errors.AsType[*retry.Error](err); ok && e.Reason == retry.ReasonGuard && e.Attempts == 0 && dead < n {
				t.Errorf("seed %d: an outage made by us: %v", seed, err)
			}
		})
	}
	wg.Wait()
	for i, g := range gates {
		if in := g.inside.Load(); in != 0 {
			t.Errorf("seed %d: %d passes of target %d are not left", seed, in, i)
		}
	}
}

// counting is a guard that says anything, and counts its passes.
type counting struct {
	some   bool
	mu     sync.Mutex
	r      *rand.Rand
	inside atomic.Int64
}

func (g *counting) Enter(_ context.Context, e retry.Entry) (retry.Pass, error) {
	if e.Earlier.Again {
		g.inside.Add(-1)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	pass := retry.Pass{}
	switch k := g.r.IntN(6); {
	case !g.some:
	case k == 0:
		return pass, errors.New("full")
	case k == 1:
		pass = retry.Pass{Wait: time.Duration(g.r.IntN(3000)) * time.Millisecond, Again: g.r.IntN(2) == 0}
	case k == 2:
		wake := make(chan struct{}, 1)
		wake <- struct{}{}
		pass = retry.Pass{Wake: wake}
	}
	g.inside.Add(1)
	return pass, nil
}

func (g *counting) Leave(retry.Pass, retry.Exit) {
	if g.inside.Add(-1) < 0 {
		panic("left twice")
	}
}

// Two hundred goroutines, for the race detector.
func TestRace(t *testing.T) {
	s := &failover.Set[int]{Rest: retry.Constant(time.Millisecond)}
	for i := range 3 {
		s.Targets = append(s.Targets, &failover.Target[int]{Name: fmt.Sprint(i), Value: i})
	}
	p := retry.Policy{MaxAttempts: 4, Backoff: retry.Constant(0), Budget: new(retry.EarnedBudget), AttemptTimeout: time.Second}
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			for j := range 20 {
				_, _ = failover.Do(t.Context(), p, s, func(ctx context.Context, target *failover.Target[int]) (int, error) {
					if (i+j+target.Value)%3 == 0 {
						return 0, errDown
					}
					return target.Value, nil
				})
				switch i % 50 {
				case 0:
					s.Targets[j%3].Hold(time.Microsecond)
				case 1:
					s.Targets[j%3].Resting()
				}
			}
		})
	}
	wg.Wait()
}
