package pacing_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/goretry/retry/internal/health"
	"github.com/goretry/retry/internal/pacing"
)

// sleepers are the owners of turns, each of whom looks at its turn only when its sleep is over, or Stirred names it.
type sleepers struct {
	*pacing.Pacer
	now     time.Time
	until   map[*pacing.Turn]time.Time // zero: nothing but Stirred wakes it
	started []*pacing.Turn
}

// look has the owner of a turn that waits start, leave or sleep.
func (s *sleepers) look(turn *pacing.Turn) {
	delete(s.until, turn)
	if s.TryStart(s.now, turn) {
		s.started = append(s.started, turn)
	} else if turn.Waits() {
		s.until[turn] = time.Time{}
		if wait, timed := s.Sleep(turn); timed {
			s.until[turn] = s.now.Add(wait)
		}
	}
}

// wake has the one look whom Stirred names, as after each call.
func (s *sleepers) wake() {
	if first := s.Stirred(); first != nil {
		s.look(first)
		s.wake()
	}
}

// Whatever happens, nobody sleeps who may start: Stirred names the first as soon as it may start earlier than its owner knows.
func TestNobodySleepsWhoMayStart(t *testing.T) {
	for _, kind := range []string{"open", "known", "stated", "shared", "alone"} {
		r := rand.New(rand.NewPCG(3, 4))
		s := sleepers{Pacer: new(pacing.Pacer), now: epoch, until: map[*pacing.Turn]time.Time{}}
		if kind == "known" || kind == "shared" || kind == "alone" {
			s.Know(s.now, 20, 3)
		}
		if kind == "shared" || kind == "alone" {
			s.Join(s.now)
		}
		var store pacing.State
		for range 10_000 {
			s.now = s.now.Add(time.Duration(r.IntN(10)) * ms)
			switch x := r.IntN(100); {
			case x < 30 && s.Len() < 50:
				turn := &pacing.Turn{Bill: &pacing.Bill{Cost: math.Ceil(3 * r.Float64())}}
				patience := []time.Duration{time.Second, 3 * time.Second, time.Minute, pacing.Never}[r.IntN(4)]
				if wait, ok := s.Enter(s.now, turn, patience); ok && wait > 0 {
					s.look(turn)
				} else if ok {
					s.started = append(s.started, turn)
				}
			case x < 50 && len(s.started) > 0:
				turn := s.started[0]
				s.started = s.started[1:]
				if r.IntN(10) == 0 {
					s.Return(turn, r.IntN(2) == 0)
					break
				}
				turn.Bill.Say(4 * r.Float64())
				s.End(s.now, turn, health.Outcome(r.IntN(3)), time.Duration(r.IntN(3))*100*ms, r.IntN(2) == 0)
			case x < 55:
				for turn := range s.until {
					delete(s.until, turn)
					s.Leave(turn)
					break
				}
			case x == 55:
				s.Hold(s.now, time.Duration(r.IntN(300))*ms)
			case x == 56 && kind == "stated":
				s.Tell(s.now, pacing.Stated{Rate: 1 + 50*r.Float64(), Burst: 10, Remaining: float64(r.IntN(10))}, 1, 0)
			case x == 57 && kind == "alone":
				s.Alone(s.now)
			}
			s.wake()
			if a, due, _ := s.Ask(s.now); due && (kind == "shared" || r.IntN(20) == 0) {
				for _, turn := range s.Answered(s.now, a, store.Reserve(float64(s.now.UnixMicro())/1e6, a)) {
					s.look(turn)
				}
			}
			s.wake()
			for turn, until := range s.until {
				if !until.IsZero() && !until.After(s.now) {
					s.look(turn)
				}
			}
			s.wake()
			if first := s.First(); first != nil && s.TryStart(s.now, first) {
				until := s.until[first]
				if until.IsZero() || until.Sub(s.now) > time.Microsecond { // sums are rounded
					t.Fatalf("%s, after %v: the first could start, but sleeps until %v", kind, s.now.Sub(epoch), until.Sub(epoch))
				}
				s.started = append(s.started, first)
				delete(s.until, first)
				s.wake()
			}
		}
		if n := len(s.until); n != s.Len() {
			t.Errorf("%s: %d sleep, and %d wait", kind, n, s.Len())
		}
	}
}
