package fleetpace_test

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/goretry/retry/fleetpace"
)

// store is a State with a clock.
type store struct {
	fleetpace.State
	now    float64
	last   fleetpace.Answer
	random func() float64 // nil: always a half
}

// tell applies a report of a process that goes by the last answer.
func (s *store) tell(r fleetpace.Report) fleetpace.Answer {
	r.Epoch, r.Round, r.Rate = s.last.Epoch, s.last.Round, s.last.Rate
	random := .5
	if s.random != nil {
		random = s.random()
	}
	s.last = s.Apply(s.now, random, r)
	return s.last
}

// pacedAt returns a store whose rate has been counted, and at which nothing waits.
func pacedAt(t *testing.T, rate float64) *store {
	t.Helper()
	s := &store{now: 1e6}
	s.tell(fleetpace.Report{Hits: 1})
	s.now += 1.25
	if a := s.tell(fleetpace.Report{Counted: true, Started: rate + 4 + rate/7, Hits: 4 + rate/7}); a.Mode != fleetpace.Paced || !near(a.Rate, rate, 1e-6) {
		t.Fatalf("%+v, want a rate of %v", a, rate)
	}
	return s
}

func near(got, want, by float64) bool { return math.Abs(got-want) <= by*math.Abs(want) }

func TestNothingWaitsWhileNothingIsRefused(t *testing.T) {
	s := &store{now: 1e6}
	a := s.tell(fleetpace.Report{Started: 1000, Take: 5, Patience: 60})
	if a.Mode != fleetpace.Open || a.Size != 0 || a.Rate != 0 || a.News || a.Epoch == 0 {
		t.Errorf("%+v", a)
	}
}

// All count for a second, and a quarter of a second later it is decided.
func TestCounting(t *testing.T) {
	for _, tt := range []struct {
		started, hits float64
		want          fleetpace.Mode
		rate          float64
	}{
		{20, 4, fleetpace.Paced, 16},
		{20, 20, fleetpace.Paced, 1},
		{20, 3, fleetpace.Counting, 0}, // fewer than four
		{65, 8, fleetpace.Open, 0},     // less than an eighth of many
		{64, 8, fleetpace.Paced, 56},
		{63, 7, fleetpace.Counting, 0},
	} {
		s := &store{now: 1e6}
		if a := s.tell(fleetpace.Report{Hits: 1}); a.Mode != fleetpace.Counting || a.Count != 1 || !a.News {
			t.Fatalf("%+v", a)
		}
		s.now += .25
		if a := s.tell(fleetpace.Report{}); a.Count != .75 || a.News {
			t.Errorf("a process that comes later: %+v", a)
		}
		s.now++ // a second and a quarter
		if a := s.tell(fleetpace.Report{Counted: true, Started: tt.started, Hits: tt.hits}); a.Mode != tt.want || a.Rate != tt.rate || a.News != (tt.want == fleetpace.Paced) {
			t.Errorf("%v of %v: %+v, want %v at %v", tt.hits, tt.started, a, tt.want, tt.rate)
		}
	}
	s := &store{now: 1e6}
	s.tell(fleetpace.Report{Hits: 1})
	s.now += 10.1
	if a := s.tell(fleetpace.Report{}); a.Mode != fleetpace.Open {
		t.Errorf("after ten quiet seconds: %+v", a)
	}
}

// Turns come one after the other, whoever takes them, and not beyond the patience.
func TestTurns(t *testing.T) {
	s := pacedAt(t, 10)
	a := s.tell(fleetpace.Report{Take: 3, Patience: 60})
	if a.Size != 3 || a.First != a.Head || a.Tail != a.First+3 {
		t.Fatalf("%+v", a)
	}
	if b := s.tell(fleetpace.Report{Take: 10, Patience: 60}); b.First != a.Tail || b.Size != 10 {
		t.Errorf("%+v after %+v", b, a)
	}
	if c := s.tell(fleetpace.Report{Take: 100, Patience: 2}); !near(c.Size, 2*10-13, 1e-6) {
		t.Errorf("turns of %v within 2 s, of which 13 were given", c.Size)
	}
	s.now++
	if d := s.tell(fleetpace.Report{}); !near(d.Head, a.Head+10, .11) {
		t.Errorf("a second later the head is at %v, and was at %v", d.Head, a.Head)
	}
	s.now += 5
	if d := s.tell(fleetpace.Report{}); !near(d.Head, d.Tail+1, 1e-9) {
		t.Errorf("nobody waits: head %v, tail %v", d.Head, d.Tail)
	}
	head := s.last.Head
	if d := s.tell(fleetpace.Report{Take: 20, Patience: 60}); d.Head != head {
		t.Errorf("%+v", d)
	}
	d := s.tell(fleetpace.Report{Returned: 5})
	if want := d.Rate * (d.Tail - head) / (d.Tail - head - 5); d.Head != head || !near(d.Speed, want, 1e-9) {
		t.Errorf("after five were returned the head goes on from %v at %v, want %v at %v", d.Head, d.Speed, head, want)
	}
	if d = s.tell(fleetpace.Report{Returned: 500}); d.Head != head || d.Speed != 4*d.Rate {
		t.Errorf("%+v", d)
	}
}

// A rate that grows brings no turns back that nobody has returned.
func TestGrowthReturnsNothing(t *testing.T) {
	s := pacedAt(t, 10)
	before := s.tell(fleetpace.Report{Take: 100, Patience: 60})
	for range 5 {
		s.now++
		a := s.tell(fleetpace.Report{})
		if a.Rate <= before.Rate || a.Speed != a.Rate || !near(a.Head, before.Head+before.Rate, 1e-9) {
			t.Fatalf("%+v after %+v", a, before)
		}
		before = a
	}
}

// A cut each second at most, and not below what passes.
func TestCuts(t *testing.T) {
	s := pacedAt(t, 100)
	s.now++
	before := s.tell(fleetpace.Report{Take: 1000, Patience: 600})
	rate := before.Rate
	for range 3 { // a cut, and two more refusals of the same second
		a := s.tell(fleetpace.Report{Hits: 2, Fresh: 2})
		if before.Round == a.Round && a.Rate != rate {
			t.Errorf("%+v", a)
		}
		s.now += .3
	}
	after := s.tell(fleetpace.Report{})
	if after.Round != before.Round+1 || after.Rate >= rate || after.Rate < rate/2 {
		t.Errorf("%+v after %+v", after, before)
	}
	for range 200 { // a tenth of what starts is refused
		s.now += .1
		hits := s.last.Rate / 100
		s.tell(fleetpace.Report{Take: 12, Patience: 600, Hits: hits, Fresh: hits})
	}
	if a := s.last; a.Rate < 50 {
		t.Errorf("nine of ten pass, and the rate falls to %v", a.Rate)
	}
}

// If less passes at a lower rate, the rate is not the reason, and comes back.
func TestARateThatIsNotTheReason(t *testing.T) {
	s := pacedAt(t, 100)
	lowest := math.Inf(1)
	chance := rand.New(rand.NewPCG(1, 2))
	for range 3000 { // of each attempt one in twenty is refused
		s.now += .1
		hits := 0.
		for range int(s.last.Rate / 10) {
			if chance.Float64() < .05 {
				hits++
			}
		}
		lowest = min(lowest, s.tell(fleetpace.Report{Take: s.last.Rate / 5, Patience: 1, Hits: hits, Fresh: hits}).Rate)
	}
	if lowest < 40 {
		t.Errorf("the rate falls to %v of 100", lowest)
	}
}

// A hint holds all once a quarter of the recent attempts is refused.
func TestHolds(t *testing.T) {
	s := pacedAt(t, 10)
	if a := s.tell(fleetpace.Report{Hits: 1, Fresh: 1, Hint: 30}); a.Hold != 0 {
		t.Errorf("held after one: %+v", a)
	}
	s.now += 2
	if a := s.tell(fleetpace.Report{Hits: 8, Fresh: 8, Hint: 30}); a.Hold != 30*(1+.25/2) {
		t.Errorf("held for %v after eight", a.Hold)
	}
	s.now++
	if a := s.tell(fleetpace.Report{Hold: 1e9}); a.Hold != 60*(1+.25/2) {
		t.Errorf("held for %v", a.Hold)
	}
	// Before the rate is known: then what came starts at twice the rate at which it came.
	s = &store{now: 1e6}
	a := s.tell(fleetpace.Report{Hold: 8})
	if a.Mode != fleetpace.Held || a.Hold != 9 || !a.News || a.Rate != 0 {
		t.Fatalf("%+v", a)
	}
	if a = s.tell(fleetpace.Report{Take: 3, Patience: 5}); a.Size != 0 {
		t.Errorf("a turn after nine seconds for five: %+v", a)
	}
	if a = s.tell(fleetpace.Report{Take: 18, Patience: 20}); a.Size != 18 {
		t.Errorf("%+v", a)
	}
	s.now += 9
	if a = s.tell(fleetpace.Report{}); a.Mode != fleetpace.Paced || a.Rate != 4 || !a.News {
		t.Errorf("after the hold: %+v", a)
	}
	s = &store{now: 1e6}
	s.tell(fleetpace.Report{Hold: 8})
	s.now += 10
	if a = s.tell(fleetpace.Report{}); a.Mode != fleetpace.Open {
		t.Errorf("after a hold in which nothing came: %+v", a)
	}
}

// Who comes first after the state was lost brings the rate, and all take new turns.
func TestALostState(t *testing.T) {
	s := pacedAt(t, 40)
	before := s.tell(fleetpace.Report{Take: 100, Patience: 60})
	s.State = fleetpace.State{}
	a := s.Apply(s.now, .25, fleetpace.Report{Epoch: before.Epoch, Round: before.Round, Rate: before.Rate, Take: 5, Patience: 60, Returned: 50})
	if a.Epoch == before.Epoch || a.Round <= before.Round || a.Rate != before.Rate || a.Mode != fleetpace.Paced || a.Size != 5 || a.First != 0 || !a.News {
		t.Errorf("%+v after %+v", a, before)
	}
	if b := (&fleetpace.State{}).Apply(s.now, .25, fleetpace.Report{}); b.Mode != fleetpace.Open {
		t.Errorf("without a rate: %+v", b)
	}
}

// A state that is open again knows its rate for five minutes.
func TestRemembersItsRate(t *testing.T) {
	for after, want := range map[float64]fleetpace.Mode{60: fleetpace.Paced, 299: fleetpace.Paced, 301: fleetpace.Counting} {
		s := pacedAt(t, 40)
		s.now += 20
		if a := s.tell(fleetpace.Report{}); a.Mode != fleetpace.Open {
			t.Fatalf("%+v after twenty quiet seconds", a)
		}
		s.now += after - 20
		if a := s.tell(fleetpace.Report{Hits: 1}); a.Mode != want {
			t.Errorf("%+v after %v s, want %v", a, after, want)
		}
	}
}

// Costs are told as sums, and the answer has the average.
func TestCosts(t *testing.T) {
	s := &store{now: 1e6}
	if a := s.tell(fleetpace.Report{Costs: 600, Priced: 2}); a.Mean != 300 {
		t.Errorf("the average of the first is %v", a.Mean)
	}
	for range 100 {
		s.tell(fleetpace.Report{Costs: 2000, Priced: 10})
	}
	if a := s.tell(fleetpace.Report{}); !near(a.Mean, 200, .01) {
		t.Errorf("the average is %v, want about 200", a.Mean)
	}
}

// However reports come and clocks go, an answer is one of the law, nobody gets a turn twice,
// and a text is what was kept.
func TestRandomReports(t *testing.T) {
	steps := 100_000
	if os.Getenv("RETRY_LONG") == "1" {
		steps = 3_000_000
	}
	chance := rand.New(rand.NewPCG(3, 4))
	size := func(most float64) float64 { return math.Floor(math.Pow(chance.Float64(), 3) * most) }
	s := &store{now: 1e6, random: chance.Float64}
	tail, longest := 0., 0
	for i := range steps {
		switch chance.IntN(1000) {
		case 0:
			s.now += chance.Float64() * 1000
		case 1:
			s.now -= chance.Float64() * 200
		case 2:
			s.State = fleetpace.State{}
		default:
			s.now += chance.Float64() * math.Pow(10, float64(chance.IntN(4)-3))
		}
		r := fleetpace.Report{
			Counted: chance.IntN(4) == 0, Started: size(300), Hits: size(40), Hint: size(100), Returned: size(20),
			Take: size(100), Patience: size(1000), Costs: size(1e6), Priced: size(20),
		}
		if chance.IntN(200) == 0 {
			r.Hold = size(100)
		}
		r.Fresh = min(size(40), r.Hits)
		before := s.last
		if chance.IntN(10) == 0 { // another process, which knows less
			s.last.Round--
		}
		a := s.tell(r)
		if err := a.Check(r); err != nil {
			t.Fatalf("step %d: %v: %+v to %+v", i, err, a, r)
		}
		if a.Epoch != before.Epoch {
			tail = 0
		}
		if a.Head > a.Tail+1+1e-6 || a.Size > 0 && (a.First < tail || a.Tail != a.First+a.Size) || a.Tail < tail {
			t.Fatalf("step %d: %+v after a tail of %v", i, a, tail)
		}
		tail = a.Tail
		if i%100 == 0 {
			text, _ := s.MarshalText()
			longest = max(longest, len(text))
			var again fleetpace.State
			if err := again.UnmarshalText(text); err != nil || again != s.State {
				t.Fatalf("step %d: %q, %v", i, text, err)
			}
		}
	}
	if longest > 1024 {
		t.Errorf("a text of %d bytes", longest)
	}
}

func TestTextsOfOthers(t *testing.T) {
	s := pacedAt(t, 10).State
	before := s
	text, _ := s.MarshalText()
	for _, bad := range []string{"", "1", "2" + string(text[1:]), string(text) + " 1", string(text[:len(text)-2]) + "x", "1 NaN" + string(text[3:])} {
		if err := s.UnmarshalText([]byte(bad)); err == nil || s != before {
			t.Errorf("%q is read as %+v", bad, s)
		}
	}
}

func TestCheck(t *testing.T) {
	r := fleetpace.Report{Take: 5, Patience: 60}
	good := fleetpace.Answer{Epoch: 1, Round: 3, Mode: fleetpace.Paced, Rate: 10, Speed: 10, Head: 5, Tail: 10, First: 5, Size: 5, Hold: 75}
	if err := good.Check(r); err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*fleetpace.Answer){
		"no epoch":           func(a *fleetpace.Answer) { a.Epoch = 0 },
		"not finite":         func(a *fleetpace.Answer) { a.Tail = math.Inf(1) },
		"no number":          func(a *fleetpace.Answer) { a.Head = math.NaN() },
		"negative":           func(a *fleetpace.Answer) { a.Hold = -1 },
		"a low rate":         func(a *fleetpace.Answer) { a.Rate = 1. / 61 },
		"a high rate":        func(a *fleetpace.Answer) { a.Rate = 1.1e9 },
		"a long hold":        func(a *fleetpace.Answer) { a.Hold = 75.1 },
		"a mode":             func(a *fleetpace.Answer) { a.Mode = 4 },
		"a long count":       func(a *fleetpace.Answer) { a.Count = 1.1 },
		"too many":           func(a *fleetpace.Answer) { a.Size = 6 },
		"beyond what exists": func(a *fleetpace.Answer) { a.First = 6 },
	} {
		a := good
		if edit(&a); a.Check(r) == nil {
			t.Errorf("%s: %+v is an answer", name, a)
		}
	}
}
