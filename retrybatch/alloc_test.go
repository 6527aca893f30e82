package retrybatch_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/retrybatch"
)

func TestAllocationsOfASuccess(t *testing.T) {
	for _, n := range []int{1, 10, 10_000} {
		items, values := make([]int, n), make([]int, n)
		do := testing.AllocsPerRun(100, func() {
			_, _ = retrybatch.Do(t.Context(), retry.Policy{}, items, func(context.Context, []int) ([]int, error) { return values, nil })
		})
		run := testing.AllocsPerRun(100, func() {
			_ = retrybatch.Run(t.Context(), retry.Policy{}, items, func(context.Context, []int) error { return nil })
		})
		if do > 3 || run > 4 {
			t.Errorf("%d items: Do %v allocations, Run %v; want at most 3 and 4", n, do, run)
		}
	}
}

// allocated returns how many allocations and bytes f takes.
func allocated(f func()) (allocs, bytes float64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs - before.Mallocs), float64(after.TotalAlloc - before.TotalAlloc)
}

func TestAllocationsOfFailures(t *testing.T) {
	const n, calls = 10_000, 5
	items := make([]int, n)
	failed := make(map[int]error, n)
	for i := range n {
		failed[i] = errBusy
	}
	partial := retrybatch.Partial(failed)
	p := retry.Policy{MaxAttempts: calls, Backoff: retry.Constant(0)}
	run := func(p retry.Policy, err error) (allocs, bytes float64) {
		return allocated(func() {
			_ = retrybatch.Run(t.Context(), p, items, func(context.Context, []int) error { return err })
		})
	}
	for name, err := range map[string]error{"open": partial, "ended": retry.Stop(partial), "throttled": retry.After(partial, 0)} {
		allocs, bytes := run(p, err)
		sent := float64(n * calls)
		if name == "ended" {
			sent = n
		}
		if allocs/sent > 4 || bytes/sent > 512 {
			t.Errorf("%s: %.1f allocations and %.0f B for each item of each call, want at most 4 and 512", name, allocs/sent, bytes/sent)
		}
	}

	// A call that fails as a whole costs its items nothing before the end of the run.
	errWhole := errors.New("bad gateway")
	few, _ := run(retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0)}, errWhole)
	many, _ := run(retry.Policy{MaxAttempts: 200, Backoff: retry.Constant(0)}, errWhole)
	if many-few > 198*10 {
		t.Errorf("198 more calls take %v more allocations", many-few)
	}
}

// The time of a call follows the items in it, not those of the batch: 2000 calls
// outweigh the first one.
func TestRatioOfASlowItem(t *testing.T) {
	if os.Getenv("RETRY_LONG") != "1" {
		t.Skip("a comparison of times: RETRY_LONG=1 runs it")
	}
	const calls = 2000
	took := func(n int) time.Duration {
		items := make([]int, n)
		p := retry.Policy{MaxAttempts: calls, Backoff: retry.Constant(0), Clock: clockx.NewVirtual(time.Unix(0, 0))}
		began := time.Now()
		_ = retrybatch.Run(t.Context(), p, items, func(_ context.Context, open []int) error {
			return retrybatch.Partial(map[int]error{len(open) / 2: errBusy})
		})
		return time.Since(began)
	}
	ratio := 0.0
	for range 20 { // a busy machine may stop one of them
		if ratio = float64(took(1_000_000)) / float64(took(1_000)); ratio < 60 {
			return
		}
	}
	t.Errorf("2000 calls with one open item of 10^6 take %.0f times those of 10^3", ratio)
}
