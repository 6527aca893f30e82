package limit

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goretry/retry"
)

// model is a Limit written plainly, from its documentation: no atomic word, and all
// in units of 1/65536 of a place.
type model struct {
	places, least, greatest int64
	flight                  int64
	memory                  int64 // of how many were in flight
	start                   int64
	weight                  int64 // of the timeouts and slow answers
	usual                   time.Duration
	calm                    float64 // attempts in flight
	warned                  bool    // of slow answers
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

// acquire reports whether a place is free, and whether there was a warning.
func (m *model) acquire() (ok, warned bool) {
	if m.flight+1 > m.places/place {
		return false, false
	}
	m.flight++
	if m.flight > m.memory {
		m.memory = m.flight
	}
	return true, m.warned
}

// floor returns what slow answers leave.
func (m *model) floor() int64 {
	if most := int64(2 * m.calm * float64(place)); most > m.least {
		return most
	}
	return m.least
}

// answered learns from an answer, and returns the sign that it is.
func (m *model) answered(sign sign, warned bool, took, allowed time.Duration) sign {
	late := allowed > 0 && took > allowed/6 && took > m.usual+m.usual/4
	if late {
		m.warned = true
	}
	if !late && warned {
		m.warned = false
	}
	light := m.memory <= m.places/place/2
	step := m.usual / 32
	if m.places <= m.floor() {
		step = m.usual / 16
	}
	if m.usual == 0 {
		m.usual = took
	} else if took < m.usual {
		m.usual = max(took, m.usual-3*(m.usual/32))
	} else if light || m.places <= m.floor() {
		m.usual = min(took, m.usual+step)
	}
	if light {
		now := float64(m.flight - 1)
		if took > m.usual {
			now = now * (float64(m.usual) / float64(took))
		}
		m.calm = m.calm + (now-m.calm)/32
	}
	if late && warned && !light {
		return slow
	}
	return sign
}

func (m *model) release(sign sign, warned bool, took, allowed time.Duration) {
	if sign == answer || sign == prompt {
		sign = m.answered(sign, warned, took, allowed)
	}
	busy := 2*m.flight >= m.places/place || m.places < m.start
	least := m.least
	if sign == slow {
		least = m.floor()
		m.weight += 3
		if m.weight > m.places/place {
			m.weight = m.places / place
		}
		sign = answer
		if m.weight*4 > m.places/place {
			sign = overload
		}
	} else if sign == answer && m.weight > 0 {
		m.weight--
	}
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
	if sign == prompt {
		m.weight -= 9
		if most := m.memory; m.weight < -most {
			m.weight = -most
		}
		sign = answer
	}
	switch {
	case sign == overload:
		if fewer := max(m.places-m.places/(2*m.memory), least); fewer < m.places {
			m.places = fewer
		}
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

// step is what a byte makes happen: one of two enters, the others are how an attempt ends.
func step(b byte) (acquire bool, x retry.Exit) {
	switch {
	case b&28 == 28:
		x = retry.Exit{Ending: retry.Expired}
	case b&12 == 12:
		x = retry.Exit{Ending: retry.Returned, Verdict: retry.Verdict{Err: ErrLimited, Class: retry.Throttled}}
	case b&2 != 0:
		x = retry.Exit{Ending: retry.Returned, Took: time.Duration(b & 240), Allowed: 360} // a sixth of it is 60
	}
	return b&1 == 0, x
}

// enter takes a place of l, and reports whether one was free.
func enter(l *Adaptive) (retry.Pass, bool) {
	p, err := l.Enter(context.Background(), retry.Entry{})
	return p, err == nil
}

// compare reports where a Limit and the model differ.
func compare(t *testing.T, l *Adaptive, m *model, after string, i int) {
	t.Helper()
	_ = l.Places()
	s := l.state
	if s.usual != m.usual || s.calm != m.calm || s.slow != m.warned {
		t.Fatalf("after %s %d: usual %v, calm %v, slow %v; want %v, %v, %v", after, i, s.usual, s.calm, s.slow, m.usual, m.calm, m.warned)
	}
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
		l, m := &Adaptive{Start: start, Min: low, Max: high}, newModel(start, low, high)
		var passes []retry.Pass
		for i, b := range steps {
			switch acquire, x := step(b); {
			case acquire:
				p, got := enter(l)
				want, warned := m.acquire()
				if got != want || (p.Round == afterSlow) != warned {
					t.Fatalf("step %d: Enter admits: %v, %+v; want %v, after slow answers %v", i, got, p, want, warned)
				}
				if got {
					passes = append(passes, p)
				}
			case len(passes) > 0: // the oldest ends, or the newest
				p := passes[0]
				if passes = passes[1:]; b&32 != 0 {
					passes = append([]retry.Pass{p}, passes...)
					p = passes[len(passes)-1]
					passes = passes[:len(passes)-1]
				}
				l.Leave(p, x)
				m.release(signOf(x), p.Round == afterSlow, x.Took, x.Allowed)
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
		l, m := &Adaptive{Start: start, Min: low, Max: high}, newModel(start, low, high)
		var passes []retry.Pass
		for i := range 200 {
			acquire, x := step(byte(r.Uint32()))
			times := 1 + r.IntN(64)
			var granted atomic.Int64
			var wg sync.WaitGroup
			if acquire {
				for range times {
					wg.Go(func() {
						if _, ok := enter(l); ok {
							granted.Add(1)
						}
					})
				}
				want := 0
				for range times {
					if ok, _ := m.acquire(); ok {
						want++
					}
				}
				wg.Wait()
				if int(granted.Load()) != want {
					t.Fatalf("round %d: %d of %d got a place, want %d", i, granted.Load(), times, want)
				}
				for range want { // they are all alike
					passes = append(passes, retry.Pass{Round: map[bool]uint64{true: afterSlow}[m.warned]})
				}
			} else {
				// Only those that began alike end together.
				n := 0
				for n < min(times, len(passes)) && passes[n] == passes[0] {
					n++
				}
				for _, p := range passes[:n] {
					wg.Go(func() { l.Leave(p, x) })
					m.release(signOf(x), p.Round == afterSlow, x.Took, x.Allowed)
				}
				wg.Wait()
				passes = passes[n:]
			}
			compare(t, l, m, "round", i)
		}
	}
}
