package hedging

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
)

const ms = time.Millisecond

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// measured returns a Rules with a measured delay and a budget that grants all.
func measured() *Rules {
	h := Rules{Budget: &budget.Token{Cost: -1}, Shared: new(Shared)}.Resolve()
	return &h
}

// take makes a call that takes so long, and reports whether it was hedged.
func take(h *Rules, d time.Duration) bool {
	c := h.Begin(start)
	if d >= c.Delay {
		pass(&c, start.Add(c.Delay), false)
	}
	c.Done(1, start.Add(d), Succeeded, 0, false)
	return c.Hedged
}

// Five services, and what 95 % of their calls take no longer than; the last one has
// no such time: 99 % of its calls take the same.
var services = []struct {
	name string
	next func(*rand.Rand) float64 // in milliseconds
	q95  float64
}{
	{"uniform", func(r *rand.Rand) float64 { return 10 + 10*r.Float64() }, 19.5},
	{"exponential", func(r *rand.Rand) float64 { return 10 * r.ExpFloat64() }, 10 * math.Log(20)},
	{"lognormal", func(r *rand.Rand) float64 { return 10 * math.Exp(r.NormFloat64()) }, 10 * math.Exp(1.6449)},
	{"Pareto", func(r *rand.Rand) float64 { return 10 * math.Pow(1-r.Float64(), -1/1.5) }, 10 * math.Pow(20, 1/1.5)},
	{"one in a hundred 50 times slower", func(r *rand.Rand) float64 {
		if r.IntN(100) == 0 {
			return 500
		}
		return 10
	}, 10},
}

func TestEveryTwentiethCallIsSlower(t *testing.T) {
	for _, s := range services {
		t.Run(s.name, func(t *testing.T) {
			const calls = 20_000
			h, r := measured(), rand.New(rand.NewPCG(1, 2))
			hedged, estimates := 0, 0.0
			for n := range calls + 200 {
				if take(h, time.Duration(s.next(r)*float64(ms))) && n >= 200 {
					hedged++
				}
				estimates += math.Log(float64(h.Wait())) / (calls + 200)
			}
			if share := float64(hedged) / calls; share < .04 || share > .06 {
				t.Errorf("%.2f %% hedged, want 4 to 6", 100*share)
			}
			if got := math.Exp(estimates) / float64(ms); got < .9*s.q95 || got > 1.15*s.q95 {
				t.Errorf("the estimate is %.1f ms, want about %.1f", got, s.q95)
			}
		})
	}
}

// Any other quantile is measured as well.
func TestEveryFourthCallIsSlower(t *testing.T) {
	const calls = 20_000
	h, r := measured(), rand.New(rand.NewPCG(5, 6))
	h.Quantile = .75
	*h = h.Resolve()
	hedged := 0
	for n := range calls + 200 {
		if take(h, time.Duration(services[1].next(r)*float64(ms))) && n >= 200 {
			hedged++
		}
	}
	if share := float64(hedged) / calls; share < .24 || share > .26 {
		t.Errorf("%.2f %% hedged, want 24 to 26", 100*share)
	}
}

// The service is ten times slower for some time, and then as before.
func TestEstimateFollowsTheService(t *testing.T) {
	h, r := measured(), rand.New(rand.NewPCG(3, 4))
	lognormal := services[2]
	run := func(factor float64, calls int) (hedged int) {
		for range calls {
			if take(h, time.Duration(factor*lognormal.next(r)*float64(ms))) {
				hedged++
			}
		}
		return hedged
	}
	run(1, 1000)
	for _, phase := range []struct {
		name          string
		factor        float64
		learn, atMost int // calls, and hedges among them
	}{
		{"ten times slower", 10, 200, 100},
		{"recovered", 1, 2000, 100},
	} {
		if hedged := run(phase.factor, phase.learn); hedged > phase.atMost {
			t.Errorf("%s: %d of the first %d calls hedged, want at most %d", phase.name, hedged, phase.learn, phase.atMost)
		}
		if share := float64(run(phase.factor, 5000)) / 5000; share < .04 || share > .06 {
			t.Errorf("%s: %.2f %% hedged, want 4 to 6", phase.name, 100*share)
		}
		if got, want := float64(h.Wait())/float64(ms), phase.factor*lognormal.q95; got < .6*want || got > 1.6*want {
			t.Errorf("%s: Wait() = %.0f ms, want about %.0f", phase.name, got, want)
		}
	}
}

func TestFirstSuccessSetsTheEstimate(t *testing.T) {
	h := measured()
	if got := h.Wait(); got != 10*time.Second {
		t.Errorf("Wait() = %v before the first call, want MaxDelay", got)
	}
	c := h.Begin(start)
	c.Done(1, start.Add(ms), Failed, 0, false)
	take(h, time.Minute)
	if got := h.Wait(); got != 10*time.Second {
		t.Errorf("Wait() = %v after a failure and a slow call, want MaxDelay", got)
	}
	take(h, 12345*time.Microsecond)
	if got := h.Wait(); got != 24690*time.Microsecond {
		t.Errorf("Wait() = %v after a first call of 12.345ms, want twice that", got)
	}
}

func TestStepsOfTheEstimate(t *testing.T) {
	for _, tt := range []struct {
		n    int // calls before
		gain float64
	}{{1, 1}, {9, 1}, {19, .5}, {99, .1}, {199, .05}, {200, .05}, {1000, .05}} {
		for _, slower := range []bool{false, true} {
			h := measured()
			h.MinDelay, h.MaxDelay = 1, math.MaxInt64
			for range tt.n {
				take(h, 100*time.Hour) // the first sets it; no more are slower than twice that
			}
			before := float64(h.Wait())
			want := -tt.gain * .05
			if slower {
				want = tt.gain * .95
				take(h, math.MaxInt64)
			} else {
				take(h, 1)
			}
			if got := math.Log(float64(h.Wait()) / before); math.Abs(got-want) > 1e-6 {
				t.Errorf("after %d calls, slower: %v, the estimate moves by %v, want %v", tt.n, slower, got, want)
			}
		}
	}
}

func TestEstimateStaysWithinTheLimits(t *testing.T) {
	for _, h := range []*Rules{
		{MinDelay: 5 * ms, MaxDelay: 50 * ms},
		{MinDelay: 5 * ms, MaxDelay: 1},
		{MinDelay: -1, MaxDelay: -1},
		{Quantile: math.NaN()},
		{Quantile: 1},
		{MinDelay: math.MaxInt64},
	} {
		h.Budget, h.Shared = &budget.Token{Cost: -1}, new(Shared)
		*h = h.Resolve()
		if h.Quantile != .95 || h.MinDelay <= 0 || h.MaxDelay < h.MinDelay || h.MaxInFlight != 2 {
			t.Errorf("resolved to %+v", h)
		}
		take(h, 0)
		if got := h.Wait(); got != h.MinDelay {
			t.Errorf("%+v: Wait() = %v after a call that took nothing, want MinDelay", h, got)
		}
		for range 1000 {
			take(h, math.MaxInt64)
		}
		if got := h.Wait(); got != h.MaxDelay {
			t.Errorf("%+v: Wait() = %v after slow calls, want MaxDelay", h, got)
		}
		take(h, 0)
		if got := h.Wait(); got == h.MaxDelay && h.MaxDelay > h.MinDelay {
			t.Errorf("%+v: Wait() = %v after a quick call, want less", h, got)
		}
	}
}

// A limit may be as short as a Duration can be, and need not be a number that a float64
// holds.
func TestEstimateIsTheOnlyDelayBetweenTwoEqualLimits(t *testing.T) {
	limits := []time.Duration{1, math.MaxInt64}
	for n := range 1000 {
		limits = append(limits, 1<<62+time.Duration(n)<<10-1) // as a float64 one nanosecond longer
	}
	for _, limit := range limits {
		h := Rules{MinDelay: limit, MaxDelay: limit, Budget: &budget.Token{Cost: -1}, Shared: new(Shared)}.Resolve()
		for call := range 2 {
			if got := h.Wait(); got != limit {
				t.Errorf("after %d calls Wait() = %d, want %d", call, got, limit)
			}
			take(&h, 0)
		}
	}
}

func TestFixedDelayLearnsNothing(t *testing.T) {
	h := measured()
	h.Delay = 70 * ms
	take(h, ms)
	take(h, time.Second)
	if got := h.Wait(); got != 70*ms || h.Shared.estimate.word.Load() != 0 {
		t.Errorf("Wait() = %v, word %x, want 70ms and nothing learnt", got, h.Shared.estimate.word.Load())
	}
}

// A call whose deadline is within the delay is measured without a timer: so a long
// MaxDelay over a short deadline learns.
func TestCallWithoutATimerIsMeasured(t *testing.T) {
	for _, tt := range []struct {
		name string
		how  Ending
		took time.Duration
		want time.Duration
	}{
		{"success", Succeeded, 20 * ms, 40 * ms},
		{"failure", Failed, 20 * ms, 10 * time.Second},
		{"not yet", NotYet, 20 * ms, 40 * ms},
		{"longer than the delay", Succeeded, time.Minute, 10 * time.Second},
	} {
		h := measured()
		c := h.Begin(start)
		if !c.Within(start.Add(10*time.Second)) || c.Within(start.Add(10*time.Second+1)) {
			t.Error("Within() is not true up to the delay, and false after")
		}
		c.Done(1, start.Add(tt.took), tt.how, 0, false)
		if got := h.Wait(); got != tt.want {
			t.Errorf("%s: Wait() = %v, want %v", tt.name, got, tt.want)
		}
	}
	h := measured()
	take(h, 10*ms)
	c := h.Begin(start)
	c.Done(1, start.Add(20*ms), Failed, 0, false) // at the delay, and not by a timer
	if got := h.Wait(); got <= 20*ms || c.Hedged {
		t.Errorf("Wait() = %v, hedged: %v, want more than 20ms and no hedge", got, c.Hedged)
	}
}

// pass makes a call's delay pass, where no guard is asked.
func pass(c *Call, now time.Time, canceled bool) (start, again bool) {
	wanted, refused := c.DelayOver(now, canceled)
	if !wanted {
		return false, false
	}
	return c.Start(refused, canceled)
}

func TestEndingOf(t *testing.T) {
	failure := errors.New("failure")
	for name, tt := range map[string]struct {
		err  error
		want Ending
	}{
		"success":     {nil, Succeeded},
		"an answer":   {retry.Answer(failure), Succeeded},
		"permanent":   {retry.Stop(failure), Answered},
		"rejected":    {retry.ErrRejected, NotYet},
		"transient":   {failure, Failed},
		"refused":     {retry.Refuse(failure), Failed},
		"a busy poll": {retry.After(retry.ErrRejected, time.Second), NotYet},
	} {
		if got := EndingOf(retry.Policy{}.Judge(tt.err)); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}

// A call counts once, however often its delay passes.
func TestSlowCallCountsOnce(t *testing.T) {
	h := measured()
	h.MaxInFlight = 4
	take(h, 10*ms)
	c := h.Begin(start)
	for i := range 3 {
		if ask, again := pass(&c, start, false); !ask || again != (i < 2) {
			t.Errorf("DelayOver() = %v, %v for hedge %d", ask, again, i+1)
		}
	}
	c.Done(2, start.Add(time.Second), Succeeded, 0, false)
	if got, want := float64(h.Wait())/float64(20*ms), math.Exp(.95); math.Abs(got-want) > 1e-6 {
		t.Errorf("Wait() grew by %v, want %v", got, want)
	}
}

func TestNothingStartsOnceTheCallIsOver(t *testing.T) {
	for name, end := range map[string]func(*Call){
		"success":   func(c *Call) { c.Done(1, start, Succeeded, 0, false) },
		"permanent": func(c *Call) { c.Done(1, start, Answered, 0, false) },
		"failed":    func(c *Call) { c.Done(1, start, Failed, 0, false) },
		"panicked":  func(c *Call) { c.Abort(1) },
	} {
		h := measured()
		c := h.Begin(start)
		end(&c)
		if ask, again := pass(&c, start, false); ask || again || c.Hedged || c.Refused != nil {
			t.Errorf("%s: DelayOver() = %v, %v, %+v, want nothing", name, ask, again, c)
		}
	}
}

// Another attempt is still running then.
func TestNothingStartsBesideAnAttemptOnceOneHasEnded(t *testing.T) {
	for name, end := range map[string]func(*Call) (canceled bool){
		"failed":   func(c *Call) bool { return c.Done(1, start, Failed, 0, false) != FailsBesideOthers },
		"panicked": func(c *Call) bool { c.Abort(1); return c.Done(2, start, Succeeded, 0, false) != Ignored },
		"canceled": func(c *Call) bool { return true },
	} {
		h := measured()
		h.MaxInFlight = 4
		c := h.Begin(start)
		for range 2 {
			if asks, again := pass(&c, start, false); !asks || !again {
				t.Fatalf("DelayOver() = %v, %v, want a hedge and the next delay", asks, again)
			}
		}
		canceled := end(&c)
		if asks, again := pass(&c, start, canceled); asks || again || c.Winner != 0 {
			t.Errorf("%s: DelayOver() = %v, %v, %+v, want nothing", name, asks, again, c)
		}
	}
}

// Any wait that a server asks for counts, however short.
func TestPushback(t *testing.T) {
	for _, hint := range []time.Duration{-1, 0, 1, time.Hour} {
		h := measured()
		c := h.Begin(start)
		c.Done(1, start, Failed, hint, false)
		for at, kept := range map[time.Duration]bool{0: hint > 0, max(hint-1, 0): hint > 0, max(hint, 0): false} {
			next := h.Begin(start)
			if asks, _ := pass(&next, start.Add(at), false); asks == kept || (next.Refused == RefusedPushback) != kept {
				t.Errorf("%v after a hint of %v: asks %v, refused %v", at, hint, asks, next.Refused)
			}
		}
	}
}

// fails is a budget that panics when a retry is to be granted.
type fails struct{ ended int }

func (b *fails) Withdraw(retry.Withdrawal) bool { panic("fails") }
func (b *fails) End(retry.Outcome)              { b.ended++ }

func TestPanicOfThePolicysBudgetEndsTheHedgesRun(t *testing.T) {
	var b fails
	h := measured()
	h.PolicyBudget = &b
	c := h.Begin(start)
	func() {
		defer func() {
			if got := recover(); got != "fails" {
				t.Errorf("panics with %v", got)
			}
		}()
		pass(&c, start, false)
	}()
	if b.ended != 1 {
		t.Errorf("%d runs ended, want 1", b.ended)
	}
}

// Whatever the samples and the settings: the delay stays within its limits, and moves
// the right way. The lowest bit of a sample says whether the call was slower.
func FuzzEstimate(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3}, 0., int64(0), int64(0))
	f.Add([]byte{255, 254, 255}, .5, int64(1), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, samples []byte, q float64, low, high int64) {
		h := Rules{Quantile: q, MinDelay: time.Duration(low), MaxDelay: time.Duration(high), Shared: new(Shared)}.Resolve()
		for _, sample := range samples {
			slower, took := sample&1 == 1, time.Duration(math.MaxInt64)>>(sample>>2)
			before, first := h.Wait(), h.Shared.estimate.word.Load() == 0
			h.Shared.estimate.learn(&h, slower, took)
			after := h.Wait()
			if after < h.MinDelay || after > h.MaxDelay {
				t.Fatalf("Wait() = %v, want within %v and %v", after, h.MinDelay, h.MaxDelay)
			}
			if !first && (slower && after < before || !slower && after > before) {
				t.Fatalf("a call that was slower: %v moves the delay from %v to %v", slower, before, after)
			}
		}
	})
}
