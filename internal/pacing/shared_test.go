package pacing_test

import (
	"testing"
	"time"

	"github.com/goretry/retry/internal/health"
	"github.com/goretry/retry/internal/pacing"
)

// member is a Pacer of a fleet whose store is a State.
type member struct {
	*pacing.Pacer
	now   time.Time
	store *pacing.State
}

// joined returns a member that the store has answered, a second ago.
func joined(rate, burst float64, store *pacing.State) *member {
	p, now := told(rate, burst)
	p.Join(now)
	m := &member{p, now, store}
	m.ask()
	m.sleep(time.Second)
	return m
}

func (m *member) sleep(d time.Duration) { m.now = m.now.Add(d) }

// other is an Ask of another member of a fleet that has ten in a second.
func (m *member) other(a pacing.Ask) pacing.Slots {
	a.Rate, a.Burst = 10, 1
	return m.store.Reserve(float64(m.now.UnixMicro())/1e6, a)
}

// ask asks the store if anything is due.
func (m *member) ask() (a pacing.Ask) {
	m.sleep(10 * ms)
	a, due, _ := m.Ask(m.now)
	if due {
		m.Answered(m.now, a, m.store.Reserve(float64(m.now.UnixMicro())/1e6, a))
	}
	return a
}

// row has so many attempts throttled in as many seconds.
func (m *member) row(n int, hint time.Duration) {
	for range n {
		m.sleep(time.Second)
		turn := new(pacing.Turn)
		m.Enter(m.now, turn, time.Hour)
		if m.ask(); m.TryStart(m.now, turn) {
			m.End(m.now, turn, health.Failed, hint, false)
		} else {
			m.Leave(turn)
		}
	}
}

// That others have passed says nothing of the rows that follow.
func TestARowAfterOneThatOthersPassed(t *testing.T) {
	m := joined(10, 1, new(pacing.State))
	m.row(6, 9*time.Second)
	m.other(pacing.Ask{Passed: .5})
	m.ask()
	if w := m.Wait(m.now); w > time.Second {
		t.Fatalf("another member passes, and the next waits %v", w)
	}
	m.sleep(time.Second)
	m.row(6, 9*time.Second)
	m.ask()
	if w := m.Wait(m.now); w < 8*time.Second {
		t.Errorf("nobody has passed for six seconds, and the next waits %v", w)
	}
}

// A hold that the store has refused keeps no other from it, not even one that ends before.
func TestAHoldAfterARowThatOthersPassed(t *testing.T) {
	m := joined(10, 1, new(pacing.State))
	m.row(6, time.Minute)
	m.other(pacing.Ask{Passed: .5})
	m.ask()
	m.sleep(time.Second)
	moved := m.store.Moved
	m.Hold(m.now, 30*time.Second)
	if a := m.ask(); m.store.Moved-moved < 29 {
		t.Errorf("the server asks for 30 s, the store %+v, and it has held all for %v s", a, m.store.Moved-moved)
	}
}

// After a hold that the store knows already one attempt decides, too.
func TestAHoldOfARowThatTheStoreKnows(t *testing.T) {
	m := joined(10, 1, new(pacing.State))
	slow := new(pacing.Turn)
	m.Enter(m.now, slow, time.Hour)
	if m.ask(); !m.TryStart(m.now, slow) {
		t.Fatal("it does not start")
	}
	m.row(5, 30*time.Second)
	m.other(pacing.Ask{Hold: 60, Row: 5})
	m.News()
	m.ask()
	m.End(m.now, slow, health.Failed, 30*time.Second, false) // the sixth
	if a := m.ask(); a.Hold == 0 {
		t.Fatalf("it asks %+v, want a hold", a)
	}
	m.sleep(61 * time.Second)
	turns := []*pacing.Turn{{}, {}}
	for _, turn := range turns {
		m.Enter(m.now, turn, time.Hour)
	}
	m.ask()
	m.sleep(100 * ms)
	if !m.TryStart(m.now, turns[0]) || m.TryStart(m.now, turns[1]) {
		t.Error("not one attempt decides after the hold")
	}
}

// A dear attempt that comes too late ends none whose slots are there in time.
func TestWhoHasASlotIsNotTooLate(t *testing.T) {
	for _, patience := range []time.Duration{1800 * ms, 8 * time.Second} {
		m := joined(10, 1, new(pacing.State))
		m.other(pacing.Ask{Want: 9, Least: 9, Patience: 100})
		var cheap []*pacing.Turn
		for range 3 {
			turn := new(pacing.Turn)
			m.Enter(m.now, turn, patience)
			cheap = append(cheap, turn)
		}
		m.ask()
		m.other(pacing.Ask{Want: 400, Least: 400, Patience: 100})
		dear := costing(5)
		m.Enter(m.now, dear, patience-100*ms)
		m.ask()
		if dear.Waits() {
			t.Fatalf("patience %v: the dear one waits", patience)
		}
		for i, turn := range cheap {
			if !turn.Waits() {
				t.Errorf("patience %v: cheap attempt %d ends, late by %v", patience, i, turn.Late)
			}
		}
	}
}

// But the slot of the first is not that of an urgent one behind it.
func TestTheSlotOfTheFirstIsNotThatOfTheNext(t *testing.T) {
	m := joined(10, 1, new(pacing.State))
	for range 4 { // the fifth turn is that of who came first
		turn := new(pacing.Turn)
		m.Enter(m.now, turn, time.Hour)
		if m.ask(); !m.TryStart(m.now, turn) {
			t.Fatal("it does not start")
		}
		m.sleep(time.Second)
	}
	m.other(pacing.Ask{Want: 9, Least: 9, Patience: 100})
	first, urgent := new(pacing.Turn), new(pacing.Turn)
	m.Enter(m.now, first, time.Hour)
	m.ask()
	m.other(pacing.Ask{Want: 400, Least: 400, Patience: 100})
	for range 4 { // ahead, as every fifth may be
		m.other(pacing.Ask{Want: 1, Least: 1, Patience: 1.9})
	}
	m.Enter(m.now, urgent, 1500*ms)
	if a := m.ask(); m.First() != first || urgent.Waits() || a.Least != 1 {
		t.Errorf("the store has no slot for the urgent one, and it waits: %v; asked %+v", urgent.Waits(), a)
	}
}

// A member that the store does not answer asks it for no slots: they would be lost, and others would miss them.
func TestWhoIsAloneAsksForNoSlots(t *testing.T) {
	m := joined(10, 1, new(pacing.State))
	m.Alone(m.now)
	m.Enter(m.now, costing(20), time.Hour)
	m.sleep(2 * time.Second)
	a, due, _ := m.Ask(m.now)
	if !due || a.Want != 0 {
		t.Errorf("alone it asks %+v, %v", a, due)
	}
	m.Answered(m.now, a, pacing.Slots{})
	if a := m.ask(); a.Least != 20 {
		t.Errorf("when the store answers again it asks %+v", a)
	}
}

// The own rate is that of what was sent: also before Join, but without turns that came back.
func TestWhatTheOwnRateCounts(t *testing.T) {
	for _, sent := range []bool{true, false} {
		p, now := told(100, 1)
		for range 6000 { // a minute
			now = now.Add(10 * ms)
			turn := new(pacing.Turn)
			if wait, _ := p.Enter(now, turn, time.Hour); wait > 0 {
				t.Fatalf("it waits %v", wait)
			}
			if !sent {
				p.Return(turn, true)
			}
		}
		p.Join(now)
		now = now.Add(500 * ms)
		p.Alone(now)
		if rate := p.Rate(now); sent && rate < 95 || !sent && rate > 1 {
			t.Errorf("a hundred in a second, sent %v: the own rate is %v", sent, rate)
		}
	}
}
