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

// throttle notes that an attempt was throttled which started now.
func (p *pace) throttle(hint time.Duration) {
	p.Throttled(p.now, pacing.Refusal{Round: p.Round(), Hint: hint})
}

// cut throttles an attempt when the rate may fall again.
func (p *pace) cut() {
	p.sleep(100 * time.Millisecond)
	p.throttle(0)
}

// pacedAt returns a pace at a rate, at which nothing has to wait, and of whose recent
// attempts an eighth was throttled: the rate of a hold in which some attempts have come.
func pacedAt(rate float64) *pace {
	p := start()
	p.Rand = func() float64 { return 0 }
	came := make([]*pacing.Turn[int], int(math.Ceil(rate/2)))
	d := time.Duration(2 * float64(len(came)) / rate * float64(time.Second))
	p.Hold(p.now, d)
	for i := range came {
		came[i] = p.enter(0, false, 0)
	}
	p.sleep(d)
	p.Rate(p.now)
	for _, t := range came {
		p.Leave(t)
	}
	p.Rand = nil
	return p
}

// heldFor returns one whose attempts are held.
func heldFor(rate float64, hint time.Duration) *pace {
	p := pacedAt(rate)
	p.throttle(0)
	p.throttle(0)
	p.throttle(hint)
	return p
}

func near(got, want, by float64) bool { return math.Abs(got-want) <= by*math.Abs(want) }

func TestOpenUntilThrottled(t *testing.T) {
	p := start()
	for range 1000 {
		p.enter(0, false, 0)
	}
	if !p.Open() || !math.IsInf(p.Rate(p.now), 1) || p.Wait(p.now) != 0 {
		t.Errorf("open %v, rate %v, wait %v", p.Open(), p.Rate(p.now), p.Wait(p.now))
	}
}

func TestCountsBeforeItPaces(t *testing.T) {
	for _, c := range []struct {
		name      string
		throttled []int // of the attempts after the first throttled one
		of        int
		rate      float64
	}{
		{"none more", nil, 40, math.Inf(1)},
		{"one more", []int{0}, 40, math.Inf(1)},
		{"two at once", []int{0, 1}, 2, 5}, // at least one attempt has passed in the 200 ms
		{"two of sixteen", []int{0, 15}, 16, 14 / 1.6},
		{"two of seventeen", []int{0, 16}, 17, math.Inf(1)},
		{"the third decides", []int{0, 16, 17}, 18, 15 / 1.8},
	} {
		p := start()
		old := p.Round()
		p.throttle(time.Hour)
		for range 5 {
			p.Throttled(p.now, pacing.Refusal{Round: old}) // were under way: nothing follows from them
		}
		for i := range c.of {
			p.enter(i, false, 0)
			p.sleep(100 * time.Millisecond)
			if slices.Contains(c.throttled, i) {
				p.throttle(time.Hour)
			}
			if !math.IsInf(p.Rate(p.now), 1) != (i == c.of-1 && !math.IsInf(c.rate, 1)) {
				t.Fatalf("%s: after %d attempts the rate is %v", c.name, i+1, p.Rate(p.now))
			}
		}
		if got := p.Rate(p.now); got != c.rate && !near(got, c.rate, .03) { // what has come first has faded a little
			t.Errorf("%s: rate %v, want %v", c.name, got, c.rate)
		}
	}
}

func TestCountingEnds(t *testing.T) {
	p := start()
	p.throttle(0)
	for range 1000 {
		p.enter(0, false, 0)
	}
	p.sleep(10 * time.Second)
	if p.Wait(p.now); p.Open() {
		t.Error("open after ten quiet seconds, want after more")
	}
	p.sleep(1)
	if p.Wait(p.now); !p.Open() {
		t.Error("not open after more than ten quiet seconds")
	}
}

// In an open loop answers come late: the share is the same, however late.
func TestCountsWhateverAnAnswerTakes(t *testing.T) {
	for _, late := range []int{1, 8, 30, 200} { // attempts that start meanwhile
		for share, paces := range map[int]bool{4: true, 7: true, 12: false, 20: false} { // one of so many is throttled
			p := start()
			p.throttle(0)
			for i := range 2000 {
				p.enter(i, false, 0)
				p.sleep(10 * time.Millisecond)
				if i >= late && i%share == 0 {
					p.throttle(0)
				}
				if !math.IsInf(p.Rate(p.now), 1) {
					break
				}
			}
			if paced := !math.IsInf(p.Rate(p.now), 1); paced != paces {
				t.Errorf("one of %d throttled, %d attempts later: paced %v", share, late, paced)
			}
		}
	}
}

// A few milliseconds tell no rate, however many attempts were throttled in them.
func TestCountsLongEnough(t *testing.T) {
	p := start()
	p.throttle(0)
	for i := range 120 {
		p.enter(i, false, 0)
		p.sleep(time.Millisecond)
		if i%2 == 1 {
			p.throttle(0)
		}
		if paced := !math.IsInf(p.Rate(p.now), 1); paced != (i >= 99) {
			t.Fatalf("throttled %d times in %d ms: paced %v", i/2+1, i+1, paced)
		}
	}
	p = start()
	p.throttle(0)
	for i := range 3 {
		p.enter(i, false, 0)
		p.sleep(50 * time.Millisecond)
		p.throttle(0)
		if paced := !math.IsInf(p.Rate(p.now), 1); paced != (i >= 1) {
			t.Fatalf("throttled %d times in %d ms: paced %v", i+1, 50*i+50, paced)
		}
	}
}

func TestLosesByTheShare(t *testing.T) {
	p := pacedAt(4)
	r := p.Round()
	before := p.Rate(p.now)
	share := 1. / 8
	p.cut()
	if want := before * (1 - 2*share*share/(share+.2)); !near(p.Rate(p.now), want, 1e-9) {
		t.Errorf("rate %v, want %v", p.Rate(p.now), want)
	}
	before = p.Rate(p.now)
	p.throttle(0) // in a burst
	p.sleep(100 * time.Millisecond)
	p.Throttled(p.now, pacing.Refusal{Round: r}) // began before the cut
	if p.Rate(p.now) != before {
		t.Errorf("an attempt of the round before, or of the same moment, lowered the rate to %v", p.Rate(p.now))
	}
	for range 40 {
		before = p.Rate(p.now)
		p.cut()
		if after := p.Rate(p.now); after < before/2 || after > before {
			t.Fatalf("rate %v after %v", after, before)
		}
	}
	if got := p.Rate(p.now); got != .05 {
		t.Errorf("lowest rate %v, want .05", got)
	}
}

func TestGrowsOnlyWhileAttemptsWait(t *testing.T) {
	p := pacedAt(4)
	rate := p.Rate(p.now)
	for range 3 { // none has to wait
		p.sleep(time.Second)
		p.enter(0, false, 0)
	}
	if p.Rate(p.now) != rate {
		t.Errorf("rate %v without waiting, want %v", p.Rate(p.now), rate)
	}
	grown := func(d time.Duration) float64 { // while one waits
		p.enter(0, false, 0)
		p.enter(0, false, 1e9)
		p.enter(0, false, 0)
		before := p.Rate(p.now)
		p.sleep(d)
		return p.Rate(p.now)/before - 1
	}
	if got, want := grown(time.Second), .0015*rate+1./(75*75); !near(got, want, 1e-9) {
		t.Errorf("in the first second the rate grew by %v, want %v", got, want)
	}
	calm, before := 1., p.Rate(p.now)
	for range 30 {
		p.sleep(time.Second)
		p.Rate(p.now)
		calm++
	}
	if got, want := grown(time.Second), .0015*p.Rate(p.now)+(calm+1)/(75*75); !near(got, want, .01) || p.Rate(p.now) < 1.15*before {
		t.Errorf("half a minute later it grew by %v in a second, want %v", got, want)
	}
	p.throttle(0)
	before = p.Rate(p.now)
	p.sleep(time.Second)
	if got, want := p.Rate(p.now)/before-1, .0015*before+1./(75*75); !near(got, want, 1e-9) {
		t.Errorf("after a throttled attempt it grew by %v, want %v", got, want)
	}
	p = pacedAt(1000)
	if got, want := grown(100*time.Millisecond), .1*(.15+.1/(75*75)); !near(got, want, 1e-9) {
		t.Errorf("a rate of 1000 grew by %v in 100 ms, want %v", got, want)
	}
	p = heldFor(4, time.Minute)
	if got := grown(59 * time.Second); got != 0 {
		t.Errorf("in a hold the rate grew by %v", got)
	}
}

// Below half of what it was before its cuts a rate grows back faster.
func TestGrowsBackFaster(t *testing.T) {
	for _, c := range []struct {
		cuts    int
		regains bool
	}{{1, false}, {3, false}, {4, true}, {8, true}, {20, true}} {
		p := pacedAt(64)
		was := p.Rate(p.now)
		for range c.cuts {
			p.cut()
		}
		p.enter(0, false, 0)
		p.enter(0, false, 1e9)
		p.enter(0, false, 0)
		for calm := 1.; calm <= 2; calm++ {
			rate := p.Rate(p.now)
			p.sleep(time.Second)
			if c.cuts < 8 { // more in a row are no reason to forget it
				was -= was / 30
			}
			want := .0015*rate + calm/(75*75)
			if c.regains {
				want += math.Log(was/2/rate) * calm / 30 * min(rate, 1)
			}
			if got := p.Rate(p.now)/rate - 1; !near(got, want, 1e-9) || c.regains != (was > 2*rate) {
				t.Errorf("%d cuts from %v to %v: it grows by %v in second %v, want %v", c.cuts, was, rate, got, calm, want)
			}
		}
	}
	p := pacedAt(64)
	for range 20 {
		p.cut()
	}
	p.sleep(4 * time.Minute)
	if p.enter(0, false, 0); !p.Open() {
		t.Fatal("not open after four minutes")
	}
	p.throttle(0)
	p.enter(0, false, 0)
	p.enter(0, false, 1e9)
	p.enter(0, false, 0)
	rate := p.Rate(p.now)
	p.sleep(time.Second)
	if got, want := p.Rate(p.now)/rate-1, .0015*rate+1./(75*75); !near(got, want, 1e-9) {
		t.Errorf("after it was open it grows from %v by %v, want %v: what was before is forgotten", rate, got, want)
	}
}

// server answers attempts at once: it throttles a share of them whatever their rate is, and
// those above a quota.
type server struct {
	rng         *rand.Rand
	share       float64
	quota       float64 // attempts per second; 0: none
	refused     float64 // share that another guard refuses, before they are sent
	level       float64
	at          time.Time
	sent, saved int // attempts, and those that were not throttled
}

// throttles takes an attempt.
func (s *server) throttles(now time.Time) bool {
	s.sent++
	s.level = min(s.level+now.Sub(s.at).Seconds()*s.quota, s.quota)
	s.at = now
	if s.rng.Float64() < s.share || s.quota > 0 && s.level < 1 {
		return true
	}
	s.level--
	s.saved++
	return false
}

// serve lets so many attempts per second come for some time. What is throttled comes again.
func (p *pace) serve(s *server, perSecond float64, d time.Duration) {
	every := time.Duration(float64(time.Second) / perSecond)
	send := func(t *pacing.Turn[int]) {
		if s.refused > 0 && s.rng.Float64() < s.refused {
			p.Unsent(t)
			return
		}
		if s.throttles(p.now) {
			p.Throttled(p.now, pacing.Refusal{Round: t.Round})
			again := &pacing.Turn[int]{Retry: true}
			p.Enter(p.now, again, pacing.Never) // at the next tick, if it may start at once
		}
	}
	for end := p.now.Add(d); p.now.Before(end); p.sleep(every) {
		t := new(pacing.Turn[int])
		if wait, ok := p.Enter(p.now, t, time.Minute); ok && wait == 0 {
			send(t)
		}
		for t := p.First(); t != nil && p.TryStart(p.now, t) == 0; t = p.First() {
			send(t)
		}
	}
}

// What is throttled whatever the rate is costs no more than the attempts themselves.
func TestARateThatIsNotTheReason(t *testing.T) {
	for _, share := range []float64{.01, .05, .08, .12, .2} {
		for seed := range uint64(5) {
			p, s := start(), &server{rng: rand.New(rand.NewPCG(seed, 1)), share: share}
			p.serve(s, 50, 10*time.Minute)
			if want := .9 * 50 * 600 * (1 - share); float64(s.saved) < want {
				t.Errorf("%v throttled, seed %d: %d passed, want %.0f", share, seed, s.saved, want)
			}
		}
	}
}

// What a later guard refuses was not sent, and says nothing about the rate.
func TestARateThatIsNotTheReasonBehindAnotherGuard(t *testing.T) {
	for _, share := range []float64{.08, .12, .2} {
		for seed := range uint64(5) {
			p, s := start(), &server{rng: rand.New(rand.NewPCG(seed, 1)), share: share, refused: .7}
			p.serve(s, 50, 10*time.Minute)
			if want := .8 * 50 * 600 * .3 * (1 - share); float64(s.saved) < want {
				t.Errorf("%v throttled, seed %d: %d passed, want %.0f", share, seed, s.saved, want)
			}
		}
	}
}

// A quota is found, with and without attempts that are throttled for another reason.
func TestARateThatIsTheReason(t *testing.T) {
	for _, share := range []float64{0, .03} {
		for seed := range uint64(5) {
			p, s := start(), &server{rng: rand.New(rand.NewPCG(seed, 1)), share: share, quota: 30}
			p.serve(s, 50, 10*time.Minute)
			if wasted := 1 - float64(s.saved)/float64(s.sent); wasted > .08+2*share || float64(s.saved) < .93*30*600 {
				t.Errorf("%v throttled, seed %d: %d passed of %d that the quota has, %.3f wasted", share, seed, s.saved, 30*600, wasted)
			}
		}
	}
}

func TestStartsOneByOne(t *testing.T) {
	p := pacedAt(10)
	p.sleep(5 * time.Second) // no attempt is saved up
	for i := range 50 {
		p.enter(i, false, 0)
	}
	p.drain()
	for i := 2; i < 50; i++ {
		last, gap := p.at[i-1]-p.at[i-2], p.at[i]-p.at[i-1]
		if gap < 60*time.Millisecond || gap > 100*time.Millisecond+2 || gap > last {
			t.Errorf("gap %d: %v after %v", i, gap, last)
		}
	}
	if !slices.IsSorted(p.started) {
		t.Error("order", p.started)
	}
}

func TestRetriesGoFirst(t *testing.T) {
	p := heldFor(1, time.Second)
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
	if want := []int{3, 4, 0, 1, 2}; !slices.Equal(p.started, want) {
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
	want := []int{23, 27, 31, 35, 0, 39, 3, 7, 11, 1, 15, 19, 22, 26, 2, 30, 34, 38, 6, 4, 10, 14, 18, 21, 5, 25, 29, 33, 37, 8, 9, 13, 17, 20, 12, 24, 28, 32, 36, 16}
	if !slices.Equal(p.started, want) {
		t.Errorf("order %v,\nwant  %v", p.started, want)
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

// A timer that comes late does not make the rate lower.
func TestLateTimersAreMadeUpFor(t *testing.T) {
	for _, tt := range []struct {
		late   time.Duration
		starts int // in a second at 100/s
	}{{0, 101}, {time.Millisecond, 101}, {5 * time.Millisecond, 101}, {10 * time.Millisecond, 101}, {90 * time.Millisecond, 15}} {
		p := pacedAt(100)
		p.cut() // now it grows by little
		rate := p.Rate(p.now)
		for i := range 1000 {
			p.enter(i, false, 0)
		}
		for end := p.now.Add(time.Second); p.now.Before(end); {
			if wait := p.TryStart(p.now, p.First()); wait > 0 {
				p.sleep(wait + tt.late)
			} else {
				p.started = append(p.started, 0)
			}
		}
		got := float64(len(p.started)) * 100 / rate
		if !near(got, float64(tt.starts), .12) {
			t.Errorf("timers %v late: %d started, want %d", tt.late, len(p.started), tt.starts)
		}
	}
}

func TestAHintHoldsAll(t *testing.T) {
	for _, hint := range []time.Duration{time.Second, 20 * time.Second, time.Minute, time.Hour, math.MaxInt64} {
		least := min(hint, time.Minute)
		most, ends := least+least/4, map[time.Duration]bool{}
		var first, last time.Duration
		for range 200 {
			p := heldFor(100, hint)
			began := p.now
			p.Throttled(p.now, pacing.Refusal{Round: p.Round(), Hint: time.Millisecond}) // does not shorten it
			p.enter(0, false, 0)
			p.drain()
			d := p.now.Sub(began)
			if d < least || d > most+time.Second {
				t.Fatalf("hint %v: held for %v", hint, d)
			}
			if len(ends) == 0 {
				first, last = d, d
			}
			first, last = min(first, d), max(last, d)
			ends[d] = true
		}
		if len(ends) < 150 || last-first < least/5 {
			t.Errorf("hint %v: 200 processes come back within %v", hint, last-first)
		}
	}
}

func TestOneThrottledAttemptHoldsNothing(t *testing.T) {
	p := pacedAt(10)
	p.sleep(time.Second)
	p.enter(0, false, 0)
	p.throttle(time.Minute)
	if d := p.Wait(p.now); d > 200*time.Millisecond {
		t.Errorf("the next attempt waits %v", d)
	}
}

// A thousand attempts that were under way when the quota ended are no reason to hold all
// for a single one much later.
func TestAHintAfterManyThrottledAttemptsAtOnce(t *testing.T) {
	p := heldFor(1000, time.Second)
	for range 1000 {
		p.throttle(time.Second)
	}
	for i := range 30 {
		p.enter(i, false, 0)
	}
	p.drain()
	p.throttle(time.Minute)
	if d := p.Wait(p.now); d > 30*time.Second {
		t.Errorf("the next attempt waits %v", d)
	}
}

func TestHoldWithoutAThrottledAttempt(t *testing.T) {
	p := start()
	p.Hold(p.now, 10*time.Second)
	for i := range 20 {
		p.sleep(400 * time.Millisecond)
		p.enter(i, false, 0)
	}
	if len(p.started) > 0 {
		t.Fatalf("%d attempts started in the hold", len(p.started))
	}
	p.drain()
	if p.at[0] < 10*time.Second || p.at[0] > 13*time.Second {
		t.Errorf("the hold ended after %v", p.at[0])
	}
	if d := p.at[19] - p.at[0]; d < 7*time.Second || d > 11*time.Second {
		t.Errorf("what had come in 8 s started in %v", d)
	}
	p = start()
	p.Hold(p.now, time.Second)
	if p.Open() {
		t.Error("open in a hold")
	}
	p.sleep(2 * time.Second)
	if p.Wait(p.now); !p.Open() {
		t.Error("not open after a hold in which nothing came")
	}
	p.Hold(p.now, 0)
	p.Hold(p.now, -1)
	if !p.Open() {
		t.Error("a hold of no time holds")
	}
}

func TestRemembersItsRate(t *testing.T) {
	for _, c := range []struct {
		rate  float64
		quiet time.Duration
		known bool
	}{{4, 12*time.Second + 1, true}, {.5, 4 * time.Minute, true}, {4, 5*time.Minute - 1, true}, {4, 5 * time.Minute, false}} {
		p := pacedAt(c.rate)
		rate := p.Rate(p.now)
		p.sleep(c.quiet)
		if p.enter(0, false, 0); !p.Open() {
			t.Fatalf("not open after %v", c.quiet)
		}
		p.throttle(0)
		if got := p.Rate(p.now); c.known && got != rate || !c.known && !math.IsInf(got, 1) {
			t.Errorf("after %v the rate is %v, was %v", c.quiet, got, rate)
		}
	}
	p := pacedAt(4)
	p.sleep(12 * time.Second) // 10, and 8 attempts
	if p.enter(0, false, 0); p.Open() {
		t.Error("open after 12 s, want after more")
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

func TestCosts(t *testing.T) {
	for _, unit := range []float64{1, 1e-300, 1e300} {
		p := pacedAt(1)
		for range 2000 {
			p.enter(0, false, unit)
		}
		p.drain()
		p.sleep(2 * time.Second)
		p.enter(0, false, 3*unit)
		if got := p.Wait(p.now).Seconds() * p.Rate(p.now); !near(got, 3, .05) {
			t.Errorf("unit %v: an attempt of three times the average takes the time of %v", unit, got)
		}
	}
	for _, cost := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1)} {
		p := pacedAt(1)
		p.enter(0, false, 7)
		p.sleep(time.Minute / 10)
		p.enter(0, false, cost)
		if got := p.Wait(p.now).Seconds() * p.Rate(p.now); !near(got, 1, 1e-6) {
			t.Errorf("cost %v takes the time of %v attempts", cost, got)
		}
	}
}

func TestReturnsATurn(t *testing.T) {
	p := pacedAt(1)
	turn := p.enter(0, false, 0)
	before := p.Wait(p.now)
	if p.Return(turn); before < time.Second || p.Wait(p.now) != 0 {
		t.Errorf("wait %v, and %v after the turn was given back", before, p.Wait(p.now))
	}
}

// A clock that goes back holds nothing for longer than a hold may be.
func TestClockGoesBack(t *testing.T) {
	p := heldFor(10, time.Minute)
	p.enter(0, false, 0)
	p.sleep(-24 * time.Hour)
	began := p.now
	p.TryStart(p.now, p.First())
	p.drain()
	if d := p.now.Sub(began); d > 90*time.Second {
		t.Errorf("held for %v after the clock went back", d)
	}
	p.sleep(20 * time.Second)
	if p.Wait(p.now); !p.Open() {
		t.Error("not open after 20 quiet seconds")
	}
}

// Whatever happens, every attempt that entered starts or leaves, once.
func TestRandomRuns(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	p := start()
	waiting := map[*pacing.Turn[int]]bool{}
	for i := range 1_000_000 {
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
			p.Throttled(p.now, pacing.Refusal{Round: p.Round() - uint64(min(rng.IntN(2), int(p.Round()))), Hint: time.Duration(rng.Int64N(int64(3 * time.Second)))})
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
		}
		if r := p.Rate(p.now); !(r >= .05) || p.Len() != len(waiting) || p.Wait(p.now) < 0 || p.Open() && p.Len() > 0 {
			t.Fatalf("after %d steps: rate %v, %d wait of %d, wait %v, open %v", i, r, p.Len(), len(waiting), p.Wait(p.now), p.Open())
		}
	}
	n := len(waiting)
	p.started = nil
	if p.drain(); len(p.started) != n || p.First() != nil || p.Len() != 0 {
		t.Errorf("%d of %d attempts started", len(p.started), n)
	}
	if p.sleep(3 * time.Minute); p.Wait(p.now) != 0 || !p.Open() {
		t.Error("does not open")
	}
}

// Only the first of those that wait may start, and it starts when its wait is over.
func TestOnlyTheFirstIsReady(t *testing.T) {
	p := start()
	p.Rand = func() float64 { return 0 }
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
	if wait := p.TryStart(p.now, first); wait != 0 || first.Waits() || first.Round != p.Round() {
		t.Errorf("the first waits %v, in the queue: %v, round %d, want %d", wait, first.Waits(), first.Round, p.Round())
	}
	p.Leave(second)
	if second.Waits() || p.Len() != 0 {
		t.Error("the second waits after it has left")
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

// An attempt that was not made takes no time, and does not end the counting.
func TestReturnedTurnsDoNotCount(t *testing.T) {
	p := start()
	early := p.enter(0, false, 0)
	p.throttle(0)
	p.Return(early) // it started before the counting: nothing to take back
	for range 100 {
		p.Return(p.enter(0, false, 0))
	}
	for range 8 {
		p.enter(0, false, 0)
	}
	p.sleep(time.Second)
	p.throttle(0)
	if p.throttle(0); math.IsInf(p.Rate(p.now), 1) {
		t.Error("two of eight were throttled: not paced")
	}

	p = pacedAt(1)
	late := p.enter(0, false, 0)
	p.sleep(5 * time.Second)
	p.Wait(p.now)
	p.Return(late) // its time has passed
	p.enter(0, false, 0)
	if p.Wait(p.now) < 900*time.Millisecond {
		t.Errorf("after it an attempt waits %v, want what one attempt takes", p.Wait(p.now))
	}
}

// A hint is obeyed once a quarter of the recent attempts was throttled.
func TestHintsCountFromAQuarterOn(t *testing.T) {
	const hint = time.Minute
	held := func(p *pace) bool { return p.Wait(p.now) >= hint }

	p := start() // by counting: four of 32
	p.throttle(0)
	for range 32 {
		p.enter(0, false, 0)
	}
	p.sleep(time.Second)
	for i := range 7 {
		if p.throttle(hint); held(p) != (i >= 6) {
			t.Errorf("counting, throttled %d times: held %v", i+1, held(p))
		}
	}

	p = start() // a pace begins with what was counted
	p.throttle(0)
	for range 10 {
		p.enter(0, false, 0)
	}
	p.sleep(time.Second)
	for i := range 3 {
		if p.throttle(hint); held(p) != (i == 2) {
			t.Errorf("of ten, throttled %d times: held %v", i+1, held(p))
		}
	}

	p = start() // one caller, all of whose attempts are throttled
	for i := range 4 {
		p.enter(0, false, 0)
		p.sleep(time.Second)
		if p.throttle(hint); held(p) != (i >= 2) {
			t.Errorf("throttled %d times of as many: held %v", i+1, held(p))
		}
	}

	p = start() // a hundred that were under way when the first was throttled
	for i := range 100 {
		if p.Throttled(p.now, pacing.Refusal{Hint: hint}); held(p) != (i >= 16) {
			t.Errorf("under way, throttled %d times: held %v", i+1, held(p))
		}
	}

	p = start() // a few of a hundred that were under way, and of as many that came since
	for i := range 40 {
		p.Throttled(p.now, pacing.Refusal{Hint: hint})
		for range 2 {
			p.enter(0, false, 0)
		}
		if p.sleep(50 * time.Millisecond); held(p) {
			t.Errorf("under way, throttled %d times of many: held", i+1)
		}
	}

	p = pacedAt(1000) // what succeeds lowers the share
	for range 50 {
		p.sleep(100 * time.Millisecond)
		p.enter(0, false, 0)
	}
	p.sleep(100 * time.Millisecond)
	p.throttle(hint)
	p.throttle(hint)
	p.throttle(hint)
	if held(p) {
		t.Error("held after 50 attempts that were not throttled")
	}
}

// After a hold attempts start at twice the rate at which they came since the first: at once
// after a short one, within six seconds after a long one.
func TestRateAfterAHold(t *testing.T) {
	for seconds, first := range map[int]float64{2: 2, 4: 1, 10: .4, 16: .25, 60: .25} {
		p := start()
		p.Rand = func() float64 { return 0 }
		p.Hold(p.now, time.Duration(seconds)*time.Second)
		for i := range seconds {
			p.enter(i, false, 0)
			p.sleep(time.Second)
		}
		if got := p.Rate(p.now); !near(got, first, 1e-6) {
			t.Errorf("after %d s the rate is %v, want %v", seconds, got, first)
		}
		if first < 1 {
			p.sleep(2 * time.Second)
			if got := p.Rate(p.now); !near(got, 2*first, 1e-6) {
				t.Errorf("two seconds later it is %v, want twice as much", got)
			}
			first *= 2
		}
		p.sleep(time.Duration(2 * math.Log2(2/first) * float64(time.Second)))
		if got := p.Rate(p.now); !near(got, 2, .01) {
			t.Errorf("some seconds after %d s the rate is %v, want 2", seconds, got)
		}
		if p.sleep(time.Second); !near(p.Rate(p.now), 2, .02) {
			t.Errorf("a second later it is %v", p.Rate(p.now))
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

// What was not sent does not count, whether its turn goes to the next or not.
func TestUnsentAttemptsDoNotCount(t *testing.T) {
	for _, unsent := range []func(*pace, *pacing.Turn[int]){
		func(p *pace, t *pacing.Turn[int]) { p.Return(t) },
		func(p *pace, t *pacing.Turn[int]) { p.Unsent(t) },
	} {
		p := start()
		p.throttle(0)
		for range 100 {
			unsent(p, p.enter(0, false, 0))
		}
		p.sleep(time.Second)
		for range 2 { // an eighth of 102
			p.enter(0, false, 0)
			p.throttle(0)
		}
		if math.IsInf(p.Rate(p.now), 1) {
			t.Error("all of two attempts were throttled, and a hundred were not sent: not paced")
		}
	}
}

// A hold in a hold makes it longer. What was under way before it says nothing.
func TestHoldsAreOne(t *testing.T) {
	p := start()
	p.Rand = func() float64 { return 0 }
	before := p.Round()
	if p.Hold(p.now, 0); !p.Open() {
		t.Error("a hold of no time holds")
	}
	p.Hold(p.now, 1)
	if p.enter(-1, false, 0); p.Len() != 1 {
		t.Error("a hold of a nanosecond holds nothing")
	}
	p.Leave(p.First())
	p.Hold(p.now, 5*time.Second)
	p.sleep(2 * time.Second)
	p.Hold(p.now, 8*time.Second)
	for i := range 8 {
		p.enter(i, false, 0)
	}
	if first := p.TryStart(p.now, p.First()); first != 8*time.Second {
		t.Errorf("the first waits %v, want 8s", first)
	}
	p.sleep(8 * time.Second)
	if got := p.Rate(p.now); got != .4 {
		t.Errorf("rate %v after eight attempts in eight seconds, want a fifth of two", got)
	}
	for range 2 {
		p.Throttled(p.now, pacing.Refusal{Round: before, Hint: time.Minute})
	}
	if wait := p.TryStart(p.now, p.First()); wait != 0 || p.Rate(p.now) != .4 {
		t.Errorf("the first waits %v more, at a rate of %v", wait, p.Rate(p.now))
	}
	if wait := p.TryStart(p.now, p.First()); wait != 2500*time.Millisecond+1 {
		t.Errorf("the second waits %v more, want 2.5s", wait)
	}
	p.sleep(100 * time.Millisecond)
	rate := p.Rate(p.now)
	if p.throttle(0); p.Rate(p.now) >= rate {
		t.Errorf("rate %v after one that was throttled since, of %v", p.Rate(p.now), rate)
	}
}

// A hold ends up to a quarter later, at random.
func TestHoldsSpread(t *testing.T) {
	for random, want := range map[float64]time.Duration{0: 8 * time.Second, .5: 9 * time.Second} {
		p := start()
		p.Rand = func() float64 { return random }
		if p.Hold(p.now, 8*time.Second); p.Wait(p.now) != want {
			t.Errorf("with %v the hold takes %v, want %v", random, p.Wait(p.now), want)
		}
	}
}

// The average follows the costs: of 1 and 65 it is 2.
func TestAverageCost(t *testing.T) {
	p := pacedAt(1)
	p.enter(0, false, 1)
	p.sleep(5 * time.Second)
	p.enter(0, false, 65)
	if got := p.Wait(p.now).Seconds() * p.Rate(p.now); !near(got, 32.5, 1e-6) {
		t.Errorf("it takes the time of %v attempts, want 32.5", got)
	}
}

// However long one attempt waits, the rate does no more than double by that.
func TestGrowsAtMostTwice(t *testing.T) {
	p := pacedAt(1)
	p.enter(0, false, 0)
	p.enter(0, false, 0)
	before := p.Rate(p.now)
	p.sleep(24 * time.Hour)
	if got := p.Rate(p.now); got != 2*before {
		t.Errorf("rate %v, was %v", got, before)
	}
}

// A hold lasts as long as it was asked for, even if nothing comes meanwhile.
func TestHoldsOutlastQuiet(t *testing.T) {
	for name, p := range map[string]*pace{"open": start(), "counting": start(), "paced": pacedAt(10)} {
		if name == "counting" {
			p.throttle(0)
		}
		p.Rand = func() float64 { return 0 }
		p.Hold(p.now, time.Minute)
		for left := time.Minute; left > 0; left -= 20 * time.Second {
			if got := p.Wait(p.now).Truncate(time.Second); got != left {
				t.Errorf("%s: the hold takes %v more, want %v", name, got, left)
			}
			p.sleep(20 * time.Second)
		}
		if p.Wait(p.now); !p.Open() {
			t.Errorf("%s: not open after a minute in which nothing came", name)
		}
	}
}

// Whoever looks at a pace during a hold changes nothing.
func TestALookDuringAHoldChangesNothing(t *testing.T) {
	var rates [2]float64
	for look := range rates {
		p := pacedAt(10)
		p.Rand = func() float64 { return 0 }
		p.Hold(p.now, time.Second)
		p.enter(0, false, 0)
		for range look * 9 {
			p.sleep(100 * time.Millisecond)
			p.Wait(p.now)
		}
		p.now = epoch.Add(time.Minute)
		rates[look] = p.Rate(p.now)
	}
	if rates[0] != rates[1] {
		t.Errorf("rates %v, want two equal ones", rates)
	}
}

// The quiet time in which the rate is kept begins again with a hold.
func TestHoldKeepsTheRate(t *testing.T) {
	p := pacedAt(1)
	p.sleep(17 * time.Second)
	p.Hold(p.now, time.Second)
	p.sleep(5 * time.Second)
	if p.Wait(p.now); p.Open() {
		t.Error("open five seconds after a hold, want after eighteen")
	}
}

// However far the clock jumps, the rate can fall again.
func TestClockJumpsAhead(t *testing.T) {
	p := pacedAt(4)
	for i := range 2000 {
		p.enter(i, false, 0)
	}
	p.sleep(math.MaxInt64)
	for range 1900 {
		p.sleep(10 * time.Microsecond)
		if first := p.First(); p.TryStart(p.now, first) == 0 {
			p.note(first)
		}
	}
	rate := p.Rate(p.now)
	p.cut()
	p.cut()
	if after := p.Rate(p.now); !(after < rate) {
		t.Errorf("throttled attempts changed the rate from %v to %v", rate, after)
	}
}
