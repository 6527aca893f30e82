package bench

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Item is one kind of work, and one table of results.
type Item struct {
	Name  string
	About string
	Cases []Case // the first is the floor
	N     int    // the size of a batch; 0: whatever fills its time
}

// Case is one way to do an item's work.
type Case struct {
	Name    string
	Run     func(n int) // does it n times; nil: it cannot
	Missing string      // why not
	Note    string
}

// Result is what a case takes each time, as medians over all rounds.
type Result struct {
	Case
	NS, Bytes, Allocs float64
	Ratio             float64 // to the floor of the same round
	Spread            float64 // half the distance between the quartiles of NS, as a part of it

	rounds []float64 // NS of each
}

// over returns r's time as a multiple of another case's, the median over all rounds:
// the two of a round are nearer to each other than the medians of all.
func (r Result) over(other Result) float64 {
	var ratios []float64
	for i, ns := range r.rounds {
		ratios = append(ratios, ns/other.rounds[i])
	}
	return median(ratios)
}

// Measure runs the cases in turns, so that whatever drifts hits all alike, in
// batches of the given length. Each round begins with another case.
func (it Item) Measure(rounds int, batch time.Duration) []Result {
	type sample struct{ ns, bytes, allocs float64 }
	if it.N > 0 {
		rounds = min(rounds, 5) // long ones
	}
	sizes := make([]int, len(it.Cases))
	samples := make([][]sample, len(it.Cases))
	for i, c := range it.Cases {
		switch {
		case c.Run == nil:
		case it.N > 0:
			sizes[i] = it.N
		default:
			sizes[i] = batchSize(c.Run, batch)
		}
	}
	for round := range rounds {
		for i := range it.Cases {
			i = (i + round) % len(it.Cases)
			n := sizes[i]
			if n == 0 {
				continue
			}
			took, mallocs, bytes := measure(func() { it.Cases[i].Run(n) })
			samples[i] = append(samples[i], sample{
				float64(took) / float64(n), float64(bytes) / float64(n), float64(mallocs) / float64(n),
			})
		}
	}
	results := make([]Result, len(it.Cases))
	for i, c := range it.Cases {
		r := Result{Case: c}
		if c.Run != nil {
			var ns, bytes, allocs, ratios []float64
			for round, s := range samples[i] {
				ns, bytes, allocs = append(ns, s.ns), append(bytes, s.bytes), append(allocs, s.allocs)
				ratios = append(ratios, s.ns/samples[floor][round].ns)
			}
			r.NS, r.Bytes, r.Allocs, r.Ratio = median(ns), median(bytes), median(allocs), median(ratios)
			r.rounds = ns
			r.Spread = (quantile(ns, .75) - quantile(ns, .25)) / 2 / r.NS
		}
		results[i] = r
	}
	return results
}

// measure returns how long f took, and what it allocated.
func measure(f func()) (took time.Duration, mallocs, bytes uint64) {
	var before, after runtime.MemStats
	runtime.GC() // or it would pay for the garbage of the case before
	runtime.ReadMemStats(&before)
	start := time.Now()
	f()
	took = time.Since(start)
	runtime.ReadMemStats(&after)
	return took, after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc
}

// batchSize returns how many times fill a batch.
func batchSize(run func(int), batch time.Duration) int {
	for n := 1; ; n *= 2 {
		start := time.Now()
		run(n)
		if took := time.Since(start); took >= batch/4 {
			return max(int(float64(n)*float64(batch)/float64(took)), 1)
		}
	}
}

func median(xs []float64) float64 { return quantile(xs, .5) }

func quantile(xs []float64, q float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	at := q * float64(len(xs)-1)
	i := int(at)
	if i+1 == len(xs) {
		return xs[i]
	}
	return xs[i] + (at-float64(i))*(xs[i+1]-xs[i])
}

// Items are the items of the table, each peer a case.
func Items() []Item {
	const noLimit, noClock = "has no such limit", "takes no clock"
	return []Item{
		{"first try", "The operation succeeds at once. One policy serves all calls, with four attempts and waits that double.",
			cases(func(p Peer) Case {
				if p.Shared != nil {
					return Case{Missing: p.Why}
				}
				return Case{Run: times(p.New(inline), succeed)}
			}), 0},
		{"first try, policy built in the call", "The same with a policy that is built in the call, as in most programs.",
			cases(func(p Peer) Case {
				if p.Inline == nil {
					return Case{Missing: "is made once"}
				}
				return Case{Run: times(p.Inline, succeed)}
			}), 0},
		{"first try, no limit on attempts", "What all of them can do: constant waits and any number of attempts, with one policy for all calls.",
			calls(Spec{Wait: inline.Wait}, succeed, ""), 0},
		{"three failures", "The operation fails three times, then succeeds. There are no waits.",
			calls(Spec{Attempts: 4}, nil, ""), 0},
		{"three failures, a listener", "The same with a listener that is called before each retry and does nothing.",
			calls(Spec{Attempts: 4, Listener: func() {}}, nil, "has no listener"), 0},
		{"giving up", "The operation fails four times, and the call returns an error. There are no waits.",
			calls(Spec{Attempts: 4}, fail, ""), 0},
		{"three failures, virtual clock", "Three failures and waits that double, on a virtual clock that each wait moves forward, as in a test.",
			calls(Spec{Attempts: 4, Wait: inline.Wait, Max: inline.Max, Clock: newJump()}, nil, noClock), 0},
		{"all cores", "First tries on all cores at once. Times are wall-clock times.",
			parallel(Spec{Attempts: 4}, ""), 0},
		{"all cores, one bucket of tokens", "The same with one limit for all retries: tokens that retries take and successes give back.",
			parallel(Spec{Attempts: 4, Budget: Tokens}, noLimit), 0},
		{"all cores, one limit in flight", "The same with the other kind of limit: a fraction of the calls in flight.",
			parallel(Spec{Attempts: 4, Budget: Concurrency}, noLimit), 0},
		{"100 000 calls on a mock clock", "One goroutine per call. Each call fails three times, and all wait on one mock clock. Figures are for one call.",
			cases(func(p Peer) Case {
				if p.New(Spec{Clock: &mock{}}) == nil {
					return Case{Missing: noClock}
				}
				return Case{Run: func(n int) { mocked(p, n) }}
			}), 100_000},
	}
}

// cases returns the floor and one case for each peer.
func cases(of func(Peer) Case) []Case {
	var all []Case
	for _, p := range Peers {
		c := of(p)
		c.Name, c.Note = p.Name, p.Note
		all = append(all, c)
	}
	return all
}

// calls returns cases of one call after the other. A nil op fails three times.
func calls(s Spec, op Op, missing string) []Case {
	return cases(func(p Peer) Case {
		call := p.New(s)
		if call == nil {
			return Case{Missing: missing}
		}
		if op == nil {
			return Case{Run: times(call, failing(3))}
		}
		return Case{Run: times(call, op)}
	})
}

// times calls n times in a row. The context can be canceled, as those of servers
// can.
func times(call Call, op Op) func(n int) {
	return func(n int) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		for range n {
			_, _ = call(ctx, op)
		}
	}
}

// parallel returns cases of calls on all cores at once.
func parallel(s Spec, missing string) []Case {
	return cases(func(p Peer) Case {
		call := p.New(s)
		if call == nil {
			return Case{Missing: missing}
		}
		return Case{Run: func(n int) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			var all sync.WaitGroup
			for range runtime.GOMAXPROCS(0) {
				all.Go(func() {
					for range n / runtime.GOMAXPROCS(0) {
						_, _ = call(ctx, succeed)
					}
				})
			}
			all.Wait()
		}}
	})
}

// mocked makes n calls at once on one mock clock.
func mocked(p Peer, n int) {
	clock := &mock{}
	call := p.New(Spec{Attempts: 4, Wait: inline.Wait, Max: inline.Max, Clock: clock})
	clock.run(n, func() { _, _ = call(context.Background(), failing(3)) })
}
