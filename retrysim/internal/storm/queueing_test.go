package storm_test

import (
	"context"
	"math"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/retrysim/internal/storm"
)

// mmc returns how an M/M/c queue does, whose requests take 1 on average: the chance
// to wait (Erlang's C formula), the mean time in it, and the time within which a
// share of the requests is done.
func mmc(c int, load float64) (chance, mean float64, quantile func(float64) float64) {
	a := load * float64(c)
	term, sum := 1.0, 0.0
	for k := range c {
		sum += term
		term *= a / float64(k+1)
	}
	tail := term / (1 - load)
	chance = tail / (sum + tail)
	left := float64(c) - a // at which those who wait move on
	mean = 1 + chance/left
	above := func(t float64) float64 { // the share that takes longer than t
		if math.Abs(left-1) < 1e-9 {
			return math.Exp(-t) * (1 + chance*t)
		}
		return (1-chance)*math.Exp(-t) + chance*(left*math.Exp(-t)-math.Exp(-left*t))/(left-1)
	}
	return chance, mean, func(q float64) float64 {
		low, high := 0.0, 1e4
		for range 100 {
			if middle := (low + high) / 2; above(middle) > 1-q {
				low = middle
			} else {
				high = middle
			}
		}
		return low
	}
}

// times of the calls to a server whose requests take 10 ms, as multiples of that.
func timesOf(r *storm.Result) (p50, p99 float64) {
	return r.Quantile(.5).Seconds() / .01, r.Quantile(.99).Seconds() / .01
}

// meanTime returns how long calls are held on average, by Little's law.
func meanTime(r *storm.Result, rate float64) float64 {
	sum, held := 0.0, 0
	for _, b := range r.Buckets {
		held += b.Sent - b.Done
		sum += float64(held) / float64(len(r.Buckets))
	}
	return sum / rate / .01
}

func TestWorkersAreAnMMcQueue(t *testing.T) {
	notUnderRace(t)
	long(t)
	for _, workers := range []int{1, 4, 16} {
		for load, tolerance := range map[float64]float64{.5: .03, .8: .05, .95: .15} { // at .95 one busy period may be a minute
			rate := load * float64(workers) / .01
			seconds := int(4e5 / rate)
			s := storm.Service{Rate: rate, Workers: workers, Latency: 10 * ms, Exponential: true, Duration: time.Duration(seconds) * s, Seed: 5}
			r := s.Run(atOnce(1))
			_, want, quantile := mmc(workers, load)
			p50, p99 := timesOf(r)
			got := meanTime(r, rate)
			if !within(got, want, tolerance) || !within(p50, quantile(.5), tolerance) || !within(p99, quantile(.99), 1.5*tolerance) {
				t.Errorf("M/M/%d at %v: mean %.3f, p50 %.3f, p99 %.3f; want %.3f, %.3f, %.3f", workers, load, got, p50, p99, want, quantile(.5), quantile(.99))
			}
		}
	}
}

// A fixed time to begin, and random arrivals: the mean wait is ρ/2(1-ρ) of it
// (Pollaczek and Khinchine). One worker and a Capacity are the same.
func TestOneServerIsAnMD1Queue(t *testing.T) {
	notUnderRace(t)
	long(t)
	for load, tolerance := range map[float64]float64{.5: .02, .8: .03, .95: .12} {
		want := 1 + load/(2*(1-load))
		for name, s := range map[string]storm.Service{
			"a worker": {Workers: 1, Latency: 10 * ms}, "a capacity": {Capacity: 100},
		} {
			s.Rate, s.Duration, s.Seed = 100*load, 3000*time.Second, 7
			r := s.Run(atOnce(1))
			if got := meanTime(r, s.Rate); !within(got, want, tolerance) {
				t.Errorf("%s at a load of %v: %.3f, want %.3f", name, load, got, want)
			}
		}
	}
}

// The times of M/D/1: with q at .8 a share of P(W ≤ t) of the requests has begun by t
// (Erlang), from which the median and p99 follow.
func TestQuantilesOfMD1(t *testing.T) {
	notUnderRace(t)
	for _, load := range []float64{.5, .8} {
		// P(W ≤ t) = (1-ρ) Σ (ρ(k-t))^k/k! · e^(-ρ(k-t)), k from 0 to t.
		waited := func(t float64) (sum float64) {
			for k := 0.0; k <= t; k++ {
				x, term := load*(k-t), 1.0
				for i := 1.0; i <= k; i++ {
					term *= x / i
				}
				sum += term * math.Exp(-x)
			}
			return sum * (1 - load)
		}
		r := storm.Service{Rate: 100 * load, Workers: 1, Latency: 10 * ms, Duration: 4000 * time.Second, Seed: 2}.Run(atOnce(1))
		for _, q := range []float64{.6, .9, .99} {
			want := 0.0
			for waited(want) < q {
				want += .001
			}
			if got := r.Quantile(q).Seconds()/.01 - 1; math.Abs(got-want) > .05*(want+1) {
				t.Errorf("M/D/1 at %v: the share %v waits %.3f, want %.3f", load, q, got, want)
			}
		}
	}
}

// A queue of K-c places for c workers loses the share of the requests that finds it
// full (M/M/c/K). Without a place it is a loss system (M/M/c/c, Erlang's B formula).
func TestAFullQueueLosesAsMMcK(t *testing.T) {
	notUnderRace(t)
	long(t)
	for _, workers := range []int{1, 5, 20} {
		for _, queue := range []int{-1, 1, 10} {
			for _, load := range []float64{.5, .8, .95} {
				// The share of the time in which k requests are there is proportional to its weight.
				weight, sum := 1.0, 1.0
				for k := 1; k <= workers+max(queue, 0); k++ {
					weight *= load * float64(workers) / float64(min(k, workers))
					sum += weight
				}
				want := weight / sum
				x := storm.Service{Rate: load * float64(workers) / .01, Workers: workers, Latency: 10 * ms, Exponential: true, Queue: queue, Seed: 3}
				x.Duration = time.Duration(1e5/x.Rate) * s
				r := x.Run(atOnce(1))
				if got := 1 - r.Success(); math.Abs(got-want) > .04*want+4*math.Sqrt(want/1e5) {
					t.Errorf("%d workers and a queue of %d at a load of %v: %.5f are lost, want %.5f", workers, queue, load, got, want)
				}
			}
		}
	}
}

// What was measured: a real net/http server of 10 workers that take 50 ms, real
// clients in processes of their own through retryhttp, 150 calls per second, a
// timeout of 1 s and an outage of 3 s, for 40 s.
func TestAgainstARealServer(t *testing.T) {
	notUnderRace(t)
	token := retry.Policy{MaxAttempts: 4, Budget: &budget.Token{}}
	for name, tt := range map[string]struct {
		edit   func(x *storm.Service)
		policy retry.Policy
		took   [2]float64 // measured, in seconds
	}{
		"token, one budget":                     {func(x *storm.Service) { x.Shared = true }, token, [2]float64{5.8, 6.1}},
		"token, ten processes":                  {func(*storm.Service) {}, token, [2]float64{12.3, 12.3}},
		"no retries, abandoned work is dropped": {func(x *storm.Service) { x.Drop = true }, atOnce(1), [2]float64{}},
		"no retries, newest first":              {func(x *storm.Service) { x.Discipline = storm.LIFO }, atOnce(1), [2]float64{}},
	} {
		x := storm.Service{
			Processes: 10, Rate: 150, Workers: 10, Latency: 50 * ms, Timeout: s, Duration: 40 * s, Seed: 1,
			Outages: []storm.Outage{{From: 10 * s, To: 13 * s}},
		}
		tt.edit(&x)
		var took []float64
		for _, r := range x.Trials(t.Context(), []retry.Policy{tt.policy}, 20)[0] {
			ending, after := r.Ending(10*s, 13*s)
			if ending != storm.Recovered {
				after = math.MaxInt64
			}
			took = append(took, after.Seconds())
		}
		slices.Sort(took)
		if median := took[10]; median < tt.took[0]-.8 || median > tt.took[1]+.8 {
			t.Errorf("%s: recovers after %.1f s, measured %v", name, median, tt.took)
		}
	}
}

// A server that honours the request's context, and one that serves the newest first,
// lose what was asked in the outage and little more.
func TestDropAndLIFOLoseLittle(t *testing.T) {
	lost := func(edit func(x *storm.Service)) float64 {
		x := storm.Service{Rate: 150, Workers: 10, Latency: 50 * ms, Timeout: s, Duration: 40 * s, Seed: 1, Outages: []storm.Outage{{From: 10 * s, To: 13 * s}}}
		edit(&x)
		r := x.Run(atOnce(1))
		if w := r.Buckets[0]; w.Wasted > 0 {
			t.Errorf("work is wasted before anything is wrong")
		}
		return 1 - r.Success()
	}
	served := lost(func(*storm.Service) {})
	for name, edit := range map[string]func(*storm.Service){"drop": func(x *storm.Service) { x.Drop = true }, "LIFO": func(x *storm.Service) { x.Discipline = storm.LIFO }} {
		if got := lost(edit); got < .03 || got > .095 || got > served/2 {
			t.Errorf("%s: %.3f are lost, and %.3f where all is served in order; want .03 to .095", name, got, served)
		}
	}
}

// Requests that wait are dropped in the middle of the queue, and count for a limit no more.
func TestDroppedRequestsMakePlace(t *testing.T) {
	r := storm.Service{Clients: 5, Workers: 1, Latency: 10 * s, Timeout: s, Drop: true, Queue: 3, Full: storm.TooMany}.Run(retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0)})
	// One is worked on and three wait, the fifth is turned away twice. After 1 s all four give up:
	// the worker takes one again, three wait, and again all of them give up.
	if r.Succeeded != 0 || r.Sent != 10 || r.Held(3*s) != 0 {
		t.Errorf("%d succeed of %d sent, and %v are held; want none of 10, and none", r.Succeeded, r.Sent, r.Held(3*s))
	}
	worked, wasted := 0, 0
	for _, b := range r.Buckets {
		worked, wasted = worked+b.Worked, wasted+b.Wasted
	}
	if worked < 2 || worked != wasted {
		t.Errorf("%d were worked on, %d of them for nothing; want 2 or more, and all", worked, wasted)
	}
}

// The answers of a full queue and of an outage are what the policy judges.
func TestAnswers(t *testing.T) {
	for answer, want := range map[storm.Answer]retry.Class{storm.Unavailable: retry.Transient, storm.TooMany: retry.Throttled, storm.Refused: retry.Unprocessed} {
		for name, x := range map[string]storm.Service{
			"outage": {Clients: 3, Outages: []storm.Outage{{To: s, Answer: answer}}},
			"queue":  {Clients: 3, Workers: 1, Latency: time.Hour, Queue: 1, Full: answer},
		} {
			c := &counting{retried: map[retry.Class]int{}}
			x.Run(retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(ms), Budget: c})
			if c.retried[want] == 0 || len(c.retried) > 2 {
				t.Errorf("%s, answer %v: retries follow %v, want %v", name, answer, c.retried, want)
			}
		}
	}
}

// A policy that never stops where a refusal takes no time is given up.
func TestFloodIsGivenUp(t *testing.T) {
	x := storm.Service{Rate: 150, Outages: []storm.Outage{{From: 10 * s, To: 13 * s, Answer: storm.Refused}}}
	r := x.Run(retry.Policy{MaxAttempts: 1e9, Backoff: retry.Constant(0)})
	if ending, _ := r.Ending(10*s, 13*s); !r.Flooded || ending != storm.Flooded || r.Sent > 600_000 {
		t.Errorf("flooded %v, %v, after %d attempts", r.Flooded, ending, r.Sent)
	}
}

func TestMaxRate(t *testing.T) {
	for want, x := range map[float64]storm.Service{
		200:         {Workers: 10, Latency: 50 * ms, Capacity: 7},
		100:         {Workers: 10, Latency: 50 * ms, Slowdown: 5 * ms},
		250:         {Capacity: 250, Latency: time.Hour},
		150:         {Workers: 10, Latency: 50 * ms, Quota: storm.Quota{Rate: 150}},
		199:         {Servers: 2, Capacity: 99.5, Quota: storm.Quota{Rate: 500}},
		1000:        {Capacity: 2000, Slowdown: ms},
		math.Inf(1): {Latency: s},
	} {
		if got := x.MaxRate(); !within(got, want, 1e-9) && got != want {
			t.Errorf("%+v: at most %v per second, want %v", x, got, want)
		}
	}
	// A server with this much slowdown does it.
	r := storm.Service{Rate: 200, Workers: 10, Latency: 50 * ms, Slowdown: 5 * ms, Duration: 60 * s}.Run(atOnce(1))
	if got := float64(r.Succeeded) / 120; !within(got, 100, .03) { // calls are followed for twice as long
		t.Errorf("it does %.1f/s", got)
	}
}

// fresh is a Budget that makes another of its kind for each process and run.
type fresh struct {
	retry.Budget
	made *int
}

func (f fresh) Fresh() retry.Budget { *f.made++; return &budget.Token{Capacity: 14} }

func TestForeignBudgetIsMadeAnew(t *testing.T) {
	made := 0
	x := storm.Service{Clients: 10, Processes: 5, Failure: 1}
	for range 2 {
		if r := x.Run(retry.Policy{MaxAttempts: 9, Budget: fresh{made: &made}}); r.Sent != 15 {
			t.Errorf("%d sent, want 10 and a retry for each of 5 processes", r.Sent)
		}
	}
	if made != 10 {
		t.Errorf("%d budgets made, want one for each process and run", made)
	}
}

// interrupts is a budget that ends the trials after some runs.
type interrupts struct {
	retry.Budget
	runs   *atomic.Int64
	cancel func()
}

func (b interrupts) Fresh() retry.Budget {
	if b.runs.Add(1) == 12 {
		b.cancel()
	}
	return nil
}

func TestTrials(t *testing.T) {
	x := storm.Service{Rate: 50, Failure: .3, Duration: 5 * s, Seed: 7}
	policies := []retry.Policy{atOnce(1), atOnce(3)}
	got := x.Trials(t.Context(), policies, 4)
	for i, p := range policies {
		for j, r := range got[i] {
			y := x
			y.Seed += uint64(j)
			if want := y.Run(p); !reflect.DeepEqual(r, want) {
				t.Errorf("policy %d, seed %d: not what a run by itself gives", i, j)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range policies {
		policies[i].Budget = interrupts{runs: new(atomic.Int64), cancel: cancel}
	}
	done, missing := 0, 0
	for _, results := range x.Trials(ctx, policies, 50) {
		for _, r := range results {
			if r != nil {
				done++
			} else {
				missing++
			}
		}
	}
	if done < 10 || missing == 0 {
		t.Errorf("after an interrupt %d are done and %d are not, want some of both", done, missing)
	}
}

func TestEnding(t *testing.T) {
	waits := func(seconds time.Duration) storm.Service { // a server that stops for so long, and has little to spare
		return storm.Service{Rate: 90, Workers: 1, Latency: 10 * ms, Timeout: s, Duration: 60 * s, Outages: []storm.Outage{{From: 10 * s, To: 10*s + seconds}}}
	}
	for name, tt := range map[string]struct {
		service storm.Service
		policy  retry.Policy
		to      time.Duration
		want    storm.Ending
	}{
		"no harm":          {waits(ms), atOnce(1), 10 * s, storm.Recovered},
		"cut short":        {storm.Service{Rate: 90, Duration: 5 * s}, atOnce(1), 12 * s, storm.Unclear},
		"recovers":         {waits(2 * s), atOnce(1), 12 * s, storm.Recovered},
		"too short":        {waits(9 * s), atOnce(1), 19 * s, storm.Unclear},
		"stays down":       {waits(9 * s), atOnce(3), 19 * s, storm.Down},
		"failed all along": {storm.Service{Rate: 90, Failure: .8, Duration: 60 * s}, atOnce(1), 12 * s, storm.Failing},
	} {
		if got, _ := tt.service.Run(tt.policy).Ending(10*s, tt.to); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// An interrupt ends also the runs that are under way.
func TestInterruptEndsRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var retries atomic.Int64
		backoff := retry.BackoffFunc(func(retry.Step) time.Duration {
			if retries.Add(1) == 1000 {
				cancel()
			}
			return s
		})
		x := storm.Service{Rate: 1000, Failure: 1, Duration: time.Minute}
		x.Trials(ctx, []retry.Policy{{MaxAttempts: 4, Backoff: backoff}}, 2)
		synctest.Wait() // for all that still runs
		if n := retries.Load(); n > 1000+2*4096 {
			t.Errorf("%d retries, and an interrupt after 1000 of 360 000", n)
		}
	})
}
