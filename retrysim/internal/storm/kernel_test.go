package storm

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Events come by time, and of the same time by age, whatever is scheduled while
// they are taken.
func TestEventsComeInOrder(t *testing.T) {
	spans := []time.Duration{1, 2, 100, 10_000, time.Millisecond, time.Second, time.Hour, math.MaxInt64}
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		k := newKernel(0)
		type due struct {
			at  time.Duration
			age int
		}
		var want, got []due
		schedule := func() {
			d := time.Duration(r.Int64N(int64(spans[r.IntN(len(spans))])))
			if d > math.MaxInt64-k.now {
				k.schedule(d, 1, -1, 0) // never
				return
			}
			want = append(want, due{k.now + d, len(want)})
			k.schedule(d, kind(len(want)%9), int32(len(want)-1), 0)
		}
		for range 3000 {
			schedule()
		}
		for e, ok := k.next(); ok; e, ok = k.next() {
			if e.at != k.now || int(e.kind()) != (int(e.index)+1)%9 {
				t.Fatalf("event %+v at %v", e, k.now)
			}
			got = append(got, due{e.at, int(e.index)})
			if r.IntN(4) > 0 {
				schedule()
			}
		}
		slices.SortStableFunc(want, func(a, b due) int { return cmp.Compare(a.at, b.at) })
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: events out of order", seed)
		}
		if last := want[len(want)-1].at; last < math.MaxInt64/2 {
			t.Errorf("the last event is at %v: the test does not reach the end of time", last)
		}
	}
}

// Events that happen now and schedule others that happen now do not pile up.
func TestAnInstantTakesBoundedMemory(t *testing.T) {
	k := newKernel(0)
	for range 1000 {
		k.schedule(time.Second, 0, 0, 0)
	}
	for i := range int32(1_000_000) {
		if e, ok := k.next(); !ok || e.index != max(i-999, 0) {
			t.Fatalf("event %d is %+v", i, e)
		}
		k.schedule(0, 0, i+1, 0)
	}
	if n := cap(k.levels[0]); n > 10_000 {
		t.Errorf("the queue has room for %d events, want at most ten times the 1000 that are due", n)
	}
}

func TestTimesSaturates(t *testing.T) {
	for _, tt := range []struct {
		d    time.Duration
		x    float64
		want time.Duration
	}{{time.Second, 1.5, 1500 * time.Millisecond}, {time.Second, 0, 0}, {time.Hour, 1e300, math.MaxInt64}, {time.Second, math.Inf(1), math.MaxInt64}, {-time.Second, .5, -time.Second / 2}} {
		if got := times(tt.d, tt.x); got != tt.want {
			t.Errorf("times(%v, %v) = %v, want %v", tt.d, tt.x, got, tt.want)
		}
	}
}
