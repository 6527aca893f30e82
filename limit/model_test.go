package limit

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/goretry/retry"
)

// model is a Limit written plainly, from its documentation: no atomic word, and all
// in units of 1/65536 of a place.
type model struct {
	places, least, greatest int64
	flight                  int64
	memory                  int64 // of how many were in flight
	start                   int64
	weight                  int64 // of the timeouts
}

const place int64 = 65536

func newModel(start, low, high int) *model {
	whole := func(n, zero int) int64 {
		if n == 0 {
			n = zero
		}
		if n < 1 {
			n = 1
		}
		if n > 65535 {
			n = 65535
		}
		return int64(n) * place
	}
	m := &model{places: whole(start, 20), least: whole(low, 1), greatest: whole(high, 1000)}
	if m.greatest < m.least {
		m.greatest = m.least
	}
	m.clamp()
	m.start = m.places
	return m
}

func (m *model) clamp() {
	if m.places > m.greatest {
		m.places = m.greatest
	}
	if m.places < m.least {
		m.places = m.least
	}
}

func (m *model) acquire() bool {
	if m.flight+1 > m.places/place {
		return false
	}
	m.flight++
	if m.flight > m.memory {
		m.memory = m.flight
	}
	return true
}

func (m *model) release(sign sign) {
	busy := 2*m.flight >= m.places/place || m.places < m.start
	if sign == timeout {
		m.weight += 3
		if m.weight > m.places/place {
			m.weight = m.places / place
		}
		sign = noSign
		if m.weight*4 > m.places/place {
			sign = overload
		}
	}
	if sign == answer && m.weight > 0 {
		m.weight--
	}
	if sign == prompt {
		m.weight -= 9
		if most := m.memory; m.weight < -most {
			m.weight = -most
		}
		sign = answer
	}
	switch {
	case sign == overload:
		m.places -= m.places / (2 * m.memory)
		m.clamp()
		if whole := m.places / place; m.memory > whole {
			m.memory = whole
		}
	case sign == answer && busy:
		m.places += place * place / m.places
		m.clamp()
		m.memory--
	default:
		m.memory--
	}
	m.flight--
}

// step is what a byte makes happen: one of two enters.
func step(b byte) (acquire bool, sign sign) {
	switch {
	case b&28 == 28:
		sign = timeout
	case b&12 == 12:
		sign = overload
	case b&18 == 18:
		sign = prompt
	case b&2 != 0:
		sign = answer
	}
	return b&1 == 0, sign
}

// exits has an Exit for each sign.
var exits = map[sign]retry.Exit{
	noSign:   {Ending: retry.NotMade},
	answer:   {Ending: retry.Returned},
	prompt:   {Ending: retry.Returned, Took: 1, Allowed: 2},
	overload: {Ending: retry.Returned, Verdict: retry.Verdict{Err: ErrLimited, Class: retry.Throttled}},
	timeout:  {Ending: retry.Expired},
}

// enter takes a place of l, and reports whether one was free.
func enter(l *Limit) bool {
	_, err := l.Enter(context.Background(), retry.Entry{})
	return err == nil
}

// compare reports where a Limit and the model differ.
func compare(t *testing.T, l *Limit, m *model, after string, i int) {
	t.Helper()
	_ = l.Places()
	s := l.state
	if s.late != m.weight {
		t.Fatalf("after %s %d: late %d, want %d", after, i, s.late, m.weight)
	}
	if s.recent != uint64(m.memory) || s.flight != uint64(m.flight) || s.places != uint64(m.places) {
		t.Fatalf("after %s %d: places %d/65536, recent %d, in flight %d; want %d, %d, %d",
			after, i, s.places, s.recent, s.flight, m.places, m.memory, m.flight)
	}
	if s.flight > s.recent || s.flight > s.places/uint64(place) {
		t.Fatalf("after %s %d: %d in flight, more than the recent %d or the places %d/65536", after, i, s.flight, s.recent, s.places)
	}
	if s.places < uint64(m.least) || s.places > uint64(m.greatest) {
		t.Fatalf("after %s %d: places %d/65536 is not within %d and %d", after, i, s.places, m.least, m.greatest)
	}
}

func FuzzModel(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 13, 13, 3, 1}, 10, 0, 0)
	f.Add([]byte("\x00\x00\x00\x00\x1d\x1d\x03\x1d\x03\x03\x00\x00\x1d\x03\x00\x03\x00\x1d"), 30, 0, 0)
	f.Add([]byte{0, 13, 0, 13, 0, 13, 0, 3, 0, 3}, -1, 2, 3)
	f.Add([]byte("acegikmoqsuwy{}acegacegacegbdfhbdfh"), 65535, 65534, math.MaxInt)
	f.Fuzz(func(t *testing.T, steps []byte, start, low, high int) {
		l, m := &Limit{Start: start, Min: low, Max: high}, newModel(start, low, high)
		for i, b := range steps {
			acquire, sign := step(b)
			switch {
			case acquire:
				if got, want := enter(l), m.acquire(); got != want {
					t.Fatalf("step %d: Enter admits: %v, want %v", i, got, want)
				}
			case m.flight > 0:
				l.Leave(retry.Pass{}, exits[sign])
				m.release(sign)
			}
			compare(t, l, m, "step", i)
		}
	})
}

// Goroutines do the same thing at once, as often as there are of them. In which order
// they get there makes no difference, so the model knows the outcome.
func TestModelUnderContention(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		start, low, high := r.IntN(200), r.IntN(20), r.IntN(300)
		l, m := &Limit{Start: start, Min: low, Max: high}, newModel(start, low, high)
		for i := range 200 {
			acquire, sign := step(byte(r.Uint32()))
			times := 1 + r.IntN(64)
			var granted atomic.Int64
			do := func() {
				if enter(l) {
					granted.Add(1)
				}
			}
			want := 0
			if !acquire {
				times = min(times, int(m.flight))
				do = func() { l.Leave(retry.Pass{}, exits[sign]) }
			}
			for range times {
				if !acquire {
					m.release(sign)
				} else if m.acquire() {
					want++
				}
			}
			var wg sync.WaitGroup
			for range times {
				wg.Go(do)
			}
			wg.Wait()
			if int(granted.Load()) != want {
				t.Fatalf("round %d: %d of %d got a place, want %d", i, granted.Load(), times, want)
			}
			compare(t, l, m, "round", i)
		}
	}
}
