package harm

import (
	"context"
	"fmt"
	"slices"
	"strings"
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

// run plays a world with one seed. peak is [Process].Peak.
func run(t *testing.T, w *World, seed, peak int, newClient func(*Process) Client) (h history, inFlight int) {
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
	})
	return h, inFlight
}

// gauge counts what a process has in flight.
type gauge struct{ now, peak atomic.Int32 }

func (g *gauge) add(n int32) {
	if now := g.now.Add(n); now > g.peak.Load() { // one goroutine runs at a time
		g.peak.Store(now)
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

// Figures say what a subject has cost.
type Figures struct {
	Deadline      time.Duration // of a call, 0 if it has none
	With, Without struct {
		Calls, Lost           int
		EarlyCalls, EarlyLost int           // of the first half minute
		P50, P99              time.Duration // of the calls that succeeded both with and without
	}
}

// Table measures subjects in worlds.
type Table struct {
	t       *testing.T
	without map[string][]history // by world and Against
	peaks   map[string]int       // by world
}

// NewTable returns an empty one.
func NewTable(t *testing.T) *Table {
	return &Table{t, map[string][]history{}, map[string]int{}}
}

// Measure runs a world with and without a subject.
func (b *Table) Measure(w World, s Subject) Figures {
	peak, ok := b.peaks[w.ID()]
	if !ok {
		_, peak = run(b.t, &w, -1, 0, Plain)
		b.peaks[w.ID()] = peak
	}
	key := w.ID() + "|" + s.Against
	without, ok := b.without[key]
	if !ok {
		for seed := range w.seeds {
			h, _ := run(b.t, &w, seed, peak, s.Without)
			without = append(without, h)
		}
		b.without[key] = without
	}
	f := Figures{Deadline: w.deadline}
	var tookWith, tookWithout []time.Duration
	for seed := range w.seeds {
		h, _ := run(b.t, &w, seed, peak, s.With)
		for i := range h {
			for _, o := range h[i] {
				count(o, &f.With.Calls, &f.With.Lost, &f.With.EarlyCalls, &f.With.EarlyLost)
			}
			for _, o := range without[seed][i] {
				count(o, &f.Without.Calls, &f.Without.Lost, &f.Without.EarlyCalls, &f.Without.EarlyLost)
			}
			for j := range min(len(h[i]), len(without[seed][i])) {
				if a, b := h[i][j], without[seed][i][j]; a.ok && b.ok {
					tookWith, tookWithout = append(tookWith, a.took), append(tookWithout, b.took)
				}
			}
		}
	}
	slices.Sort(tookWith)
	slices.Sort(tookWithout)
	f.With.P50, f.With.P99 = quantile(tookWith, .5), quantile(tookWith, .99)
	f.Without.P50, f.Without.P99 = quantile(tookWithout, .5), quantile(tookWithout, .99)
	return f
}

func count(o outcome, calls, lost, earlyCalls, earlyLost *int) {
	add := 0
	if !o.ok {
		add = 1
	}
	*calls++
	*lost += add
	if o.start < early {
		*earlyCalls++
		*earlyLost += add
	}
}

// quantile returns that of sorted times.
func quantile(ts []time.Duration, q float64) time.Duration {
	if len(ts) == 0 {
		return 0
	}
	return ts[int(q*float64(len(ts)-1)+.5)]
}

// ID is the name of a world among all.
func (w *World) ID() string { return w.Axis + ": " + w.Name }

func percent(part, of int) float64 { return 100 * float64(part) / float64(max(of, 1)) }

// Harm says by how much f is out of bound, "" if it is not: more than a point of the calls is lost,
// of all or of those of the first half minute, or the 99th percentile is longer by more than a tenth
// of the deadline. Without a deadline nothing may be lost, and a tenth of the percentile is the bound.
func (f Figures) Harm() string {
	point := 1.
	slack := f.Deadline / 10
	if f.Deadline == 0 {
		point, slack = 0, f.Without.P99/10
	}
	var out []string
	if d := percent(f.With.Lost, f.With.Calls) - percent(f.Without.Lost, f.Without.Calls); d > point+1e-9 {
		out = append(out, "lost")
	}
	if d := percent(f.With.EarlyLost, f.With.EarlyCalls) - percent(f.Without.EarlyLost, f.Without.EarlyCalls); d > point+1e-9 {
		out = append(out, "early")
	}
	if f.With.P99-f.Without.P99 > slack {
		out = append(out, "p99")
	}
	return strings.Join(out, ", ")
}

// String has all figures: with / without.
func (f Figures) String() string {
	a, b := f.With, f.Without
	ms := func(d time.Duration) string { return fmt.Sprintf("%.4g", float64(d)/1e6) }
	return fmt.Sprintf("lost %.1f / %.1f %%, first 30 s %.1f / %.1f %%, p50 %s / %s ms, p99 %s / %s ms",
		percent(a.Lost, a.Calls), percent(b.Lost, b.Calls), percent(a.EarlyLost, a.EarlyCalls), percent(b.EarlyLost, b.EarlyCalls),
		ms(a.P50), ms(b.P50), ms(a.P99), ms(b.P99))
}
