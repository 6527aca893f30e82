package storm_test

import (
	"os"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/retrysim/internal/storm"
)

// once makes one attempt: what a limit does shows best without retries.
var once = retry.Policy{MaxAttempts: 1}

// share returns which of the calls that began between two instants succeeded.
func share(r *storm.Result, from, to time.Duration) float64 {
	b := r.Sum(from, to)
	return float64(b.Good) / float64(b.Asked)
}

// seeds returns with how many seeds a long simulation runs: n with RETRY_LONG=1, else one.
func seeds(n uint64) uint64 {
	if os.Getenv("RETRY_LONG") == "1" {
		return n
	}
	return 1
}

// Timeouts that have nothing to do with the load refuse no call, if the other answers are quick:
// answers that get lost, or a dead replica of two.
func TestLostAnswersRefuseFewCalls(t *testing.T) {
	notUnderRace(t)
	dead := []storm.Outage{{From: 10 * time.Second, To: time.Hour, Servers: 1}}
	for _, tt := range []struct {
		name string
		storm.Service
		want float64
	}{
		{"1 % lost", storm.Service{Lost: .01}, .989},
		{"5 % lost", storm.Service{Lost: .05}, .949},
		{"10 % lost", storm.Service{Lost: .1}, .899},
		{"a dead replica of ten", storm.Service{Servers: 10, Workers: 1000, Outages: dead}, .897},
		{"a dead replica of two", storm.Service{Servers: 2, Workers: 1000, Outages: dead}, .495},
		{"a dead replica of two, thirty processes", storm.Service{Servers: 2, Workers: 1000, Outages: dead, Processes: 30}, .485},
		{"a dead replica of ten, thirty processes", storm.Service{Servers: 10, Workers: 1000, Outages: dead, Processes: 30}, .897},
	} {
		for seed := range seeds(3) {
			x := tt.Service
			x.Rate, x.Latency, x.Timeout, x.Duration = 1000, 100*ms, time.Second, 2*time.Minute
			x.Limit, x.Seed = &limit.Adaptive{}, seed
			r := x.Run(once)
			whole, last := share(r, 0, 2*time.Minute), share(r, time.Minute, 2*time.Minute)
			t.Logf("%s, seed %d: %.3f, and %.3f in the second minute", tt.name, seed, whole, last)
			if last < tt.want {
				t.Errorf("%s, seed %d: %.3f succeed, want %v", tt.name, seed, last, tt.want)
			}
		}
	}
}

// A server with ten workers whose times are random, and calls at random: M/M/10. At a load of .9
// nothing is refused. Half more than it can do leaves two thirds, and three times a third.
func TestLimitOfAQueue(t *testing.T) {
	notUnderRace(t)
	for _, tt := range []struct{ load, want float64 }{{.9, .999}, {1.5, .64}, {3, .295}} {
		for seed := range uint64(3) {
			r := storm.Service{
				Rate: 200 * tt.load, Workers: 10, Latency: 50 * ms, Exponential: true, Timeout: time.Second,
				Limit: &limit.Adaptive{}, Seed: seed,
			}.Run(once)
			t.Logf("load %v, seed %d: %.3f", tt.load, seed, r.Success())
			if got := r.Success(); got < tt.want {
				t.Errorf("load %v, seed %d: %.3f succeed, want %v", tt.load, seed, got, tt.want)
			}
		}
	}
}

// An overload that lasts for ten minutes: the server works all the time, for callers who are still
// there, whether it comes with the start of the processes or later. It can do 200 requests per second.
func TestOverloadForLong(t *testing.T) {
	notUnderRace(t)
	const minutes = 10 * time.Minute
	for _, tt := range []struct {
		name string
		storm.Service
	}{
		{"half more than it can do", storm.Service{Rate: 300, Exponential: true}},
		{"three times", storm.Service{Rate: 600, Exponential: true}},
		{"three times, all take equally long", storm.Service{Rate: 600}},
		{"three times, three processes", storm.Service{Rate: 600, Exponential: true, Processes: 3}},
		{"three times, thirty processes", storm.Service{Rate: 600, Exponential: true, Processes: 30}},
		{"three times, thirty processes, all take equally long", storm.Service{Rate: 600, Processes: 30}},
		{"three times, thirty processes, after a calm minute", storm.Service{Rate: 600, Processes: 30, Spikes: []storm.Spike{{To: time.Minute, Rate: 100}}}},
	} {
		for seed := range seeds(2) {
			x := tt.Service
			x.Workers, x.Latency, x.Timeout, x.Duration = 10, 50*ms, time.Second, minutes
			x.Limit, x.Seed, x.Timed = &limit.Adaptive{}, seed, minutes/2
			r := x.Run(once)
			b := r.Sum(minutes/2, minutes)
			served := float64(b.Good) / (200 * (minutes / 2).Seconds())
			p99 := r.Quantile(1 - .01*float64(b.Good)/float64(b.Asked)).Round(ms) // most calls are refused, at once
			t.Logf("%s, seed %d: %.3f of what the server can do, 99 %% of them within %v", tt.name, seed, served, p99)
			if served < .99 || p99 > 900*ms {
				t.Errorf("%s, seed %d: callers get %.3f of what the server can do, 99 %% of them within %v; want .99 within 900 ms", tt.name, seed, served, p99)
			}
		}
	}
}

// A server that is three times slower for a minute, and six times, and could do more all the time: its
// answers are slow, but no load is the reason. Only the second is slow enough for an experiment.
func TestSlowServerWithoutAQueue(t *testing.T) {
	notUnderRace(t)
	for _, tt := range []struct {
		slower    float64
		processes int
		want      float64
	}{{3, 1, .99}, {3, 30, .99}, {6, 30, .97}} {
		r := storm.Service{
			Rate: 500, Processes: tt.processes, Workers: 1000, Latency: 100 * ms, Timeout: time.Second, Duration: 3 * time.Minute,
			Outages: []storm.Outage{{From: time.Minute, To: 2 * time.Minute, Answer: storm.Slow, Factor: tt.slower}},
			Limit:   &limit.Adaptive{}, Seed: 1,
		}.Run(once)
		got, last := share(r, time.Minute, 2*time.Minute), share(r, 2*time.Minute, 3*time.Minute)
		t.Logf("%v times slower, %d processes: %.3f, and %.3f after", tt.slower, tt.processes, got, last)
		if got < tt.want || last < .999 {
			t.Errorf("%v times slower, %d processes: %.3f succeed, and %.3f in the minute after; want %v and all", tt.slower, tt.processes, got, last, tt.want)
		}
	}
}

// A server at 90 % of what it can do hangs for ten seconds. Of the calls in the twenty
// seconds after it the more fail the more processes there are: each has a place.
func TestFleetAfterAHang(t *testing.T) {
	notUnderRace(t)
	for _, tt := range []struct {
		processes int
		want      float64
	}{{1, .91}, {10, .86}, {100, .51}} {
		for seed := range uint64(3) {
			x := storm.Service{
				Rate: 180, Processes: tt.processes, Workers: 10, Latency: 50 * ms, Timeout: time.Second, Failure: .01,
				Outages: []storm.Outage{{From: 10 * time.Second, To: 20 * time.Second}}, Seed: seed,
			}
			without := share(x.Run(once), 20*time.Second, 40*time.Second)
			x.Limit = &limit.Adaptive{}
			r := x.Run(once)
			got, last := share(r, 20*time.Second, 40*time.Second), share(r, 40*time.Second, time.Minute)
			t.Logf("%d processes, seed %d: %.2f, %.2f without a limit; then %.2f", tt.processes, seed, got, without, last)
			if got < tt.want || got < without || last < .985 {
				t.Errorf("%d processes, seed %d: %.2f succeed in 20 s after a hang, and %.2f then; want %v, more than %.2f without a limit, and all",
					tt.processes, seed, got, last, tt.want, without)
			}
		}
	}
}
