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

// Moments of the distributions, and shares beyond a few points.
func TestDistributions(t *testing.T) {
	const n = 2_000_000
	for name, tt := range map[string]struct {
		draw    func(*rand.Rand) float64
		moments [4]float64
		above   map[float64]float64
	}{
		"exponential": {exponential, [4]float64{1, 2, 6, 24}, map[float64]float64{.1: .904837, 1: .367879, 3: .049787}},
		"normal":      {normal, [4]float64{0, 1, 0, 3}, map[float64]float64{-1: .841345, 0: .5, .5: .308538, 2: .02275}},
	} {
		r := rand.New(rand.NewPCG(1, 2))
		var sums [4]float64
		above := map[float64]int{}
		for range n {
			x := tt.draw(r)
			for i, p := 0, x; i < 4; i, p = i+1, p*x {
				sums[i] += p / n
			}
			for limit := range tt.above {
				if x > limit {
					above[limit]++
				}
			}
		}
		for i, want := range tt.moments {
			if math.Abs(sums[i]-want) > .01*math.Pow(2.4, float64(i))*max(want/6, 1) {
				t.Errorf("%s: moment %d is %.4f, want %v", name, i+1, sums[i], want)
			}
		}
		for limit, want := range tt.above {
			if got := float64(above[limit]) / n; math.Abs(got-want) > 4*math.Sqrt(want*(1-want)/n) {
				t.Errorf("%s: %.5f are above %v, want %.5f", name, got, limit, want)
			}
		}
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
