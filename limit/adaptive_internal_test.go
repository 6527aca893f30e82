package limit

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
)

// FuzzAdaptive has attempts begin and end in any way, on a clock that is set back at times: no place is
// lost or made up, and no number leaves its range.
func FuzzAdaptive(f *testing.F) {
	f.Add(uint64(1), 0, 0, []byte("aaaaaaaabcccccccccccccccaad"))
	f.Add(uint64(2), 3, 20, []byte("aebecedeaebeceda"))
	f.Add(uint64(3), -1, -1, []byte{0, 255, 7, 9, 200})
	f.Fuzz(func(t *testing.T, seed uint64, low, high int, steps []byte) {
		sequence(t, rand.New(rand.NewPCG(seed, 1)), low, high, func(i int) (byte, bool) {
			if i >= min(16*len(steps), 20_000) {
				return 0, false
			}
			return steps[i%len(steps)], true
		})
	})
}

// The same with sequences that are long, and mostly make sense.
func TestAdaptiveKeepsItsNumbersInRange(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 2))
		sequence(t, r, int(seed%4)*3, int(seed%3)*40, func(i int) (byte, bool) {
			b := byte(r.IntN(256))
			switch i / 1000 % 3 { // no answers in the second thousand, slow ones in the third
			case 1:
				b = b&^7 | 4
			case 2:
				b |= 0xe0
			}
			return b, i < 9000
		})
	}
}

// sequence makes of each byte a step.
func sequence(t *testing.T, r *rand.Rand, low, high int, next func(i int) (b byte, ok bool)) {
	l := &Adaptive{Min: low, Max: high}
	clock := clockx.NewVirtual(time.Unix(1e9, 0))
	type attempt struct {
		pass  retry.Pass
		began time.Time
	}
	var all []attempt
	for i := 0; ; i++ {
		b, ok := next(i)
		if !ok {
			break
		}
		clock.Advance(time.Duration(b>>4) * 50 * time.Millisecond)
		var c clockx.Clock = clock
		if b == 77 {
			c = setBack{clock}
		}
		if b&1 == 0 || len(all) == 0 {
			places := l.Places()
			p, err := l.Enter(context.Background(), retry.Entry{Clock: c})
			if refused := err != nil; refused != (len(all) >= places) {
				t.Fatalf("step %d: Enter = %v with %d of %d in flight", i, err, len(all), places)
			}
			if err == nil {
				all = append(all, attempt{p, clock.Now()})
			}
		}
		if n := len(all); b&6 != 0 && n > 0 {
			k := r.IntN(n)
			x := retry.Exit{Ending: []retry.Ending{retry.Returned, retry.Returned, retry.Expired, retry.Returned}[b>>1&3], Took: clock.Now().Sub(all[k].began), Clock: c}
			if x.Allowed = time.Second; b == 99 {
				x.Allowed = time.Duration(r.Int64()) - math.MaxInt64/2
			}
			if b>>1&3 == 3 && b&8 != 0 {
				x.Verdict = retry.Policy{}.Judge(retry.After(ErrLimited, 0))
			}
			l.Leave(all[k].pass, x)
			all[k] = all[n-1]
			all = all[:n-1]
		}
		l.check(t, i, len(all))
	}
	for _, a := range all {
		l.Leave(a.pass, retry.Exit{})
	}
	l.check(t, -1, 0)
}

// check fails if a number is out of its range.
func (l *Adaptive) check(t *testing.T, step, flight int) {
	t.Helper()
	within := func(name string, n, low, high float64) {
		if !(low <= n && n <= high) {
			t.Fatalf("step %d: %s = %v, want %v to %v", step, name, n, low, high)
		}
	}
	within("flight", float64(l.flight), float64(flight), float64(flight))
	if l.places != 0 {
		within("places", float64(l.places), float64(max(l.Min, 1)), 1e6)
	}
	within("peak", float64(l.peak), float64(flight), 1e6)
	within("mean", l.mean, 0, 1)
	within("usual", l.usual, 0, busy)
	within("hung", l.hung, 0, 1)
	within("calm", l.calm, 0, 1e6)
	within("spent", l.window.spent, 0, 1e12)
	within("before", l.before, 0, 1e12)
	within("vain", float64(l.vain), -proof, 1e6)
	within("rest", float64(l.rest), 0, 1e12)
}

// setBack is a clock that somebody has set back by an hour.
type setBack struct{ clockx.Clock }

func (c setBack) Now() time.Time { return c.Clock.Now().Add(-time.Hour) }
