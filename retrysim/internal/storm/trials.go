package storm

import (
	"cmp"
	"context"
	"runtime"
	"sync/atomic"

	"github.com/goretry/retry"
)

// Trials lets each policy run with as many seeds, from s.Seed on, s.Parallel of them at
// once, and returns what became of each by policy and seed. When ctx ends it returns at
// once what is done by then; the others are nil, and end soon.
func (s Service) Trials(ctx context.Context, policies []retry.Policy, seeds int) [][]*Result {
	all := make([][]*Result, len(policies))
	for i := range all {
		all[i] = make([]*Result, seeds)
	}
	type outcome struct {
		of int
		*Result
	}
	runs, outcomes := seeds*len(policies), make(chan outcome)
	var begun atomic.Int64
	processors := runtime.GOMAXPROCS(0)
	for range min(cmp.Or(max(s.Parallel, 0), processors), processors, runs) {
		go func() {
			for n := int(begun.Add(1)) - 1; n < runs && ctx.Err() == nil; n = int(begun.Add(1)) - 1 {
				run := s
				run.Seed += uint64(n / len(policies)) // what is done early compares all policies
				select {
				case outcomes <- outcome{n, run.run(ctx, policies[n%len(policies)])}:
				case <-ctx.Done():
				}
			}
		}()
	}
	for range runs {
		select {
		case o := <-outcomes:
			all[o.of%len(policies)][o.of/len(policies)] = o.Result
			if s.Ran != nil {
				s.Ran()
			}
		case <-ctx.Done():
			return all
		}
	}
	return all
}
