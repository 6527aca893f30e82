package storm

import (
	"context"
	"runtime"

	"github.com/goretry/retry"
)

// Trials lets each policy run with as many seeds, from s.Seed on, on all
// processors, and returns what became of each by policy and seed. Chance decides
// much in an overload: one run says little.
//
// When ctx ends it returns at once what is done by then; the others are nil.
func (s Service) Trials(ctx context.Context, policies []retry.Policy, seeds int) [][]*Result {
	type job struct{ policy, seed int }
	type outcome struct {
		job
		*Result
	}
	jobs, outcomes := make(chan job), make(chan outcome)
	run := s
	run.Progress = nil
	for range min(runtime.GOMAXPROCS(0), seeds*len(policies)) {
		go func() {
			for j := range jobs {
				run := run
				run.Seed += uint64(j.seed)
				select {
				case outcomes <- outcome{j, run.Run(policies[j.policy])}:
				case <-ctx.Done():
				}
			}
		}()
	}
	go func() {
		defer close(jobs)
		for seed := range seeds { // each seed with all policies: what is done early compares them
			for policy := range policies {
				select {
				case jobs <- job{policy, seed}:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	all := make([][]*Result, len(policies))
	for i := range all {
		all[i] = make([]*Result, seeds)
	}
	for n := range seeds * len(policies) {
		select {
		case o := <-outcomes:
			all[o.policy][o.seed] = o.Result
		case <-ctx.Done():
			return all
		}
		if s.Progress != nil {
			s.Progress(float64(n+1) / float64(seeds*len(policies)))
		}
	}
	return all
}
