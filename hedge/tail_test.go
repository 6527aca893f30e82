package hedge_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/internal/race"
)

// server has 20 workers and a queue. A request takes 10 ms, one in a hundred 50 times
// as long, and all of them slowness times that. It does not notice that a client has
// gone: what it was asked it does.
type server struct {
	workers  chan struct{}
	slowness func() float64

	mu       sync.Mutex
	rand     *rand.Rand
	requests int
	busy     sync.WaitGroup
}

func (s *server) serve(ctx context.Context) (int, error) {
	s.mu.Lock()
	s.requests++
	takes := 10 * ms
	if s.rand.IntN(100) == 0 {
		takes *= 50
	}
	s.mu.Unlock()
	done := make(chan struct{})
	s.busy.Go(func() {
		s.workers <- struct{}{} // those that wait are served in their order
		time.Sleep(time.Duration(float64(takes) * s.slowness()))
		<-s.workers
		close(done)
	})
	select {
	case <-done:
		return 200, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// phase is what the calls that began within a minute met.
type phase struct {
	calls, requests, failures int
	times                     []time.Duration
}

func (p *phase) quantile(q float64) time.Duration {
	slices.Sort(p.times)
	return p.times[int(q*float64(len(p.times)))].Round(ms)
}

func (p *phase) load() float64 { return float64(p.requests)/float64(p.calls) - 1 }

// minutes sends 500 calls a second, at random times and with a timeout of a second,
// to a server that is 2.2 times slower in the second minute. They come from as many
// processes as there are hedges, at random.
func minutes(hedges []*hedge.Hedge, seed uint64) (phases [3]phase) {
	start := time.Now()
	minute := func() int { return min(int(time.Since(start)/time.Minute), 2) }
	s := &server{workers: make(chan struct{}, 20), rand: rand.New(rand.NewPCG(seed, 1))}
	s.slowness = func() float64 {
		if minute() == 1 {
			return 2.2
		}
		return 1
	}
	var ops []func(context.Context) (int, error)
	for _, h := range hedges {
		ops = append(ops, raced(retry.Policy{}, h, s.serve, hedge.Value[int]{}))
	}
	arrivals := rand.New(rand.NewPCG(seed, 2))
	var wg sync.WaitGroup
	var mu sync.Mutex
	for time.Since(start) < 3*time.Minute {
		p := &phases[minute()]
		p.calls++
		s.mu.Lock()
		before := s.requests
		s.mu.Unlock()
		op := ops[arrivals.IntN(len(ops))]
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			began := time.Now()
			_, err := op(ctx)
			mu.Lock()
			defer mu.Unlock()
			p.times = append(p.times, time.Since(began))
			if err != nil {
				p.failures++
			}
		})
		time.Sleep(time.Duration(arrivals.ExpFloat64() / 500 * float64(time.Second)))
		s.mu.Lock()
		p.requests += s.requests - before
		s.mu.Unlock()
	}
	wg.Wait()
	s.busy.Wait()
	return phases
}

// scenarios are the ways to make the calls. The last one is what a hedge does with
// neither a budget nor a delay that follows the server.
func scenarios() []scenario {
	return []scenario{
		{"no hedge", []*hedge.Hedge{nil}},
		{"hedged", fleet(1)},
		{"hedged, 1000 processes", fleet(1000)},
		{"fixed delay, no budget", []*hedge.Hedge{{Delay: 15 * ms, Budget: &budget.Token{Cost: -1}}}},
	}
}

type scenario struct {
	name   string
	hedges []*hedge.Hedge // one for each process
}

// fleet returns the zero Hedges of n processes.
func fleet(n int) (hedges []*hedge.Hedge) {
	for range n {
		hedges = append(hedges, new(hedge.Hedge))
	}
	return hedges
}

// simulate makes the calls of a scenario, in a bubble of its own.
func simulate(t *testing.T, s scenario) (got [3]phase) {
	synctest.Test(t, func(*testing.T) { got = minutes(s.hedges, 1) })
	for minute, p := range got {
		t.Logf("%-22s  %-9s  p50 %3d ms  p99 %4d ms  p99.9 %4d ms  load +%4.1f %%  %5d failures", s.name,
			[]string{"normal", "slower", "recovered"}[minute], p.quantile(.5)/ms, p.quantile(.99)/ms, p.quantile(.999)/ms, 100*p.load(), p.failures)
	}
	return got
}

// harmless checks that hedges add little load and cost no call, in every minute.
func harmless(t *testing.T, name string, hedged, none [3]phase) {
	for minute, p := range hedged {
		if load := p.load(); load > .055 {
			t.Errorf("%s, minute %d: %.1f %% more load, want at most 5.5", name, minute, 100*load)
		}
		if p.failures > none[minute].failures {
			t.Errorf("%s, minute %d: %d failures, %d without hedges", name, minute, p.failures, none[minute].failures)
		}
	}
	if slow, quick := none[0].quantile(.99), hedged[0].quantile(.99); quick*5 > slow {
		t.Errorf("%s: p99 is %v with hedges and %v without, want a fifth", name, quick, slow)
	}
}

// With -v it prints the table of bench/EXPERIMENTS.md.
func TestTail(t *testing.T) {
	if race.Enabled {
		t.Skip("one bubble of the race detector's takes minutes; TestManyCallsLeaveNothing is for it")
	}
	s := scenarios()
	none, hedged := simulate(t, s[0]), simulate(t, s[1])
	harmless(t, "one process", hedged, none)
	for minute, p := range hedged {
		if load := p.load(); load < .01 {
			t.Errorf("minute %d: %.1f %% more load: hardly anything was hedged", minute, 100*load)
		}
	}
	if slow, quick := none[0].quantile(.999), hedged[0].quantile(.999); quick*15 > slow {
		t.Errorf("p99.9 is %v with hedges and %v without, want 15 times less", quick, slow)
	}
	if none[1].failures == 0 || hedged[2].failures != 0 {
		t.Errorf("%d failures while the server is slow, %d with hedges after, want some and none", none[1].failures, hedged[2].failures)
	}
	if os.Getenv("RETRY_LONG") != "1" {
		t.Log("RETRY_LONG=1 also simulates 1000 processes, and hedges that nothing limits")
		return
	}
	harmless(t, "1000 processes", simulate(t, s[2]), none)
	// The server is one that hedges can kill, or the above would prove little.
	naive := simulate(t, s[3])
	if naive[1].failures < 10*none[1].failures {
		t.Errorf("%d failures with hedges that nothing limits, %d without hedges", naive[1].failures, none[1].failures)
	}
}

// Whatever the number of processes, they do not hedge a slow server to death. With a
// budget of one hedge a second in each process 250 of them do: that is the last row.
func TestTailOfFleets(t *testing.T) {
	if race.Enabled || os.Getenv("RETRY_LONG") != "1" {
		t.Skip("a long simulation: RETRY_LONG=1 runs it; TestTail has the smallest fleet")
	}
	none := simulate(t, scenario{"no hedge", []*hedge.Hedge{nil}})
	for _, n := range []int{3, 10, 30, 100, 250, 300, 1000} {
		name := fmt.Sprint(n, " processes")
		harmless(t, name, simulate(t, scenario{name, fleet(n)}), none)
	}
	floors := fleet(250)
	for _, h := range floors {
		h.Budget = &budget.Ratio{Ratio: .05, MinPerSecond: 1}
	}
	if got := simulate(t, scenario{"250 with one a second", floors}); got[1].failures < 10*none[1].failures {
		t.Errorf("%d failures with a floor in each process, %d without hedges: the test proves little", got[1].failures, none[1].failures)
	}
}
