package limit_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/internal/race"
	"github.com/goretry/retry/limit"
)

// service has 10 workers that take 50 ms each, and a queue in which requests wait in
// their order. It does what it was asked also if nobody waits any more, hangs for some
// time, and fails some of its requests at random.
type service struct {
	workers chan struct{}
	hangs   func() bool
	failure float64
	busy    sync.WaitGroup
}

func (s *service) serve(ctx context.Context) (int, error) {
	done := make(chan struct{})
	s.busy.Go(func() {
		s.workers <- struct{}{}
		for s.hangs() {
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(50 * time.Millisecond)
		<-s.workers
		close(done)
	})
	select {
	case <-done:
		if rand.Float64() < s.failure {
			return 0, errors.New("failed")
		}
		return 200, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// errShed is how the guards below refuse an attempt.
var errShed = errors.New("shed")

// throttling is what Google's SRE book calls client-side throttling ("Handling
// Overload", K = 2): it refuses with the probability by which requests are more than
// twice those that were accepted, in the last two minutes.
type throttling struct {
	mu    sync.Mutex
	calls []outcome
}

type outcome struct {
	at time.Time
	ok bool
}

func (g *throttling) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.calls) > 0 && time.Since(g.calls[0].at) > 2*time.Minute {
		g.calls = g.calls[1:]
	}
	accepted := 0
	for _, c := range g.calls {
		if c.ok {
			accepted++
		}
	}
	requests := float64(len(g.calls))
	if rand.Float64() < max(0, (requests-2*float64(accepted))/(requests+1)) {
		g.calls = append(g.calls, outcome{time.Now(), false}) // a refused one is a request as well
		return retry.Pass{}, errShed
	}
	return retry.Pass{}, nil
}

func (g *throttling) Leave(_ retry.Pass, x retry.Exit) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, outcome{time.Now(), x.Ending == retry.Returned && x.Verdict.Err == nil})
}

// breaker opens for 10 s after five failures in a row, and then lets one call try.
type breaker struct {
	mu     sync.Mutex
	row    int
	until  time.Time
	trying bool
}

func (g *breaker) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.row < 5 {
		return retry.Pass{}, nil
	}
	if g.trying || time.Now().Before(g.until) {
		return retry.Pass{}, errShed
	}
	g.trying = true
	return retry.Pass{}, nil
}

func (g *breaker) Leave(_ retry.Pass, x retry.Exit) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trying = false
	if x.Ending == retry.Returned && x.Verdict.Err == nil {
		g.row = 0
		return
	}
	g.row++
	g.until = time.Now().Add(10 * time.Second)
}

// outage is calls a second, for a minute, with a timeout of a second and up to three
// attempts within a budget.Token. It returns which of the calls of the last 20 seconds
// succeeded.
func outage(g retry.Guard, rate float64, hang time.Duration, failure float64) (goodput float64) {
	start := time.Now()
	s := &service{workers: make(chan struct{}, 10), failure: failure}
	s.hangs = func() bool { d := time.Since(start) - 10*time.Second; return d >= 0 && d < hang }
	p := retry.Policy{MaxAttempts: 3, AttemptTimeout: time.Second, Budget: &budget.Token{}, Guards: []retry.Guard{g}}
	arrivals := rand.New(rand.NewPCG(1, 2))
	calls, good := 0, 0
	var wg sync.WaitGroup
	var mu sync.Mutex
	for time.Since(start) < time.Minute {
		late := time.Since(start) > 40*time.Second
		wg.Go(func() {
			_, err := retry.Do(context.Background(), p, s.serve)
			mu.Lock()
			defer mu.Unlock()
			if late {
				calls++
			}
			if late && err == nil {
				good++
			}
		})
		time.Sleep(time.Duration(arrivals.ExpFloat64() / rate * float64(time.Second)))
	}
	wg.Wait()
	s.busy.Wait()
	return float64(good) / float64(calls)
}

// What ends an outage in which the queue is older than the timeout, what is left of a
// server that gets half more than it can do, and what a guard costs when failures are
// random. With -v and RETRY_LONG=1 it prints the table of docs/overload.md.
func TestOutages(t *testing.T) {
	if race.Enabled {
		t.Skip("simulates minutes, with a goroutine for each request")
	}
	guards := []struct {
		name  string
		fresh func() retry.Guard
	}{
		{"none", func() retry.Guard { return nil }},
		{"limit", func() retry.Guard { return &limit.Limit{Max: 100} }}, // what it can do in half of a timeout
		{"adaptive", func() retry.Guard { return new(limit.Adaptive) }},
		{"throttling", func() retry.Guard { return new(throttling) }},
		{"breaker", func() retry.Guard { return new(breaker) }},
	}
	const hang, overload, random = 0, 1, 2
	got := make(map[string][3]float64)
	for _, g := range guards {
		var row [3]float64
		for i, run := range []func() float64{
			func() float64 { return outage(g.fresh(), 190, 10*time.Second, 0) },
			func() float64 { return outage(g.fresh(), 300, 0, 0) },
			func() float64 { return outage(g.fresh(), 100, 0, .6) },
		} {
			if (g.name == "throttling" || g.name == "breaker") && i != random && os.Getenv("RETRY_LONG") != "1" {
				continue // nothing is expected of it: it is for the table
			}
			synctest.Test(t, func(*testing.T) { row[i] = run() })
		}
		got[g.name] = row
		t.Logf("%-11s  after an outage %.2f  150 %% load %.2f  60 %% fail %.2f", g.name, row[0], row[1], row[2])
	}
	none := got["none"]
	for _, name := range []string{"limit", "adaptive"} {
		limited := got[name]
		if none[hang] > .1 || limited[hang] < .99 {
			t.Errorf("%s: after an outage %.2f, and %.2f without, want all and nothing", name, limited[hang], none[hang])
		}
		if none[overload] > .1 || limited[overload] < .63 {
			t.Errorf("%s: under 150 %% load %.2f, and %.2f without, want two thirds and nothing", name, limited[overload], none[overload])
		}
		if limited[random] < none[random]-.05 {
			t.Errorf("%s: %.2f succeed where %.2f do without", name, limited[random], none[random])
		}
	}
	for _, name := range []string{"throttling", "breaker"} {
		if got[name][random] > .9*none[random] { // mostly a third of it, and in one run of many three quarters
			t.Errorf("%s lets %.2f succeed: docs/overload.md says that it starves the server", name, got[name][random])
		}
	}
}
