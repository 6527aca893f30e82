package limit

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
)

// model is an Adaptive written plainly, from its comments, with every number written out.
type model struct {
	min, max int
	flight   int

	limits   bool
	places   int
	phase    int // every change of the places begins one
	top      int // most in flight in this phase
	asks     bool
	failures int     // judgements that were no success; -10 after a success
	trial    bool    // an experiment is underway
	cost0    float64 // what an answer cost when it began
	places0  int     // and with how many places

	meanTime    float64 // of attempts, in nanoseconds
	known       bool    // an attempt has ended that had a deadline
	firstBegan  time.Duration
	lastAnswer  time.Duration
	answeredYet bool
	share       float64 // of the latest answers
	usual       float64
	beside      float64
	hang        float64

	window        bool
	windowBegan   time.Duration
	seen          time.Duration // until when flight is counted
	ends, answers int
	spent         float64

	misses, quicks, refusals, pause int
}

type attempt struct {
	phase, beside int
	began         time.Duration
	pass          retry.Pass
}

func (m *model) bound() int {
	n := math.MaxInt
	if m.limits {
		n = m.places
	}
	if m.max > 0 {
		high := m.max
		if m.min > high {
			high = m.min
		}
		if high < n {
			n = high
		}
	}
	return n
}

func (m *model) see(now time.Duration) {
	if m.window && now > m.seen { // time passes once
		m.spent += float64(m.flight) * float64(now-m.seen) / m.meanTime
		m.seen = now
	}
}

func (m *model) quick() float64 {
	if 2*m.usual > .25 {
		return 2 * m.usual
	}
	return .25
}

// enter reports whether an attempt is refused, and for how long at least.
func (m *model) enter(now time.Duration) (a attempt, refused bool, wait time.Duration) {
	refused = m.flight >= m.bound()
	if refused || m.limits || m.flight == 0 {
		m.see(now)
	}
	if m.flight == 0 {
		m.lastAnswer = now
	}
	if refused {
		m.quicks = 0
		m.refusals++
		silence := now - m.lastAnswer
		if m.known && float64(silence) > m.quick()*m.meanTime {
			wait = silence
			if most := time.Duration(m.meanTime) + time.Duration(m.meanTime)/2; wait > most {
				wait = most
			}
		}
		return attempt{}, true, wait
	}
	a = attempt{phase: m.phase, beside: m.flight, began: now}
	m.flight++
	if m.flight > m.top {
		m.top = m.flight
	}
	return a, false, 0
}

// change begins a phase.
func (m *model) change(places int) {
	m.limits = true
	if places < m.min {
		places = m.min
	}
	if places < 1 {
		places = 1
	}
	m.places = places
	m.begin()
}

func (m *model) begin() {
	m.phase++
	m.top = m.flight
	m.window, m.ends, m.answers, m.spent = false, 0, 0, 0
	m.misses, m.quicks = 0, 0
}

func (m *model) letGo() {
	m.limits, m.places, m.asks, m.trial, m.cost0 = false, 0, false, false, 0
	m.share = m.usual
	m.begin()
}

// leave ends an attempt; its flight is given back when all is learnt.
func (m *model) leave(a attempt, now time.Duration, answered, late bool, took, allowed time.Duration) {
	m.see(now)
	defer func() { m.flight-- }()
	if !answered && !late || allowed <= 0 {
		return
	}
	if !m.known {
		m.known, m.meanTime, m.firstBegan = true, float64(allowed), now-took
	}
	m.meanTime = float64(time.Duration(m.meanTime) + (allowed-time.Duration(m.meanTime))/32)
	if m.pause > 0 {
		m.pause--
	}
	phase, mine := m.phase, a.phase == m.phase
	if answered {
		m.learn(a, now, mine, math.Min(math.Max(float64(took)/float64(allowed), 1e-9), 1))
	} else {
		m.quicks = 0
		if mine {
			m.miss(now)
		}
	}
	if phase != m.phase || m.asks {
		return
	}
	old := now-m.firstBegan >= time.Duration(m.meanTime)
	if !m.limits {
		if answered && m.pause == 0 && old && m.share > m.quick() {
			m.refusals, m.failures = 0, 0
			m.change(int(1.1*float64(m.top)) + 1)
		}
		return
	}
	if !m.window {
		m.window, m.windowBegan, m.seen = mine, now, now
		return
	}
	m.ends++
	if answered {
		m.answers++
	}
	enough := m.ends >= 16 && m.ends >= m.places
	tired := m.ends >= 4 && now-m.windowBegan >= 2*time.Duration(m.meanTime)
	if enough || tired {
		m.judge(now)
	}
}

func (m *model) learn(a attempt, now time.Duration, mine bool, share float64) {
	spared := 1 - m.hang
	n := m.misses
	if n > 64 {
		n = 64
	}
	m.hang = (1 - spared*math.Pow(255./256, float64(n))) * 255 / 256
	step := (now - m.lastAnswer).Minutes()
	if step < 0 {
		step = 0
	}
	if step > 1./32 {
		step = 1. / 32
	}
	m.misses, m.lastAnswer = 0, now
	if !m.answeredYet || m.share == 0 {
		m.answeredYet, m.share = true, share
	}
	m.share += (share - m.share) / 32
	switch {
	case now-m.firstBegan < time.Duration(m.meanTime):
		m.usual = m.share
	case !m.limits && m.share > m.usual:
		m.usual = math.Min(m.share, m.usual*(1+step))
	case !m.limits:
		m.usual = math.Max(m.share, m.usual*(1-step))
	}
	if m.usual < .125 {
		m.usual = .125
	}
	if m.usual > .45 {
		m.usual = .45
	}
	if m.asks && mine {
		m.asks = false
		places := int(2*m.beside) + 1
		if m.places > places {
			places = m.places
		}
		m.change(places + m.flight - 1)
		return
	}
	if share > m.quick() {
		m.quicks = 0
		return
	}
	if !m.limits {
		if share <= m.usual || share <= .25 {
			m.beside += (float64(a.beside) - m.beside) / 32
		}
		return
	}
	if mine {
		if m.quicks++; m.quicks > 16+2*m.places {
			m.letGo()
		}
	}
}

func (m *model) miss(now time.Duration) {
	m.misses++
	if m.misses < 8 || !m.answeredYet || m.pause > 0 || float64(now-m.lastAnswer) < m.quick()*m.meanTime || math.Pow(m.hang, float64(m.misses)) >= 1e-6 {
		return
	}
	if m.limits {
		places := m.places / 2
		if half := int(m.beside / 2); half > places {
			places = half
		}
		m.change(places)
		return
	}
	m.refusals, m.failures, m.asks = 0, 0, true
	m.trial, m.cost0, m.places0 = true, 1, m.flight
	m.change(int(2*m.beside) + 1)
}

func (m *model) judge(now time.Duration) {
	answers, spent := m.answers, m.spent
	m.windowBegan, m.seen, m.ends, m.answers, m.spent = now, now, 0, 0, 0
	if answers == 0 {
		return
	}
	cost := spent / float64(answers)
	aim := math.Min(math.Max(2*m.usual, .375), .6)
	used := m.places
	if m.top < used {
		used = m.top
	}
	if cost <= aim || !m.trial && m.failures >= 0 && cost <= 4./3*aim {
		if m.trial {
			m.trial, m.cost0, m.failures = false, 0, -10
		}
		m.top = m.flight
		if 2*used >= m.places {
			m.change(int(math.Ceil(float64(m.places) * math.Min(math.Max(aim/cost, 1), 2))))
		}
		return
	}
	if m.trial {
		share := float64(m.places) / float64(m.places0)
		if cost > m.cost0*(1+share)/2 && (m.failures != 0 || cost > .8*m.cost0) {
			if m.failures++; m.failures > 0 {
				m.pause = 100 * m.refusals
				m.letGo()
				return
			}
			m.usual = math.Min(math.Max(m.usual, cost), .45)
			m.trial, m.cost0 = false, 0
			return
		}
		m.failures++
	} else {
		m.trial, m.cost0, m.places0 = true, cost, used
	}
	part := math.Min(math.Max(aim/cost, .5), .7)
	places := int(float64(used) * part)
	if places > used-1 {
		places = used - 1
	}
	if places < 1 {
		places = 1
	}
	m.change(places)
}

// compare fails if a number of l is not that of the model.
func (m *model) compare(t *testing.T, step int, l *Adaptive) {
	t.Helper()
	near := func(name string, got, want float64) {
		if !(math.Abs(got-want) <= 1e-6*math.Max(1, math.Abs(want))) {
			t.Fatalf("step %d: %s = %v, the model has %v", step, name, got, want)
		}
	}
	near("flight", float64(l.flight), float64(m.flight))
	near("places", float64(l.places), float64(m.places))
	near("bound", float64(l.Places()), float64(m.bound()))
	near("peak", float64(l.peak), float64(m.top))
	near("allowed", float64(l.allowed), float64(time.Duration(m.meanTime)))
	near("mean", l.mean, m.share)
	near("usual", l.usual, m.usual)
	near("calm", l.calm, m.beside)
	near("hung", l.hung, m.hang)
	near("silent", float64(l.silent), float64(m.misses))
	near("quick", float64(l.quick), float64(m.quicks))
	near("refused", float64(l.refused), float64(m.refusals))
	near("rest", float64(l.rest), float64(m.pause))
	near("vain", float64(l.vain), float64(m.failures))
	near("before", l.before, m.cost0)
	near("spent", l.window.spent, m.spent)
	near("ended", float64(l.window.ended), float64(m.ends))
	near("answers", float64(l.window.answers), float64(m.answers))
	if l.asking != m.asks || l.window.open != m.window {
		t.Fatalf("step %d: asking %v, counting %v, the model has %v and %v", step, l.asking, l.window.open, m.asks, m.window)
	}
}

// dependency answers attempts: each has so much work, and so many are worked on at a time. It is well, slow, overloaded or does
// not answer, in turns.
type dependency struct {
	r    *rand.Rand
	mood int
}

// takes returns how long an attempt takes, with so many in flight.
func (d *dependency) takes(flight int) time.Duration {
	work := time.Duration((.5 + d.r.Float64()) * float64(60*time.Millisecond))
	switch d.mood {
	case 1: // slow, whatever it has to do
		return work * 12
	case 2: // eight at a time
		return work * time.Duration(1+flight/8)
	case 3:
		return time.Hour
	case 4: // some hang
		if d.r.IntN(3) == 0 {
			return time.Hour
		}
	case 5: // two at a time, and slow
		return 4 * work * time.Duration(1+flight/2)
	case 6: // slow, and in time
		return work * 5
	}
	return work
}

// The model and an Adaptive agree, step by step, about all numbers, whatever a dependency does.
func TestAdaptiveIsItsModel(t *testing.T) {
	seeds := 25
	if os.Getenv("RETRY_LONG") == "1" {
		seeds = 400
	}
	seen := map[string]int{}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(uint64(seed), 9))
		l := &Adaptive{Min: []int{0, 0, 2, 5, -1}[seed%5], Max: []int{0, 60, 0, 3, -2, 0, 25}[seed%7]}
		m := &model{min: l.Min, max: l.Max}
		l.vain = []int{0, -1, -2}[seed%3] // as if the limit had helped
		m.failures = l.vain
		clock := clockx.NewVirtual(time.Unix(1e9, 0))
		var read clockx.Clock = clock
		at := func() time.Duration { return time.Duration(read.Now().UnixNano()) }
		d := &dependency{r: r}
		type underway struct {
			attempt
			until   time.Duration // when it ends
			allowed time.Duration
			late    bool
		}
		var all []underway
		rate := 10 + 150*r.Float64()
		next := at()
		for step := range 6000 {
			if step%400 == 0 {
				d.mood = r.IntN(7)
				rate = 5 + 200*r.Float64()
			}
			first := -1
			for i := range all {
				if first < 0 || all[i].until < all[first].until {
					first = i
				}
			}
			if first >= 0 && all[first].until <= next {
				a := all[first]
				all = append(all[:first], all[first+1:]...)
				clock.Advance(max(a.until-at(), 0))
				took := at() - a.began
				if r.IntN(500) == 0 {
					read = setBack{clock}
				}
				x := retry.Exit{Ending: retry.Returned, Took: took, Allowed: a.allowed, Clock: read}
				answered := !a.late
				if a.late {
					x.Ending, x.Verdict.Err = retry.Expired, context.DeadlineExceeded
				} else if r.IntN(20) == 0 {
					x.Verdict, answered = retry.Policy{}.Judge(errors.New("says nothing")), false
				}
				l.Leave(a.pass, x)
				m.leave(a.attempt, at(), answered, a.late, x.Took, x.Allowed)
				read = clock
			} else {
				clock.Advance(max(next-at(), 0))
				next = at() + time.Duration(r.ExpFloat64()/rate*float64(time.Second))
				if step%997 == 0 {
					next += time.Minute
				}
				a, refused, wait := m.enter(at())
				p, err := l.Enter(context.Background(), retry.Entry{Clock: clock})
				var asks time.Duration
				if w, ok := err.(interface{ RetryAfter() time.Duration }); ok {
					asks = w.RetryAfter()
				}
				if (err != nil) != refused || asks != wait {
					t.Fatalf("seed %d, step %d: Enter = %v with a wait of %v, the model refuses: %v, %v", seed, step, err, asks, refused, wait)
				}
				if err == nil {
					a.pass = p
					allowed := time.Second
					if r.IntN(10) == 0 {
						allowed = []time.Duration{0, time.Second / 2, 3 * time.Second}[r.IntN(3)]
					}
					took := d.takes(m.flight)
					late := allowed > 0 && took >= allowed
					if late {
						took = allowed
					}
					all = append(all, underway{a, at() + min(took, 5*time.Second), allowed, late})
				}
				seen["refused"] += map[bool]int{true: 1}[refused]
				seen["refused, with a wait"] += map[bool]int{true: 1}[wait > 0]
			}
			m.compare(t, step, l)
			seen["asking"] += map[bool]int{true: 1}[m.asks]
			seen["an experiment"] += map[bool]int{true: 1}[m.trial]
			seen["has helped"] += map[bool]int{true: 1}[m.failures < 0]
			seen["rests"] += map[bool]int{true: 1}[m.pause > 0]
			seen["a second judgement"] += map[bool]int{true: 1}[m.failures > 0]
		}
	}
	t.Log(seen)
	for what, n := range seen {
		if n < 50 {
			t.Errorf("%s: %d steps of %d, which proves little", what, n, 6000*seeds)
		}
	}
}
