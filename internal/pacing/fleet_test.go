package pacing_test

import (
	"math"
	"testing"
	"time"

	"github.com/goretry/retry/fleetpace"
	"github.com/goretry/retry/internal/pacing"
)

// store is where the paces of a fleet meet.
type store struct{ fleetpace.State }

// apply lets the store apply a report of a process whose clock is the store's.
func (s *store) apply(now time.Time, r fleetpace.Report) fleetpace.Answer {
	return s.Apply(now.Sub(epoch).Seconds()+1e6, .5, r)
}

// pacedStore returns a store whose turns come at a rate. The first has come.
func pacedStore(rate float64) *store {
	s := new(store)
	s.apply(epoch.Add(-time.Second-time.Duration(float64(time.Second)/rate)), fleetpace.Report{Rate: rate})
	return s
}

// join returns a pace that has got its first answer.
func (s *store) join(now time.Time) *pace {
	p := &pace{now: now}
	p.Join(p.now)
	p.exchange(s)
	return p
}

// exchange tells the store what is due, and returns the attempts that wait no more.
func (p *pace) exchange(s *store) []*pacing.Turn[int] {
	r, due, _ := p.Report(p.now)
	if !due {
		return nil
	}
	return p.Answered(p.now, r, s.apply(p.now, r))
}

// patient lets an attempt enter that waits for so long at most.
func (p *pace) patient(d time.Duration) *pacing.Turn[int] {
	t := new(pacing.Turn[int])
	p.Enter(p.now, t, d)
	return t
}

// An attempt for which the fleet has no turn in time has taken none: there is nothing to give
// back, whether its call ends or a guard refuses it.
func TestALateAttemptHasTakenNoTurn(t *testing.T) {
	for name, end := range map[string]func(*pace, *pacing.Turn[int]){
		"canceled": func(p *pace, t *pacing.Turn[int]) { p.Return(t) },
		"refused":  func(p *pace, t *pacing.Turn[int]) { p.Unsent(t) },
	} {
		s := pacedStore(1)
		p, other := s.join(epoch), s.join(epoch)
		for range 20 { // all that come within their patience
			other.enter(0, false, 0)
		}
		other.exchange(s)
		for range 5 {
			p.patient(10 * time.Second)
		}
		late := p.exchange(s)
		if len(late) != 5 || p.Len() != 0 {
			t.Fatalf("%s: %d of five wait no more, want all: twenty others are before them", name, len(late))
		}
		for _, t := range late {
			end(p, t)
		}
		for range 5 {
			p.enter(1, false, 0)
		}
		p.drainFor(s, 10*time.Second)
		if len(p.started) > 0 {
			t.Errorf("%s: %d attempts have started that have to wait for twenty others", name, len(p.started))
		}
	}
}

// An attempt that has started without a turn, or by one that is worth nothing any more, leaves no
// place to the next.
func TestOnlyWhatWasPaidIsGivenBack(t *testing.T) {
	for name, begin := range map[string]func() (p *pace, s *store, first *pacing.Turn[int]){
		"started while all count": func() (*pace, *store, *pacing.Turn[int]) {
			s := new(store)
			p := s.join(epoch)
			p.throttle(0)
			p.exchange(s)
			first := p.enter(0, false, 0)
			for range 8 {
				p.Throttled(p.now, p.enter(0, false, 0).Round, 0)
			}
			for range 2 { // then it is decided
				p.sleep(1250 * time.Millisecond)
				p.News()
				p.exchange(s)
			}
			return p, s, first
		},
		"of a store that was emptied": func() (*pace, *store, *pacing.Turn[int]) {
			s := pacedStore(1)
			p := s.join(epoch)
			p.enter(0, false, 0)
			p.exchange(s)
			first := p.First()
			p.Ready(p.now, first)
			s.State = fleetpace.State{}
			s.Apply(1e6, .9, fleetpace.Report{Rate: 1})
			p.News()
			p.exchange(s)
			return p, s, first
		},
		"of before it was alone": func() (*pace, *store, *pacing.Turn[int]) {
			s := pacedStore(1)
			p := s.join(epoch)
			p.enter(0, false, 0)
			p.exchange(s)
			first := p.First()
			p.Ready(p.now, first)
			p.Alone(p.now)
			p.enter(0, false, 0)
			return p, s, first
		},
		"of when it was alone": func() (*pace, *store, *pacing.Turn[int]) {
			s := pacedStore(1)
			p := pacedAt(1)
			first := p.enter(0, false, 0)
			p.Join(p.now)
			p.exchange(s)
			return p, s, first
		},
	} {
		waits := func(returned bool) time.Duration {
			p, s, first := begin()
			if first.Waits() {
				t.Fatalf("%s: it waits", name)
			}
			for range 3 { // more than may have come already
				p.enter(0, false, 0)
			}
			p.exchange(s)
			if returned {
				p.Return(first)
			}
			began := p.now
			for p.Len() > 0 {
				p.drainFor(s, pacing.Gap)
			}
			return p.now.Sub(began)
		}
		if with, without := waits(true), waits(false); with != without || with < 500*time.Millisecond {
			t.Errorf("%s: given back, the next attempts start in %v, else in %v", name, with, without)
		}
	}
	p := start() // alone
	p.throttle(0)
	first := p.enter(0, false, 0) // nothing is paid while it counts
	p.enter(0, false, 0)
	p.sleep(time.Second)
	p.throttle(0)
	p.throttle(0)
	p.enter(0, false, 0)
	before := p.Wait(p.now)
	if p.Return(first); before == 0 || p.Wait(p.now) != before {
		t.Errorf("started while it counts, and given back: %v to wait, else %v", p.Wait(p.now), before)
	}
}

// drainFor lets attempts start for some time.
func (p *pace) drainFor(s *store, d time.Duration) {
	for end := p.now.Add(d); p.now.Before(end); p.sleep(pacing.Gap) {
		p.exchange(s)
		for t := p.First(); t != nil && p.Ready(p.now, t) == 0; t = p.First() {
			p.note(t)
		}
	}
}

// Who has counted nothing has nothing to tell, and asks again only when the others have told.
func TestNothingCountedIsNotTold(t *testing.T) {
	s := new(store)
	p := s.join(epoch)
	p.throttle(0)
	p.exchange(s)
	p.sleep(time.Second)
	if r, due, next := p.Report(p.now); due || next != 250*time.Millisecond {
		t.Errorf("due %v: %+v; the next in %v, want 250ms", due, r, next)
	}
	p.sleep(250 * time.Millisecond)
	if r, due, _ := p.Report(p.now); !due || r.Counted {
		t.Errorf("due %v: %+v", due, r)
	}
}

// An attempt that has started alone belongs to no round of the fleet's, though the fleet's may
// have the same number.
func TestRoundsOfAPaceAloneAreNotTheFleets(t *testing.T) {
	for name, begin := range map[string]func(*store) (*pace, *pacing.Turn[int]){
		"before it joined": func(s *store) (*pace, *pacing.Turn[int]) {
			p := pacedAt(1)
			own := p.enter(0, false, 0)
			p.Join(p.now)
			return p, own
		},
		"while the store was away": func(s *store) (*pace, *pacing.Turn[int]) {
			p := s.join(epoch)
			p.Alone(p.now)
			return p, p.enter(0, false, 0)
		},
	} {
		p, own := begin(pacedStore(1))
		if own.Waits() || own.Round == 0 {
			t.Fatalf("%s: waits %v, round %d", name, own.Waits(), own.Round)
		}
		s := new(store)
		s.apply(p.now, fleetpace.Report{Rate: 1, Round: float64(own.Round) - 1}) // its next is of that number
		p.exchange(s)
		p.Throttled(p.now, own.Round, time.Second)
		p.News()
		r, _, _ := p.Report(p.now)
		if r.Round != float64(own.Round) {
			t.Fatalf("%s: round %v of the fleet, want %d", name, r.Round, own.Round)
		}
		if r.Hits != 0 || r.Fresh != 0 {
			t.Errorf("%s: %v throttled, %v of the fleet's round, want none", name, r.Hits, r.Fresh)
		}
	}
}

// A hold outlasts the store that was told of it, or was to be: nothing starts before its end,
// whoever began it, and then what waits starts one by one.
func TestAHoldOutlastsItsStore(t *testing.T) {
	const hold = 20 * time.Second
	for name, begin := range map[string]func() *pace{
		"of its own, in an open fleet, not told": func() *pace {
			p := new(store).join(epoch)
			p.Hold(p.now, hold)
			return p
		},
		"of its own, told": func() *pace {
			s := new(store)
			p := s.join(epoch)
			p.Hold(p.now, hold)
			p.exchange(s)
			return p
		},
		"of its own, while all count": func() *pace {
			s := new(store)
			p := s.join(epoch)
			p.throttle(0)
			p.exchange(s)
			p.Hold(p.now, hold)
			return p
		},
		"of its own, while the fleet paces": func() *pace {
			p := pacedStore(1).join(epoch)
			p.Hold(p.now, hold)
			return p
		},
		"of another process": func() *pace {
			s := new(store)
			s.apply(epoch, fleetpace.Report{Hold: hold.Seconds()})
			return s.join(epoch)
		},
		"of another process, while the fleet paces": func() *pace {
			s := pacedStore(1)
			s.apply(epoch, fleetpace.Report{Hold: hold.Seconds()})
			return s.join(epoch)
		},
	} {
		p := begin()
		p.sleep(5 * time.Second)
		p.Alone(p.now)
		if p.Open() {
			t.Errorf("%s: it is open", name)
		}
		for range 10 {
			p.enter(0, false, 0)
		}
		p.drain()
		if p.at[0] < hold {
			t.Errorf("%s: the first starts after %v, want %v at least", name, p.at[0], hold)
		}
		if p.at[9] == p.at[0] {
			t.Errorf("%s: all start at once", name)
		}
	}
	// The store fails when it is to be asked, at the end of the hold.
	s := new(store)
	s.apply(epoch, fleetpace.Report{Hold: hold.Seconds()})
	p := s.join(epoch)
	for range 10 {
		p.enter(0, false, 0)
	}
	p.sleep(hold + hold/4)
	p.Alone(p.now)
	p.drain()
	if n := len(p.at); n != 10 || p.at[9] == p.at[0] {
		t.Errorf("%d have started after the hold: at once", n)
	}
}

// A rate of its own that is older than five minutes is not known any more, whatever the fleet has
// done since: the next throttled attempt begins to count.
func TestAStaleRateIsNotRemembered(t *testing.T) {
	for name, fleet := range map[string]func(*pace){
		"an open fleet": func(p *pace) {
			s := new(store)
			p.Join(p.now)
			p.exchange(s)
		},
		"a fleet that has paced": func(p *pace) {
			s := new(store)
			s.apply(p.now.Add(-2*time.Second), fleetpace.Report{Rate: 1})
			p.Join(p.now)
			p.exchange(s)
			p.enter(0, false, 0)
			p.enter(0, false, 0)
			p.drainFor(s, 40*time.Second)
			p.News()
			p.exchange(s)
			if len(p.started) != 2 || !p.Open() {
				t.Fatalf("%d have started, open %v", len(p.started), p.Open())
			}
		},
	} {
		for _, tt := range []struct {
			ago   time.Duration
			knows bool
		}{{4 * time.Minute, true}, {24 * time.Hour, false}} {
			p := pacedAt(3)
			p.sleep(time.Minute)
			if p.Rate(p.now); !p.Open() {
				t.Fatal("the own law is not open")
			}
			p.sleep(tt.ago - time.Minute)
			fleet(p)
			p.Alone(p.now)
			p.throttle(0)
			if got := p.Rate(p.now); math.IsInf(got, 1) == tt.knows {
				t.Errorf("%s: it goes on at %v, after %v; want at the rate that it had: %v", name, got, tt.ago, tt.knows)
			}
		}
	}
}

// The fleet hears of a hold when its store is back, if it is not over then. A hint that a process
// obeyed alone was no word to all.
func TestAHoldIsToldWhenTheStoreIsBack(t *testing.T) {
	fail := func(p *pace) {
		if _, due, _ := p.Report(p.now); !due {
			t.Fatal("nothing is due")
		}
		p.Alone(p.now)
	}
	for name, hold := range map[string]func(*pace){
		"the store fails when it is told": func(p *pace) { p.Hold(p.now, 20*time.Second) },
		"a hold while it is away": func(p *pace) {
			p.News()
			fail(p)
			p.Hold(p.now, 20*time.Second)
		},
		"a shorter one while it is told": func(p *pace) {
			p.Hold(p.now, 20*time.Second)
			p.Report(p.now)
			p.Hold(p.now, time.Second)
			p.Alone(p.now)
		},
	} {
		s := new(store)
		p, other := s.join(epoch), s.join(epoch)
		hold(p)
		for range 2 {
			fail(p)
			p.sleep(2 * time.Second)
		}
		p.exchange(s)
		other.now = p.now
		other.News()
		other.exchange(s)
		if got, want := other.Wait(p.now), 20*time.Second; got < 16*time.Second || got > want {
			t.Errorf("%s: the others wait for %v, want for the 16 seconds that are left, and a part", name, got)
		}
		p.sleep(time.Second)
		p.News()
		if r, _, _ := p.Report(p.now); r.Hold != 0 {
			t.Errorf("%s: told again: %v s", name, r.Hold)
		}
	}
	s := new(store)
	p := s.join(epoch)
	p.News()
	fail(p)
	p.throttle(0)
	for range 40 {
		p.enter(0, false, 0)
		p.sleep(10 * time.Millisecond)
		p.throttle(20 * time.Second)
	}
	if p.Wait(p.now) < 15*time.Second {
		t.Fatalf("a wait of %v, want the hint", p.Wait(p.now))
	}
	if r, _, _ := p.Report(p.now); r.Hold != 0 {
		t.Errorf("the fleet is told to hold for %v s", r.Hold)
	}
}

// Turns come, counting ends, and the own rate is known, though a process's clock was put back. The
// store's was not.
func TestClockOfAMemberGoesBack(t *testing.T) {
	const back = time.Hour
	goOn := func(p *pace, s *store, d time.Duration) (told []fleetpace.Report) {
		for end := p.now.Add(d); p.now.Before(end); p.sleep(pacing.Gap) {
			if r, due, _ := p.Report(p.now); due {
				told = append(told, r)
				p.Answered(p.now, r, s.apply(p.now.Add(back), r))
			}
			for t := p.First(); t != nil && p.Ready(p.now, t) == 0; t = p.First() {
				p.note(t)
			}
		}
		return told
	}
	s := pacedStore(1)
	p := s.join(epoch)
	for range 4 {
		p.enter(0, false, 0)
	}
	p.exchange(s)
	p.sleep(-back)
	if goOn(p, s, 5*time.Second); len(p.started) != 4 {
		t.Errorf("%d of four turns have come in 5s after the clock went back", len(p.started))
	}
	p.sleep(-back)
	if p.Alone(p.now); p.Rate(p.now) > 4 {
		t.Errorf("alone it goes on at %v attempts per second", p.Rate(p.now))
	}

	s = new(store)
	p = s.join(epoch)
	p.throttle(0)
	p.exchange(s)
	p.throttle(0)
	p.sleep(-back)
	retry := &pacing.Turn[int]{Retry: true}
	if wait, _ := p.Enter(p.now, retry, pacing.Never); wait > 1250*time.Millisecond {
		t.Errorf("a retry waits for %v until all have counted, want 1.25s at most", wait)
	}
	p.Leave(retry)
	told := goOn(p, s, 2*time.Second)
	if len(told) == 0 || !told[0].Counted || told[0].Hits != 1 {
		t.Errorf("told after counting: %+v", told)
	}

	s = new(store)
	p = s.join(epoch)
	p.Hold(p.now, time.Minute)
	p.sleep(-back)
	if r, _, _ := p.Report(p.now); r.Hold != 60 {
		t.Errorf("told to hold for %v s, want 60", r.Hold)
	}
	p.sleep(-back)
	p.Alone(p.now)
	if r, _, _ := p.Report(p.now); r.Hold != 60 {
		t.Errorf("told once more to hold for %v s, want 60", r.Hold)
	}
}

// A hint that came while all counted holds all, if so many are throttled: whichever process's
// report decides, it has the hint, and what is left of it. One process alone has it too.
func TestAHintOfTheCountingHoldsAll(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		s := new(store)
		ps := make([]*pace, n)
		for i := range ps {
			ps[i] = s.join(epoch)
		}
		ps[0].throttle(0)
		for range 2 { // the first tells, and all hear
			for _, p := range ps {
				p.News()
				p.exchange(s)
			}
		}
		for _, p := range ps {
			for range 6 {
				p.Throttled(p.now, p.enter(0, false, 0).Round, 30*time.Second)
			}
		}
		for range 30 {
			for _, p := range ps {
				p.exchange(s)
				p.sleep(pacing.Gap)
			}
		}
		for i, p := range ps {
			if got := p.Wait(p.now); got < 27*time.Second || got > 40*time.Second {
				t.Errorf("%d processes: after 1.5s process %d waits for %v, want for the hint of 30s, and a part", n, i, got)
			}
		}
		ps[0].sleep(40 * time.Second)
		ps[0].enter(0, false, 0)
		if r, _, _ := ps[0].Report(ps[0].now); r.Hint != 0 {
			t.Errorf("%d processes: a hint of %v s is told again", n, r.Hint)
		}
	}
}
