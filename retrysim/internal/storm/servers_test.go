package storm_test

import (
	"maps"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/retrysim/internal/storm"
)

// What becomes of a few calls, to the nanosecond: as TestServiceExactly, with more than
// one server, shared workers, a gateway and refusals that cost.
func TestServersExactly(t *testing.T) {
	for name, tt := range map[string]struct {
		service storm.Service
		policy  retry.Policy
		sent    int
		took    []time.Duration
		ended   map[retry.Reason]int
	}{
		"workers that are shared": { // a third each until 3 s
			storm.Service{Clients: 3, Workers: 1, Latency: s, Discipline: storm.Sharing}, atOnce(1), 3, []time.Duration{3 * s, 3 * s, 3 * s}, map[retry.Reason]int{retry.ReasonNone: 3},
		},
		"as many workers as requests": {
			storm.Service{Clients: 3, Workers: 3, Latency: s, Discipline: storm.Sharing}, atOnce(1), 3, []time.Duration{s, s, s}, map[retry.Reason]int{retry.ReasonNone: 3},
		},
		"shared, and a hang": { // the first 400 ms are worth 200 ms of each, and the rest 1.6 s
			storm.Service{Clients: 2, Workers: 1, Latency: s, Discipline: storm.Sharing, Outages: []storm.Outage{{From: 400 * ms, To: s}}}, atOnce(1),
			2, []time.Duration{2600 * ms, 2600 * ms}, map[retry.Reason]int{retry.ReasonNone: 2},
		},
		"shared, and a brown-out": { // in which 1.2 s are worth 400 ms
			storm.Service{Clients: 2, Workers: 1, Latency: s, Discipline: storm.Sharing, Outages: []storm.Outage{{From: s, To: 2200 * ms, Answer: storm.Slow, Factor: 3}}}, atOnce(1),
			2, []time.Duration{2800 * ms, 2800 * ms}, map[retry.Reason]int{retry.ReasonNone: 2},
		},
		"shared, and too slow": { // both would be done at 2 s
			storm.Service{Clients: 2, Workers: 1, Latency: s, Discipline: storm.Sharing, Timeout: 1500 * ms}, atOnce(1), 2, nil, map[retry.Reason]int{retry.ReasonMaxAttempts: 2},
		},
		"shared by no more than the queue has room for": { // two of five begin
			storm.Service{Clients: 5, Workers: 1, Latency: s, Queue: 1, Discipline: storm.Sharing}, atOnce(1),
			5, []time.Duration{0, 0, 0, 2 * s, 2 * s}, map[retry.Reason]int{retry.ReasonNone: 2, retry.ReasonMaxAttempts: 3},
		},
		"shared without workers": { // is first in, first out
			storm.Service{Clients: 2, Capacity: 1, Discipline: storm.Sharing}, atOnce(1), 2, []time.Duration{s, 2 * s}, map[retry.Reason]int{retry.ReasonNone: 2},
		},
		"a gateway": { // gives up at 1 s, at 2 s and at 3 s
			storm.Service{Latency: 2 * s, Timeout: 5 * s, Gateway: s}, atOnce(3), 3, nil, map[retry.Reason]int{retry.ReasonMaxAttempts: 1},
		},
		"a gateway that is more patient than the client": {
			storm.Service{Latency: 2 * s, Timeout: s, Gateway: 5 * s}, retry.Policy{NonIdempotent: true}, 1, nil, map[retry.Reason]int{retry.ReasonNotIdempotent: 1},
		},
		"a gateway, and a client without a timeout": {
			storm.Service{Workers: 1, Latency: 2 * s, Gateway: s}, atOnce(2), 2, nil, map[retry.Reason]int{retry.ReasonMaxAttempts: 1},
		},
		"refusals that cost": { // two are refused at 0, so that the one that waits takes 1.5 s
			storm.Service{Clients: 4, Workers: 1, Latency: s, Queue: 1, Refusing: 250 * ms}, atOnce(1),
			4, []time.Duration{0, 0, s, 2500 * ms}, map[retry.Reason]int{retry.ReasonNone: 2, retry.ReasonMaxAttempts: 2},
		},
		"refusals that cost turns": {
			storm.Service{Clients: 4, Capacity: 1, Queue: 1, Refusing: 250 * ms}, atOnce(1),
			4, []time.Duration{0, 0, s, 2500 * ms}, map[retry.Reason]int{retry.ReasonNone: 2, retry.ReasonMaxAttempts: 2},
		},
		"a budget for each of two calls": {
			storm.Service{Clients: 6, Failure: 1, CallsPerProcess: 2}, retry.Policy{MaxAttempts: 9, Budget: &budget.Token{Capacity: 30, Cost: 10}},
			6 + 3*3, nil, map[retry.Reason]int{retry.ReasonBudget: 6},
		},
		"a budget for all processes": {
			storm.Service{Clients: 6, Failure: 1, Shared: true, Processes: 2, CallsPerProcess: 2}, retry.Policy{MaxAttempts: 9, Budget: &budget.Token{Capacity: 30, Cost: 10}},
			6 + 3, nil, map[retry.Reason]int{retry.ReasonBudget: 6},
		},
		"a limit for each call": {
			storm.Service{Clients: 6, Latency: s, CallsPerProcess: 3, Limit: &limit.Adaptive{Max: 2}}, atOnce(1),
			4, nil, map[retry.Reason]int{retry.ReasonNone: 4, retry.ReasonGuard: 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := tt.service.Run(tt.policy)
			if r.Sent != tt.sent || !maps.Equal(r.Ended, tt.ended) {
				t.Errorf("%d sent, ended %v; want %d, %v", r.Sent, r.Ended, tt.sent, tt.ended)
			}
			for i, want := range tt.took {
				if got := r.Quantile(float64(i+1) / float64(len(tt.took))); !within(float64(got), float64(want), .01) {
					t.Errorf("call %d took %v, want %v", i+1, got, want)
				}
			}
		})
	}
}

// Budgets learn nothing of the work that goes on behind a gateway, and limits nothing of
// an overload.
func TestAGatewaysAnswerIsNoTimeout(t *testing.T) {
	c := &counting{retried: map[retry.Class]int{}}
	x := storm.Service{Clients: 3, Workers: 9, Latency: 2 * s, Timeout: 5 * s, Gateway: s, Limit: &limit.Adaptive{Max: 3}}
	r := x.Run(retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0), Budget: c})
	if !maps.Equal(c.retried, map[retry.Class]int{retry.Transient: 3}) {
		t.Errorf("the budget saw retries after %v, want 3 after a transient error", c.retried)
	}
	if r.Sent != 6 {
		t.Errorf("%d sent, want 6: the limit keeps its places", r.Sent)
	}
	if b := r.Sum(0, time.Minute); b.Worked != 6 || b.Wasted != 6 {
		t.Errorf("%d worked on, %d of them for nothing; want 6 and 6", b.Worked, b.Wasted)
	}
}

// Workers that are shared: with random times as many are there as at a single worker that
// serves one after the other, and with fixed times too (M/D/1-PS is insensitive). The
// times of long requests are longer, so the quantiles differ.
func TestSharedWorkersAreAnMG1PSQueue(t *testing.T) {
	notUnderRace(t)
	long(t)
	for load, tolerance := range map[float64]float64{.5: .03, .8: .06, .9: .12} {
		for _, exponential := range []bool{false, true} {
			x := storm.Service{Rate: 100 * load, Workers: 1, Latency: 10 * ms, Exponential: exponential, Discipline: storm.Sharing, Duration: 4000 * s, Seed: 3}
			want := 1 / (1 - load)
			if got := meanTime(x.Run(atOnce(1)), x.Rate); !within(got, want, tolerance) {
				t.Errorf("M/G/1-PS at %v, exponential %v: mean %.3f, want %.3f", load, exponential, got, want)
			}
		}
	}
	// Several workers that are shared hold as many as M/M/c: what is left of a request does not depend on its past.
	x := storm.Service{Rate: 320, Workers: 4, Latency: 10 * ms, Exponential: true, Discipline: storm.Sharing, Duration: 1000 * s, Seed: 3}
	_, want, _ := mmc(4, .8)
	if got := meanTime(x.Run(atOnce(1)), x.Rate); !within(got, want, .06) {
		t.Errorf("M/M/4-PS at .8: mean %.3f, want %.3f", got, want)
	}
}

// In random order requests wait as long on average, most of them shorter and some much
// longer.
func TestRandomOrderKeepsTheMean(t *testing.T) {
	notUnderRace(t)
	long(t)
	x := storm.Service{Rate: 80, Workers: 1, Latency: 10 * ms, Exponential: true, Duration: 4000 * s, Seed: 3}
	fifo := x.Run(atOnce(1))
	x.Discipline = storm.Random
	random := x.Run(atOnce(1))
	if got, want := meanTime(random, 80), meanTime(fifo, 80); !within(got, want, .06) || !within(want, 5, .06) {
		t.Errorf("the mean is %.2f in random order, and %.2f in turn; want 5", got, want)
	}
	if got, want := random.Quantile(.999), fifo.Quantile(.999); got < want*13/10 {
		t.Errorf("p99.9 is %v in random order, and %v in turn; want it much longer", got, want)
	}
	if got, want := random.Quantile(.5), fifo.Quantile(.5); got >= want {
		t.Errorf("the median is %v in random order, and %v in turn; want it shorter", got, want)
	}
}

// Requests at random to one of ten servers: each is a queue of its own.
func TestReplicasAreQueuesOfTheirOwn(t *testing.T) {
	notUnderRace(t)
	long(t)
	for _, sharded := range []bool{false, true} {
		x := storm.Service{Rate: 800, Servers: 10, Sharded: sharded, Workers: 1, Latency: 10 * ms, Exponential: true, Duration: 400 * s, Seed: 3}
		if got := meanTime(x.Run(atOnce(1)), x.Rate); !within(got, 5, .06) || x.MaxRate() != 1000 {
			t.Errorf("sharded %v: mean %.3f, want that of M/M/1, which is 5; at most %v/s", sharded, got, x.MaxRate())
		}
	}
}

// A retry goes to another replica, but not to another shard, whose calls alone are counted.
func TestRetriesAndSickServers(t *testing.T) {
	dead := []storm.Outage{{To: time.Hour, Answer: storm.Refused, Servers: 3}}
	x := storm.Service{Clients: 10_000, Servers: 10, Outages: dead, Seed: 1}
	if r := x.Run(atOnce(3)); !within(1-r.Success(), .027, .2) || r.Asked != 10_000 {
		t.Errorf("%.4f of %d calls find three dead replicas of ten in a row, want .027 of 10 000", 1-r.Success(), r.Asked)
	}
	x.Sharded = true
	if r := x.Run(atOnce(3)); r.Success() != 0 || !within(float64(r.Asked), 3000, .1) || r.Sent != 3*r.Asked {
		t.Errorf("%d calls to three dead shards, of which %v succeed with %d attempts", r.Asked, r.Success(), r.Sent)
	}
	x.Outages = nil
	if r := x.Run(atOnce(3)); r.Asked != 10_000 || r.Succeeded != 10_000 {
		t.Errorf("%d of %d calls to shards succeed, want all of all", r.Succeeded, r.Asked)
	}
	// Each process has a budget for all of them, or one for each.
	for apart, want := range map[bool]int{false: 2 * 3, true: 2 * 3 * 10} {
		x := storm.Service{Clients: 10_000, Processes: 2, Servers: 10, Sharded: true, Apart: apart, Failure: 1}
		r := x.Run(retry.Policy{MaxAttempts: 9, Budget: &budget.Token{Capacity: 30, Cost: 10}})
		if got := r.Sent - r.Asked; got != want {
			t.Errorf("apart %v: %d retries, want %d", apart, got, want)
		}
	}
}

// Whatever is dropped, shared or refused, every call ends, and once.
func TestEveryCallEnds(t *testing.T) {
	for i := range 48 {
		x := storm.Service{
			Rate: 220, Processes: 7, Workers: 1 + i%2*9, Latency: 50 * ms, Exponential: true, Timeout: 300 * ms, Duration: 20 * s, Seed: uint64(i),
			Discipline: storm.Discipline(i % 4), Drop: i%3 == 0, Servers: i % 5, Sharded: i%2 == 0, CallsPerProcess: i % 7, Lost: .05,
			Hedge: i%8 > 5, Outages: []storm.Outage{{From: 5 * s, To: 7 * s, Answer: storm.Answer(i % 5), Factor: 4}},
		}
		if x.Workers == 1 {
			x.Rate = 22 * float64(max(x.Servers, 1))
		}
		if i%11 == 0 {
			x.Queue, x.Refusing = 5, 10*ms
		}
		r := x.Run(retry.Policy{MaxAttempts: 3, Budget: &retry.EarnedBudget{}})
		ended := 0
		for _, n := range r.Ended {
			ended += n
		}
		if ended != r.Asked || r.Asked == 0 {
			t.Errorf("%d: %d of %d calls ended", i, ended, r.Asked)
		}
	}
}
