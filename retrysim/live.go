//go:build !js

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retrysim/internal/storm"
)

func init() { // what needs net/http is left out of a page's program
	commands["live"] = command{reported(live), "do in real time, with a real server on this machine, what try simulates; draw both",
		"live -policy 'attempts=4 budget=earned' -processes 10 -rate 150/s -workers 10 -service 50ms -outage 3s -duration 40s"}
}

func live(o *options) job {
	x := newScenario(o)
	return func(ctx context.Context) (*report, error) {
		for _, name := range []string{"capacity", "latency", "slowdown", "closed", "network", "spike", "limit", "quota", "pace", "hedge", "gateway", "refusing",
			"shards", "replicas", "sick", "budget-per-shard", "calls-per-process"} {
			if o.given(name) {
				return nil, wrong("-%s: live has an open load without guards, -workers and -service, and the loopback for a network", name)
			}
		}
		switch {
		case x.full == "refused" || x.answer == "refused":
			return nil, wrong("-full, -outage-answer: live can hang, or answer 503 or 429")
		case x.discipline == "sharing" || x.Lost > 0:
			return nil, wrong("-discipline, -lost: the server of live is first in first out, last in first out or random, and loses no answer")
		}
		if err := x.check(o); err != nil {
			return nil, err
		}
		if len(x.policies) > 1 || x.Workers == 0 {
			return nil, wrong("-policy, -workers: want one policy, and a worker or more")
		}
		p := x.policies[0]
		seen := *x
		measured := x.measure(ctx, p)
		if ctx.Err() != nil {
			seen.Duration = time.Duration(len(measured.Buckets)) * measured.Bucket
		}
		simulated := x.Trials(context.WithoutCancel(ctx), []retry.Policy{p}, x.seeds)[0]
		rows := []tryRow{seen.sum(p, []*storm.Result{measured}), x.sum(p, simulated)}
		r := &report{
			title:  fmt.Sprintf("A real server and %d real clients meet %s, with %s; and the simulation of it", x.Processes, x.what, name(p)),
			header: append([]string{""}, measures...),
			legend: legendOfRows,
			doc:    map[string]any{"measured": rows[0], "simulated": rows[1]},
			figure: figure{height: 150, legend: []series{
				{name: "measured", color: 1}, {name: "simulated", color: 2, style: "wide"}, {name: "capacity, timeout", style: "dash"},
			}},
		}
		r.add(rows[0].cells("measured")...)
		r.add(rows[1].cells("simulated")...)
		if ctx.Err() != nil {
			r.notes = append(r.notes, "Interrupted: the measured run is shorter than the simulated ones.")
		}
		sent, good := x.panel("requests sent per second", x.MaxRate(), "capacity"), x.panel("calls begun in that second that succeed", 0, "")
		waits := x.panel("backlog in seconds of work", x.Timeout.Seconds(), "timeout")
		for i, of := range []*storm.Result{rows[1].typical(), measured} {
			add := func(p *panel, points []point) {
				p.lines = append(p.lines, series{color: 2 - i, style: []string{"wide", ""}[i], points: points})
			}
			add(&sent, perSecond(of, attempts))
			add(&good, perSecond(of, successes))
			add(&waits, backlog(of, x.MaxRate()))
		}
		r.figure.panels = []panel{sent, good, waits}
		return r, nil
	}
}

// meter counts what happens in real time.
type meter struct {
	sync.Mutex
	*storm.Result
	start time.Time
	over  bool // the server may still work on what nobody waits for: that counts no more
}

func (m *meter) now() time.Duration { return time.Since(m.start) }

// count adds to the bucket that it is now.
func (m *meter) count(add func(b *storm.Bucket)) {
	m.Lock()
	defer m.Unlock()
	if !m.over {
		add(m.At(m.now()))
	}
}

// measure has real clients call a real server on the loopback interface, in this
// process.
func (x *scenario) measure(ctx context.Context, p retry.Policy) *storm.Result {
	m := &meter{Result: storm.NewResult(100*time.Millisecond, x.Duration), start: time.Now()}
	server := httptest.NewServer(&worker{scenario: x, meter: m})
	defer server.Config.Close() // without waiting for requests that nobody waits for
	p.AttemptTimeout = cmp.Or(max(p.AttemptTimeout, 0), x.Timeout)
	p.Hooks.Attempt = func(context.Context, retry.Attempt) context.Context {
		m.count(func(b *storm.Bucket) { m.Sent++; b.Sent++ })
		return nil
	}
	clients := make([]*http.Client, x.Processes)
	shared := storm.Fresh(p.Budget)
	for i := range clients {
		if p.Budget = shared; !x.Shared {
			p.Budget = storm.Fresh(p.Budget)
		}
		t := &http.Transport{MaxIdleConnsPerHost: 100}
		defer t.CloseIdleConnections()
		clients[i] = &http.Client{Transport: &retryhttp.Transport{Policy: p, Base: t}}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var calls sync.WaitGroup
	r := rand.New(rand.NewPCG(x.Seed, 1))
	for next := time.Duration(0); ; next += time.Duration(r.ExpFloat64() / x.Rate * float64(time.Second)) {
		select {
		case <-ctx.Done():
		case <-time.After(next - m.now()):
		}
		if m.now() >= x.Duration || ctx.Err() != nil {
			break
		}
		client := clients[r.IntN(len(clients))]
		calls.Go(func() { m.call(ctx, client, server.URL) })
	}
	calls.Wait()
	m.count(func(*storm.Bucket) { m.over = true })
	return m.Result
}

// call makes one call and counts it, unless an interrupt ends it.
func (m *meter) call(ctx context.Context, client *http.Client, url string) {
	began, reason := m.now(), retry.ReasonMaxAttempts // which stands for any
	m.count(func(b *storm.Bucket) { m.Asked++; b.Asked++ })
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if resp, err := client.Do(req); err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err == nil && resp.StatusCode == http.StatusOK {
			reason = retry.ReasonNone
		}
	}
	m.count(func(*storm.Bucket) {
		if ctx.Err() != nil {
			m.Asked--
			m.At(began).Asked--
			return
		}
		m.End(began, m.now(), reason)
	})
}

// worker is a server with the scenario's workers and queue.
type worker struct {
	*scenario
	*meter
	waiting []chan struct{} // closed when it is the request's turn
	busy    int
}

func (s *worker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, worked := s.serve(r)
	s.count(func(b *storm.Bucket) {
		if worked {
			b.Work(r.Context().Err() != nil)
		} else {
			b.Done++
		}
	})
	w.WriteHeader(status)
}

// serve does a request's work, and returns its status and whether work was done.
func (s *worker) serve(r *http.Request) (status int, worked bool) {
	statuses := map[storm.Answer]int{storm.Hang: 503, storm.Unavailable: 503, storm.TooMany: 429}
	if a := s.Refusal(0, s.now()); a != storm.Hang {
		return statuses[a], false
	}
	var gone <-chan struct{} // nil: nobody looks
	if s.Drop {
		gone = r.Context().Done()
	}
	turn := make(chan struct{})
	if !s.enter(turn) {
		return statuses[s.Full], false
	}
	defer s.leave(turn)
	select {
	case <-turn:
	case <-gone:
		return 503, false
	}
	takes, now := s.Latency, s.now()
	if s.Exponential {
		takes = time.Duration(float64(takes) * rand.ExpFloat64())
	}
	select {
	case <-time.After(s.Work(0, now, takes) - now):
	case <-gone:
	}
	if rand.Float64() < s.Failure {
		return 500, true
	}
	return 200, true
}

// enter puts a request into the queue, if it has a worker or a place there.
func (s *worker) enter(turn chan struct{}) (ok bool) {
	s.Lock()
	defer s.Unlock()
	if s.busy >= s.Workers && s.Queue != 0 && len(s.waiting) >= s.Queue {
		return false
	}
	s.waiting = append(s.waiting, turn)
	s.proceed()
	return true
}

// leave takes a request out of the queue, or off its worker.
func (s *worker) leave(turn chan struct{}) {
	s.Lock()
	defer s.Unlock()
	if i := slices.Index(s.waiting, turn); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	} else {
		s.busy--
		s.proceed()
	}
}

// proceed gives a worker that is free to one of the requests that wait.
func (s *worker) proceed() {
	if s.busy < s.Workers && len(s.waiting) > 0 {
		i := 0
		switch s.Discipline {
		case storm.LIFO:
			i = len(s.waiting) - 1
		case storm.Random:
			i = rand.IntN(len(s.waiting))
		}
		s.busy++
		close(s.waiting[i])
		s.waiting = slices.Delete(s.waiting, i, i+1)
	}
}
