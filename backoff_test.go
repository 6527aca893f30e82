package retry_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/goretry/retry"
)

const (
	ms   = time.Millisecond
	most = 1 - 0x1p-53 // the largest random number
)

// delays returns what b says for the first n retries, each fed the one before.
func delays(b retry.Backoff, n int, random float64) []time.Duration {
	var ds []time.Duration
	prev := time.Duration(0)
	for i := range n {
		prev = b.Delay(retry.Step{Retry: i + 1, Prev: prev, Rand: random})
		ds = append(ds, prev)
	}
	return ds
}

func TestGoldenSchedules(t *testing.T) {
	no := retry.NoJitter
	for _, tt := range []struct {
		name   string
		b      retry.Backoff
		random float64
		want   []time.Duration
	}{
		{"constant", retry.Constant(50 * ms), .5, []time.Duration{50 * ms, 50 * ms, 50 * ms}},
		{"negative constant", retry.Constant(-1), .5, []time.Duration{0, 0}},
		{"exponential", retry.Exponential{Base: 100 * ms, Max: time.Second, Jitter: no}, .5,
			[]time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, time.Second, time.Second}},
		{"exponential by default", retry.Exponential{Jitter: no}, .5,
			[]time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 6400 * ms, 12800 * ms, 20 * time.Second, 20 * time.Second}},
		{"exponential by 3", retry.Exponential{Base: ms, Factor: 3, Jitter: no}, .5, []time.Duration{ms, 3 * ms, 9 * ms, 27 * ms}},
		{"exponential by 1.5", retry.Exponential{Base: 4 * ms, Factor: 1.5, Jitter: no}, .5, []time.Duration{4 * ms, 6 * ms, 9 * ms}},
		{"exponential by half", retry.Exponential{Base: 4 * ms, Factor: .5, Jitter: no}, .5, []time.Duration{4 * ms, 2 * ms, ms}},
		{"negative factor is 2", retry.Exponential{Base: ms, Factor: -3, Jitter: no}, .5, []time.Duration{ms, 2 * ms, 4 * ms}},
		{"full jitter, least", retry.Exponential{}, 0, []time.Duration{0, 0, 0}},
		{"full jitter, middle", retry.Exponential{}, .5, []time.Duration{50 * ms, 100 * ms, 200 * ms}},
		{"equal jitter, least", retry.Exponential{Jitter: retry.EqualJitter}, 0, []time.Duration{50 * ms, 100 * ms, 200 * ms}},
		{"equal jitter, middle", retry.Exponential{Jitter: retry.EqualJitter}, .5, []time.Duration{75 * ms, 150 * ms, 300 * ms}},
		{"± 20 %, least", retry.Exponential{Jitter: retry.PlusMinus(.2)}, 0, []time.Duration{80 * ms, 160 * ms}},
		{"± 20 %, middle", retry.Exponential{Jitter: retry.PlusMinus(.2)}, .5, []time.Duration{100 * ms, 200 * ms}},
		{"± 50 % at the cap, least", retry.Linear{Base: time.Second, Max: time.Second, Jitter: retry.PlusMinus(.5)}, 0,
			[]time.Duration{time.Second / 3, time.Second / 3}}, // [.5, 1.5) scaled to end at Max
		{"plus 50 ms, least", retry.Exponential{Jitter: retry.Plus(50 * ms)}, 0, []time.Duration{100 * ms, 200 * ms, 400 * ms}},
		{"plus 50 ms, middle", retry.Exponential{Jitter: retry.Plus(50 * ms)}, .5, []time.Duration{125 * ms, 225 * ms, 425 * ms}},
		{"plus 1 s at the cap of 1 s, least", retry.Linear{Base: time.Second, Max: time.Second, Jitter: retry.Plus(time.Second)}, 0,
			[]time.Duration{time.Second / 2, time.Second / 2}},
		{"plus nothing", retry.Exponential{Jitter: retry.Plus(-time.Hour)}, .5, []time.Duration{100 * ms, 200 * ms}},
		{"full jitter and 50 ms", retry.Exponential{Jitter: retry.Jitter{Plus: 50 * ms}}, .5, []time.Duration{75 * ms, 125 * ms}},
		{"a window below the delay", retry.Exponential{Jitter: retry.Jitter{High: .5}}, .5, []time.Duration{25 * ms, 50 * ms}},
		{"± 100 %, least", retry.Exponential{Jitter: retry.PlusMinus(1)}, 0, []time.Duration{0, 0}},
		{"± 100 %, middle", retry.Exponential{Jitter: retry.PlusMinus(1)}, .5, []time.Duration{100 * ms, 200 * ms}},
		{"± 100 %, high", retry.Exponential{Jitter: retry.PlusMinus(1)}, .75, []time.Duration{150 * ms, 300 * ms}},
		{"an endless window", retry.Exponential{Base: ms, Max: time.Second, Jitter: retry.Jitter{High: math.Inf(1)}}, .5,
			[]time.Duration{time.Second / 2, time.Second / 2}},
		{"an endless window from 0·∞", retry.Exponential{Base: ms, Max: time.Second, Jitter: retry.Jitter{Low: math.Inf(1), High: math.Inf(1)}}, .5,
			[]time.Duration{time.Second / 2, time.Second / 2}},
		{"linear", retry.Linear{Base: 100 * ms, Max: 350 * ms, Jitter: no}, .5, []time.Duration{100 * ms, 200 * ms, 300 * ms, 350 * ms}},
		{"decorrelated, least", retry.Decorrelated{Base: 100 * ms, Max: time.Second}, 0, []time.Duration{100 * ms, 100 * ms}},
		{"decorrelated, middle", retry.Decorrelated{Base: 100 * ms, Max: time.Second}, .5, // (100+300)/2, (100+600)/2, …
			[]time.Duration{200 * ms, 350 * ms, 575 * ms, 912500 * time.Microsecond, time.Second}},
		{"max below base", retry.Exponential{Base: time.Hour, Max: time.Second, Jitter: no}, .5, []time.Duration{time.Second, time.Second}},
		{"decorrelated, max below base", retry.Decorrelated{Base: time.Hour, Max: time.Second}, .5, []time.Duration{time.Second}},
		{"schedule", retry.Schedule{ms, 5 * ms, -1, 9 * ms}, .5, []time.Duration{ms, 5 * ms, 0, 9 * ms, 9 * ms, 9 * ms}},
		{"empty schedule", retry.Schedule{}, .5, []time.Duration{0, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := delays(tt.b, len(tt.want), tt.random); !slices.Equal(got, tt.want) {
				t.Errorf("delays are %v, want %v", got, tt.want)
			}
		})
	}
}

func TestRetryBelowOneCountsAsTheFirst(t *testing.T) {
	for _, b := range []retry.Backoff{
		retry.Exponential{Jitter: retry.NoJitter}, retry.Linear{Jitter: retry.NoJitter},
		retry.Schedule{100 * ms, 1},
	} {
		for _, n := range []int{0, -1, math.MinInt} {
			if got := b.Delay(retry.Step{Retry: n}); got != 100*ms {
				t.Errorf("%T.Delay(%d) = %v, want %v", b, n, got, 100*ms)
			}
		}
	}
}

func TestLateRetriesStayAtTheCap(t *testing.T) {
	for _, b := range []retry.Backoff{
		retry.Exponential{Jitter: retry.NoJitter}, retry.Exponential{Factor: 1.1, Jitter: retry.NoJitter},
		retry.Linear{Jitter: retry.NoJitter},
	} {
		for _, n := range []int{300, 1 << 20, math.MaxInt} {
			if got := b.Delay(retry.Step{Retry: n}); got != 20*time.Second {
				t.Errorf("%T.Delay(%d) = %v, want %v", b, n, got, 20*time.Second)
			}
		}
	}
	b := retry.Exponential{Base: math.MaxInt64, Max: math.MaxInt64, Jitter: retry.NoJitter}
	if got := b.Delay(retry.Step{Retry: math.MaxInt}); got != math.MaxInt64 {
		t.Errorf("the longest delay is %v, want %v", got, time.Duration(math.MaxInt64))
	}
}

// The window at the cap is scaled, so that no two random numbers pile up there.
func TestNoPileUpAtTheCap(t *testing.T) {
	b := retry.Exponential{Base: time.Second, Max: time.Second, Jitter: retry.PlusMinus(.25)}
	seen := map[time.Duration]bool{}
	for i := range 1000 {
		d := b.Delay(retry.Step{Retry: 9, Rand: float64(i) / 1000})
		if seen[d] || d >= time.Second || d < 600*ms {
			t.Fatalf("Delay = %v again, or outside of [600ms, 1s)", d)
		}
		seen[d] = true
	}
}

func TestSmallJitterIsContinuous(t *testing.T) {
	b := retry.Exponential{Base: 100, Max: 1000, Jitter: retry.PlusMinus(.01)} // of so short a wait only whole nanoseconds are left
	long := retry.Exponential{Base: time.Second, Jitter: retry.PlusMinus(.01)}
	short, seen := map[time.Duration]bool{}, map[time.Duration]bool{}
	for i := range 1000 {
		s := retry.Step{Retry: 1, Rand: float64(i) / 1000}
		short[b.Delay(s)] = true
		seen[long.Delay(s)] = true
	}
	if len(seen) != 1000 || len(short) < 2 {
		t.Errorf("1000 random numbers give %d waits of about 1s, and %d of about 100ns", len(seen), len(short))
	}
}

// A run that was resumed does not know its last wait: it goes on from what that
// was about.
func TestDecorrelatedAfterResume(t *testing.T) {
	b := retry.Decorrelated{Base: ms, Max: time.Second}
	for _, tt := range []struct {
		made int
		want time.Duration // in the middle of [1, 3·prev)
	}{{0, 2 * ms}, {1, 5 * ms}, {2, 14 * ms}, {3, 41 * ms}, {40, time.Second}, {math.MaxInt - 2, time.Second}} {
		p := retry.Policy{MaxAttempts: retry.Unlimited, Backoff: b, Rand: func() float64 { return .5 }}
		loop := p.Resume(epoch, tt.made, 0)
		if wait, _ := loop.Next(epoch, errDown); wait != tt.want {
			t.Errorf("after %d attempts elsewhere the wait is %v, want %v", tt.made, wait, tt.want)
		}
	}
}

func TestDeepDelaysAreExact(t *testing.T) {
	b := retry.Exponential{Base: 1, Max: 1 << 62, Jitter: retry.NoJitter}
	if d := b.Delay(retry.Step{Retry: 61}); d != 1<<60 {
		t.Errorf("Delay(61) = %d, want 2^60", d)
	}
	if d := (retry.Decorrelated{}).Delay(retry.Step{Prev: 1, Rand: .9}); d != 100*ms {
		t.Errorf("after a very short wait the next is %v, want no less than Base", d)
	}
	if d := (retry.Decorrelated{Base: 3074457345618258602, Max: 3074457345618258602}).Delay(retry.Step{}); d != 3074457345618258602 {
		t.Errorf("Delay = %d, want Base, though no float64 has it", d)
	}
}

func TestOddJitters(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, tt := range []struct {
		jitter      retry.Jitter
		least, most time.Duration // of 1 s, up to 4 s
	}{
		{retry.Jitter{}, 0, time.Second},
		{retry.Jitter{Low: nan, High: nan}, 0, time.Second},
		{retry.Jitter{Low: -1, High: 1}, 0, time.Second},
		{retry.Jitter{High: -1}, 0, time.Second},
		{retry.Jitter{Low: 2, High: 1}, 2 * time.Second, 2 * time.Second},
		{retry.Jitter{Low: 2, High: inf}, 0, 4 * time.Second},
		{retry.Jitter{Low: 2, High: 8}, time.Second, 4 * time.Second},
		{retry.Jitter{Low: inf, High: inf}, 0, 4 * time.Second},
		{retry.Plus(math.MaxInt64), 0, 4 * time.Second},
		{retry.Plus(math.MinInt64), time.Second, time.Second},
		{retry.Jitter{Low: nan, High: nan, Plus: time.Second}, 0, 2 * time.Second},
	} {
		b := retry.Exponential{Base: time.Second, Max: 4 * time.Second, Jitter: tt.jitter}
		if got := b.Delay(retry.Step{Retry: 1}); got != tt.least {
			t.Errorf("%v: the least delay is %v, want %v", tt.jitter, got, tt.least)
		}
		if got := b.Delay(retry.Step{Retry: 1, Rand: most}); got > tt.most || got < tt.most-1 {
			t.Errorf("%v: the longest delay is %v, want just below %v", tt.jitter, got, tt.most)
		}
	}
}

// FuzzBackoffs: whatever the numbers, a wait lies in [0, Max], is the same for
// the same step, and does not shrink when the random number grows.
func FuzzBackoffs(f *testing.F) {
	f.Add(int64(100*ms), int64(20*time.Second), 2.0, 0.0, 1.0, int64(0), 1, int64(0), .5)
	f.Add(int64(100*ms), int64(20*time.Second), 2.0, 1.0, 1.0, int64(100*ms), 8, int64(0), .5)
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), math.Inf(1), 1.0, 1.0, int64(math.MaxInt64), math.MaxInt, int64(math.MaxInt64), most)
	f.Add(int64(1), int64(math.MaxInt64), 2.0, .5, math.Inf(1), int64(-1), 64, int64(-1), math.NaN())
	f.Add(int64(1), int64(1<<53+1), 1e-300, math.NaN(), 5e-324, int64(1), 1<<30, int64(1), -1.0)
	f.Fuzz(func(t *testing.T, base, top int64, factor, low, high float64, plus int64, n int, prev int64, random float64) {
		limit := time.Duration(top)
		if limit <= 0 {
			limit = 20 * time.Second
		}
		s := retry.Step{Retry: n, Prev: time.Duration(prev), Rand: random}
		b, j := time.Duration(base), retry.Jitter{Low: low, High: high, Plus: time.Duration(plus)}
		for _, b := range []retry.Backoff{
			retry.Exponential{Base: b, Max: time.Duration(top), Factor: factor, Jitter: j},
			retry.Linear{Base: b, Max: time.Duration(top), Jitter: j},
			retry.Decorrelated{Base: b, Max: time.Duration(top)},
		} {
			d := b.Delay(s)
			if d < 0 || d > limit {
				t.Errorf("%#v.Delay(%+v) = %v, want it in [0, %v]", b, s, d, limit)
			}
			if again := b.Delay(s); again != d {
				t.Errorf("%#v.Delay(%+v) = %v, then %v", b, s, d, again)
			}
			less := s
			less.Rand = random / 2
			if random > 0 && b.Delay(less) > d {
				t.Errorf("%#v.Delay: %v for %v, but %v for %v", b, b.Delay(less), less.Rand, d, random)
			}
		}
		for _, b := range []retry.Backoff{retry.Constant(base), retry.Schedule{b, time.Duration(top)}} {
			if d := b.Delay(s); d < 0 {
				t.Errorf("%#v.Delay(%+v) = %v, want no less than 0", b, s, d)
			}
		}
	})
}

// The edges of jitter's windows, of d = 8 s unless it says otherwise.
func TestJitterWindows(t *testing.T) {
	const d = 8 * time.Second
	wait := func(base time.Duration, factor float64, j retry.Jitter, retryNumber int, random float64) time.Duration {
		return retry.Exponential{Base: base, Max: time.Hour, Factor: factor, Jitter: j}.Delay(retry.Step{Retry: retryNumber, Rand: random})
	}
	for _, tt := range []struct {
		name      string
		j         retry.Jitter
		low, high time.Duration // at the ends of Rand's range
	}{
		{"full", retry.FullJitter, 0, d},
		{"equal", retry.EqualJitter, d / 2, d},
		{"none", retry.NoJitter, d, d},
		{"zero value", retry.Jitter{}, 0, d},
		{"lower half", retry.Jitter{High: .5}, 0, d / 2},
		{"no window", retry.Jitter{Low: .5}, d / 2, d / 2},
		{"around d", retry.PlusMinus(.25), d * 3 / 4, d * 5 / 4},
		{"all around d", retry.PlusMinus(1), 0, 2 * d},
		{"after d", retry.Plus(time.Second), d, d + time.Second},
		{"around d and after it", retry.Jitter{Low: .75, High: 1.25, Plus: d}, d * 3 / 4, d * 9 / 4},
	} {
		if got := wait(d, 2, tt.j, 1, 0); got != tt.low {
			t.Errorf("%s: the least wait is %v, want %v", tt.name, got, tt.low)
		}
		if got := wait(d, 2, tt.j, 1, most); got < tt.high-1 || got > tt.high {
			t.Errorf("%s: the longest wait is %v, want nearly %v", tt.name, got, tt.high)
		}
	}
	if got := wait(d, 1, retry.NoJitter, 5, 0); got != d {
		t.Errorf("Factor 1: the fifth wait is %v, want the first one's %v", got, d)
	}
	if got := wait(1, 2, retry.NoJitter, 1, 0); got != 1 {
		t.Errorf("Base 1ns: the wait is %v, want 1ns", got)
	}
	// 0 · Inf is no number.
	if got := wait(d, 1e-300, retry.Jitter{High: math.Inf(1)}, 3, .5); got != 0 {
		t.Errorf("a delay of 0 in a window without end is %v, want 0", got)
	}
}

// The shortest durations are not taken for defaults, and a Retry of 0 counts as 1.
func TestShortestBackoffs(t *testing.T) {
	for _, tt := range []struct {
		backoff retry.Backoff
		step    retry.Step
		want    time.Duration
	}{
		{retry.Exponential{Base: 1, Jitter: retry.NoJitter}, retry.Step{Retry: 1}, 1},
		{retry.Exponential{Base: 1, Jitter: retry.NoJitter}, retry.Step{Retry: 2}, 2},
		{retry.Exponential{Max: 1, Jitter: retry.NoJitter}, retry.Step{Retry: 1}, 1},
		{retry.Decorrelated{Base: time.Second}, retry.Step{Retry: 0, Rand: .5}, 2 * time.Second},
		{retry.Decorrelated{Base: time.Second}, retry.Step{Retry: 1, Rand: .5}, 2 * time.Second},
	} {
		if got := tt.backoff.Delay(tt.step); got != tt.want {
			t.Errorf("%#v.Delay(%+v) = %v, want %v", tt.backoff, tt.step, got, tt.want)
		}
	}
}
