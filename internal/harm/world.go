package harm

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// World is a provider and those who call it. It has all it needs for its load: nothing in it
// becomes better by fewer or later requests.
type World struct {
	Axis, Name string

	// The provider.
	answer   func(r request) time.Duration // how long an answer takes
	failure  failure                       // of a part of the requests, at random
	part     float64
	hint     time.Duration // in each 429; 0: none
	replicas int           // 0: one
	sick     failure       // what the first of the replicas does
	sickFrom time.Duration // since when
	tenants  int           // the calls of the first of them fail; 0: there are none
	refusal  failure       // how

	// The callers.
	rate      float64 // calls per second and process, that come at random
	batch     int     // or so many at once, every hour
	workers   int     // or one call after the other, in each of so many
	processes int
	deadline  time.Duration // of a call; 0: none
	timeout   time.Duration // of an attempt; 0: none but the call's

	length time.Duration
	seeds  int
	quick  bool // not only with RETRY_LONG=1
}

// failure is how a request fails.
type failure uint8

const (
	none     failure = iota
	throttle         // 429
	busy             // 503
	reset            // the connection breaks
	refuse           // no connection
	hang             // no answer
	slow             // an answer that takes ten times as long
	forbid           // 403
)

func (f failure) String() string {
	return [...]string{"", "429", "503", "resets", "refuses", "hangs", "is slow", "403"}[f]
}

const (
	illness = 10 * time.Second // passes before a replica is sick
	think   = 100 * time.Millisecond
	early   = 30 * time.Second // the first of a run, of which figures are apart
)

// base is what all worlds are but for one thing or two.
func base() World {
	return World{
		answer: about(50 * time.Millisecond), timeout: time.Second,
		rate: 20, processes: 1, deadline: 30 * time.Second,
		length: time.Minute, seeds: 3,
	}
}

// A value is one point of an axis.
type value struct {
	axis, name string
	set        func(*World)
}

// about is the time of answers that take much the same.
func about(d time.Duration) func(request) time.Duration {
	return func(r request) time.Duration { return time.Duration(float64(d) * math.Exp(.15*r.normal())) }
}

func answers(name string, answer func(request) time.Duration, timeout time.Duration) value {
	return value{"answers", name, func(w *World) { w.answer, w.timeout = answer, timeout }}
}

// Answer times.
var (
	at1ms    = answers("1 ms", about(time.Millisecond), time.Second)
	at2s     = answers("2 s", about(2*time.Second), 10*time.Second)
	at20s    = answers("20 s", about(20*time.Second), 0)
	twoKinds = answers("5 ms, and 20 s for one of ten", func(r request) time.Duration {
		if uniform(r.call.key, 0, kind) < .1 {
			return about(20 * time.Second)(r)
		}
		return about(5 * time.Millisecond)(r)
	}, 0)
	// Pareto's law: median 34 ms, one of a hundred above .7 s, one of a thousand above 4 s.
	heavyTail = answers("heavy tail", func(r request) time.Duration {
		return min(time.Duration(float64(20*time.Millisecond)*math.Pow(1-r.uniform(took), -1/1.3)), 20*time.Second)
	}, 10*time.Second)
	slower = value{"answers", "ten times slower after a minute", func(w *World) {
		w.timeout, w.length = 5*time.Second, 2*time.Minute
		w.answer = func(r request) time.Duration {
			if r.at < time.Minute {
				return about(50 * time.Millisecond)(r)
			}
			return about(500 * time.Millisecond)(r)
		}
	}}
	coldStart = value{"answers", "1 s in the first minute", func(w *World) {
		w.timeout, w.length = 5*time.Second, 2*time.Minute
		w.answer = func(r request) time.Duration {
			if r.at < time.Minute {
				return about(time.Second)(r)
			}
			return about(50 * time.Millisecond)(r)
		}
	}}
)

func calls(perSecond float64, length time.Duration, seeds int) value {
	return value{"calls", fmt.Sprintf("%v/s", perSecond), func(w *World) { w.rate, w.length, w.seeds = perSecond, length, seeds }}
}

// Calls.
var (
	rare     = calls(.1, 10*time.Minute, 34)
	few      = calls(1, 2*time.Minute, 12)
	many     = calls(100, time.Minute, 4)
	verymany = calls(1000, 35*time.Second, 2)
	atOnce   = value{"calls", "200 at once after an idle hour", func(w *World) { w.batch, w.length = 200, 8*time.Hour }}
	one      = value{"calls", "1 worker", func(w *World) { w.workers, w.seeds = 1, 5 }}
	twenty   = value{"calls", "20 workers", func(w *World) { w.workers, w.seeds = 20, 2 }}
	crowd    = value{"calls", "500 workers", func(w *World) { w.workers, w.length, w.seeds = 500, 35*time.Second, 1 }}
	dozen    = value{"calls", "12 processes", func(w *World) { w.processes, w.seeds = 12, 2 }}
)

func fails(f failure, hint time.Duration, part float64) value {
	name := fmt.Sprintf("%.0f %% %v", 100*part, f)
	if f == hang {
		name = fmt.Sprintf("%.0f %% timeouts", 100*part)
	}
	if hint > 0 {
		name += fmt.Sprintf(" with hints of %.0f s", hint.Seconds())
	}
	return value{"failures", name, func(w *World) { w.failure, w.hint, w.part = f, hint, part }}
}

func oneOf(n int, f failure) value {
	return value{"parts", fmt.Sprintf("one of %d replicas %v", n, f), func(w *World) { w.replicas, w.sick, w.sickFrom = n, f, illness }}
}

// oneOfThree is what a process meets that starts in the middle of it.
var oneOfThree = value{"parts", "one of 3 replicas hangs from the start", func(w *World) { w.replicas, w.sick = 3, hang }}

func tenant(f failure) value {
	return value{"parts", fmt.Sprintf("one tenant of ten gets %v", f), func(w *World) { w.tenants, w.refusal = 10, f }}
}

var (
	hasty   = value{"deadline", "1 s", func(w *World) { w.deadline, w.timeout = time.Second, 300*time.Millisecond }}
	patient = value{"deadline", "none", func(w *World) { w.deadline = 0 }}

	throttle20, throttle20hint20 = fails(throttle, 0, .2), fails(throttle, 20*time.Second, .2)
)

// axes are all values but those of the base.
func axes() []value {
	vs := []value{at1ms, at2s, at20s, twoKinds, heavyTail, slower, coldStart,
		rare, few, many, verymany, atOnce, one, twenty, crowd, dozen}
	for _, f := range []struct {
		failure failure
		hint    time.Duration
	}{{throttle, 0}, {throttle, time.Second}, {throttle, 20 * time.Second}, {busy, 0}, {reset, 0}, {hang, 0}} {
		for _, part := range []float64{.05, .1, .2, .33} {
			vs = append(vs, fails(f.failure, f.hint, part))
		}
	}
	for _, n := range []int{2, 3, 10} {
		vs = append(vs, oneOf(n, hang), oneOf(n, slow), oneOf(n, refuse))
	}
	return append(vs, oneOfThree, tenant(throttle), tenant(forbid), hasty, patient)
}

// pairs were picked before any figure was seen.
var pairs = [][2]value{
	{at2s, many},                  // two hundred in flight, and all is well
	{at2s, atOnce},                // a job that starts
	{at20s, dozen},                // completions of a model, by a service
	{twoKinds, many},              // a cache before a database
	{heavyTail, crowd},            // a batch
	{many, slower},                // a deploy
	{throttle20, few},             // a shared pool of a provider
	{throttle20hint20, dozen},     // that names a time
	{fails(hang, 0, .1), patient}, // a NAT that forgets connections
	{oneOf(3, hang), many},        // a host that dies
}

// quick are the worlds that are run without RETRY_LONG=1, with their first seed.
var quick = []string{
	"base: 50 ms, 20/s, 30 s",
	"answers: 2 s",
	"answers: 5 ms, and 20 s for one of ten",
	"calls: 200 at once after an idle hour",
	"failures: 10 % 429 with hints of 20 s",
	"failures: 20 % 429",
	"failures: 20 % timeouts",
	"parts: one of 3 replicas hangs from the start",
	"parts: one tenant of ten gets 429",
	"deadline: none",
}

// Worlds returns all worlds, the base first.
func Worlds() []World {
	w := base()
	w.Axis, w.Name = "base", "50 ms, 20/s, 30 s"
	ws := []World{w}
	for _, v := range axes() {
		w := base()
		w.Axis, w.Name = v.axis, v.name
		v.set(&w)
		ws = append(ws, w)
	}
	for _, p := range pairs {
		w := base()
		w.Axis, w.Name = "pairs", p[0].name+"; "+p[1].name
		p[0].set(&w)
		p[1].set(&w)
		ws = append(ws, w)
	}
	for i := range ws {
		ws[i].quick = slices.Contains(quick, ws[i].ID())
	}
	return ws
}

// Processes returns how many processes call the provider.
func (w *World) Processes() int { return w.processes }
