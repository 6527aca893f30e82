package storm_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retrysim/internal/storm"
)

// Ten places for thirty calls that begin together: twenty attempts are not sent.
func TestLimitBoundsWhatIsSent(t *testing.T) {
	r := storm.Service{Clients: 30, Latency: s, Limit: &limit.Adaptive{Max: 10}}.Run(atOnce(1))
	if want := map[retry.Reason]int{retry.ReasonNone: 10, retry.ReasonGuard: 20}; r.Sent != 10 || !maps.Equal(r.Ended, want) {
		t.Errorf("%d sent, ended %v; want 10 and %v", r.Sent, r.Ended, want)
	}
	// Each process has its own. A place is free again when an attempt has timed out.
	r = storm.Service{Clients: 30, Processes: 3, Latency: 10 * s, Timeout: s, Limit: &limit.Adaptive{Max: 7}}.Run(retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(2 * s)})
	if r.Sent != 3*(7+3+4) {
		t.Errorf("%d sent, want of each process seven, a second before these the three that had no place, and four of the seven", r.Sent)
	}
}

// A server takes twenty requests at once and ten per second. Of forty calls that begin
// together, half are answered 429 at once.
func TestQuota(t *testing.T) {
	x := storm.Service{Clients: 40, Latency: s, Quota: storm.Quota{Rate: 10, Burst: 20}}
	r := x.Run(atOnce(1))
	if want := map[retry.Reason]int{retry.ReasonNone: 20, retry.ReasonMaxAttempts: 20}; r.Sent != 40 || !maps.Equal(r.Ended, want) {
		t.Errorf("%d sent, ended %v; want 40 and %v", r.Sent, r.Ended, want)
	}
	r = x.Run(retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(s), ThrottleBackoff: retry.Constant(s)})
	if r.Sent != 60 || r.Succeeded != 30 { // a second later there are ten more
		t.Errorf("%d sent, %d succeeded; want 60 and 30", r.Sent, r.Succeeded)
	}
}

// A limit's refusals are no attempts: they cost a budget nothing, but count for
// MaxAttempts and the backoff.
func TestRefusalsCostABudgetNothing(t *testing.T) {
	x := storm.Service{Clients: 100, Latency: s, Limit: &limit.Adaptive{Max: 1}}
	p := retry.Policy{MaxAttempts: 10, Backoff: retry.Constant(2 * s)}
	for name, budget := range map[string]retry.Budget{"none": nil, "earned": &retry.EarnedBudget{}, "empty": &budget.Token{Capacity: -1}} {
		p.Budget = budget
		r := x.Run(p)
		if want := map[retry.Reason]int{retry.ReasonNone: 10, retry.ReasonGuard: 90}; r.Sent != 10 || !maps.Equal(r.Ended, want) {
			t.Errorf("budget %s: %d sent, ended %v; want 10, one after the other, and %v", name, r.Sent, r.Ended, want)
		}
	}
	// Without a wait a refusal is followed by the next after a millisecond.
	p.Backoff, p.Budget = retry.Constant(0), nil
	if r := x.Run(p); r.Sent != 1 || !within(r.Quantile(.5).Seconds(), .009, .01) {
		t.Errorf("%d sent, and half of the calls end by %v; want 1 and 9ms", r.Sent, r.Quantile(.5))
	}
}

// bench is a server with a quota, and what a real run makes of it: the same as a Service.
type bench struct {
	storm.Service
	policy retry.Policy

	start time.Time
	mu    sync.Mutex
	level float64
	at    time.Time
	sent  int
	ended map[retry.Reason]int
	took  []time.Duration
}

func (b *bench) serve(ctx context.Context) error {
	if !b.take() {
		return retry.After(errors.New("429"), 0)
	}
	now := time.Since(b.start)
	end := now + b.Latency
	for _, o := range b.Outages { // in which it does no work
		if now < o.To && end > o.From {
			end += o.To - max(now, o.From)
		}
	}
	time.Sleep(end - now)
	return nil
}

func (b *bench) take() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent++
	now := time.Now()
	b.level = min(b.level+now.Sub(b.at).Seconds()*b.Quota.Rate, b.Quota.Burst)
	b.at = now
	if b.level < 1 {
		return false
	}
	b.level--
	return true
}

func (b *bench) call() {
	start := time.Now()
	err := retry.Run(context.Background(), b.policy, b.serve)
	b.mu.Lock()
	defer b.mu.Unlock()
	reason := retry.ReasonNone
	if e, ok := errors.AsType[*retry.Error](err); ok {
		reason = e.Reason
	}
	b.ended[reason]++
	b.took = append(b.took, time.Since(start))
}

// run makes the calls at the times at which a Service makes them.
func (b *bench) run() {
	b.ended, b.level, b.at = map[retry.Reason]int{}, b.Quota.Burst, time.Now()
	var calls sync.WaitGroup
	arrivals := rand.New(rand.NewPCG(b.Seed, 1))
	wait := func() time.Duration { return time.Duration(float64(s) * (arrivals.ExpFloat64() / b.Rate)) }
	b.start = time.Now()
	next := wait()
	for next < b.Duration {
		time.Sleep(time.Until(b.start.Add(next)))
		next += wait()
		arrivals.Uint64() // a Service draws the process with it
		calls.Go(b.call)
	}
	calls.Wait()
}

// The simulator's Limits are real, and its paces are those of a pace.Pace.
// How it asks both is written anew, so the same calls are made by real runs. In these few
// events happen at the same instant, where real runs have no order.
func TestGuardsAreThoseOfARun(t *testing.T) {
	for name, change := range map[string]func(x *storm.Service, p *retry.Policy){
		"none":        func(*storm.Service, *retry.Policy) {},
		"pace":        func(x *storm.Service, _ *retry.Policy) { x.Pace = true },
		"pace, late":  func(x *storm.Service, p *retry.Policy) { x.Pace, p.MaxElapsed = true, 5*s },
		"limit":       func(x *storm.Service, _ *retry.Policy) { x.Limit = &limit.Adaptive{Max: 2} },
		"limit, late": func(x *storm.Service, p *retry.Policy) { x.Limit, p.MaxElapsed = &limit.Adaptive{Max: 2}, s },
		"both":        func(x *storm.Service, _ *retry.Policy) { x.Pace, x.Limit = true, &limit.Adaptive{Max: 4} },
	} {
		for seed := range uint64(3) {
			x := storm.Service{
				Rate: 30, Duration: 60 * s, Latency: 150 * ms, Quota: storm.Quota{Rate: 25, Burst: 50},
				Outages: []storm.Outage{{From: 20 * s, To: 22 * s}}, Seed: seed + 1,
			}
			p := retry.Policy{MaxAttempts: 5, Backoff: retry.Constant(300 * ms), ThrottleBackoff: retry.Constant(700 * ms), Budget: &budget.Token{Capacity: 100}}
			change(&x, &p)
			r := x.Run(p)
			b := &bench{Service: x, policy: p}
			b.policy.Budget = &budget.Token{Capacity: 100}
			if x.Pace {
				b.policy.Guards = append(b.policy.Guards, &pace.Pace{Quota: x.Quota.Rate, Burst: x.Quota.Burst})
			}
			if x.Limit != nil {
				b.policy.Guards = append(b.policy.Guards, &limit.Adaptive{Max: x.Limit.Max})
			}
			synctest.Test(t, func(*testing.T) { b.run() })
			if r.Sent != b.sent || !maps.Equal(r.Ended, b.ended) {
				t.Errorf("%s, seed %d: %d sent, ended %v; real runs %d, %v", name, x.Seed, r.Sent, r.Ended, b.sent, b.ended)
			}
			for _, q := range []float64{.5, .9, 1} {
				if got, want := r.Quantile(q).Seconds(), storm.Quantile(b.took, q).Seconds(); !within(got, want, .01) {
					t.Errorf("%s, seed %d: quantile %v is %.3f s, in real runs %.3f s", name, x.Seed, q, got, want)
				}
			}
		}
	}
}

// A spike asks for twice the quota. Without a pace the budgets of the processes let most
// of what is above it fail; with one it waits. A call that may not take that long ends.
// No call is lost in a queue.
func TestPaceWaitsOutASpike(t *testing.T) {
	x := storm.Service{
		Processes: 30, Rate: 100, Spikes: []storm.Spike{{From: 10 * s, To: 20 * s, Rate: 300}}, Duration: 80 * s,
		Latency: 50 * ms, Quota: storm.Quota{Rate: 150, Burst: 150}, Seed: 1,
	}
	p := retry.Policy{MaxAttempts: 4, Budget: &retry.EarnedBudget{}}
	ended := func(r *storm.Result) (n int) {
		for _, m := range r.Ended {
			n += m
		}
		return n
	}
	plain := x.Run(p)
	x.Pace = true
	paced := x.Run(p)
	if lost := plain.Asked - plain.Succeeded; lost < 1000 || paced.Asked-paced.Succeeded > lost/10 || paced.Asked != plain.Asked {
		t.Errorf("%d of %d calls fail with a pace, %d of %d without", paced.Asked-paced.Succeeded, paced.Asked, lost, plain.Asked)
	}
	if wasted, without := paced.Sent-paced.Succeeded, plain.Sent-plain.Succeeded; wasted > without/2 {
		t.Errorf("%d requests were wasted with a pace, %d without", wasted, without)
	}
	p.MaxElapsed = 10 * s
	for name, change := range map[string]func(*storm.Service){
		"late":     func(*storm.Service) {},
		"replaced": func(x *storm.Service) { x.CallsPerProcess = 50 },
		"shards":   func(x *storm.Service) { x.Servers, x.Sharded, x.Apart = 3, true, true },
		"closed":   func(x *storm.Service) { x.Closed, x.Clients, x.Network, x.Rate = true, 1000, ms, 400 },
		"limited":  func(x *storm.Service) { x.Limit = &limit.Adaptive{Max: 5} },
	} {
		x := x
		change(&x)
		r := x.Run(p)
		if n := ended(r); n != r.Asked || r.Ended[retry.ReasonGuard] == 0 {
			t.Errorf("%s: %d calls began and %d ended: %v", name, r.Asked, n, r.Ended)
		}
		if last := r.Quantile(1); last > p.MaxElapsed+100*ms {
			t.Errorf("%s: a call succeeded after %v: its attempt began after %v", name, last, p.MaxElapsed)
		}
	}
}

// One attempt of 1 s gets a second request after 100 ms, which is slower; one of
// 50 ms none.
func TestHedge(t *testing.T) {
	x := storm.Service{Clients: 20, Processes: 20, Latency: s, Hedge: true, HedgeDelay: 100 * ms}
	r := x.Run(atOnce(1))
	if r.Sent != 40 || r.Succeeded != 20 || !within(r.Quantile(1).Seconds(), 1, .01) || r.Held(2*s) != 0 {
		t.Errorf("%d sent, %d succeeded by %v, %v held; want 40, 20, 1 s and none", r.Sent, r.Succeeded, r.Quantile(1), r.Held(2*s))
	}
	x.Latency = 50 * ms
	if r := x.Run(atOnce(1)); r.Sent != 20 {
		t.Errorf("%d sent where none is slow, want 20", r.Sent)
	}
	// All time out, and then all hedges are lost: each attempt ends once.
	x.Latency, x.Timeout = 5*s, s
	for _, workers := range []int{0, 3} {
		for _, drop := range []bool{false, true} {
			x.Workers, x.Drop, x.Limit = workers, drop, &limit.Adaptive{}
			r := x.Run(retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0), Budget: &budget.Token{}})
			if r.Ended[retry.ReasonMaxAttempts] != 20 || r.Sent < 40 || r.Sent > 80 || r.Held(1000*s) != 0 {
				t.Errorf("%d workers, drop %v: %d sent, ended %v, %v held", workers, drop, r.Sent, r.Ended, r.Held(1000*s))
			}
		}
	}
}

// Measured, every twentieth attempt is hedged and the slowest calls are faster.
func TestAdaptiveHedgeCutsTheTail(t *testing.T) {
	x := storm.Service{Rate: 500, Workers: 1000, Latency: 10 * ms, Exponential: true, Failure: .01, Seed: 1}
	plain := x.Run(atOnce(1))
	for _, drop := range []bool{false, true} {
		x.Hedge, x.Drop = true, drop
		hedged := x.Run(atOnce(1))
		if load := hedged.Load(); load < 1.03 || load > 1.06 {
			t.Errorf("the load is %.3f, want about 1.05", load)
		}
		if got, limit := hedged.Quantile(.999), plain.Quantile(.999); got > limit*8/10 || hedged.Held(x.Duration) > 50 {
			t.Errorf("p99.9 is %v, and %v without; want it a fifth lower", got, limit)
		}
		wasted := 0
		for _, b := range hedged.Buckets {
			wasted += b.Wasted
		}
		if share := float64(wasted) / float64(hedged.Sent-hedged.Asked); share < .9 || share > 1.1 {
			t.Errorf("drop %v: %.2f of the hedges are wasted work, or made the first so; want all", drop, share)
		}
	}
}

// An experiment: the queue is older than the timeout for good, with retries and a
// small budget or none. A limit ends it, and costs little when failures are random.
func TestLimitEndsWhatBudgetsCannot(t *testing.T) {
	notUnderRace(t)
	x := storm.Service{
		Processes: 30, Rate: 150, Workers: 10, Latency: 50 * ms, Timeout: s, Failure: .01, Duration: 60 * s, Seed: 1,
		Outages: []storm.Outage{{From: 10 * s, To: 13 * s}},
	}
	p := retry.Policy{MaxAttempts: 4, Budget: &budget.Ratio{MinPerSecond: 10}}
	down := func(x storm.Service) (n int) {
		for _, r := range x.Trials(t.Context(), []retry.Policy{p}, 10)[0] {
			if ending, _ := r.Ending(10*s, 13*s); ending != storm.Recovered {
				n++
			}
		}
		return n
	}
	if n := down(x); n < 10 {
		t.Errorf("without a limit %d of 10 stay down, want all", n)
	}
	limited := x
	limited.Limit = &limit.Adaptive{}
	if n := down(limited); n > 0 {
		t.Errorf("with a limit %d of 10 stay down, want none", n)
	}
	x.Outages, limited.Outages = nil, nil
	without, with := x.Run(p), limited.Run(p)
	if with.Success() < without.Success()-.001 {
		t.Errorf("random failures: %.4f succeed with a limit, %.4f without", with.Success(), without.Success())
	}
}

// What is lost, hedge or first request, gives its place back.
func TestLostHedgesKeepNoPlace(t *testing.T) {
	x := storm.Service{
		Rate: 200, Duration: 20 * s, Workers: 1000, Latency: 10 * ms, Exponential: true, Hedge: true, HedgeDelay: 10 * ms,
		Limit: &limit.Adaptive{Min: 50, Max: 50}, Seed: 1,
	}
	if r := x.Run(atOnce(1)); r.Succeeded != r.Asked || r.Sent < r.Asked+150 {
		t.Errorf("%d of %d succeed, with %d sent; want all, and 150 hedges or more", r.Succeeded, r.Asked, r.Sent)
	}
}

// A request that arrives when its client has given up is served, or dropped at once.
func TestLateArrivals(t *testing.T) {
	for drop, want := range map[bool]int{false: 1, true: 0} {
		r := storm.Service{Network: time.Hour, Timeout: 1, Workers: 1, Latency: ms, Drop: drop}.Run(atOnce(1))
		if last := r.Buckets[len(r.Buckets)-1]; last.Done != 1 || last.Worked != want || last.Wasted != want {
			t.Errorf("drop %v: %+v, want %d worked on for nothing", drop, last, want)
		}
	}
}
