package pacing_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/goretry/retry/internal/health"
	"github.com/goretry/retry/internal/pacing"
)

// pace is a Pacer with a clock, and what has started since then.
type pace struct {
	pacing.Pacer
	now     time.Time
	started []int // owners
	at      []time.Duration
}

var epoch = time.Unix(1e9, 0)

func start() *pace { return &pace{now: epoch} }

// pacedAt returns a pace under a quota of so many per second, of which the next one may start at once.
func pacedAt(rate float64) *pace {
	p := start()
	p.Know(p.now, rate, 1)
	return p
}

func (p *pace) sleep(d time.Duration) { p.now = p.now.Add(d) }

// enter puts an attempt into the queue, or lets it start.
func (p *pace) enter(owner int, cost float64) *pacing.Turn {
	t := &pacing.Turn{Owner: owner, Bill: &pacing.Bill{Cost: cost}}
	if wait, ok := p.Enter(p.now, t, pacing.Never); ok && wait == 0 {
		p.note(t)
	}
	return t
}

func (p *pace) note(t *pacing.Turn) {
	p.started = append(p.started, t.Owner.(int))
	p.at = append(p.at, p.now.Sub(epoch))
}

// drain waits until nothing waits.
func (p *pace) drain() {
	for t := p.First(); t != nil; t = p.First() {
		if p.TryStart(p.now, t) {
			p.note(t)
			continue
		}
		wait, _ := p.Sleep(t)
		p.sleep(wait)
	}
}

// A Pacer that was told nothing limits nothing.
func TestOpen(t *testing.T) {
	p := start()
	for range 1000 {
		p.enter(0, 7)
	}
	if !p.Open() || p.Paces() || !math.IsInf(p.Rate(p.now), 1) || p.Wait(p.now) != 0 || len(p.started) != 1000 {
		t.Errorf("open %v, paces %v, rate %v, wait %v, %d started", p.Open(), p.Paces(), p.Rate(p.now), p.Wait(p.now), len(p.started))
	}
	if rate, throttled, seems := p.Quota(p.now); rate != 0 || throttled != 0 || seems != 0 {
		t.Errorf("a quota of %v, which seems to be %v, %v throttled", rate, seems, throttled)
	}
}

// Only Hold closes it. Then all that have come start at once.
func TestHoldOfAnOpenPacer(t *testing.T) {
	p := start()
	p.Hold(p.now, 10*time.Second)
	for i := range 20 {
		p.sleep(400 * time.Millisecond)
		p.enter(i, 0)
	}
	if p.Open() || p.Len() != 20 {
		t.Errorf("open %v, and %d of 20 wait", p.Open(), p.Len())
	}
	if p.drain(); !p.Open() || p.at[0] != 10*time.Second || p.at[19] != 10*time.Second {
		t.Errorf("open %v, and they have started after %v", p.Open(), p.at)
	}
	p.Hold(p.now, 0)
	if p.Hold(p.now, -1); !p.Open() {
		t.Error("a hold of no time holds")
	}
	p.Hold(p.now, time.Second)
	p.sleep(time.Second)
	if p.Wait(p.now); !p.Open() {
		t.Error("not open after a hold in which nothing came")
	}
}

// A hold in a hold can make it longer, and not shorter; 75 seconds are the most.
func TestHoldsAreOne(t *testing.T) {
	for name, p := range map[string]*pace{"open": start(), "a quota": pacedAt(10)} {
		p.Hold(p.now, 5*time.Second)
		p.sleep(2 * time.Second)
		p.Hold(p.now, 8*time.Second)
		p.Hold(p.now, time.Second)
		if w := p.Wait(p.now); w != 8*time.Second {
			t.Errorf("%s: the next waits %v, want 8s", name, w)
		}
		for _, d := range []time.Duration{76 * time.Second, time.Hour, math.MaxInt64} {
			if p.Hold(p.now, d); p.Wait(p.now) != 75*time.Second {
				t.Errorf("%s: a hold of %v lasts %v", name, d, p.Wait(p.now))
			}
		}
	}
}

// Who has to start earliest goes first; but every fifth turn goes to who came first, so nobody waits for ever.
func TestTheEarliestDeadlineGoesFirst(t *testing.T) {
	p := pacedAt(1)
	p.enter(-1, 0)
	for i, patience := range []time.Duration{pacing.Never, 90 * time.Second, 60 * time.Second, pacing.Never, 70 * time.Second, 30 * time.Second, 60 * time.Second} {
		p.Enter(p.now, &pacing.Turn{Owner: i}, patience)
	}
	p.started = nil
	p.drain()
	if want := []int{5, 2, 6, 0, 4, 1, 3}; !slices.Equal(p.started, want) { // the first that started was one of five
		t.Errorf("order %v, want %v", p.started, want)
	}
}

// Also if more urgent ones come at the moment at which a turn does, before the timer of the first.
func TestWhoComesAtTheRightMomentGoesBeforeNobody(t *testing.T) {
	p := pacedAt(1)
	p.enter(-1, 0)
	first := p.enter(0, 0)
	for i := range 5 {
		p.sleep(time.Second)
		p.Enter(p.now, &pacing.Turn{Owner: i + 1}, time.Minute)
		if p.TryStart(p.now, p.First()) {
			p.note(first)
		}
	}
	if first.Waits() {
		t.Errorf("%v have started before who came first", p.started)
	}
}

// Who can start just when half of its time is over does so, also if its timer is late.
func TestALateTimerCostsNoTurn(t *testing.T) {
	p := pacedAt(1)
	p.enter(0, 0)
	turn := new(pacing.Turn)
	if wait, ok := p.Enter(p.now, turn, time.Second+1); !ok || wait != time.Second+1 {
		t.Fatalf("it waits %v, %v", wait, ok)
	}
	p.enter(1, 0)
	p.sleep(time.Second + 10*time.Millisecond)
	if !p.TryStart(p.now, turn) {
		t.Error("it does not start")
	}
}

// An urgent attempt is told its own wait, and not that of the backlog which came before it:
// a fifth of the turns is the backlog's.
func TestAnUrgentAttemptKnowsItsWait(t *testing.T) {
	for urgent, wait := range map[int]time.Duration{0: 1, 4: 5, 40: 50, 400: 500} { // attempts; seconds
		p := pacedAt(1)
		for range 1000 {
			p.enter(0, 0)
		}
		for range urgent {
			p.Enter(p.now, &pacing.Turn{}, 15*time.Minute)
		}
		got, ok := p.Enter(p.now, &pacing.Turn{}, 15*time.Minute)
		if want := max(wait, 1)*time.Second + time.Second; !ok || got < want-2*time.Second || got > want+2*time.Second {
			t.Errorf("behind %d as urgent ones: %v, %v, want about %v", urgent, got, ok, want)
		}
	}
}

// The queue is in order whoever leaves it.
func TestQueueInAnyOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		p := start()
		p.Hold(p.now, time.Second)
		var turns []*pacing.Turn
		latest := map[int]time.Duration{}
		for i := range 1 + rng.IntN(60) {
			turn := &pacing.Turn{Owner: i}
			latest[i] = time.Duration(2+rng.IntN(20)) * time.Second
			p.Enter(p.now, turn, latest[i])
			turns = append(turns, turn)
		}
		rng.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
		n := rng.IntN(len(turns))
		for _, turn := range turns[:n] {
			p.Leave(turn)
		}
		p.drain()
		if len(p.started) != len(turns)-n {
			t.Fatalf("%d of %d have started", len(p.started), len(turns)-n)
		}
		waits := slices.Clone(p.started)
		for i, owner := range p.started {
			want := slices.MinFunc(waits, func(a, b int) int { return cmp.Or(cmp.Compare(latest[a], latest[b]), cmp.Compare(a, b)) })
			if i%5 == 4 {
				want = slices.Min(waits)
			}
			if owner != want {
				t.Fatalf("%v: turn %d is %d's, want %d's", latest, i, owner, want)
			}
			waits = slices.DeleteFunc(waits, func(x int) bool { return x == owner })
		}
	}
}

func TestTooLate(t *testing.T) {
	p := pacedAt(1)
	p.enter(0, 0)
	for i := range 10 {
		wait, ok := p.Enter(p.now, &pacing.Turn{}, 5*time.Second)
		if ok != (i < 4) || p.Len() != min(i+1, 4) {
			t.Errorf("number %d: wait %v, ok %v, %d wait", i, wait, ok, p.Len())
		}
	}
}

// An attempt whose wait is exactly its patience enters.
func TestPatience(t *testing.T) {
	p := pacedAt(1)
	p.enter(0, 0)
	wait := p.Wait(p.now)
	if got, ok := p.Enter(p.now, &pacing.Turn{}, wait-1); ok || got != wait {
		t.Errorf("with less patience than %v it entered, or waits %v", wait, got)
	}
	if got, ok := p.Enter(p.now, &pacing.Turn{}, wait); !ok || got != wait {
		t.Errorf("with a patience of %v it did not enter, or waits %v", wait, got)
	}
}

// A cost that makes no sense is one unit.
func TestCostsThatMakeNoSense(t *testing.T) {
	for _, cost := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1)} {
		p := pacedAt(1)
		p.enter(0, cost)
		if got := p.Wait(p.now); got != time.Second+1 {
			t.Errorf("after a cost of %v the next waits %v, want a second", cost, got)
		}
	}
}

// What the server states is of attempts, whatever they cost.
func TestCostsUnderAStatedQuota(t *testing.T) {
	p := start()
	p.Tell(p.now, pacing.Stated{Rate: 1, Burst: 60, Remaining: 0}, 0, 0)
	p.enter(0, 50)
	if got := p.Wait(p.now); got != 2*time.Second+1 {
		t.Errorf("the second waits %v, want two seconds", got)
	}
}

// A clock that goes back holds nothing for longer than a hold may be.
func TestClockGoesBack(t *testing.T) {
	p := pacedAt(10)
	p.Hold(p.now, time.Minute)
	p.enter(0, 0)
	p.sleep(-24 * time.Hour)
	began := p.now
	p.TryStart(p.now, p.First())
	p.drain()
	if d := p.now.Sub(began); d > time.Minute {
		t.Errorf("held for %v after the clock went back", d)
	}
}

// Nor does one that jumps ahead leave anything that waits for ever.
func TestClockJumpsAhead(t *testing.T) {
	p := pacedAt(4)
	for i := range 100 {
		p.enter(i, 0)
	}
	p.sleep(math.MaxInt64)
	before := p.now
	if p.drain(); len(p.started) != 100 || p.now.Sub(before) > 25*time.Second {
		t.Errorf("%d of 100 have started in %v", len(p.started), p.now.Sub(before))
	}
}

// Whatever happens, every attempt that entered starts or leaves, once.
func TestRandomRuns(t *testing.T) {
	for _, p := range []*pace{start(), pacedAt(2), pacedAt(1000)} {
		rng := rand.New(rand.NewPCG(1, 2))
		waiting := map[*pacing.Turn]bool{}
		for i := range 300_000 {
			switch x := rng.IntN(100); {
			case x < 40:
				turn := &pacing.Turn{Owner: i, Bill: &pacing.Bill{Cost: math.Exp(4 * rng.NormFloat64())}}
				if wait, ok := p.Enter(p.now, turn, time.Duration(rng.Int64N(int64(time.Minute)))); ok && wait > 0 {
					waiting[turn] = true
				}
			case x < 60:
				p.sleep(time.Duration(rng.ExpFloat64() * float64(time.Second)))
			case x < 80:
				turn := p.First()
				if turn == nil {
					break
				}
				started := p.TryStart(p.now, turn)
				if turn.Late > 0 {
					delete(waiting, turn)
				}
				if started {
					if !waiting[turn] {
						t.Fatal("an attempt started twice")
					}
					delete(waiting, turn)
					switch x {
					case 60:
						p.Return(turn, rng.IntN(2) == 0)
					case 61, 62, 63, 64:
						p.End(p.now, turn, health.Outcome(rng.IntN(3)), time.Duration(rng.Int64N(int64(3*time.Second))), true)
					}
				}
			case x < 90:
				throttle(&p.Pacer, p.now, time.Duration(rng.Int64N(int64(3*time.Second))))
			case x < 95:
				for turn := range waiting {
					p.Leave(turn)
					delete(waiting, turn)
					break
				}
			case x == 95:
				p.Hold(p.now, time.Duration(rng.Int64N(int64(time.Second))))
			case x == 96:
				p.sleep(-time.Duration(rng.Int64N(int64(time.Minute))))
			case x == 97 && rng.IntN(100) == 0:
				p.sleep(time.Duration(rng.Int64N(int64(10 * time.Minute))))
			case x == 98:
				p.Tell(p.now, pacing.Stated{Rate: math.Exp(2 * rng.NormFloat64()), Burst: 10, Remaining: float64(rng.IntN(10))}, uint64(i), float64(rng.IntN(5)))
			}
			if r := p.Rate(p.now); !(r > 0) || p.Len() != len(waiting) || p.Wait(p.now) < 0 || p.Open() && p.Len() > 0 {
				t.Fatalf("after %d steps: rate %v, %d wait of %d, wait %v, open %v", i, r, p.Len(), len(waiting), p.Wait(p.now), p.Open())
			}
		}
		n := len(waiting)
		p.started = nil
		if p.drain(); len(p.started) != n || p.First() != nil || p.Len() != 0 {
			t.Errorf("%d of %d attempts started", len(p.started), n)
		}
	}
}

// Only the first of those that wait may start, and it starts when its wait is over.
func TestOnlyTheFirstIsReady(t *testing.T) {
	p := start()
	p.Hold(p.now, time.Second)
	first, second := p.enter(1, 0), p.enter(2, 0)
	if !first.Waits() || !second.Waits() {
		t.Error("nobody waits")
	}
	p.sleep(time.Second - 1)
	if a, b := try(&p.Pacer, p.now, first), try(&p.Pacer, p.now, second); a != 1 || b != pacing.Never {
		t.Errorf("a nanosecond too early the first waits %v and the second %v, want 1ns and Never", a, b)
	}
	p.sleep(1)
	if wait := try(&p.Pacer, p.now, first); wait != 0 || first.Waits() {
		t.Errorf("the first waits %v, in the queue: %v", wait, first.Waits())
	}
	p.Leave(second)
	if second.Waits() || p.Len() != 0 {
		t.Error("the second waits after it has left")
	}
}

// A turn whose time has passed gives nothing back.
func TestALateReturn(t *testing.T) {
	p := pacedAt(1)
	late := p.enter(0, 0)
	p.sleep(5 * time.Second)
	p.Wait(p.now)
	p.Return(late, false)
	p.enter(0, 0)
	if p.Wait(p.now) < 900*time.Millisecond {
		t.Errorf("after it an attempt waits %v, want what one attempt takes", p.Wait(p.now))
	}
}
