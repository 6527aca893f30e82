package pacing_test

import (
	"math"
	"testing"
	"time"

	"github.com/goretry/retry/internal/health"
	"github.com/goretry/retry/internal/pacing"
)

// attempt starts an attempt, which ends at once as the outcome says. It reports whether it could start.
func (p *pace) attempt(outcome health.Outcome, hint time.Duration) bool {
	turn := new(pacing.Turn)
	if wait, ok := p.Enter(p.now, turn, 0); !ok || wait > 0 {
		return false
	}
	p.End(p.now, turn, outcome, hint, false)
	return true
}

// row makes attempts that are throttled, so many, and so far apart.
func (p *pace) row(n int, apart, hint time.Duration) {
	for i := range n {
		if i > 0 {
			p.sleep(apart)
		}
		p.attempt(health.Failed, hint)
	}
}

// Nobody is held unless nobody passes: six attempts in a row are throttled, the first at least two seconds before
// the last.
func TestWhatHolds(t *testing.T) {
	const second = time.Second
	for _, tt := range []struct {
		what string
		do   func(p *pace)
		wait time.Duration
	}{
		{"five", func(p *pace) { p.row(5, second, 9*second) }, 0},
		{"six", func(p *pace) { p.row(6, 400*ms, 9*second) }, 9 * second},
		{"six in less than two seconds", func(p *pace) { p.row(6, 399*ms, 9*second) }, 0},
		{"a hundred at once", func(p *pace) { p.row(100, 0, 9*second) }, 0},
		{"a hundred at once, and one", func(p *pace) { p.row(100, 0, 9*second); p.sleep(2 * second); p.row(1, 0, 9*second) }, 9 * second},
		{"one has passed", func(p *pace) {
			p.row(5, second, 9*second)
			p.attempt(health.Passed, 0)
			p.row(5, second, 9*second)
		}, 0},
		{"of one nobody knows", func(p *pace) {
			p.row(5, second, 9*second)
			p.attempt(health.Nothing, 0)
			p.row(1, 0, 9*second)
		}, 9 * second},
		{"an hour apart", func(p *pace) { p.row(6, time.Hour, 9*second) }, 9 * second},
		{"no hint", func(p *pace) { p.row(6, second, 0) }, second},
		{"a day", func(p *pace) { p.row(6, second, 24*time.Hour) }, 75 * second},
	} {
		for _, told := range []bool{false, true} {
			p := start()
			if told {
				p.Tell(p.now, pacing.Stated{Rate: 1000, Burst: 1e6, Remaining: 1e6}, 0, 0)
			} else {
				p.Know(p.now, 1000, 1e6)
			}
			tt.do(p)
			if w := p.Wait(p.now); w != tt.wait {
				t.Errorf("%s, stated %v: the next waits %v, want %v", tt.what, told, w, tt.wait)
			}
		}
	}
}

// What has started before a hold says nothing about what follows it, but a longer hint counts.
func TestWhatIsUnderWayDuringAHold(t *testing.T) {
	p := start()
	p.Know(p.now, 1000, 1e6)
	early := []*pacing.Turn{p.enter(0, 0), p.enter(0, 0), p.enter(0, 0)}
	p.row(6, 400*ms, 9*time.Second)
	p.End(p.now, early[0], health.Passed, 0, false)
	if w := p.Wait(p.now); w != 9*time.Second {
		t.Errorf("after one that had started before has passed, the next waits %v", w)
	}
	p.End(p.now, early[1], health.Failed, 5*time.Second, false)
	if w := p.Wait(p.now); w != 9*time.Second {
		t.Errorf("after a shorter hint the next waits %v", w)
	}
	p.End(p.now, early[2], health.Failed, 30*time.Second, false)
	if w := p.Wait(p.now); w != 30*time.Second {
		t.Errorf("after a longer hint the next waits %v", w)
	}
}

// After a hold one attempt decides: if it is throttled, the next hold follows, twice as long if the server does not say
// how long, and if it passes, all start.
func TestOneAttemptDecides(t *testing.T) {
	p := start()
	p.Know(p.now, 1000, 1e6)
	p.row(6, 400*ms, 0)
	for _, hold := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		hold *= time.Second
		if w := p.Wait(p.now); w != hold {
			t.Fatalf("the next waits %v, want %v", w, hold)
		}
		p.sleep(hold)
		probe, second := p.enter(1, 0), p.enter(2, 0)
		if probe.Waits() || !second.Waits() {
			t.Fatalf("after %v the first waits: %v, the second waits: %v", hold, probe.Waits(), second.Waits())
		}
		p.sleep(100 * ms)
		p.End(p.now, probe, health.Failed, 0, false)
		p.Leave(second)
	}
	p.sleep(time.Minute)
	probe, second := p.enter(1, 0), p.enter(2, 0)
	p.Stirred()
	p.sleep(time.Second)
	p.End(p.now, probe, health.Passed, 0, false)
	if p.Stirred() != second {
		t.Error("nobody wakes the second")
	}
	if !p.TryStart(p.now, second) || p.Wait(p.now) != 0 {
		t.Error("not all start")
	}
	p.row(6, 400*ms, 0)
	if w := p.Wait(p.now); w != time.Second {
		t.Errorf("the first hold of another row: %v", w)
	}
}

// One that decides and was not made, or of which nobody knows, leaves that to the next. If it hangs, another one decides.
func TestAnAttemptThatDecidesNothing(t *testing.T) {
	p := start()
	p.Know(p.now, 1000, 1e6)
	p.row(6, 400*ms, 10*time.Second)
	p.sleep(10 * time.Second)
	probe, second := p.enter(1, 0), p.enter(2, 0)
	p.Return(probe, false)
	if !p.TryStart(p.now, second) {
		t.Error("the second does not start after the first was not made")
	}
	p.End(p.now, second, health.Nothing, 0, false)
	third, fourth := p.enter(3, 0), p.enter(4, 0)
	if third.Waits() || !fourth.Waits() {
		t.Error("the third waits, or the fourth does not")
	}
	wait, timed := p.Sleep(fourth)
	if !timed || wait != 2*time.Second {
		t.Errorf("it sleeps %v, %v", wait, timed)
	}
	p.sleep(wait)
	if !p.TryStart(p.now, fourth) {
		t.Error("nobody starts though the third hangs")
	}
	p.End(p.now, fourth, health.Passed, 0, false)
	if p.Wait(p.now) != 0 {
		t.Error("not all start")
	}

	p.row(6, 400*ms, 10*time.Second)
	p.sleep(10 * time.Second)
	p.End(p.now, p.enter(5, 0), health.Nothing, 24*time.Hour, false) // a 503 with a Retry-After
	if wait := p.Wait(p.now); wait != 75*time.Second {
		t.Errorf("after one that decides nothing, whose server asks for a day, the next waits %v", wait)
	}
}

// Who waits for another attempt, of which nobody knows when it ends, does so until half of its time is over.
func TestPatienceWhileOneDecides(t *testing.T) {
	p := start()
	p.Know(p.now, 1000, 1e6)
	p.row(6, 400*ms, 30*time.Second)
	p.sleep(30 * time.Second)
	p.enter(1, 0)
	turn := new(pacing.Turn)
	if wait, ok := p.Enter(p.now, turn, time.Second); !ok || wait > time.Second {
		t.Fatalf("%v, %v", wait, ok)
	}
	wait, timed := p.Sleep(turn)
	if !timed || wait != time.Second {
		t.Errorf("it sleeps %v, %v", wait, timed)
	}
	p.sleep(wait)
	if p.TryStart(p.now, turn) || turn.Waits() || turn.Late != time.Second {
		t.Errorf("it waits: %v, too late by %v", turn.Waits(), turn.Late)
	}
}

// A process reports a hold to the store with the time since its row began, and when it passed last.
func TestHoldsOfAFleet(t *testing.T) {
	p := start()
	p.Know(p.now, 10, 1)
	p.Join(p.now)
	p.Answered(p.now, pacing.Ask{Rate: 10}, pacing.Slots{})
	attempt := func(outcome health.Outcome, hint time.Duration) pacing.Ask {
		t.Helper()
		turn := new(pacing.Turn)
		p.Enter(p.now, turn, time.Hour)
		a, due, _ := p.Ask(p.now)
		if !due {
			t.Fatal("nothing to ask")
		}
		p.Answered(p.now, a, pacing.Slots{N: a.Want})
		if !p.TryStart(p.now, turn) {
			t.Fatal("it does not start")
		}
		p.End(p.now, turn, outcome, hint, false)
		return a
	}
	attempt(health.Passed, 0)
	p.sleep(time.Second)
	if a := attempt(health.Failed, 9*time.Second); a.Passed != 1 || a.Hold != 0 {
		t.Errorf("a second after one has passed: %+v", a)
	}
	for range 5 {
		p.sleep(time.Second)
		if a := attempt(health.Failed, 9*time.Second); a.Passed != 0 || a.Hold != 0 {
			t.Errorf("in the row: %+v", a)
		}
	}
	p.sleep(time.Second)
	a, due, _ := p.Ask(p.now)
	if !due || a.Hold != 8 || a.Row != 6 || a.Want != 0 {
		t.Errorf("after the row: %+v, %v; want a hold of the 8 s that are left, for a row of 6 s", a, due)
	}
	if w := p.Wait(p.now); w < 8*time.Second {
		t.Errorf("the next waits %v", w)
	}
	p.Answered(p.now, a, pacing.Slots{Moved: 0})
	if w := p.Wait(p.now); w > time.Second {
		t.Errorf("others pass, so the store holds nobody, and the next waits %v", w)
	}
	p.sleep(time.Second)
	if a, due, _ := p.Ask(p.now); due {
		t.Errorf("it asks again: %+v", a)
	}
}

// The time that a timer is late is made up for, up to ten milliseconds, and not without one that waits.
func TestLateTimers(t *testing.T) {
	for _, burst := range []float64{1, 20} {
		for _, rate := range []float64{50, 99, 100, 1000, 5000} {
			for _, late := range []time.Duration{0, 60 * time.Microsecond, time.Millisecond, 8 * time.Millisecond, 50 * time.Millisecond} {
				p := start()
				p.Know(p.now, rate, burst)
				for range int(burst) + 100 {
					p.enter(0, 0)
				}
				for p.now.Sub(epoch) < time.Second {
					if t := p.First(); p.TryStart(p.now, t) {
						p.note(t)
						p.enter(0, 0)
						continue
					}
					wait, _ := p.Sleep(p.First())
					p.sleep(wait + late)
				}
				used := (float64(len(p.started)) - burst) / rate
				least := .97
				switch {
				case late > 10*time.Millisecond:
					least = min(.01, burst/rate) / .06 / 1.2 // what ten milliseconds of lateness make up for
				case rate < 100 && burst == 1:
					least = 1 / (1 + late.Seconds()*rate) * .97
				}
				if used < least || used > 1.01+1/rate {
					t.Errorf("a burst of %v, %v in a second, timers %v late: %.3f of the quota is used, want %.2f", burst, rate, late, used, least)
				}
			}
		}
	}
	p := pacedAt(1000)
	p.sleep(time.Hour)
	if n := len(waits(&p.Pacer, p.now, 5, 0)); n != 5 || p.Len() != 4 {
		t.Errorf("after an hour %d of five wait, want four", p.Len())
	}
}

// What an attempt has cost is paid at its end, and what it has cost less is given back.
func TestCostsThatAreKnownAfterwards(t *testing.T) {
	for _, tt := range []struct {
		said    float64 // 0: nothing
		settles bool
		want    time.Duration // until the next unit
	}{
		{0, true, 10 * time.Second}, {50, true, 0}, {100, true, 10 * time.Second}, {150, true, 15 * time.Second}, {150, false, 10 * time.Second}, {-1, true, 10 * time.Second},
	} {
		p := start()
		p.Know(p.now, 10, 1)
		bill := &pacing.Bill{Cost: 100}
		turn := &pacing.Turn{Bill: bill}
		p.Enter(p.now, turn, 0)
		if tt.said != 0 {
			bill.Say(7)
			bill.Say(tt.said)
		}
		p.End(p.now, turn, health.Passed, 0, tt.settles)
		if w := p.Wait(p.now).Truncate(time.Second); w != max(tt.want, 5*time.Second) && tt.said == 50 || w != tt.want && tt.said != 50 {
			t.Errorf("%+v: the next waits %v", tt, w)
		}
		next := &pacing.Turn{Bill: bill} // nothing was said of it
		p.sleep(time.Hour)
		p.Enter(p.now, next, 0)
		p.End(p.now, next, health.Passed, 0, true)
		if w := p.Wait(p.now).Truncate(time.Second); w != 10*time.Second {
			t.Errorf("%+v: after the next attempt %v", tt, w)
		}
	}
}

// Through a store what was spent is told with the next Ask.
func TestCostsThatAreKnownAfterwardsOfAFleet(t *testing.T) {
	p := start()
	p.Know(p.now, 10, 1)
	p.Join(p.now)
	p.Answered(p.now, pacing.Ask{Rate: 10}, pacing.Slots{})
	for _, said := range []float64{30, 150, 0} {
		bill := &pacing.Bill{Cost: 100}
		turn := &pacing.Turn{Bill: bill}
		p.sleep(time.Minute)
		p.Enter(p.now, turn, time.Hour)
		a, _, _ := p.Ask(p.now)
		p.Answered(p.now, a, pacing.Slots{N: 100, Wait: -10})
		if !p.TryStart(p.now, turn) {
			t.Fatal("it does not start")
		}
		p.sleep(time.Second)
		p.News()
		a, _, _ = p.Ask(p.now)
		bill.Say(said)
		p.End(p.now, turn, health.Passed, 0, true) // while the store is asked
		p.Answered(p.now, a, pacing.Slots{})
		p.sleep(time.Second)
		if a, due, _ := p.Ask(p.now); !due || a.Spent != said-100 {
			t.Errorf("%v of 100: %+v, %v", said, a, due)
		} else {
			p.Answered(p.now, a, pacing.Slots{})
		}
	}
}

// A hold is kept at once, and whatever becomes of the store that is told of it.
func TestAHoldOfASharedPacerIsKept(t *testing.T) {
	accept := func(p *pacing.Pacer, now time.Time) {
		a, due, _ := p.Ask(now)
		if !due || a.Hold == 0 {
			t.Fatalf("the store is asked %+v, %v, want to hear of the hold", a, due)
		}
		p.Answered(now, a, pacing.Slots{Moved: a.Hold})
	}
	for name, then := range map[string]func(*pacing.Pacer, time.Time){
		"no answer yet":            func(*pacing.Pacer, time.Time) {},
		"the store takes it":       accept,
		"and then does not answer": func(p *pacing.Pacer, now time.Time) { accept(p, now); p.Alone(now) },
		"and then Share ends":      func(p *pacing.Pacer, now time.Time) { accept(p, now); p.Part(now) },
	} {
		p, now, turn := reserved()
		p.Hold(now, time.Minute)
		then(p, now.Add(60*time.Millisecond))
		if p.TryStart(now.Add(time.Minute-1), turn) {
			t.Errorf("%s: an attempt starts in the hold", name)
		}
	}
	p, now, _ := reserved()
	p.Hold(now, time.Minute)
	if a, tells := p.Part(now.Add(time.Second)); !tells || a.Hold != 59 {
		t.Errorf("Part tells %v %+v, want what is left of the hold", tells, a)
	}
}

// A store that was away when a hold began hears of it when it is back.
func TestAHoldWhileTheStoreIsAway(t *testing.T) {
	for _, before := range []bool{false, true} {
		p, now, _ := reserved()
		if before {
			p.Hold(now, time.Minute)
			p.Ask(now.Add(60 * ms))
		}
		p.Alone(now.Add(500 * ms))
		if !before {
			p.Hold(now.Add(time.Second), 59*time.Second)
		}
		if a, due, _ := p.Ask(now.Add(2 * time.Second)); !due || a.Hold != 58 {
			t.Errorf("the hold began before it went: %v; it is asked %+v, %v, want a hold of 58 s", before, a, due)
		}
	}
}

// A server may ask for a hold with a success, which is told to the store with that hold.
func TestAHoldThatASuccessAsksFor(t *testing.T) {
	p, now := told(10, 1)
	p.Join(now)
	var store pacing.State
	ask := func() {
		a, _, _ := p.Ask(now)
		p.Answered(now, a, store.Reserve(float64(now.UnixMicro())/1e6, a))
	}
	ask()
	now = now.Add(time.Second)
	turn := new(pacing.Turn)
	p.Enter(now, turn, time.Minute)
	ask()
	if !p.TryStart(now, turn) {
		t.Fatal("it does not start")
	}
	p.Hold(now, 10*time.Second)
	now = now.Add(100 * ms)
	p.End(now, turn, health.Passed, 0, false)
	before := store.Moved
	if ask(); math.Abs(store.Moved-before-9.9) > .001 {
		t.Errorf("the store has held all for %.3f s, want 9.9", store.Moved-before)
	}
}

// held returns a Pacer that shares a quota, and whose hold of nine seconds the store has taken a second ago.
func held(t *testing.T) (p *pacing.Pacer, now time.Time) {
	t.Helper()
	p, now = told(10, 1)
	p.Join(now)
	p.Answered(now, pacing.Ask{Rate: 10}, pacing.Slots{})
	for range 6 {
		now = now.Add(time.Second)
		p.Enter(now, new(pacing.Turn), time.Minute)
		a, _, _ := p.Ask(now)
		p.Answered(now, a, pacing.Slots{N: 1})
		turn := p.First()
		if !p.TryStart(now, turn) {
			t.Fatal("it does not start")
		}
		p.End(now, turn, health.Failed, 10*time.Second, false)
	}
	now = now.Add(time.Second)
	a, _, _ := p.Ask(now)
	p.Answered(now, a, pacing.Slots{Moved: a.Hold, Held: a.Hold})
	if a.Hold != 9 {
		t.Fatalf("the store is asked %+v, want a hold of nine seconds", a)
	}
	return p, now
}

// While nothing may start, a process asks the store for no slots, and for nothing at all unless there is news.
func TestAHeldProcessIsSilent(t *testing.T) {
	p, now := held(t)
	waiting := new(pacing.Turn)
	p.Enter(now.Add(time.Second), waiting, time.Minute)
	if a, due, _ := p.Ask(now.Add(2 * time.Second)); due || p.Due() {
		t.Errorf("in the hold it asks %+v", a)
	}
	p.News()
	if a, due, _ := p.Ask(now.Add(3 * time.Second)); !due || a.Want != 0 || a.Hold != 0 || p.Due() {
		t.Errorf("after news it asks %+v, %v, and then again: %v", a, due, p.Due())
	}
	if a, due, _ := p.Ask(now.Add(9 * time.Second)); !due || a.Want != 1 {
		t.Errorf("after the hold it asks %+v, %v", a, due)
	}
}

// A late success ends the row that is the reason of a hold, so the store is not told of it.
func TestALateSuccessBeforeTheStoreIsTold(t *testing.T) {
	p, now := told(10, 1)
	p.Join(now)
	p.Answered(now, pacing.Ask{Rate: 10}, pacing.Slots{})
	var turns []*pacing.Turn
	for range 7 {
		now = now.Add(time.Second)
		turns = append(turns, new(pacing.Turn))
		p.Enter(now, turns[len(turns)-1], time.Minute)
		a, _, _ := p.Ask(now)
		p.Answered(now, a, pacing.Slots{N: 1})
		p.TryStart(now, p.First())
	}
	for _, turn := range turns[1:] {
		now = now.Add(time.Second)
		p.End(now, turn, health.Failed, time.Minute, false)
	}
	p.End(now, turns[0], health.Passed, 0, false)
	p.News()
	if a, _, _ := p.Ask(now.Add(time.Second)); a.Hold != 0 || a.Row != 0 || a.Passed != 1 {
		t.Errorf("the store is asked %+v", a)
	}
}

// If the store knows of a hold for which the server has asked, that does not mean that others pass.
func TestAHoldThatTheStoreKnows(t *testing.T) {
	p, now := held(t)
	p.Hold(now, time.Minute)
	now = now.Add(time.Second)
	a, _, _ := p.Ask(now)
	p.Answered(now, a, pacing.Slots{Moved: 9}) // another process has told it
	now = now.Add(time.Minute)
	turns := []*pacing.Turn{{}, {}}
	for _, turn := range turns {
		p.Enter(now, turn, time.Hour)
	}
	a, _, _ = p.Ask(now)
	p.Answered(now, a, pacing.Slots{N: 2, Wait: -1, Moved: 9})
	if !p.TryStart(now, turns[0]) || p.TryStart(now, turns[1]) {
		t.Error("not one attempt decides after the hold")
	}
}

// After a hold an attempt that is throttled holds no others if one of theirs has passed since, even if one passed late that had
// begun before the hold.
func TestOneProcessDecidesForNoOther(t *testing.T) {
	for _, late := range []bool{false, true} {
		p, now := told(10, 1)
		p.Join(now)
		var store pacing.State
		at := func() float64 { return float64(now.UnixMicro()) / 1e6 }
		ask := func() {
			a, _, _ := p.Ask(now)
			p.Answered(now, a, store.Reserve(at(), a))
		}
		start := func() *pacing.Turn {
			t.Helper()
			turn := new(pacing.Turn)
			p.Enter(now, turn, time.Minute)
			ask()
			if !p.TryStart(now, turn) {
				t.Fatal("it does not start")
			}
			now = now.Add(time.Second)
			return turn
		}
		ask()
		now = now.Add(time.Second)
		slow := start()
		for range 6 {
			p.End(now, start(), health.Failed, 9*time.Second, false)
		}
		held := store.Moved
		if ask(); math.Abs(store.Moved-held-9) > .001 {
			t.Fatalf("the row has held all for %v s, want 9", store.Moved-held)
		}
		now = now.Add(time.Second)
		if late {
			p.End(now, slow, health.Passed, 0, false)
		}
		now = now.Add(9 * time.Second)
		probe := start()
		store.Reserve(at(), pacing.Ask{Rate: 10, Burst: 1, Passed: .5}) // another process
		p.End(now, probe, health.Failed, 9*time.Second, false)
		held = store.Moved
		if ask(); store.Moved != held || p.Wait(now) > time.Second {
			t.Errorf("late success: %v; the probe has held all for %v s, and the next waits %v", late, store.Moved-held, p.Wait(now))
		}
	}
}

// Debt is paid while health is closed.
func TestDebtIsPaidWhileOthersAreRefused(t *testing.T) {
	p, now := told(.1, 1)
	for i := range 6 {
		turn := new(pacing.Turn)
		if wait, _ := p.Enter(now, turn, pacing.Never); wait != 0 {
			t.Fatalf("attempt %d waits for %v", i, wait)
		}
		p.End(now, turn, health.Failed, time.Minute, false)
		if i < 5 {
			now = now.Add(10*time.Second + 10)
		}
	}
	turn := new(pacing.Turn)
	wait, ok := p.Enter(now, turn, 65*time.Second)
	if sleep, timed := p.Sleep(turn); !ok || !timed || wait != time.Minute || sleep != time.Minute || !p.TryStart(now.Add(time.Minute), turn) {
		t.Errorf("%v: waits for %v, sleeps for %v, want a minute", ok, wait, sleep)
	}
}
