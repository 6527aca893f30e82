package health_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	. "github.com/goretry/retry/internal/health"
)

// event is something that has happened to a Health.
type event struct {
	kind    rune // s: an attempt has started, e: one has ended, h: a Hold
	at      time.Time
	attempt int // 1 for the first
	outcome Outcome
	hint    time.Duration
	id      string
	hold    time.Duration
}

// span is a time for which the rules stay the same.
type span struct {
	kind  rune // w: well, c: closed, u: closed again because those in flight hang, r: ramp, R: the same because they hang
	first int  // event
	own   bool // no Hold has begun it
	wait  time.Duration
	due   time.Time // of a closed one
	hung  time.Time // those in flight no longer count
}

// model has all that has happened, and reads all of it for each question.
type model struct {
	rule   Rule
	count  string // which evidence
	events []event
	starts []int // the event with which each attempt started
}

func (m *model) wait(n int, hint time.Duration) time.Duration {
	return m.rule.Wait(n, hint)
}

// read returns the spans so far.
func (m *model) read() []span {
	spans := []span{{kind: 'w', first: -1}} // as if a Hold had begun it
	now := func() *span { return &spans[len(spans)-1] }
	begin := func(s span) { spans = append(spans, s) }
	for i, e := range m.events {
		past := m.events[:i]
		isClosed := now().kind == 'c' || now().kind == 'u'
		switch {
		case e.kind == 's' && now().kind != 'w':
			if m.hangs(spans, past, e.at) {
				kind := 'u'
				if !isClosed {
					kind = 'R'
				}
				begin(span{kind: kind, first: i, own: true, wait: m.wait(waits(spans)+1, 0), due: now().due})
			}
			now().hung = e.at.Add(m.hang(spans))
		case e.kind == 'h' && e.hold <= 0:
			begin(span{kind: 'w', first: i})
		case e.kind == 'h':
			due := e.at.Add(e.hold)
			if isClosed && now().due.After(due) {
				due = now().due
			}
			wait := e.hold
			if isClosed {
				wait = max(wait, now().wait)
			}
			begin(span{kind: 'c', first: i, wait: wait, due: due})
		case e.kind == 'e' && e.outcome == Nothing:
			if isClosed && m.began(e.attempt) >= now().first && e.hint > 0 {
				m.lengthen(now(), e.at, m.wait(0, e.hint))
			}
		case e.kind == 'e' && e.outcome == Passed:
			closing := closing(spans)
			if now().kind == 'w' || m.began(e.attempt) < closing {
				continue
			}
			passed := 1
			for _, f := range past[max(closing, 0):] {
				if f.kind == 'e' && f.outcome == Passed && m.began(f.attempt) >= closing {
					passed++
				}
			}
			if passed >= max(m.rule.Ramp, 1) {
				if isClosed { // what began before is late
					begin(span{kind: 'r', first: i})
				}
				begin(span{kind: 'w', first: i, own: true})
			} else if isClosed {
				begin(span{kind: 'r', first: i})
			}
		case e.kind == 'e':
			late := m.began(e.attempt) < lateBefore(spans)
			switch {
			case isClosed && (late || now().due.After(e.at)):
				if e.hint > 0 {
					m.lengthen(now(), e.at, m.wait(0, e.hint))
				}
			case late:
			case isClosed, e.outcome == Broken, now().kind != 'w' && m.rule.Strict, m.enough(spans, i):
				wait := m.wait(waits(spans)+1, e.hint)
				begin(span{kind: 'c', first: i, own: true, wait: wait, due: e.at.Add(wait)})
			}
		}
	}
	return spans
}

func (m *model) lengthen(s *span, at time.Time, d time.Duration) {
	if due := at.Add(d); due.After(s.due) {
		s.due = due
		s.wait = max(s.wait, d)
	}
}

// began returns the event with which an attempt started.
func (m *model) began(attempt int) int { return m.starts[attempt-1] }

// waits counts the waits since it was well.
func waits(spans []span) (n int) {
	for i := len(spans) - 1; i >= 0 && spans[i].kind != 'w'; i-- {
		if spans[i].own {
			n++
		}
	}
	return n
}

// closing returns the event with which the latest closing came, or a Hold that ended one.
func closing(spans []span) int {
	for i := len(spans) - 1; i >= 0; i-- {
		if spans[i].kind == 'c' || spans[i].kind == 'w' && !spans[i].own {
			return spans[i].first
		}
	}
	return -1
}

// lateBefore returns the event before which an attempt must have begun that is late when it fails.
func lateBefore(spans []span) int {
	i := len(spans) - 1
	for spans[i].kind == 'w' && spans[i].own { // the end of a ramp changes nothing
		i--
	}
	return spans[i].first
}

// inFlight returns the attempts in flight that count.
func (m *model) inFlight(spans []span, past []event) (n int) {
	from := max(spans[len(spans)-1].first, 0)
	ended := map[int]bool{}
	for i := len(past) - 1; i >= from; i-- {
		switch e := past[i]; {
		case e.kind == 'e':
			ended[e.attempt] = true
		case e.kind == 's':
			if !ended[e.attempt] {
				n++
			}
		}
	}
	return n
}

// passed returns the successes since the latest closing.
func (m *model) passed(spans []span, past []event) (n int) {
	closing := closing(spans)
	for _, e := range past[max(closing, 0):] {
		if e.kind == 'e' && e.outcome == Passed && m.began(e.attempt) >= closing {
			n++
		}
	}
	return n
}

// ready says how long it is until the next attempt, and whether that is because too many are in flight.
func (m *model) ready(spans []span, past []event, at time.Time) (wait time.Duration, full bool) {
	s := spans[len(spans)-1]
	if s.kind == 'w' {
		return 0, false
	}
	if s.kind == 'c' || s.kind == 'u' {
		wait = max(s.due.Sub(at), 0)
	}
	full = m.inFlight(spans, past) > m.passed(spans, past)
	if !full {
		return wait, false
	}
	return max(s.hung.Sub(at), wait), true
}

// hang returns how long an attempt that starts now keeps others away.
func (m *model) hang(spans []span) time.Duration {
	i := len(spans) - 1
	for spans[i].kind == 'r' {
		i--
	}
	last, next := spans[i].wait, m.wait(waits(spans)+1, 0)
	return m.rule.Hang(last, next)
}

func (m *model) hangs(spans []span, past []event, at time.Time) bool {
	wait, full := m.ready(spans, past, at)
	return full && wait == 0
}

// enough says whether the evidence up to event i closes it.
func (m *model) enough(spans []span, i int) bool {
	type result struct {
		at     time.Time
		failed bool
		id     string
	}
	var results []result
	for j := 0; j <= i; j++ {
		e := m.events[j]
		if e.kind != 'e' || e.outcome == Nothing {
			continue
		}
		then := m.spansBefore(spans, j)
		s := then[len(then)-1]
		switch passed := e.outcome == Passed; {
		case j <= closing(spans), s.kind == 'c', s.kind == 'u':
		case passed && (s.kind == 'w' || m.began(e.attempt) >= closing(then)), !passed && m.began(e.attempt) >= lateBefore(then):
			results = append(results, result{e.at, !passed, e.id})
		}
	}
	at := m.events[i].at
	switch m.count {
	case "row":
		first := at
		n := 0
		for j := len(results) - 1; j >= 0 && results[j].failed; j-- {
			n++
			if results[j].at.Before(first) {
				first = results[j].at
			}
		}
		return n >= 6 && at.Sub(first) >= 2*time.Second
	case "row3":
		n := 0
		for j := len(results) - 1; j >= 0 && results[j].failed; j-- {
			n++
		}
		return n >= 3
	case "share":
		n, failed := 0., 0.
		for _, r := range results {
			if at.Sub(r.at) < 10*time.Second {
				n++
				if r.failed {
					failed++
				}
			}
		}
		return n >= 20 && failed/n >= .9
	case "score":
		var row, different []result
		score := 0
		var since, first time.Time
		for _, r := range results {
			if !r.failed {
				row = nil
				if score = max(score-2, 0); score == 0 {
					different = nil
				}
				continue
			}
			if score == 0 || r.at.Before(since) {
				since = r.at
			}
			if row = append(row, r); len(row) == 1 || r.at.Before(first) {
				first = r.at
			}
			known := false
			for _, d := range different {
				known = known || d.id == r.id && r.id != ""
			}
			if score == 4 && !known { // it counts later, if it does not now
				continue
			}
			if !known {
				score++
				different = append(different, r)
			}
		}
		ids := map[string]bool{}
		for i, r := range row {
			ids[r.id+map[bool]string{true: fmt.Sprint("#", i)}[r.id == ""]] = true
		}
		return len(row) >= 4 && len(ids) > 1 && at.Sub(first) >= 10*time.Second ||
			score >= 2 && at.Sub(since) >= time.Second/2
	}
	panic(m.count)
}

// spansBefore returns the spans that had begun before event i.
func (m *model) spansBefore(spans []span, i int) []span {
	n := 1
	for n < len(spans) && spans[n].first < i {
		n++
	}
	return spans[:n]
}

var rules = map[string]func() Rule{
	"row": func() Rule { return Rule{} },
	"row3": func() Rule {
		return Rule{Evidence: &Row{Least: 3}, Wait: doubling, Hang: asLong, Ramp: 4, Strict: true}
	},
	"share": func() Rule {
		return Rule{Evidence: new(Share), Wait: doubling}
	},
	"score": func() Rule { return Rule{Evidence: &Score{Failures: 2}, Wait: doubling, Hang: next, Ramp: 3} },
}

func doubling(n int, hint time.Duration) time.Duration {
	if n == 0 {
		return min(hint, 20*time.Second)
	}
	return max(min(time.Second<<(n-1), 8*time.Second), min(hint, 20*time.Second))
}

func asLong(wait, next time.Duration) time.Duration { return wait }
func next(wait, next time.Duration) time.Duration   { return next }

// play does to a Health what the bytes say, and compares it with the model after each step. It returns
// how often the Health was closed, on the ramp, and full.
func play(t testing.TB, count string, next func() int, steps int) (closed, ramp, full int) {
	rule := whole(rules[count]())
	h := Health{Rule: rule}
	m := model{rule: rule, count: count}
	now := time.Unix(0, 0)
	attempts := 0
	tickets := map[int]uint64{}
	var flight []int
	mood := 0
	for range min(steps, 120) {
		op := next()
		at := now
		switch op % 8 {
		case 0:
			now = now.Add([...]time.Duration{100 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 7 * time.Second, time.Minute}[op/8%6])
			at = now
		case 1:
			if count != "share" { // a reading that is a little late
				at = now.Add(-[...]time.Duration{0, time.Microsecond, time.Second}[op/8%3])
			}
		}
		spans := m.read()
		switch wait, _ := m.ready(spans, m.events, at); {
		case op/8%16 == 15 && next()%8 == 0:
			d := [...]time.Duration{0, time.Second, 30 * time.Second}[next()%3]
			h.Hold(at, d)
			m.events = append(m.events, event{kind: 'h', at: at, hold: d})
		case op%3 == 0 && (wait == 0 || op/8%8 == 7) || len(flight) == 0: // one in eight is not asked to start
			attempts++
			tickets[attempts] = h.Start(at)
			flight = append(flight, attempts)
			m.starts = append(m.starts, len(m.events))
			m.events = append(m.events, event{kind: 's', at: at, attempt: attempts})
		default:
			i := op / 8 % len(flight)
			e := event{kind: 'e', at: at, attempt: flight[i], id: [...]string{"", "a", "b"}[next()%3]}
			flight = append(flight[:i], flight[i+1:]...)
			if next()%16 == 0 {
				mood = next() % 3
			}
			switch r := next() % 32; {
			case r == 0:
				e.outcome, e.hint = Nothing, [...]time.Duration{0, 100 * time.Millisecond}[next()&1]
			case r == 1:
				e.outcome = Broken
			case mood == 0 && r < 30, mood == 1 && r > 16, mood == 2 && r > 28:
				e.outcome = Failed
			default:
				e.outcome = Passed
			}
			if e.outcome > Passed && next()%8 == 0 {
				e.hint = [...]time.Duration{100 * time.Millisecond, 10 * time.Second, time.Hour}[next()%3]
			}
			h.End(at, News{Ticket: tickets[e.attempt], Outcome: e.outcome, Hint: e.hint, ID: e.id})
			m.events = append(m.events, e)
		}
		spans = m.read()
		last := spans[len(spans)-1].kind
		want, isFull := m.ready(spans, m.events, now)
		if got := h.Ready(now); got != want || h.Closed() != (last == 'c' || last == 'u') || h.Well() != (last == 'w') {
			for _, e := range m.events {
				t.Logf("%c %v attempt %d outcome %d hint %v id %q hold %v", e.kind, e.at.Sub(time.Unix(0, 0)), e.attempt, e.outcome, e.hint, e.id, e.hold)
			}
			t.Fatalf("%s, %v: Ready = %v, Closed = %v, Well = %v; the model: %v, %c", count, now.Sub(time.Unix(0, 0)), got, h.Closed(), h.Well(), want, last)
		}
		switch last {
		case 'c', 'u':
			closed++
		case 'r', 'R':
			ramp++
		}
		if isFull {
			full++
		}
	}
	return closed, ramp, full
}

// Whatever happens, a Health does what its rules say of all that has happened.
func TestModel(t *testing.T) {
	for count := range rules {
		t.Run(count, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			var closed, ramp, full int
			sequences := 60
			if os.Getenv("RETRY_LONG") != "" {
				sequences = 1000
			}
			for range sequences {
				c, u, f := play(t, count, func() int { return r.IntN(1 << 16) }, 120)
				closed, ramp, full = closed+c, ramp+u, full+f
			}
			t.Log("steps closed, on the ramp, full:", closed, ramp, full)
			if closed < 700 || full < 30 || rules[count]().Ramp > 0 && ramp < 100 {
				t.Errorf("steps closed, on the ramp, full: %d, %d, %d: too few", closed, ramp, full)
			}
		})
	}
}

func FuzzHealth(f *testing.F) {
	f.Add("row", []byte("anything that happens to an attempt, in any order of events"))
	f.Add("score", []byte{0, 3, 6, 9, 12, 0, 0, 255, 254, 1, 2, 3, 4, 8, 8, 16, 24})
	f.Fuzz(func(t *testing.T, count string, data []byte) {
		if rules[count] == nil {
			return
		}
		play(t, count, func() int {
			if len(data) == 0 {
				return 0
			}
			b := int(data[0])
			data = data[1:]
			return b * 257
		}, len(data)/2)
	})
}
