package storm_test

import (
	"maps"
	"math"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/retrysim/internal/storm"
)

const (
	ms = time.Millisecond
	s  = time.Second
)

// atOnce retries without waiting.
func atOnce(attempts int) retry.Policy {
	return retry.Policy{MaxAttempts: attempts, Backoff: retry.Constant(0)}
}

// What becomes of a few calls is known to the nanosecond. A Service without a Rate
// has each client call once, at the start, one after the other.
func TestServiceExactly(t *testing.T) {
	outage := func(from, to time.Duration) []storm.Outage { return []storm.Outage{{From: from, To: to}} }
	slow := func(factor float64, from, to time.Duration) []storm.Outage {
		return []storm.Outage{{From: from, To: to, Answer: storm.Slow, Factor: factor}}
	}
	for name, tt := range map[string]struct {
		service storm.Service
		policy  retry.Policy
		sent    int
		took    []time.Duration // of all calls; nil if none succeeded
		ended   map[retry.Reason]int
	}{
		"a perfect server": {
			storm.Service{}, retry.Policy{}, 1, []time.Duration{0}, map[retry.Reason]int{retry.ReasonNone: 1},
		},
		"latency": {
			storm.Service{Clients: 2, Latency: 3 * s}, retry.Policy{}, 2, []time.Duration{3 * s, 3 * s}, map[retry.Reason]int{retry.ReasonNone: 2},
		},
		"slowdown counts the request itself": {
			storm.Service{Clients: 3, Latency: s, Slowdown: 100 * ms}, retry.Policy{}, 3, []time.Duration{1100 * ms, 1200 * ms, 1300 * ms}, map[retry.Reason]int{retry.ReasonNone: 3},
		},
		"capacity": {
			storm.Service{Clients: 3, Capacity: 10, Latency: s}, retry.Policy{}, 3, []time.Duration{1100 * ms, 1200 * ms, 1300 * ms}, map[retry.Reason]int{retry.ReasonNone: 3},
		},
		"a full queue": { // one is begun and two wait, the others are Throttled
			storm.Service{Clients: 5, Capacity: 10, Queue: 2, Full: storm.TooMany}, retry.Policy{MaxAttempts: 2, ThrottleBackoff: retry.Constant(150 * ms), Backoff: retry.Constant(time.Hour)},
			7, []time.Duration{100 * ms, 150 * ms, 200 * ms, 300 * ms, 400 * ms}, map[retry.Reason]int{retry.ReasonNone: 4, retry.ReasonMaxAttempts: 1},
		},
		"a timeout": { // the second attempt gets its answer at 3 s, behind the work of the first
			storm.Service{Capacity: .5, Timeout: 1500 * ms}, atOnce(3), 3, nil, map[retry.Reason]int{retry.ReasonMaxAttempts: 1},
		},
		"a lost answer": { // each attempt is worked on, and waits for its timeout
			storm.Service{Workers: 1, Latency: 100 * ms, Timeout: s, Lost: 1}, atOnce(3), 3, nil, map[retry.Reason]int{retry.ReasonMaxAttempts: 1},
		},
		"a lost answer without a timeout": { // for ever
			storm.Service{Clients: 2, Workers: 1, Latency: s, Lost: 1}, retry.Policy{}, 2, nil, map[retry.Reason]int{},
		},
		"the policy's own timeout is the one": {
			storm.Service{Latency: 2 * s, Timeout: s}, retry.Policy{AttemptTimeout: 2 * s}, 1, []time.Duration{2 * s}, map[retry.Reason]int{retry.ReasonNone: 1},
		},
		"an outage": {
			storm.Service{Latency: s, Outages: outage(0, 2*s)}, retry.Policy{}, 1, []time.Duration{3 * s}, map[retry.Reason]int{retry.ReasonNone: 1},
		},
		"an outage in the midst of the work": {
			storm.Service{Latency: s, Outages: outage(400*ms, 2*s)}, retry.Policy{}, 1, []time.Duration{2600 * ms}, map[retry.Reason]int{retry.ReasonNone: 1},
		},
		"two outages": {
			storm.Service{Latency: s, Outages: append(outage(400*ms, 2*s), outage(2100*ms, 3*s)...)}, retry.Policy{}, 1, []time.Duration{3500 * ms}, map[retry.Reason]int{retry.ReasonNone: 1},
		},
		"an outage that is over": { // at 1 s, when the retry comes
			storm.Service{Latency: s, Outages: []storm.Outage{{From: 0, To: 500 * ms, Answer: storm.Refused}}}, retry.Policy{Backoff: retry.Constant(s)},
			2, []time.Duration{2 * s}, map[retry.Reason]int{retry.ReasonNone: 1},
		},
		"what an outage holds up keeps its order": {
			storm.Service{Clients: 2, Capacity: 10, Outages: outage(150*ms, s)}, retry.Policy{}, 2, []time.Duration{100 * ms, 1050 * ms}, map[retry.Reason]int{retry.ReasonNone: 2},
		},
		"a brown-out takes the rest of the work three times as long": {
			storm.Service{Latency: s, Outages: slow(3, 400*ms, time.Minute)}, retry.Policy{}, 1, []time.Duration{2200 * ms}, map[retry.Reason]int{retry.ReasonNone: 1},
		},
		"a brown-out that is over before the work": {
			storm.Service{Latency: s, Outages: slow(3, 0, 1500*ms)}, retry.Policy{}, 1, []time.Duration{2 * s}, map[retry.Reason]int{retry.ReasonNone: 1},
		},
		"a brown-out that ends with the work": {
			storm.Service{Latency: s, Outages: slow(2, 0, 2*s)}, retry.Policy{}, 1, []time.Duration{2 * s}, map[retry.Reason]int{retry.ReasonNone: 1},
		},
		"a brown-out, and then an outage": { // 200 ms are done by 400 ms, and the rest takes 800 ms from 1 s on
			storm.Service{Latency: s, Outages: append(slow(2, 0, 400*ms), outage(400*ms, s)...)}, retry.Policy{}, 1, []time.Duration{1800 * ms}, map[retry.Reason]int{retry.ReasonNone: 1},
		},
		"a brown-out of a capacity": {
			storm.Service{Clients: 4, Capacity: 10, Outages: slow(2, 150*ms, 350*ms)}, retry.Policy{}, 4, []time.Duration{100 * ms, 250 * ms, 400 * ms, 500 * ms}, map[retry.Reason]int{retry.ReasonNone: 4},
		},
		"a brown-out by a factor below 1": {
			storm.Service{Latency: s, Outages: slow(.1, 0, time.Minute)}, retry.Policy{}, 1, []time.Duration{s}, map[retry.Reason]int{retry.ReasonNone: 1},
		},
		"a queue that is full cannot be slow": {
			storm.Service{Clients: 3, Workers: 1, Latency: s, Queue: 1, Full: storm.Slow}, atOnce(1), 3, []time.Duration{0, s, 2 * s}, map[retry.Reason]int{retry.ReasonNone: 2, retry.ReasonMaxAttempts: 1},
		},
		"a refusal proves that nothing ran": {
			storm.Service{Outages: []storm.Outage{{To: s, Answer: storm.Refused}}}, retry.Policy{NonIdempotent: true, Backoff: retry.Constant(s)},
			2, []time.Duration{s}, map[retry.Reason]int{retry.ReasonNone: 1},
		},
		"a timeout proves nothing": {
			storm.Service{Latency: s, Timeout: s / 2}, retry.Policy{NonIdempotent: true}, 1, nil, map[retry.Reason]int{retry.ReasonNotIdempotent: 1},
		},
		"a failure proves nothing": {
			storm.Service{Failure: 1}, retry.Policy{NonIdempotent: true}, 1, nil, map[retry.Reason]int{retry.ReasonNotIdempotent: 1},
		},
		"the policy's limit": { // fails at 1 s, 2 s and 3 s
			storm.Service{Latency: s, Failure: 1}, retry.Policy{MaxAttempts: 9, MaxElapsed: 2500 * ms, Backoff: retry.Constant(0)}, 3, nil, map[retry.Reason]int{retry.ReasonMaxElapsed: 1},
		},
		"a budget": {
			storm.Service{Clients: 10, Failure: 1}, retry.Policy{MaxAttempts: 2, Budget: &budget.Token{Capacity: 30, Cost: 10}},
			13, nil, map[retry.Reason]int{retry.ReasonMaxAttempts: 3, retry.ReasonBudget: 7},
		},
		"a budget each": {
			storm.Service{Clients: 10, Processes: 10, Failure: 1}, retry.Policy{MaxAttempts: 9, Budget: &budget.Token{Capacity: 30, Cost: 10}},
			40, nil, map[retry.Reason]int{retry.ReasonBudget: 10},
		},
		"a server that never gets there": {
			storm.Service{Clients: 3, Capacity: 1e-9, Timeout: s}, atOnce(1), 3, nil, map[retry.Reason]int{retry.ReasonMaxAttempts: 3},
		},
		"a queue in an outage": { // one is begun and five wait, and the outage is no place in the queue
			storm.Service{Clients: 10, Capacity: 10, Queue: 5, Outages: outage(0, 10*s)}, atOnce(1),
			10, []time.Duration{0, 0, 0, 0, 10100 * ms, 10200 * ms, 10300 * ms, 10400 * ms, 10500 * ms, 10600 * ms}, map[retry.Reason]int{retry.ReasonNone: 6, retry.ReasonMaxAttempts: 4},
		},
		"a queue that is never full": {
			storm.Service{Clients: 3, Capacity: 10, Queue: math.MaxInt}, atOnce(1), 3, []time.Duration{100 * ms, 200 * ms, 300 * ms}, map[retry.Reason]int{retry.ReasonNone: 3},
		},
		"an outage that begins as the work is done": {
			storm.Service{Latency: s, Outages: outage(s, 2*s)}, atOnce(1), 1, []time.Duration{s}, map[retry.Reason]int{retry.ReasonNone: 1},
		},
		"an outage for ever": {
			storm.Service{Clients: 2, Latency: s, Timeout: s, Outages: outage(500*ms, math.MaxInt64)}, atOnce(2), 4, nil, map[retry.Reason]int{retry.ReasonMaxAttempts: 2},
		},
		"an outage for ever, with a network": {
			storm.Service{Capacity: 1, Network: ms, Timeout: s, Outages: outage(0, math.MaxInt64)}, atOnce(2), 2, nil, map[retry.Reason]int{retry.ReasonMaxAttempts: 1},
		},
		"an outage for ever, and patience": {
			storm.Service{Latency: s, Outages: outage(0, math.MaxInt64)}, atOnce(2), 1, nil, map[retry.Reason]int{},
		},
		"a slowdown for ever": {
			storm.Service{Clients: 3, Latency: 1, Slowdown: math.MaxInt64, Timeout: s}, atOnce(1), 3, nil, map[retry.Reason]int{retry.ReasonMaxAttempts: 3},
		},
		"a timeout of for ever": { // the first attempt is refused
			storm.Service{Latency: s, Timeout: math.MaxInt64, Outages: []storm.Outage{{To: ms, Answer: storm.Refused}}}, retry.Policy{Backoff: retry.Constant(s)},
			2, []time.Duration{2 * s}, map[retry.Reason]int{retry.ReasonNone: 1},
		},
		"closed clients without a rate": {
			storm.Service{Clients: 2, Closed: true, Latency: s}, atOnce(1), 2, []time.Duration{s, s}, map[retry.Reason]int{retry.ReasonNone: 2},
		},
		"negative numbers": {
			storm.Service{Clients: -1, Rate: -1, Latency: -1, Slowdown: -1, Capacity: -1, Queue: -1, Failure: -1, Network: -1, Timeout: -1, Bucket: -1, Duration: -1},
			retry.Policy{}, 1, []time.Duration{0}, map[retry.Reason]int{retry.ReasonNone: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := tt.service.Run(tt.policy)
			if r.Sent != tt.sent || r.Asked != max(tt.service.Clients, 1) || r.Succeeded != tt.ended[retry.ReasonNone] || !maps.Equal(r.Ended, tt.ended) {
				t.Errorf("asked %d, sent %d, succeeded %d, ended %v; want %d sent, %v", r.Asked, r.Sent, r.Succeeded, r.Ended, tt.sent, tt.ended)
			}
			for i, want := range tt.took {
				got := r.Quantile(float64(i+1) / float64(len(tt.took)))
				if !within(float64(got), float64(want), .01) {
					t.Errorf("call %d took %v, want %v", i+1, got, want)
				}
			}
		})
	}
}

func TestAbandonedWorkIsStillDone(t *testing.T) {
	r := storm.Service{Clients: 4, Capacity: 1, Timeout: s}.Run(atOnce(2))
	var done []int
	for i := 0; i < len(r.Buckets); i += 10 {
		done = append(done, r.Buckets[i].Done)
	}
	// All four at 0; the first is answered at 1 s, when the other three send again.
	if want := []int{0, 1, 1, 1, 1, 1, 1, 1}; !slices.Equal(done, want) || r.Succeeded != 1 || r.Sent != 7 {
		t.Errorf("done each second %v, want %v; %d succeeded of %d sent, want 1 of 7", done, want, r.Succeeded, r.Sent)
	}
	if got := r.Held(1100 * ms); got != 6 {
		t.Errorf("after a second %v are held, want 6", got)
	}
	// Nobody waits for a message that is this slow, and it does arrive.
	r = storm.Service{Network: time.Hour, Timeout: 1}.Run(retry.Policy{MaxAttempts: 1})
	if last := r.Buckets[len(r.Buckets)-1]; r.Succeeded != 0 || last.Done != 1 {
		t.Errorf("a request that comes late: %+v, %+v, want it to be done", r.Ended, last)
	}
}

func TestAnAnswerInTimeIsAnAnswer(t *testing.T) {
	for timeout, want := range map[time.Duration]int{s - 1: 0, s: 1, s + 1: 1} {
		if r := (storm.Service{Latency: s, Timeout: timeout}).Run(atOnce(1)); r.Succeeded != want {
			t.Errorf("an answer after 1 s and a timeout of %v: %d succeeded, want %d", timeout, r.Succeeded, want)
		}
	}
}

// counting is a Budget, and a Backoff, that this package does not know.
type counting struct {
	asked, ended, again, delays int
	retried                     map[retry.Class]int
}

func (c *counting) Withdraw(w retry.Withdrawal) bool {
	if w.Retry == 1 {
		c.asked++
		return true
	}
	c.again++
	return c.again%2 == 1
}
func (c *counting) End(o retry.Outcome) {
	c.ended++
	c.retried[o.Retried]++
}
func (c *counting) Delay(step retry.Step) time.Duration {
	c.delays++
	return time.Duration(step.Retry) * s
}

func TestPolicysOwnBackoffAndBudgetAreUsed(t *testing.T) {
	for _, processes := range []int{1, 10} {
		c := &counting{retried: map[retry.Class]int{}}
		r := storm.Service{Clients: 10, Failure: 1, Processes: processes, Bucket: s}.Run(retry.Policy{MaxAttempts: 9, Backoff: c, Budget: c})
		// All retry after 1 s, the first, the third and so on 2 s later; every second one that asks for more gets it.
		var sent []int
		for _, b := range r.Buckets {
			sent = append(sent, b.Sent)
		}
		if want := []int{10, 10, 0, 5, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0, 1}; !slices.Equal(sent, want) {
			t.Errorf("sent each second %v, want %v", sent, want)
		}
		want := counting{10, 10, 20, 30, map[retry.Class]int{retry.Transient: 10}}
		if !reflect.DeepEqual(*c, want) {
			t.Errorf("budget and backoff saw %+v, want %+v", *c, want)
		}
	}
}

// Budgets learn which attempts timed out: a server may still be at work on them.
func TestBudgetsSeeTimeouts(t *testing.T) {
	for class, x := range map[retry.Class]storm.Service{
		retry.TimedOut:    {Latency: 2 * s, Timeout: s},
		retry.Transient:   {Latency: s, Timeout: s, Failure: 1}, // the answer comes just in time
		retry.Unprocessed: {Timeout: s, Outages: []storm.Outage{{To: time.Hour, Answer: storm.Refused}}},
	} {
		c := &counting{retried: map[retry.Class]int{}}
		x.Clients = 3
		if x.Run(retry.Policy{MaxAttempts: 2, Budget: c}); !maps.Equal(c.retried, map[retry.Class]int{class: 3}) {
			t.Errorf("the budget saw retries after %v, want 3 after %v", c.retried, class)
		}
	}
}

func TestPolicyIsLeftAsItWas(t *testing.T) {
	for _, b := range []interface {
		retry.Budget
		Balance() float64
	}{&retry.EarnedBudget{}, &budget.Token{Capacity: 20}, &budget.Ratio{MinPerSecond: -1}} {
		p := retry.Policy{MaxAttempts: 5, Budget: b}
		full := b.Balance()
		first := crowd(100).Run(p)
		if b.Balance() != full {
			t.Errorf("%T has %v left after a simulation, want %v: it has a copy", b, b.Balance(), full)
		}
		if second := crowd(100).Run(p); !reflect.DeepEqual(first, second) {
			t.Errorf("%T: the second run differs from the first", b)
		}
		if first.Ended[retry.ReasonBudget] == 0 {
			t.Errorf("%T refused nothing: %v", b, first.Ended)
		}
	}
}

// A ratio budget must count time as it passes here, or it would see all calls at once.
func TestRatioRunsOnSimulatedTime(t *testing.T) {
	// 10 calls per second for 100 s, all failing: windows of 1 s with 1 retry per second each.
	r := storm.Service{Rate: 10, Failure: 1, Duration: 100 * s}.Run(retry.Policy{
		MaxAttempts: 2, Backoff: retry.Constant(0), Budget: &budget.Ratio{Ratio: -1, MinPerSecond: 1, Window: s},
	})
	if _, retries := r.Rate(0, 100*s); retries < .8 || retries > 1 {
		t.Errorf("%.2f retries per second, want almost 1", retries)
	}
}

func TestSeedsDecide(t *testing.T) {
	a, b, c := crowd(50), crowd(50), crowd(50)
	c.Seed++
	p := retry.Policy{MaxAttempts: 4}
	if !reflect.DeepEqual(a.Run(p), b.Run(p)) {
		t.Error("the same seed gives two results")
	}
	if reflect.DeepEqual(a.Run(p), c.Run(p)) {
		t.Error("two seeds give the same result")
	}
	open := storm.Service{Rate: 100, Failure: .5}
	asked := func(r *storm.Result) (n []int) {
		for _, b := range r.Buckets {
			n = append(n, b.Asked)
		}
		return n
	}
	if x, y := open.Run(p), open.Run(atOnce(9)); !slices.Equal(asked(x), asked(y)) || x.Sent == y.Sent {
		t.Error("two policies do not meet the same calls")
	}
}

func TestCallsAreFollowedForAsLongAgain(t *testing.T) {
	service := storm.Service{Rate: 10, Duration: 10 * s, Latency: 15 * s}
	r := service.Run(retry.Policy{})
	if n := r.Ended[retry.ReasonNone]; n == r.Asked || n < r.Asked/4 || n != r.Succeeded {
		t.Errorf("%d of %d calls of 15 s ended within 20 s", n, r.Asked)
	}
	if got := r.Goodput(0, 10*s); got != 0 {
		t.Errorf("goodput %v, want none before the end", got)
	}
	good := 0
	for _, b := range r.Buckets {
		good += int(b.Good)
	}
	if good != r.Succeeded {
		t.Errorf("%d calls are counted as good where they began, want %d", good, r.Succeeded)
	}
}

// A call in thirty years or so, until the end of time.
func TestLongestDuration(t *testing.T) {
	r := storm.Service{Rate: 1e-9, Duration: math.MaxInt64, Bucket: math.MaxInt64, Seed: 1}.Run(atOnce(1))
	if r.Asked < 3 || r.Asked > 20 || r.Succeeded != r.Asked || len(r.Buckets) != 1 || r.Buckets[0].Good != r.Asked {
		t.Errorf("asked %d, succeeded %d, buckets %v; want about 9 calls in one bucket", r.Asked, r.Succeeded, r.Buckets)
	}
}

// 410 bytes for each client that is in a call: its Loop is 320 of them, and goes with it.
func TestMemoryOfClients(t *testing.T) {
	notUnderRace(t)
	long(t)
	for attempts, failure := range map[int]float64{3: .5, 4: .5, 6: 1} {
		clients := crowd(50_000)
		clients.Failure = failure
		if got := bytesPerClient(clients, retry.Policy{MaxAttempts: attempts}); failure == 1 && got < 300 || got > 410 {
			t.Errorf("with %d attempts, of which %v fail, a client takes %.0f bytes, want at most 410", attempts, failure, got)
		}
	}
}

// Each call has a Loop of its own, of 320 bytes.
func TestCallsThatAreOverMakePlaceForOthers(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := storm.Service{Rate: 100_000, Latency: ms, Duration: s}.Run(retry.Policy{})
	runtime.ReadMemStats(&after)
	if bytes := int(after.TotalAlloc-before.TotalAlloc) - 320*r.Asked; r.Succeeded < 90_000 || bytes > 4<<20 {
		t.Errorf("%d calls of which 100 run at once took %d bytes beside their Loops, want less than 4 MiB", r.Succeeded, bytes)
	}
}

func TestMillionsOfClients(t *testing.T) {
	notUnderRace(t)
	long(t)
	r := storm.Service{Clients: 2_000_000, Latency: ms, Failure: .5}.Run(atOnce(2))
	if r.Asked != 2_000_000 || !within(r.Load(), 1.5, .01) || !within(r.Success(), .75, .01) {
		t.Errorf("asked %d, load %.3f, success %.3f; want 2 million, 1.5 and 0.75", r.Asked, r.Load(), r.Success())
	}
}

// turns counts how often another run has its turn: each has a budget of its own.
type turns struct {
	*sync.Mutex
	runs, last, count *int
	run               int
}

func (b turns) Fresh() retry.Budget {
	b.Lock()
	defer b.Unlock()
	*b.runs++
	b.run = *b.runs
	return b
}

func (b turns) End(retry.Outcome) {
	b.Lock()
	if b.run != *b.last {
		*b.last = b.run
		*b.count++
	}
	b.Unlock()
	runtime.Gosched() // to another run, if there is one: also on a machine that is busy
}

func (turns) Withdraw(retry.Withdrawal) bool { return false }

// Parallel limits how many runs there are at once, and so their memory.
func TestParallel(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	x := storm.Service{Rate: 1000, Duration: 10 * s, Parallel: 1}
	count := func() (runs, turn int) {
		x.Trials(t.Context(), []retry.Policy{{Budget: turns{Mutex: new(sync.Mutex), runs: &runs, last: new(int), count: &turn}}}, 8)
		return runs, turn
	}
	if runs, turn := count(); runs != 8 || turn != 8 {
		t.Errorf("one at a time: %d runs in %d turns, want 8 in 8", runs, turn)
	}
	x.Parallel = 0
	if runs, turn := count(); runs != 8 || turn <= 8 {
		t.Errorf("as many as processors: %d runs in %d turns, want 8 in more", runs, turn)
	}
}

// What a run costs is the calls' own work: nothing is allocated for a call that succeeds,
// and what an outcome means to the policy is judged once.
func TestCallsCostNoAllocations(t *testing.T) {
	s, judged := crowd(1000), 0
	p := retry.Policy{MaxAttempts: 4, Budget: &budget.Token{Cost: -1}, Classify: func(error) retry.Class {
		judged++
		return retry.Unknown
	}}
	if s.Run(p); judged > 10 {
		t.Errorf("%d errors are judged in a run, want one for each outcome", judged)
	}
	s.Failure = 0
	calls := s.Run(p).Asked
	if n := testing.AllocsPerRun(1, func() { s.Run(p) }); n > float64(calls)/10 {
		t.Errorf("%.0f allocations in %d calls", n, calls)
	}
}
