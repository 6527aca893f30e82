package storm_test

import (
	"math"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysim/internal/storm"
)

// history is a result of so many calls in each 100 ms, of which good(i) succeed.
func history(buckets int, asked int, good func(i int) int) *storm.Result {
	r := &storm.Result{Bucket: 100 * ms, Runs: 1}
	for i := range buckets {
		n := good(i)
		r.Buckets = append(r.Buckets, storm.Bucket{Asked: asked, Sent: 3*asked - 2*n, Done: asked, Succeeded: n, Good: n})
		r.Asked += int(asked)
		r.Sent += int(3*asked - 2*n)
		r.Succeeded += int(n)
	}
	return r
}

func TestRecovery(t *testing.T) {
	bad := func(from, to int) func(int) int { // in tenths of a second
		return func(i int) int {
			if from <= i && i < to {
				return 0
			}
			return 20
		}
	}
	for name, tt := range map[string]struct {
		good  func(int) int
		after time.Duration
		ok    bool
	}{
		"nothing happened":         {bad(0, 0), 0, true},
		"over when it is over":     {bad(50, 70), 0, true},
		"over before":              {bad(50, 60), 0, true},
		"later":                    {bad(50, 99), 2800 * ms, true},
		"a relapse":                {func(i int) int { return min(bad(50, 60)(i), bad(150, 152)(i)) }, 8100 * ms, true},
		"not by the end":           {bad(50, 300), 0, false},
		"only in the last second":  {bad(50, 298), 0, false},
		"barely":                   {bad(50, 290), 21900 * ms, true},
		"a tenth fewer is well":    {func(i int) int { return 20 - 2*int(min(i/50, 1)) }, 0, true},
		"a little more is not":     {func(i int) int { return 20 - 3*int(min(i/50, 1)) }, 0, false},
		"half fail, as before":     {func(i int) int { return int(20 * (i % 2)) }, 0, true},
		"half fail, with bad luck": {func(i int) int { return 10 - int(i%50/40) - int(i%50/40) }, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			after, ok := history(300, 20, tt.good).Recovery(5*s, 7*s)
			if ok != tt.ok || after != tt.after {
				t.Errorf("Recovery() = %v, %v, want %v, %v", after, ok, tt.after, tt.ok)
			}
		})
	}
}

// Where nothing happens nothing has to be recovered from, however few the calls and
// however many of them fail.
func TestRecoveryIsNoFalseAlarm(t *testing.T) {
	notUnderRace(t)
	long(t)
	for _, tt := range []struct{ rate, failure float64 }{{1, 0}, {1, .1}, {5, .01}, {5, .1}, {10, .05}, {20, .01}, {20, .1}, {20, .3}, {50, .01}, {50, .3}, {200, .01}, {200, .3}} {
		alarms := 0
		for seed := range uint64(200) {
			r := storm.Service{Rate: tt.rate, Failure: tt.failure, Duration: 90 * s, Seed: seed}.Run(atOnce(1))
			if after, ok := r.Recovery(10*s, 12*s); !ok || after > 0 {
				alarms++
			}
		}
		if alarms > 1 {
			t.Errorf("at %v/s, of which %v fail, %d of 200 runs have something to recover from", tt.rate, tt.failure, alarms)
		}
	}
}

// A server that is down until 40 s: few calls are enough to see that.
func TestRecoveryOfFewCalls(t *testing.T) {
	for _, rate := range []float64{5, 20, 50} {
		for seed := range uint64(20) {
			service := storm.Service{Rate: rate, Duration: 120 * s, Timeout: s, Seed: seed, Outages: []storm.Outage{{From: 20 * s, To: 40 * s}}}
			if after, ok := service.Run(atOnce(1)).Recovery(20*s, 25*s); !ok || after < 5*s || after > 20*s {
				t.Errorf("at %v/s: %v after 25 s, %v; want about 15 s", rate, after, ok)
			}
			service.Outages[0].To = 200 * s
			if after, ok := service.Run(atOnce(1)).Recovery(20*s, 25*s); ok {
				t.Errorf("at %v/s: recovered %v after 25 s, want never", rate, after)
			}
		}
	}
}

func TestResultSumsUp(t *testing.T) {
	r := history(100, 10, func(i int) int { return int(10 * min(i/50, 1)) }) // nothing succeeds in the first half
	if r.Load() != 2 || r.Success() != .5 {
		t.Errorf("load %v, success %v; want 2 and .5", r.Load(), r.Success())
	}
	for _, tt := range []struct{ from, to time.Duration }{{4 * s, 6 * s}, {3950 * ms, 5950 * ms}} {
		if got := r.Goodput(tt.from, tt.to); got != .5 {
			t.Errorf("goodput from %v to %v is %v, want .5", tt.from, tt.to, got)
		}
		if sent, retries := r.Rate(tt.from, tt.to); sent != 200 || retries != 100 {
			t.Errorf("%v sent and %v retries per second, want 200 and 100", sent, retries)
		}
	}
	if r.Goodput(-s, -1) != 0 || r.Goodput(20*s, 30*s) != 0 {
		t.Error("goodput where there are no calls, want 0")
	}
	if got := r.Goodput(5*s, math.MaxInt64); got != 1 {
		t.Errorf("goodput from 5 s on is %v, want 1", got)
	}
	if got := r.Goodput(6*s, 5*s); got != 0 {
		t.Errorf("goodput of less than no time is %v, want 0", got)
	}
	if got := r.Held(math.MaxInt64); got != 1000 {
		t.Errorf("%v held at the end of time, want 1000", got)
	}
	if sent, retries := r.Rate(s, s); sent != 0 || retries != 0 {
		t.Errorf("%v sent and %v retries per second in no time, want 0", sent, retries)
	}
	for span, want := range map[time.Duration]float64{0: 30, 100 * ms: 30, s: 300, time.Hour: 2000} {
		if got := r.Peak(span); got != want {
			t.Errorf("the peak of %v is %v, want %v", span, got, want)
		}
	}
	if got := r.Held(time.Hour); got != 1000 {
		t.Errorf("%v held at the end, want 1000", got)
	}
	r.Runs = 2
	if sent, _ := r.Rate(0, s); sent != 150 || r.Peak(s) != 150 || r.Held(s) != 100 {
		t.Errorf("of two runs: %v sent per second, a peak of %v, %v held; want 150, 150 and 100", sent, r.Peak(s), r.Held(s))
	}
}

func TestQuantiles(t *testing.T) {
	if got := (storm.Service{Rate: 1e-9}.Run(retry.Policy{})).Quantile(.5); got != 0 {
		t.Errorf("the median of no calls is %v, want 0", got)
	}
	// A third fails after 2 s, and one still runs when calls are followed no more, after 20 s or nearly.
	r := storm.Service{Rate: 10, Duration: 10 * s, Latency: time.Hour, Timeout: 2 * s}.Run(retry.Policy{MaxAttempts: 1})
	if got := r.Quantile(.5); !within(got.Seconds(), 2, .01) {
		t.Errorf("the median of calls that fail after 2 s is %v", got)
	}
	r = storm.Service{Clients: 1, Closed: true, Rate: 100, Duration: 10 * s, Latency: time.Hour}.Run(retry.Policy{})
	if got := r.Quantile(.5); r.Asked != 1 || !within(got.Seconds(), 20, .01) {
		t.Errorf("the call of %d that still runs took %v, want almost 20 s", r.Asked, got)
	}
	for _, unit := range []time.Duration{1, 100, 10_000, ms, 77 * s, 1000 * time.Hour} {
		// A queue: the n-th call takes n units.
		r := storm.Service{Clients: 1000, Capacity: float64(s) / float64(unit), Bucket: math.MaxInt64}.Run(retry.Policy{})
		for _, q := range []float64{.001, .01, .5, .9, 1, 1.5} {
			want := float64(unit) * min(q, 1) * 1000
			if got := float64(r.Quantile(q)); math.Abs(got-want) > max(.01*want, 1) {
				t.Errorf("unit %v: quantile %v is %v, want %v", unit, q, time.Duration(got), time.Duration(want))
			}
		}
	}
}
