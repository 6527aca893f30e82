package harm

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
)

// outcome is what has become of a call.
type outcome struct {
	start, took time.Duration
	ok          bool
}

// history is what has become of the calls of a world: of each process, or of each worker.
type history [][]outcome

// run plays a world with one seed. peak is [Process].Peak. It returns the most requests that a process had in
// flight, and how many were refused for their number.
func run(t *testing.T, w *World, seed, peak int, newClient func(*Process) Client) (h history, inFlight, refused int) {
	synctest.Test(t, func(t *testing.T) {
		until, end := context.WithCancel(t.Context())
		defer synctest.Wait() // what the clients have started
		defer end()
		s := &server{world: w, began: time.Now()}
		rate, bucket := w.quota()
		meeting := new(store)
		h = make(history, w.processes*max(w.workers, 1))
		gauges := make([]gauge, w.processes)
		var callers sync.WaitGroup
		for i := range w.processes {
			client := newClient(&Process{
				Policy: retry.Policy{Name: "call", MaxAttempts: 4, AttemptTimeout: w.timeout},
				Quota:  rate / float64(w.processes), Burst: bucket / float64(w.processes),
				Peak: peak, Store: meeting, World: w, Until: until,
			})
			for j := range max(w.workers, 1) {
				stream := i*max(w.workers, 1) + j
				source := &source{key: mix(uint64(seed)<<32 + uint64(stream)), server: s, gauge: &gauges[i], client: client}
				callers.Go(func() {
					switch {
					case w.workers > 0:
						h[stream] = source.loop()
					default:
						h[stream] = source.open()
					}
				})
			}
		}
		callers.Wait()
		for i := range gauges {
			inFlight = max(inFlight, int(gauges[i].peak.Load()))
		}
		refused = s.refused
	})
	return h, inFlight, refused
}

// gauge counts what a process has in flight.
type gauge struct{ now, peak atomic.Int32 }

func (g *gauge) add(n int32) {
	now := g.now.Add(n)
	for peak := g.peak.Load(); now > peak && !g.peak.CompareAndSwap(peak, now); peak = g.peak.Load() {
	}
}

// source makes the calls of a process, or of one of its workers.
type source struct {
	key    uint64
	server *server
	gauge  *gauge
	client Client
	calls  int
}

// open makes calls that do not wait for each other.
func (s *source) open() []outcome {
	w := s.server.world
	var all []*outcome
	var running sync.WaitGroup
	start := func() {
		o := new(outcome)
		all = append(all, o)
		c := s.next()
		running.Go(func() { *o = s.call(c) })
	}
	for w.batch > 0 && time.Since(s.server.began) < w.length {
		for range w.batch {
			start()
			time.Sleep(10 * time.Microsecond) // no two at one instant, so that no scheduler decides who is first
		}
		running.Wait()
		time.Sleep(time.Hour - time.Since(s.server.began)%time.Hour)
	}
	for w.batch == 0 {
		time.Sleep(time.Duration(exponential(s.key, s.calls, kind) * float64(time.Second) / w.rate))
		if time.Since(s.server.began) >= w.length {
			break
		}
		start()
	}
	running.Wait()
	outcomes := make([]outcome, len(all))
	for i, o := range all {
		outcomes[i] = *o
	}
	return outcomes
}

// loop makes one call after the other, and does something else in between.
func (s *source) loop() (all []outcome) {
	w := s.server.world
	for {
		time.Sleep(time.Duration(exponential(s.key, s.calls, kind) * float64(think)))
		if time.Since(s.server.began) >= w.length {
			return all
		}
		all = append(all, s.call(s.next()))
	}
}

func (s *source) next() *Call {
	s.calls++
	return &Call{key: mix(s.key + uint64(s.calls)), server: s.server, gauge: s.gauge}
}

func (s *source) call(c *Call) outcome {
	ctx, w, now := context.Background(), s.server.world, time.Now()
	if w.deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, now.Add(w.deadline))
		defer cancel()
	}
	err := s.client(ctx, c)
	return outcome{now.Sub(s.server.began), time.Since(now), err == nil}
}

// Lab runs worlds. It keeps what it has measured without a subject.
type Lab struct {
	t       *testing.T
	sample  bool
	without map[string]history
	peaks   map[string]int
}

// NewLab returns a lab. That of a sample runs the first seed of a world, and not for its whole time.
func NewLab(t *testing.T, sample bool) *Lab {
	return &Lab{t, sample, map[string]history{}, map[string]int{}}
}

// Measure runs a world with and without a subject.
func (l *Lab) Measure(w World, s Subject) Figures {
	if l.sample {
		w.seeds, w.length = 1, min(w.length, 35*time.Second)
		if w.batch > 0 {
			w.length = 2 * time.Hour
		}
	}
	peak, ok := l.peaks[w.ID()]
	if !ok {
		_, peak, _ = run(l.t, &w, -1, 0, Plain)
		l.peaks[w.ID()] = peak
	}
	f := Figures{Deadline: w.deadline}
	var both times
	for seed := range w.seeds {
		key := fmt.Sprint(w.ID(), seed, s.Against)
		without, ok := l.without[key]
		if !ok {
			var refused int
			without, _, refused = run(l.t, &w, seed, peak, s.Without)
			if refused > 0 {
				l.t.Errorf("%s: %d requests are refused for their number: that is the trouble which no world has", w.ID(), refused)
			}
			l.without[key] = without
		}
		with, _, _ := run(l.t, &w, seed, peak, s.With)
		f.With.add(with)
		f.Without.add(without)
		both.add(with, without)
	}
	if f.Without.EarlyCalls < 100 {
		l.t.Errorf("%s: of %d calls in the first half minute one is more than a point", w.ID(), f.Without.EarlyCalls)
	}
	f.With.P50, f.With.P99 = quantile(both.with, .5), quantile(both.with, .99)
	f.Without.P50, f.Without.P99 = quantile(both.without, .5), quantile(both.without, .99)
	return f
}

// ID is the name of a world among all.
func (w *World) ID() string { return w.Axis + ": " + w.Name }
