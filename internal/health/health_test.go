package health_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	. "github.com/goretry/retry/internal/health"
)

// patient is a Health in a test, and the time.
type patient struct {
	*testing.T
	*Health
	now time.Time
}

func newPatient(t *testing.T, r Rule) *patient {
	return &patient{t, &Health{Rule: whole(r)}, time.Unix(0, 0)}
}

// whole returns r with what a hold has of what it lacks, and the Hang of a breaker.
func whole(r Rule) Rule {
	if r.Evidence == nil {
		r.Evidence = new(Row)
	}
	if r.Wait == nil {
		r.Wait = Hold
	}
	if r.Hang == nil {
		r.Hang = func(wait, next time.Duration) time.Duration { return wait + next }
	}
	return r
}

func (p *patient) after(d time.Duration) *patient { p.now = p.now.Add(d); return p }
func (p *patient) start() uint64                  { return p.Health.Start(p.now) }
func (p *patient) end(ticket uint64, o Outcome)   { p.End(p.now, News{Ticket: ticket, Outcome: o}) }
func (p *patient) hint(ticket uint64, d time.Duration) {
	p.End(p.now, News{Ticket: ticket, Outcome: Failed, Hint: d})
}

// fail has n attempts fail now.
func (p *patient) fail(n int) {
	for range n {
		p.end(p.start(), Failed)
	}
}

// down closes p by a hold's evidence.
func (p *patient) down() *patient {
	p.fail(5)
	p.after(2 * time.Second).fail(1)
	if !p.Closed() {
		p.Fatal("six failures in two seconds did not close it")
	}
	return p
}

func (p *patient) ready(want time.Duration) {
	p.Helper()
	if got := p.Ready(p.now); got != want {
		p.Errorf("Ready = %v, want %v", got, want)
	}
}

func (p *patient) is(want string) {
	p.Helper()
	got := "ramp"
	if p.Well() {
		got = "well"
	} else if p.Closed() {
		got = "closed"
	}
	if got != want {
		p.Errorf("it is %s, want %s", got, want)
	}
}

func TestZeroIsWell(t *testing.T) {
	p := newPatient(t, Rule{})
	p.is("well")
	p.ready(0)
}

// Six failures without a success between them, the first two seconds before the last.
func TestRow(t *testing.T) {
	p := newPatient(t, Rule{})
	p.fail(100)
	p.after(2*time.Second - 1).fail(1)
	p.is("well")
	p.after(1).fail(1)
	p.is("closed")

	p = newPatient(t, Rule{})
	p.fail(4)
	p.after(time.Hour).fail(1)
	p.is("well")
	p.end(p.start(), Passed)
	p.fail(5)
	p.after(2 * time.Second)
	p.end(p.start(), Nothing)
	p.is("well")
	p.fail(1)
	p.is("closed")
	p.ready(time.Second)
}

// An attempt that began before it closed ends the row when it passes, and nothing else.
func TestLateSuccess(t *testing.T) {
	p := newPatient(t, Rule{})
	before, before2 := p.start(), p.start()
	p.down()
	p.end(before, Passed)
	p.is("closed")
	p.after(time.Second)
	p.end(p.start(), Passed)
	p.fail(5)
	p.after(2 * time.Second)
	p.end(before2, Passed)
	p.fail(1)
	p.is("well")
}

// What began before it closed or opened says nothing when it fails.
func TestLateFailure(t *testing.T) {
	p := newPatient(t, Rule{})
	var before, during []uint64
	for range 20 {
		before = append(before, p.start())
	}
	p.down()
	p.end(before[0], Failed)
	p.ready(time.Second)
	p.after(time.Second)
	for range 10 {
		during = append(during, p.start()) // nine of which nobody has allowed
	}
	p.end(during[0], Passed)
	for _, late := range slices.Concat(before[1:], during[1:]) {
		p.end(late, Failed)
		p.after(time.Second)
	}
	p.is("well")
}

// The hold is the hint, at most 75 s. Without one it is a second, doubled up to a minute.
func TestHold(t *testing.T) {
	p := newPatient(t, Rule{}).down()
	want := time.Second
	for range 9 {
		p.ready(want)
		p.after(want - 1).ready(1)
		p.after(1).fail(1)
		want = min(2*want, time.Minute)
	}
	for hint, want := range map[time.Duration]time.Duration{time.Millisecond: time.Millisecond, 20 * time.Second: 20 * time.Second, time.Hour: 75 * time.Second} {
		p.after(75 * time.Second)
		p.hint(p.start(), hint)
		p.ready(want)
	}
	p.after(75 * time.Second)
	p.end(p.start(), Passed)
	p.is("well")
	p.down().ready(time.Second) // it begins anew
}

// A longer hint lengthens a wait, also of an attempt that began before. A shorter one does not
// shorten it.
func TestLongerHint(t *testing.T) {
	p := newPatient(t, Rule{})
	before := []uint64{p.start(), p.start(), p.start()}
	p.down()
	p.hint(before[0], 30*time.Second)
	p.ready(30 * time.Second)
	p.after(20 * time.Second)
	p.hint(before[1], 5*time.Second)
	p.ready(10 * time.Second)
	p.after(10 * time.Second)
	probe := p.start()
	p.hint(before[2], 40*time.Second) // beside one on probation
	p.ready(40 * time.Second)
	p.end(probe, Failed)
	p.ready(40 * time.Second)
	p.after(40 * time.Second).fail(1)
	p.ready(2 * time.Second)
}

// What is left of a wait ends with it, though an attempt hangs; and whether one has been tried in it is known.
func TestLeftAndTried(t *testing.T) {
	p := newPatient(t, Rule{})
	left := func(want time.Duration, tried bool) {
		t.Helper()
		if got := p.Left(p.now); got != want || p.Tried() != tried {
			t.Errorf("Left = %v, Tried = %v, want %v, %v", got, p.Tried(), want, tried)
		}
	}
	left(0, false)
	p.Hold(p.now, 10*time.Second)
	left(10*time.Second, false)
	p.start() // and hangs
	left(10*time.Second, true)
	p.after(10 * time.Second)
	left(0, true)
	p.Hold(p.now, time.Second)
	left(time.Second, false)
}

// After the wait one attempt decides.
func TestOneAtATime(t *testing.T) {
	p := newPatient(t, Rule{}).down().after(time.Second)
	probe := p.start()
	p.ready(time.Second + 2*time.Second)
	p.after(time.Millisecond).end(probe, Nothing)
	p.ready(0)
	p.end(p.start(), Passed)
	p.is("well")
}

// One that says nothing may let the next one wait, if it was on probation.
func TestPauseAfterNothing(t *testing.T) {
	p := newPatient(t, Rule{})
	before := p.start()
	p.down().after(time.Second)
	p.End(p.now, News{Ticket: before, Hint: time.Minute})
	p.ready(0)
	p.End(p.now, News{Ticket: p.start(), Hint: 100 * time.Millisecond})
	p.ready(100 * time.Millisecond)
	p.after(100 * time.Millisecond).fail(1)
	p.ready(2 * time.Second)
	p.after(2*time.Second).End(p.now, News{Ticket: p.start(), Hint: 24 * time.Hour})
	p.ready(75 * time.Second) // as the Rule bounds it
}

// One that hangs counts as failed when as long again has passed.
func TestHang(t *testing.T) {
	p := newPatient(t, Rule{}).down().after(time.Second)
	first := p.start()
	p.after(3*time.Second - 1).ready(1)
	p.after(1).ready(0)
	second := p.start()
	p.ready(2*time.Second + 4*time.Second)
	p.end(first, Failed) // that is known
	p.ready(6 * time.Second)
	p.end(second, Failed)
	p.ready(4 * time.Second)
	p.end(first, Passed) // better late than never
	p.is("closed")       // but another one has failed since

	p = newPatient(t, Rule{}).down().after(time.Second)
	first = p.start()
	p.after(3 * time.Second)
	second = p.start()
	p.end(first, Passed)
	p.is("well")
	p.end(second, Failed)
	p.fail(5)
	p.is("well")
}

// Doors say after how long the next one may start.
func TestHangOfDoors(t *testing.T) {
	for name, test := range map[string]struct {
		hang func(wait, next time.Duration) time.Duration
		want time.Duration
	}{
		"as long again": {asLong, time.Second},
		"the next wait": {next, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPatient(t, Rule{Hang: test.hang}).down().after(time.Second)
			p.start()
			p.ready(test.want)
			p.after(test.want).start()
			p.ready(2 * test.want)
		})
	}
}

// On the ramp as many are in flight as have passed, and one.
func TestRamp(t *testing.T) {
	p := newPatient(t, Rule{Ramp: 10, Evidence: &Row{Least: 3}})
	p.fail(3)
	p.after(time.Second)
	passed := 0
	for _, want := range []int{1, 2, 4, 8, 1000} {
		var flight []uint64
		for len(flight) < 1000 && p.Ready(p.now) == 0 {
			flight = append(flight, p.start())
		}
		if len(flight) != want {
			t.Errorf("after %d successes %d are in flight, want %d", passed, len(flight), want)
		}
		for _, f := range flight {
			p.end(f, Passed)
			passed++
		}
	}
	p.is("well")
	p.fail(3)
	p.ready(time.Second)
}

// Once it is well, attempts in flight from before do not count.
func TestInFlightAfterTheRamp(t *testing.T) {
	p := newPatient(t, Rule{Ramp: 2, Evidence: &Row{Least: 3}})
	if p.Trying() {
		t.Error("one that is well tries something")
	}
	p.fail(3)
	p.after(time.Second)
	probe := p.start()
	if !p.Trying() {
		t.Error("it does not try the attempt on probation")
	}
	p.end(probe, Passed)
	first := p.start()
	for range 5 {
		p.start() // four of which nobody has allowed
	}
	p.end(first, Passed)
	p.is("well")
	p.ready(0)
	if p.Trying() {
		t.Error("once it is well it tries what is in flight")
	}
}

// What hangs on the ramp keeps it full for as long as it hangs.
func TestHangOnTheRamp(t *testing.T) {
	p := newPatient(t, Rule{Ramp: 10, Evidence: &Row{Least: 3}, Hang: asLong})
	p.fail(3)
	p.after(time.Second)
	p.end(p.start(), Passed)
	first := p.start()
	p.start()
	p.ready(time.Second)
	p.after(time.Second).ready(0)
	p.start()
	p.ready(0) // two may be in flight, and those before count no more
	p.end(first, Passed)
	p.start()
	p.ready(0)
	p.start()
	p.ready(2 * time.Second)
	p.is("ramp")
}

// A failure on the ramp is evidence, or all of it.
func TestFailureOnTheRamp(t *testing.T) {
	for _, strict := range []bool{false, true} {
		p := newPatient(t, Rule{Ramp: 10, Strict: strict, Evidence: &Row{Least: 3}})
		p.fail(3)
		p.after(time.Second)
		p.end(p.start(), Passed)
		p.fail(1)
		if strict {
			p.is("closed")
			p.ready(2 * time.Second)
			continue
		}
		p.is("ramp")
		p.end(p.start(), Passed)
		p.fail(2)
		p.is("ramp")
		p.fail(1)
		p.is("closed")
		p.ready(2 * time.Second) // it was not well in between
	}
}

// An attempt that nobody has allowed opens it if it passes, and says nothing new if it fails.
func TestAttemptDuringTheWait(t *testing.T) {
	p := newPatient(t, Rule{Ramp: 10, Evidence: &Row{Least: 3}})
	p.fail(3)
	p.fail(5)
	p.ready(time.Second)
	p.end(p.start(), Passed)
	p.is("ramp")
	p.ready(0)
}

func TestBroken(t *testing.T) {
	p := newPatient(t, Rule{})
	p.end(p.start(), Broken)
	p.is("closed")
	p.ready(time.Second)
	p.after(time.Second)
	p.end(p.start(), Broken)
	p.ready(2 * time.Second)
}

func TestHoldByOrder(t *testing.T) {
	p := newPatient(t, Rule{})
	before := p.start()
	p.Hold(p.now, 10*time.Second)
	p.Hold(p.now, time.Second)
	p.ready(10 * time.Second)
	p.end(before, Passed)
	p.is("closed")
	p.after(10 * time.Second).fail(1)
	p.ready(time.Second) // the first wait that is not by order
	p.after(time.Second)
	during := p.start()
	p.Hold(p.now, time.Minute)
	p.ready(time.Minute)
	p.end(during, Failed)
	p.ready(time.Minute)
	p.Hold(p.now, 0)
	p.is("well")
	p.ready(0)
	p.fail(5)
	p.Hold(p.now.Add(time.Hour), -1)
	p.after(time.Hour).fail(1)
	p.is("well")
}

// A reading that is older because its caller waited for a lock does not end a wait, nor a clock
// that was set back keep anybody away.
func TestOlderReadings(t *testing.T) {
	p := newPatient(t, Rule{}).down()
	p.after(-time.Second).ready(2 * time.Second)
	p.after(-1).ready(0)
	p.after(time.Second + 1 + time.Second)
	p.start()
	p.after(-time.Second).ready(4 * time.Second)
	p.after(-time.Second - 1).ready(0)

	p = newPatient(t, Rule{})
	p.fail(5)
	p.after(-time.Hour).fail(1)
	p.after(2*time.Second - 1).fail(1)
	p.is("well")
	p.after(1).fail(1)
	p.is("closed")
}

// Waits of any length are waits.
func TestEndlessWaits(t *testing.T) {
	for _, d := range []time.Duration{math.MaxInt64, math.MinInt64} {
		p := newPatient(t, Rule{Evidence: &Row{Least: 1}, Wait: func(n int, _ time.Duration) time.Duration {
			if n == 1 {
				return time.Second
			}
			return d
		}})
		p.fail(1)
		p.after(time.Second)
		probe := p.start()
		if got := p.Ready(p.now); d > 0 && got < 1e9*time.Second || d < 0 && got != 0 {
			t.Errorf("Ready = %v beside one on probation, with a next wait of %v", got, d)
		}
		p.end(probe, Failed)
		if got := p.Ready(p.now); d > 0 && got < 1e9*time.Second || d < 0 && got != 0 {
			t.Errorf("Ready = %v after a wait of %v", got, d)
		}
		p.Hold(p.now, d)
		p.is(map[bool]string{true: "closed", false: "well"}[d > 0])
		p.Hold(p.now, d)
	}
}

// Twenty of ten seconds, nine tenths failed.
func TestShare(t *testing.T) {
	start := time.Unix(0, 0)
	for _, test := range []struct {
		name string
		do   func(s *Share) bool
		want bool
	}{
		{"19 of 19", func(s *Share) bool { return fails(s, start, 19) }, false},
		{"20 of 20", func(s *Share) bool { return fails(s, start, 20) }, true},
		{"18 of 20", func(s *Share) bool { passes(s, start, 2); return fails(s, start, 18) }, true},
		{"17 of 19", func(s *Share) bool { passes(s, start, 2); return fails(s, start, 17) }, false},
		{"26 of 29", func(s *Share) bool { passes(s, start, 3); return fails(s, start, 26) }, false},
		{"27 of 30", func(s *Share) bool { passes(s, start, 3); return fails(s, start, 27) }, true},
		{"the first 9.9 s before", func(s *Share) bool { fails(s, start, 19); return fails(s, start.Add(9900*time.Millisecond), 1) }, true},
		{"the first 10 s before", func(s *Share) bool { fails(s, start, 19); return fails(s, start.Add(10*time.Second), 1) }, false},
		{"after an hour", func(s *Share) bool { fails(s, start, 19); return fails(s, start.Add(time.Hour), 1) }, false},
		{"successes an hour before", func(s *Share) bool { passes(s, start, 1000); return fails(s, start.Add(time.Hour), 20) }, true},
		{"89 of 99, after a minute", func(s *Share) bool { return minute(s, start, 89) }, false},
		{"90 of 100, after a minute", func(s *Share) bool { return minute(s, start, 90) }, true},
		{"two every second", func(s *Share) (enough bool) {
			for i := range 10 {
				enough = fails(s, start.Add(time.Duration(i)*time.Second), 2)
			}
			return enough
		}, true},
		{"19 in ten seconds", func(s *Share) (enough bool) {
			for i := range 1000 {
				enough = enough || fails(s, start.Add(time.Duration(i)*10*time.Second/19), 1)
			}
			return enough
		}, false},
		{"a reading a second late", func(s *Share) bool { fails(s, start, 19); return fails(s, start.Add(-time.Second), 1) }, true},
		{"a clock set back to later than the first", func(s *Share) bool {
			fails(s, start, 1)
			fails(s, start.Add(5*time.Second), 18)
			return fails(s, start.Add(3*time.Second), 1)
		}, false},
		{"a clock set back", func(s *Share) bool { fails(s, start, 19); return fails(s, start.Add(-time.Minute), 1) }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := new(Share)
			if got := test.do(s); got != test.want {
				t.Errorf("enough: %v, want %v", got, test.want)
			}
			s.Reset()
			if fails(s, start, 19) {
				t.Error("Reset has left something")
			}
		})
	}
}

// minute has an attempt pass each second, and n fail at the end.
func minute(s *Share, start time.Time, n int) bool {
	for i := range 60 {
		passes(s, start.Add(time.Duration(i)*time.Second), 1)
	}
	return fails(s, start.Add(59*time.Second), n)
}

func fails(e Evidence, now time.Time, n int) (enough bool) {
	for range n {
		enough = e.Failed(now, "")
	}
	return enough
}

func passes(e Evidence, now time.Time, n int) {
	for range n {
		e.Passed(now)
	}
}

// A gate's evidence: what closes it, and what does not.
func TestScore(t *testing.T) {
	const half, ten = time.Second / 2, 10 * time.Second
	id := func(n int) string { return fmt.Sprint(n) }
	for _, test := range []struct {
		name string
		do   func(s *Score, at func(time.Duration) time.Time) bool
		want bool
	}{
		{"five messages", func(s *Score, at func(time.Duration) time.Time) bool {
			for i := range 4 {
				s.Failed(at(0), id(i))
			}
			return s.Failed(at(half), id(4))
		}, true},
		{"less than half a second", func(s *Score, at func(time.Duration) time.Time) bool {
			for i := range 4 {
				s.Failed(at(0), id(i))
			}
			return s.Failed(at(half-1), id(4))
		}, false},
		{"one message", func(s *Score, at func(time.Duration) time.Time) (enough bool) {
			for i := range 1000 {
				enough = enough || s.Failed(at(time.Duration(i)*time.Second), "a")
			}
			return enough
		}, false},
		{"four messages", func(s *Score, at func(time.Duration) time.Time) (enough bool) {
			for i := range 11 {
				if enough = s.Failed(at(time.Duration(i)*time.Second), id(i%4)); enough && i < 10 {
					t.Error("too early")
				}
			}
			return enough
		}, true},
		{"one message, and nine of another", func(s *Score, at func(time.Duration) time.Time) (enough bool) {
			s.Failed(at(0), "a")
			for range 9 {
				enough = s.Failed(at(ten), "b")
			}
			return enough
		}, true},
		{"the same a little too early", func(s *Score, at func(time.Duration) time.Time) (enough bool) {
			s.Failed(at(0), "a")
			for range 9 {
				enough = s.Failed(at(ten-1), "b")
			}
			return enough
		}, false},
		{"two messages, Failures is 1", func(s *Score, at func(time.Duration) time.Time) bool {
			s.Failures = 1
			early := s.Failed(at(0), "a")
			return !early && s.Failed(at(half), "b")
		}, true},
		{"two messages, nine times", func(s *Score, at func(time.Duration) time.Time) (enough bool) {
			for i := range 9 {
				enough = enough || s.Failed(at(time.Duration(i)*ten), id(i%2))
			}
			return enough
		}, false},
		{"two messages, and a success", func(s *Score, at func(time.Duration) time.Time) (enough bool) {
			for i := range 100 {
				enough = enough || s.Failed(at(time.Duration(i)*time.Second), id(i%2))
				if i%9 == 8 {
					s.Passed(at(time.Duration(i) * time.Second))
				}
			}
			return enough
		}, false},
		{"messages without an ID", func(s *Score, at func(time.Duration) time.Time) bool {
			for range 4 {
				s.Failed(at(0), "")
			}
			return s.Failed(at(half), "")
		}, true},
		{"a success takes five away", func(s *Score, at func(time.Duration) time.Time) bool {
			for i := range 9 {
				s.Failed(at(0), id(i))
			}
			s.Passed(at(0))
			return s.Failed(at(half), id(8)) // it has counted
		}, false},
		{"no more than twice as many", func(s *Score, at func(time.Duration) time.Time) bool {
			for i := range 100 {
				s.Failed(at(0), id(i))
			}
			passes(s, at(half), 2)
			for i := range 4 {
				s.Failed(at(half), id(1000+i))
			}
			return s.Failed(at(2*half-1), id(1000))
		}, false},
		{"five of six fail", func(s *Score, at func(time.Duration) time.Time) (enough bool) {
			for i := range 600 {
				if i%6 == 5 {
					s.Passed(at(time.Duration(i) * time.Second))
				} else if i%6 < 4 || i > 6 {
					enough = enough || s.Failed(at(time.Duration(i/6*6)*time.Second), id(i))
				}
			}
			return enough
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := new(Score)
			start := time.Unix(0, 0)
			if got := test.do(s, func(d time.Duration) time.Time { return start.Add(d) }); got != test.want {
				t.Errorf("enough: %v, want %v", got, test.want)
			}
			s.Reset()
			s.Failures = 0
			for i := range 4 {
				s.Failed(start, id(i))
			}
			if s.Failed(start.Add(half-1), "x") {
				t.Error("Reset has left something")
			}
		})
	}
}

func TestHealthAllocates(t *testing.T) {
	h := Health{Rule: whole(Rule{Evidence: new(Share)})}
	now := time.Unix(0, 0)
	if n := testing.AllocsPerRun(1000, func() {
		now = now.Add(time.Millisecond)
		if h.Ready(now) == 0 {
			h.End(now, News{Ticket: h.Start(now), Outcome: Failed})
		}
	}); n != 0 {
		t.Errorf("an attempt allocates %v times", n)
	}
}
