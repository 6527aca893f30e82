package pacing_test

import (
	"math"
	"testing"
	"time"

	"github.com/goretry/retry/internal/health"
	"github.com/goretry/retry/internal/pacing"
)

const ms = time.Millisecond

// told returns a Pacer that was told a quota at an instant.
func told(rate, burst float64) (p *pacing.Pacer, now time.Time) {
	p, now = new(pacing.Pacer), time.Unix(1000, 0)
	p.Know(now, rate, burst)
	return p, now
}

// try lets a turn start, and returns 0, or how long it sleeps, Never if something else than time ends that.
func try(p *pacing.Pacer, now time.Time, turn *pacing.Turn) time.Duration {
	if p.TryStart(now, turn) {
		return 0
	}
	if wait, timed := p.Sleep(turn); timed {
		return wait
	}
	return pacing.Never
}

// costing returns a turn of a cost.
func costing(cost float64) *pacing.Turn {
	return &pacing.Turn{Bill: &pacing.Bill{Cost: cost}}
}

// throttle starts an attempt that is throttled.
func throttle(p *pacing.Pacer, now time.Time, hint time.Duration) {
	end(p, now, health.Failed, hint)
}

func pass(p *pacing.Pacer, now time.Time) { end(p, now, health.Passed, 0) }

func end(p *pacing.Pacer, now time.Time, outcome health.Outcome, hint time.Duration) {
	turn := new(pacing.Turn)
	p.End(now, turn, outcome, hint, false)
}

// reserved returns a Pacer that shares a quota, with an attempt whose slot comes in 200 ms.
func reserved() (p *pacing.Pacer, now time.Time, turn *pacing.Turn) {
	p, now = told(10, 1)
	turn = new(pacing.Turn)
	p.Join(now)
	p.Enter(now, turn, pacing.Never)
	a, _, _ := p.Ask(now)
	p.Answered(now, a, pacing.Slots{N: 1, Wait: .2})
	return p, now, turn
}

// waits returns how long each of n attempts of a cost that come now has to wait.
func waits(p *pacing.Pacer, now time.Time, n int, cost float64) (all []time.Duration) {
	for range n {
		wait, ok := p.Enter(now, costing(cost), pacing.Never)
		if !ok {
			wait = -1
		}
		all = append(all, wait.Round(time.Millisecond))
	}
	return all
}

func wantWaits(t *testing.T, what string, got []time.Duration, want ...time.Duration) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
	for i := range got {
		if got[i] != want[i]*ms {
			t.Errorf("%s: attempt %d waits %v, want %v", what, i+1, got[i], want[i]*ms)
		}
	}
}

func TestToldQuota(t *testing.T) {
	p, now := told(10, 3)
	if p.Open() || p.Rate(now) != 10 {
		t.Errorf("open %t, rate %v", p.Open(), p.Rate(now))
	}
	wantWaits(t, "a burst of three", waits(p, now, 5, 0), 0, 0, 0, 100, 200)

	p, now = told(10, 0)
	wantWaits(t, "no burst", waits(p, now, 3, 0), 0, 100, 200)

	p, now = told(1000, 500) // tokens
	wantWaits(t, "costs", waits(p, now, 3, 200), 0, 0, 100)
	p, now = told(1000, 500)
	wantWaits(t, "more than the burst", waits(p, now, 2, 1500), 0, 1500)

	// Slots that are not used are saved, up to the burst.
	p, now = told(10, 3)
	waits(p, now, 3, 0)
	wantWaits(t, "after 200 ms", waits(p, now.Add(200*ms), 3, 0), 0, 0, 100)
	p, now = told(10, 3)
	waits(p, now, 3, 0)
	wantWaits(t, "after an hour", waits(p, now.Add(time.Hour), 4, 0), 0, 0, 0, 100)
}

func TestToldQuotaTakesBackTurns(t *testing.T) {
	p, now := told(10, 1)
	first := &pacing.Turn{}
	p.Enter(now, first, pacing.Never)
	p.Return(first, false)
	wantWaits(t, "after a return", waits(p, now, 2, 0), 0, 100)
}

// However many turns come back at one instant, no more than the burst starts.
func TestToldQuotaTakesBackNoMoreThanTheBurst(t *testing.T) {
	p, now := told(1, 1)
	var turns []*pacing.Turn
	for range 10 {
		turns = append(turns, &pacing.Turn{})
		p.Enter(now, turns[len(turns)-1], pacing.Never)
		now = now.Add(time.Second)
	}
	now = now.Add(10 * time.Second)
	p.Wait(now)
	for _, turn := range turns {
		p.Return(turn, false)
	}
	wantWaits(t, "after ten returns", waits(p, now, 2, 0), 0, 1000)
}

// A hold that begins while the store is asked for another one is asked for next.
func TestAHoldDuringAnExchangeIsNotLost(t *testing.T) {
	p, now := told(10, 1)
	p.Join(now)
	p.Hold(now, time.Second)
	a, due, _ := p.Ask(now)
	if !due || a.Hold != 1 {
		t.Fatalf("the store is asked %+v", a)
	}
	p.Answered(now, a, pacing.Slots{})
	p.Hold(now, 2*time.Second) // with an answer, a hold is the store's
	now = now.Add(time.Second)
	if a, due, _ = p.Ask(now); !due || a.Hold != 1 || a.Row != 0 {
		t.Errorf("the store is asked %+v, %t: want a hold of the second that is left", a, due)
	}
	p.Hold(now, time.Minute)
	p.Answered(now, a, pacing.Slots{Moved: a.Hold})
	now = now.Add(time.Second)
	if a, due, _ = p.Ask(now); !due || a.Hold != 59 {
		t.Errorf("the store is asked %+v, %t: want a hold of the 59 s that are left", a, due)
	}
	p.Answered(now, a, pacing.Slots{Moved: 61})
	if a, due, _ = p.Ask(now.Add(time.Second)); due {
		t.Errorf("the store is asked again: %+v", a)
	}
}

// Slots of a store keep their distance if the clock of the process is set back.
func TestSlotsWhenTheClockIsSetBack(t *testing.T) {
	p, now, turn := reserved()
	if w := try(p, now.Add(-time.Hour), turn).Round(ms); w != 200*ms {
		t.Errorf("a slot in 200ms: %v after the clock was set back", w)
	}
}

// If a part of the attempts is throttled all the same, the quota seems to be smaller.
func TestQuotaThatSeemsToBeSmaller(t *testing.T) {
	p, now := told(25, 1)
	for range 60 {
		now = now.Add(time.Second)
		for range 20 {
			pass(p, now)
		}
		for range 5 {
			throttle(p, now, 0)
		}
	}
	if told, part, _ := p.Quota(now.Add(time.Second)); told != 25 || part < .199 || part > .201 {
		t.Errorf("told %v, of which %v are throttled; want 25, .2", told, part)
	}
	if _, part, _ := p.Quota(now.Add(10 * time.Minute)); part != 0 {
		t.Errorf("ten minutes later %v are throttled", part)
	}
}

// step is what is asked of a store, and how p takes an answer.
func exchange(t *testing.T, p *pacing.Pacer, now time.Time, want pacing.Ask, s pacing.Slots) {
	t.Helper()
	a, due, _ := p.Ask(now)
	a.Rate, a.Burst = 0, 0
	if !due || a != want {
		t.Errorf("Ask = %+v, %t; want %+v", a, due, want)
	}
	a.Rate, a.Burst = 10, 1
	p.Answered(now, a, s)
}

func TestSlots(t *testing.T) {
	p, now := told(10, 1)
	p.Join(now)
	exchange(t, p, now, pacing.Ask{}, pacing.Slots{Moved: -7})
	if _, due, next := p.Ask(now.Add(time.Second)); due || next < time.Minute {
		t.Errorf("something to ask without callers: %v", next)
	}
	now = now.Add(time.Second)
	turns := []*pacing.Turn{{}, {}, {}, {}}
	for _, turn := range turns {
		if wait, ok := p.Enter(now, turn, time.Minute); !ok || wait <= 0 {
			t.Fatalf("Enter = %v, %t without a slot", wait, ok)
		}
	}
	if w := try(p, now, turns[0]); w != pacing.Never {
		t.Errorf("ready in %v without a slot", w)
	}
	exchange(t, p, now, pacing.Ask{Want: 4, Least: 1, Patience: 60}, pacing.Slots{N: 4, Wait: .05, Moved: -7})
	if w := try(p, now, turns[0]); w != 50*ms {
		t.Errorf("ready in %v, want 50ms", w)
	}
	now = now.Add(50 * ms)
	if w := try(p, now, turns[0]); w != 0 {
		t.Errorf("%v in its slot", w)
	}
	if w := try(p, now, turns[1]); w != 100*ms {
		t.Errorf("the second is ready in %v, want 100ms", w)
	}
	more := []*pacing.Turn{{}, {}}
	p.Enter(now, more[0], time.Minute)
	if _, due, _ := p.Ask(now); due {
		t.Error("it asks 300 ms before its last slot")
	}
	now = now.Add(100 * ms)
	try(p, now, turns[1])
	exchange(t, p, now, pacing.Ask{Want: 1, Patience: 59.9}, pacing.Slots{N: 1, Wait: .3, Moved: -7})

	// A hold moves slots that were given. An old one is confirmed before it is used.
	now = now.Add(50 * ms)
	p.Answered(now, pacing.Ask{Rate: 10}, pacing.Slots{Moved: -5})
	if w := try(p, now, turns[2]); w != 2050*ms {
		t.Errorf("ready in %v after a hold, want 2.05s", w)
	}
	now = now.Add(2050 * ms)
	if w := try(p, now, turns[2]); w != pacing.Never {
		t.Errorf("an old slot is used: %v", w)
	}
	if a, due, _ := p.Ask(now); !due || a.Want != 0 && a.Least != 0 {
		t.Errorf("it does not ask: %+v", a)
	}
	p.Answered(now, pacing.Ask{Rate: 10}, pacing.Slots{Moved: -5})
	if w := try(p, now, turns[2]); w != 0 {
		t.Errorf("%v though it is confirmed", w)
	}

	// Who leaves gives back what nobody waits for.
	p.Leave(turns[3])
	p.Leave(more[0])
	now = now.Add(60 * ms)
	exchange(t, p, now, pacing.Ask{Unused: 2}, pacing.Slots{Moved: -5})

	// A slot whose time is over is lost.
	now = now.Add(60 * ms)
	p.Enter(now, more[1], time.Minute)
	exchange(t, p, now, pacing.Ask{Want: 1, Least: 1, Patience: 60}, pacing.Slots{N: 1, Wait: 0, Moved: -5})
	if w := try(p, now.Add(300*ms), more[1]); w != pacing.Never {
		t.Errorf("a lost slot is used: %v", w)
	}
}

// A store is asked again at once for those that come next, but not by those for whom it has no slots.
func TestGapsBetweenExchanges(t *testing.T) {
	for given, want := range map[float64]time.Duration{0: 50 * ms, 1: 5 * ms} {
		p, now := told(10, 1)
		p.Join(now)
		p.Answered(now, pacing.Ask{Rate: 10}, pacing.Slots{})
		now = now.Add(time.Second)
		waits(p, now, 2, 0)
		a, _, _ := p.Ask(now)
		p.Answered(now, a, pacing.Slots{N: given, Wait: .1})
		if _, due, next := p.Ask(now.Add(ms)); due || next != want-ms {
			t.Errorf("after %v slots it looks again in %v, want %v", given, next, want-ms)
		}
		if _, due, _ := p.Ask(now.Add(want)); !due {
			t.Errorf("after %v slots it does not ask again in %v", given, want)
		}
	}
}

// If a turn would come too late for all, nobody waits.
func TestTooLateForAll(t *testing.T) {
	p, now := told(10, 1)
	p.Join(now)
	turn := &pacing.Turn{}
	p.Enter(now, turn, 10*time.Second)
	a, due, _ := p.Ask(now)
	if !due || a.Patience != 10 {
		t.Fatalf("%+v, %t", a, due)
	}
	patient := &pacing.Turn{} // comes while the store is asked
	p.Enter(now, patient, time.Hour)
	urgent := &pacing.Turn{} // may get a slot ahead of others
	p.Enter(now, urgent, time.Second)
	refused := p.Answered(now, a, pacing.Slots{Wait: 60})
	if !urgent.Waits() {
		t.Error("an urgent attempt is refused for which the store was not asked")
	} else {
		p.Leave(urgent)
	}
	if len(refused) != 1 || refused[0] != turn || turn.Late != time.Minute || turn.Waits() || p.First() != patient {
		t.Errorf("refused %v, with a wait of %v", refused, turn.Late)
	}
}

// An attempt that costs less than the one for which the store has no slots may come in time.
func TestWhoCostsLessIsNotTooLate(t *testing.T) {
	p, now := told(10, 1)
	p.Join(now)
	dear, cheap, late := costing(100), costing(1), costing(1)
	p.Enter(now, dear, 10*time.Second)
	a, _, _ := p.Ask(now)
	p.Enter(now, cheap, 51*time.Second) // while the store is asked
	p.Enter(now, late, 50*time.Second)
	p.Answered(now, a, pacing.Slots{Wait: 60}) // 100 slots, ten in a second
	if dear.Waits() || !cheap.Waits() || late.Waits() || late.Late != 50100*ms {
		t.Errorf("they wait: %v, %v, %v; the last one is late by %v", dear.Waits(), cheap.Waits(), late.Waits(), late.Late)
	}
}

// An attempt that costs several slots collects them, however long that takes.
func TestADearAttemptCollectsSlots(t *testing.T) {
	p, now := told(10, 1)
	p.Join(now)
	turn := costing(3)
	p.Enter(now, turn, time.Minute)
	a, _, _ := p.Ask(now)
	p.Answered(now, a, pacing.Slots{N: 1})
	for i := range 2 {
		now = now.Add(500 * ms)
		if a, _, _ = p.Ask(now); a.Least != float64(2-i) {
			t.Errorf("it asks %+v, want the slots that it lacks", a)
		}
		p.Answered(now, a, pacing.Slots{N: 1})
	}
	if !p.TryStart(now, turn) {
		t.Error("it does not start")
	}
}

// If who came first is to start next, an urgent attempt behind it gets slots of its own.
func TestAnUrgentAttemptBehindTheFirst(t *testing.T) {
	p, now := told(10, 1)
	p.Join(now)
	for range 4 {
		waits(p, now, 1, 0)
		a, _, _ := p.Ask(now)
		p.Answered(now, a, pacing.Slots{N: 1})
		p.TryStart(now, p.First())
		now = now.Add(time.Second)
	}
	first, urgent := costing(2), new(pacing.Turn)
	p.Enter(now, first, pacing.Never)
	a, _, _ := p.Ask(now)
	p.Answered(now, a, pacing.Slots{N: 2, Wait: 30})
	now = now.Add(time.Second)
	p.Enter(now, urgent, time.Second)
	if a, due, _ := p.Ask(now); p.First() != first || !due || a.Want != 1 || a.Least != 1 || a.Patience != 1 {
		t.Errorf("the fifth is the one that came first: %v; the store is asked %+v, %v", p.First() == first, a, due)
	}
}

// While the store is away a process goes on at the rate of its own starts, and slower if they are
// throttled.
func TestAlone(t *testing.T) {
	p, now := told(10, 1)
	p.Join(now)
	p.Answered(now, pacing.Ask{Rate: 10}, pacing.Slots{Moved: -1})
	for range 60 * 2 {
		now = now.Add(500 * ms)
		turn := &pacing.Turn{}
		p.Enter(now, turn, time.Minute)
		a, _, _ := p.Ask(now)
		p.Answered(now, a, pacing.Slots{N: 1, Moved: -1})
		if w := try(p, now, turn); w != 0 {
			t.Fatal(w)
		}
	}
	p.Alone(now)
	if ok, since := p.Shared(); ok || since != now {
		t.Errorf("shared %t since %v", ok, since)
	}
	if r := p.Rate(now); r < 1.9 || r > 2.1 {
		t.Errorf("alone at %v in a second, want 2", r)
	}
	rate := p.Rate(now)
	throttle(p, now, 0)
	throttle(p, now.Add(900*ms), 0)
	now = now.Add(time.Second)
	if r := p.Rate(now); !near(r, .7*rate, .001) {
		t.Errorf("%v after a second with two refusals, want .7 of %v", r, rate)
	}
	now = now.Add(time.Hour)
	pass(p, now)
	pass(p, now.Add(time.Hour))
	if r := p.Rate(now.Add(time.Hour)); !near(r, 1.01*rate, .001) {
		t.Errorf("%v after two hours, want %v, and a step more", r, rate)
	}
	now = now.Add(time.Hour)
	p.Answered(now, pacing.Ask{Rate: 10}, pacing.Slots{Moved: -1})
	if ok, since := p.Shared(); !ok || since != now || p.Rate(now) != 10 {
		t.Errorf("shared %t since %v, at %v", ok, since, p.Rate(now))
	}
}

// A store that has lost what it knew gives out slots anew: those of before are others' by now.
func TestAStoreThatHasForgotten(t *testing.T) {
	for _, moved := range []float64{-9, 4000} {
		p, now := told(1, 1)
		p.Join(now)
		p.Answered(now, pacing.Ask{Rate: 1}, pacing.Slots{Moved: -1})
		turn := new(pacing.Turn)
		p.Enter(now, turn, time.Minute)
		a, _, _ := p.Ask(now)
		p.Answered(now, a, pacing.Slots{N: 1, Wait: .4, Moved: -1})
		p.Answered(now, pacing.Ask{Rate: 1}, pacing.Slots{Moved: moved})
		if w := try(p, now.Add(400*ms), turn); w != pacing.Never {
			t.Errorf("moved by %v: ready in %v, want Never", moved+1, w)
		}
		if a, due, _ := p.Ask(now.Add(500 * ms)); !due || a.Want != 1 {
			t.Errorf("moved by %v: %+v, %v; want one anew", moved+1, a, due)
		}
	}
}

func TestPartGivesBack(t *testing.T) {
	p, now := told(1, 1)
	p.Join(now)
	p.Enter(now, &pacing.Turn{}, time.Minute)
	a, _, _ := p.Ask(now)
	p.Answered(now, a, pacing.Slots{N: 3, Wait: 1, Moved: -1})
	if a, spare := p.Part(now); a != (pacing.Ask{Rate: 1, Burst: 1, Unused: 3}) || !spare {
		t.Errorf("%+v, %t; want 3 to give back", a, spare)
	}
	if ok, _ := p.Shared(); ok || p.Rate(now) != 1 {
		t.Errorf("shared %t after Part, at %v", ok, p.Rate(now))
	}
}

// A process that shares a quota again knows nothing of the store, which knows nothing of it.
func TestJoinBeginsAnew(t *testing.T) {
	p, now := told(10, 1)
	p.Join(now)
	p.Hold(now, time.Minute)
	a, _, _ := p.Ask(now)
	p.Answered(now, a, pacing.Slots{Moved: a.Hold})
	p.Part(now)
	now = now.Add(time.Second)
	p.Join(now)
	if ok, since := p.Shared(); ok || since != now {
		t.Errorf("shared %v since %v", ok, since)
	}
	if a, due, _ := p.Ask(now); !due || a.Hold != 59 {
		t.Errorf("the store is asked %+v, %v, want a hold of 59 s", a, due)
	}
}

// A fleet whose processes all start something before they share pays for it: the store hears of what time has not paid yet.
func TestStartsBeforeJoinCount(t *testing.T) {
	p, now := told(10, 5)
	for range 4 {
		p.Enter(now, new(pacing.Turn), pacing.Never)
	}
	now = now.Add(100 * ms) // one of them is paid
	p.Join(now)
	a, due, _ := p.Ask(now)
	if !due || math.Abs(a.Spent-3) > 1e-6 {
		t.Errorf("the store is asked %+v, %v, want 3 spent", a, due)
	}
	p.Answered(now, a, pacing.Slots{})
	if a, due, _ = p.Ask(now.Add(time.Second)); due {
		t.Errorf("and then %+v", a)
	}
}

// The rate of a process that is alone does not fall for ever, and comes back by time.
func TestOwnRateComesBack(t *testing.T) {
	p, now := told(10, 1)
	p.Join(now)
	for range 100 { // it has started ten in a second
		p.Wait(now)
		now = now.Add(100 * ms)
	}
	p.Alone(now)
	for range 600 {
		throttle(p, now, 0)
		now = now.Add(time.Second)
	}
	if r := p.Rate(now); r < .04 {
		t.Errorf("after ten minutes of refusals: %v in a second", r)
	}
	begin := now
	for p.Rate(now) < .9 && now.Sub(begin) < time.Hour {
		pass(p, now)
		now = now.Add(time.Duration(float64(time.Second) / p.Rate(now)))
		p.Wait(now)
	}
	if took := now.Sub(begin); took > 5*time.Minute {
		t.Errorf("the own rate comes back in %v", took)
	}
}

// A refusal never raises the own rate, however low that is.
func TestARefusalRaisesNoOwnRate(t *testing.T) {
	p, now := told(.01, 1)
	p.Join(now)
	p.Alone(now)
	for range 3 {
		throttle(p, now, 0)
		now = now.Add(time.Second)
	}
	if after := p.Rate(now); after != .01 {
		t.Errorf("%v after three refusals, want .01", after)
	}
}

// A process that has started few attempts may start two more in half a minute: few tell little.
func TestTheOwnRateOfAFewStarts(t *testing.T) {
	for starts, want := range map[int]float64{0: 1, 1: 3. / 30, 10: 12. / 30, 100: 102. / 30} {
		p, now := told(1000, 1)
		p.Join(now)
		now = now.Add(time.Hour)
		for range starts {
			turn := new(pacing.Turn)
			p.Enter(now, turn, time.Hour)
			a, _, _ := p.Ask(now)
			p.Answered(now, a, pacing.Slots{N: 1})
			if !p.TryStart(now, turn) {
				t.Fatal("it does not start")
			}
		}
		p.Alone(now)
		if got := p.Rate(now); !near(got, want, .001) {
			t.Errorf("after %d starts: %v, want %v", starts, got, want)
		}
	}
}

func near(got, want, by float64) bool { return math.Abs(got-want) <= by*want }

// What could not be given back is not given back later.
func TestSlotsThatWereNotGivenBack(t *testing.T) {
	p, now, turn := reserved()
	p.Leave(turn)
	now = now.Add(100 * ms)
	if a, _, _ := p.Ask(now); a.Unused != 1 {
		t.Fatalf("%+v", a)
	}
	p.Alone(now)
	if a, _, _ := p.Ask(now.Add(time.Minute)); a.Unused != 0 {
		t.Errorf("a minute later: %+v", a)
	}
}

// A hold lasts as long as it was to last, however the clock is set back.
func TestAHoldWhenTheClockIsSetBack(t *testing.T) {
	for _, back := range []time.Duration{time.Second, time.Hour} {
		p, now := told(10, 1)
		p.Hold(now, 75*time.Second)
		now = now.Add(5 * time.Second)
		p.Wait(now)
		if w := p.Wait(now.Add(-back)); w != 70*time.Second {
			t.Errorf("set back by %v: a hold of 70 s more lasts %v", back, w)
		}
	}
}

// What a Pacer does depends on the time that has passed: a clock that is set back changes nothing.
func TestWhatAClockThatIsSetBackChanges(t *testing.T) {
	for name, after := range map[string]func(back func(*pacing.Pacer, time.Time) time.Time) any{
		"the end of a patience": func(back func(*pacing.Pacer, time.Time) time.Time) any {
			p, now := told(1, 1)
			p.Join(now)
			p.Enter(now, new(pacing.Turn), 40*time.Second)
			now = back(p, now.Add(5*time.Second))
			a, _, _ := p.Ask(now)
			return a.Patience
		},
		"a hold because nobody passes": func(back func(*pacing.Pacer, time.Time) time.Time) any {
			p, now := told(1000, 1000)
			for range 6 {
				now = now.Add(time.Second)
				turn := new(pacing.Turn)
				p.Enter(now, turn, 0)
				p.End(now, turn, health.Failed, time.Minute, false)
			}
			return p.Wait(back(p, now.Add(5*time.Second)))
		},
		"the rate of a process that goes on alone": func(back func(*pacing.Pacer, time.Time) time.Time) any {
			p, now := told(10, 1)
			p.Join(now)
			waits(p, now, 40, 0)
			a, _, _ := p.Ask(now)
			p.Answered(now, a, pacing.Slots{N: 40, Wait: -10})
			for first := p.First(); first != nil; first = p.First() {
				try(p, now, first)
			}
			now = back(p, now.Add(10*time.Second)).Add(10 * time.Second)
			p.Alone(now)
			return p.Rate(now)
		},
	} {
		want := after(func(p *pacing.Pacer, now time.Time) time.Time { return now })
		for _, by := range []time.Duration{5 * time.Second, time.Hour} {
			got := after(func(p *pacing.Pacer, now time.Time) time.Time {
				p.Wait(now)
				p.Wait(now.Add(-by))
				return now.Add(-by)
			})
			if got != want {
				t.Errorf("%s: %v if the clock is set back by %v, want %v", name, got, by, want)
			}
		}
	}
}

// What was throttled in the last second before a pause fades in it.
func TestThrottledOfTheLastMinute(t *testing.T) {
	p, now := told(100, 100)
	for range 30 {
		throttle(p, now, 0)
	}
	if _, part, seems := p.Quota(now.Add(time.Second)); part != 1 || seems != 0 {
		t.Errorf("a second later %v were throttled, and the quota seems to be %v; want all, and 0", part, seems)
	}
	if _, part, seems := p.Quota(now.Add(time.Hour)); part != 0 || seems != 100 {
		t.Errorf("an hour later %v were throttled, and the quota seems to be %v; want 0, and 100", part, seems)
	}
}

// Under a quota of a few in a minute the attempts count for longer.
func TestThrottledUnderASlowQuota(t *testing.T) {
	for _, perMinute := range []float64{1, 10} {
		p, now := told(perMinute/60, 1)
		for i := range 60 {
			now = now.Add(time.Duration(2 / perMinute * float64(time.Minute))) // half of the quota
			if i%2 == 0 {
				throttle(p, now, 0)
			} else {
				pass(p, now)
			}
		}
		if _, part, _ := p.Quota(now); math.Abs(part-.5) > .02 {
			t.Errorf("%v in a minute, half of which are throttled: %v", perMinute, part)
		}
		if _, part, _ := p.Quota(now.Add(time.Duration(60 / perMinute * float64(time.Minute)))); part != 0 {
			t.Errorf("%v in a minute, and none for the time of sixty: %v", perMinute, part)
		}
	}
}
