package bench

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Item is one kind of work, and one column of a table.
type Item struct {
	Table string // the items of a table follow each other
	Name  string
	About string
	Cases []Case // the first is the floor
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
	NS, Allocs float64
	Ratio      float64 // to the floor of the same round
	Spread     float64 // half the distance between the quartiles of NS, as a part of it

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
	type sample struct{ ns, allocs float64 }
	sizes := make([]int, len(it.Cases))
	samples := make([][]sample, len(it.Cases))
	for i, c := range it.Cases {
		if c.Run != nil {
			for range 3 { // an interrupt makes a batch too small
				sizes[i] = max(sizes[i], batchSize(c.Run, batch))
			}
		}
	}
	for round := range rounds {
		for i := range it.Cases {
			i = (i + round) % len(it.Cases)
			n := sizes[i]
			if n == 0 {
				continue
			}
			took, mallocs := measure(func() { it.Cases[i].Run(n) })
			samples[i] = append(samples[i], sample{float64(took) / float64(n), float64(mallocs) / float64(n)})
		}
	}
	results := make([]Result, len(it.Cases))
	for i, c := range it.Cases {
		r := Result{Case: c}
		if c.Run != nil {
			var ns, allocs, ratios []float64
			for round, s := range samples[i] {
				ns, allocs = append(ns, s.ns), append(allocs, s.allocs)
				ratios = append(ratios, s.ns/samples[floor][round].ns)
			}
			r.NS, r.Allocs, r.Ratio = median(ns), median(allocs), median(ratios)
			r.rounds = ns
			r.Spread = (quantile(ns, .75) - quantile(ns, .25)) / 2 / r.NS
		}
		results[i] = r
	}
	return results
}

// measure returns how long f took, and how often it allocated.
func measure(f func()) (took time.Duration, mallocs uint64) {
	var before, after runtime.MemStats
	runtime.GC() // or it would pay for the garbage of the case before
	runtime.ReadMemStats(&before)
	start := time.Now()
	f()
	took = time.Since(start)
	runtime.ReadMemStats(&after)
	return took, after.Mallocs - before.Mallocs
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

// Items are calls through each library, which are the cases.
func Items() []Item {
	const (
		one  = "One call after the other"
		many = "Calls on all cores"
	)
	return []Item{
		{one, "built in the call", "succeeds at once. The policy is built in the call, as in most programs: four attempts and waits that double.",
			cases(func(p Peer) Case {
				if p.Inline == nil {
					return Case{Missing: "is made once"}
				}
				return Case{Run: times(p.Inline, succeed)}
			})},
		{one, "first try", "the same with one policy for all calls.",
			cases(func(p Peer) Case {
				if p.Shared != nil {
					return Case{Missing: p.Why}
				}
				return Case{Run: times(p.New(inline), succeed)}
			})},
		{one, "no limit", "succeeds at once, with what all libraries can do: one policy with constant waits and any number of attempts.",
			calls(Spec{Wait: inline.Wait}, succeed, "")},
		{one, "three failures", "fails three times, then succeeds. There are no waits.",
			calls(Spec{Attempts: 4}, nil, "")},
		{one, "a listener", "the same with a listener that is called before each retry and does nothing.",
			calls(Spec{Attempts: 4, Listener: func() {}}, nil, "has no listener")},
		{one, "giving up", "fails four times, and the call returns an error. There are no waits.",
			calls(Spec{Attempts: 4}, fail, "")},
		{one, "virtual clock", "three failures and waits that double, on a virtual clock that each wait moves forward, as in a test.",
			calls(Spec{Attempts: 4, Wait: inline.Wait, Max: inline.Max, Virtual: true}, nil, "takes no clock")},
		{many, "all cores", "succeeds at once.", parallel(Spec{Attempts: 4}, "")},
		{many, "one bucket", "the same with one bucket of tokens for all calls, which retries take and successes give back.",
			parallel(Spec{Attempts: 4, Tokens: true}, "has no such limit")},
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
