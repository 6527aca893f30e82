package pacing_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/goretry/retry/internal/pacing"
)

// pace is a Pacer with a clock, and what has started since then.
type pace struct {
	pacing.Pacer[int]
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
func (p *pace) enter(owner int, retry bool, cost float64) *pacing.Turn[int] {
	t := &pacing.Turn[int]{Owner: owner, Retry: retry, Cost: cost}
	if wait, ok := p.Enter(p.now, t, pacing.Never); ok && wait == 0 {
		p.note(t)
	}
	return t
}

func (p *pace) note(t *pacing.Turn[int]) {
	p.started = append(p.started, t.Owner)
	p.at = append(p.at, p.now.Sub(epoch))
}

// drain waits until nothing waits.
func (p *pace) drain() {
	for t := p.First(); t != nil; t = p.First() {
		wait := p.TryStart(p.now, t)
		if wait > 0 {
			p.sleep(wait)
			continue
		}
		p.note(t)
	}
}

// A Pacer that was told nothing limits nothing.
func TestOpen(t *testing.T) {
	p := start()
	for range 1000 {
		p.enter(0, false, 7)
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
		p.enter(i, false, 0)
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

func TestRetriesGoFirst(t *testing.T) {
	p := pacedAt(1)
	p.enter(-1, false, 0)
	for i := range 3 {
		p.enter(i, false, 0)
	}
	p.enter(3, true, 0)
	p.enter(4, true, 0)
	short := &pacing.Turn[int]{Retry: true}
	if wait, ok := p.Enter(p.now, short, time.Minute); !ok || wait > p.Wait(p.now)/2 {
		t.Errorf("a retry waits %v of %v", wait, p.Wait(p.now))
	}
	p.Leave(short)
	p.drain()
	if want := []int{-1, 3, 4, 0, 1, 2}; !slices.Equal(p.started, want) {
		t.Errorf("order %v, want %v", p.started, want)
	}
}

// The less time attempts have, the sooner they start; but every fifth turn goes to who came
// first, so nobody waits for ever.
func TestUrgentAttemptsGoFirst(t *testing.T) {
	patience := []time.Duration{pacing.Never, 16 * time.Minute, time.Minute, 4 * time.Second}
	p := pacedAt(1e3)
	p.enter(-1, false, 0)
	for i := range 40 {
		p.Enter(p.now, &pacing.Turn[int]{Owner: i, Retry: i >= 20}, patience[i%4])
	}
	p.started = nil
	p.drain()
	want := []int{23, 27, 31, 0, 35, 39, 3, 7, 1, 11, 15, 19, 22, 2, 26, 30, 34, 38, 4, 6, 10, 14, 18, 5, 21, 25, 29, 33, 8, 37, 9, 13, 17, 12, 20, 24, 28, 32, 16, 36}
	if !slices.Equal(p.started, want) {
		t.Errorf("order %v,\nwant  %v", p.started, want)
	}
}

// Also if more urgent ones come at the moment at which a turn does, before the timer of the first.
func TestWhoComesAtTheRightMomentGoesBeforeNobody(t *testing.T) {
	p := pacedAt(1)
	p.enter(-1, false, 0)
	first := p.enter(0, false, 0)
	for i := range 5 {
		p.sleep(time.Second)
		p.enter(i+1, true, 0)
	}
	if p.TryStart(p.now, first); first.Waits() {
		t.Errorf("%v have started before who came first", p.started)
	}
}

// An urgent attempt is told its own wait, and not that of the backlog which came before it:
// a fifth of the turns is the backlog's.
func TestAnUrgentAttemptKnowsItsWait(t *testing.T) {
	for urgent, wait := range map[int]time.Duration{0: 1, 4: 5, 40: 50, 400: 500} { // attempts; seconds
		p := pacedAt(1)
		for range 1000 {
			p.enter(0, false, 0)
		}
		for range urgent {
			p.Enter(p.now, &pacing.Turn[int]{}, 15*time.Minute)
		}
		got, ok := p.Enter(p.now, &pacing.Turn[int]{}, 15*time.Minute)
		if want := max(wait, 1)*time.Second + time.Second; !ok || got < want-2*time.Second || got > want+2*time.Second {
			t.Errorf("behind %d as urgent ones: %v, %v, want about %v", urgent, got, ok, want)
		}
	}
}

// Those who have up to 4 s, 64 s or 17 minutes go before those who have more, even retries.
func TestClassesOfPatience(t *testing.T) {
	for patience, more := range map[time.Duration]bool{
		2 * time.Second: false, 4 * time.Second: true, 10 * time.Second: false, 64 * time.Second: true,
		100 * time.Second: false, 1024 * time.Second: true, 1088 * time.Second: false, 5000 * time.Second: false, 20_000 * time.Second: false,
	} {
		p := pacedAt(100)
		p.enter(0, false, 0)
		p.enter(0, false, 100)
		first, second := &pacing.Turn[int]{Retry: true}, &pacing.Turn[int]{}
		p.Enter(p.now, first, patience+1)
		p.Enter(p.now, second, patience)
		for p.First() != first && p.First() != second {
			p.Leave(p.First())
		}
		if got := p.First() == second; got != more {
			t.Errorf("patience of %v goes before one of a nanosecond more: %v", patience, got)
		}
	}
}

func TestTooLate(t *testing.T) {
	p := pacedAt(1)
	p.enter(0, false, 0)
	for range 10 {
		p.Enter(p.now, &pacing.Turn[int]{}, time.Minute)
	}
	late := &pacing.Turn[int]{}
	if wait, ok := p.Enter(p.now, late, 5*time.Second); ok || wait < 9*time.Second || p.Len() != 10 {
		t.Errorf("wait %v, ok %v, %d wait", wait, ok, p.Len())
	}
}

// An attempt whose wait is exactly its patience enters.
func TestPatience(t *testing.T) {
	p := pacedAt(1)
	p.enter(0, false, 0)
	wait := p.Wait(p.now)
	if got, ok := p.Enter(p.now, &pacing.Turn[int]{}, wait-1); ok || got != wait {
		t.Errorf("with less patience than %v it entered, or waits %v", wait, got)
	}
	if got, ok := p.Enter(p.now, &pacing.Turn[int]{}, wait); !ok || got != wait {
		t.Errorf("with a patience of %v it did not enter, or waits %v", wait, got)
	}
}

// A cost that makes no sense is one unit.
func TestCostsThatMakeNoSense(t *testing.T) {
	for _, cost := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1)} {
		p := pacedAt(1)
		p.enter(0, false, cost)
		if got := p.Wait(p.now); got != time.Second+1 {
			t.Errorf("after a cost of %v the next waits %v, want a second", cost, got)
		}
	}
}

// What the server states is of attempts, whatever they cost.
func TestCostsUnderAStatedQuota(t *testing.T) {
	p := start()
	p.Tell(p.now, pacing.Stated{Rate: 1, Burst: 60, Remaining: 0}, 0, 0)
	p.enter(0, false, 50)
	if got := p.Wait(p.now); got != 2*time.Second+1 {
		t.Errorf("the second waits %v, want two seconds", got)
	}
}

// A clock that goes back holds nothing for longer than a hold may be.
func TestClockGoesBack(t *testing.T) {
	p := pacedAt(10)
	p.Hold(p.now, time.Minute)
	p.enter(0, false, 0)
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
		p.enter(i, false, 0)
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
		waiting := map[*pacing.Turn[int]]bool{}
		for i := range 300_000 {
			switch x := rng.IntN(100); {
			case x < 40:
				turn := &pacing.Turn[int]{Owner: i, Retry: x < 10, Cost: math.Exp(4 * rng.NormFloat64())}
				if wait, ok := p.Enter(p.now, turn, time.Duration(rng.Int64N(int64(time.Minute)))); ok && wait > 0 {
					waiting[turn] = true
				}
			case x < 60:
				p.sleep(time.Duration(rng.ExpFloat64() * float64(time.Second)))
			case x < 80:
				if turn := p.First(); turn != nil && p.TryStart(p.now, turn) == 0 {
					if !waiting[turn] {
						t.Fatal("an attempt started twice")
					}
					delete(waiting, turn)
					if x == 60 {
						p.Return(turn)
					}
				}
			case x < 90:
				p.Throttled(p.now, time.Duration(rng.Int64N(int64(3*time.Second))))
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
	first, second := p.enter(1, false, 0), p.enter(2, false, 0)
	if !first.Waits() || !second.Waits() {
		t.Error("nobody waits")
	}
	p.sleep(time.Second - 1)
	if a, b := p.TryStart(p.now, first), p.TryStart(p.now, second); a != 1 || b != pacing.Never {
		t.Errorf("a nanosecond too early the first waits %v and the second %v, want 1ns and Never", a, b)
	}
	p.sleep(1)
	if wait := p.TryStart(p.now, first); wait != 0 || first.Waits() {
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
	late := p.enter(0, false, 0)
	p.sleep(5 * time.Second)
	p.Wait(p.now)
	p.Return(late)
	p.enter(0, false, 0)
	if p.Wait(p.now) < 900*time.Millisecond {
		t.Errorf("after it an attempt waits %v, want what one attempt takes", p.Wait(p.now))
	}
}
