//go:build !race

package retrydebug_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydebug"
)

// heap returns what is reachable, in bytes.
func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// Names and errors of 256 KiB each, which nothing else keeps: what is kept of them is
// a copy of its beginning.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	many := strings.Repeat("x", 1<<18)
	long := func(i int) string { return fmt.Sprint(i) + many }
	before := heap()
	traced := true
	page := &retrydebug.Recorder{Trace: func(context.Context) string {
		if traced {
			return long(0)[1:]
		}
		return ""
	}}
	h := page.Hooks()
	fail := func(name string, errs ...error) {
		p := retry.Policy{Name: name, Hooks: h, Backoff: retry.Constant(0), MaxAttempts: len(errs)}
		n := 0
		_ = retry.Run(t.Context(), p, func(context.Context) error { n++; return errs[n-1] })
	}
	for i := range 300 {
		fail(long(i)[1:], errors.New(long(i)), errors.New(long(i)[2:]))
		page.ObserveBudget(long(i)[1:], observed{})
		page.ObserveLimit(long(i)[1:], observed{})
		page.ObserveBreaker(long(i)[1:], observed{})
		page.ObserveHedge(long(i)[1:], observed{})
		page.ObservePace(long(i)[1:], observed{})
	}
	traced = false
	names := 5_000
	if longTests {
		names = 100_000
	}
	for i := range names {
		fail(fmt.Sprint("op", i), errDown, errDown)
	}
	traced = true
	for i := range 70 {
		fail(long(i), errors.New(long(i)), errors.New(long(i)[1:]))
		fail(long(i), errors.New(long(i)))
	}
	if kept := heap() - before; kept > 16<<20 {
		t.Errorf("%.1f MiB are kept, want at most 16", float64(kept)/(1<<20))
	} else {
		t.Logf("%.1f MiB are kept", float64(kept)/(1<<20))
	}
	// An attempt of no run that is told apart.
	ctx := h.Start(t.Context(), retry.Policy{Name: "op1"})
	h.AttemptDone(ctx, retry.Attempt{Number: 1, Start: time.Now(), Err: errors.New(long(1)), Class: retry.Transient})
	if r := read(t, page); len(r.operation(t, "op1").LastError.Error) > 256 {
		t.Errorf("an error of %d bytes", len(r.operation(t, "op1").LastError.Error))
	}
	if r := read(t, page); len(r.Operations) != 257 || len(r.Failed) != 64 {
		t.Errorf("%d operations, %d failed runs", len(r.Operations), len(r.Failed))
	}
}

// More runs underway than are told apart: they are counted, and what the others keep
// is limited.
func TestManyRunsUnderway(t *testing.T) {
	before := heap()
	page := new(retrydebug.Recorder)
	h := page.Hooks()
	const runs = 80_000
	contexts := make([]context.Context, runs)
	for i := range contexts {
		ctx := h.Start(t.Context(), retry.Policy{Name: fmt.Sprint("op", i%2)})
		h.Attempt(ctx, retry.Attempt{Number: 1, Start: time.Now()})
		if i >= runs/2 {
			h.AttemptDone(ctx, retry.Attempt{Number: 1, Start: time.Now(), Err: errDown, Class: retry.Transient, Delay: time.Hour})
			h.Wait(ctx, retry.Attempt{Number: 1, Start: time.Now(), Err: errDown, Class: retry.Transient, Delay: time.Hour})
		}
		contexts[i] = ctx
	}
	t.Logf("%d bytes for each run underway", (heap()-before)/runs)
	r := read(t, page)
	if r.Live.Total != runs || r.Live.Waiting != runs/2 || len(r.Live.Oldest) != 100 {
		t.Errorf("%d live, %d waiting, %d shown, want %d, %d, 100", r.Live.Total, r.Live.Waiting, len(r.Live.Oldest), runs, runs/2)
	}
	if o := r.operation(t, "op1"); o.Live != runs/2 || o.Waiting != runs/4 || o.LastError == nil {
		t.Errorf("op1: %+v", o)
	}
	for i, ctx := range contexts {
		if i == runs-1000 { // the others came when there was no room
			if r := read(t, page); r.Live.Total != 1000 || r.Live.Waiting != 1000 || len(r.Live.Oldest) != 0 {
				t.Errorf("of those without a place %d live, %d waiting, %d shown, want 1000, 1000, 0", r.Live.Total, r.Live.Waiting, len(r.Live.Oldest))
			}
		}
		reason := retry.ReasonNone
		if i%2 == 0 {
			reason = retry.ReasonBudget
		}
		h.Done(ctx, retry.Summary{Attempts: 1, Reason: reason})
	}
	r = read(t, page)
	if r.Live.Total != 0 || r.Live.Waiting != 0 || len(r.Live.Oldest) != 0 {
		t.Errorf("live in the end: %+v", r.Live)
	}
	if w := r.operation(t, "op0").Windows["1h"]; w.Failed != runs/2 {
		t.Errorf("op0: %d failed, want %d", w.Failed, runs/2)
	}
	if w := r.operation(t, "op1").Windows["1h"]; w.AfterRetry != runs/4 || w.FirstTry != runs/4 {
		t.Errorf("op1: %+v", w)
	}
	if kept := heap() - before; kept > 16<<20 {
		t.Errorf("%d bytes are kept of runs that are over", kept)
	}
	runtime.KeepAlive(contexts)
}

// As much as can be recorded, in characters that take the most space where they are
// shown.
func TestSizes(t *testing.T) {
	const limit = 13 << 18
	characters := []string{`"`, "&", `\`, "\x00", "\u2028", "\xff"}
	if !longTests {
		characters = characters[:1] // RETRY_LONG=1 takes them all
	}
	for _, c := range characters {
		synctest.Test(t, func(t *testing.T) {
			text := func(i, most int) string { // distinct, and never of more than so many bytes once it is cut
				s := strings.Repeat(c, most/len(c))
				return fmt.Sprint(i) + s
			}
			page := &retrydebug.Recorder{Trace: func(context.Context) string { return text(1, 1000) }}
			h := page.Hooks()
			fails := errors.New(text(2, 1000))
			for range 60 {
				for i := range 257 {
					name := text(i, 1000)
					for _, reason := range []retry.Reason{retry.ReasonNone, retry.ReasonMaxAttempts, retry.ReasonPermanent, retry.ReasonNotIdempotent, retry.ReasonMaxElapsed,
						retry.ReasonDeadline, retry.ReasonRetryAfter, retry.ReasonBudget, retry.ReasonCanceled, retry.ReasonPanic, retry.ReasonGuard, 12, 13} {
						ctx := h.Start(t.Context(), retry.Policy{Name: name})
						if reason == retry.ReasonNone {
							for _, class := range []retry.Class{retry.Transient, retry.TimedOut, retry.Throttled, retry.Unprocessed, retry.Transient, retry.TimedOut} {
								h.AttemptDone(ctx, retry.Attempt{Number: 1, Start: time.Now(), Err: fails, Class: class})
							}
						}
						h.Done(ctx, retry.Summary{Attempts: math.MaxInt32, Reason: reason, Elapsed: 123456789})
					}
					ctx := h.Start(t.Context(), retry.Policy{Name: name})
					h.Done(ctx, retry.Summary{})
				}
				time.Sleep(time.Minute - 1)
			}
			for i := range 257 {
				name := text(i, 1000)
				page.ObserveBudget(name, observed{balance: 1. / 3})
				page.ObserveLimit(name, observed{inFlight: math.MaxInt32, places: math.MaxInt32})
				page.ObserveBreaker(name, observed{wait: 123456789})
				page.ObserveHedge(name, observed{wait: 123456789})
				page.ObservePace(name, observed{balance: 1. / 3, wait: 123456789})
				if i < 256/5 {
					keys := &retry.PerKey[paced]{New: func(string) *paced { return &paced{hedging{123456789}, 1. / 3} }}
					for j := range 5 {
						keys.For(text(j, 1000))
					}
					retrydebug.ObservePerKey(page, name, keys)
				}
			}
			for i := range 200 {
				ctx := h.Start(t.Context(), retry.Policy{Name: text(i, 1000), MaxAttempts: math.MaxInt32})
				for n := range 10 {
					a := retry.Attempt{Number: math.MaxInt32 - 20 + n, Start: time.Now().Add(123456789), Duration: 123456789, Elapsed: 987654321, Err: errors.New(text(n, 1000)), Class: retry.Unprocessed, Delay: 1234567890123, Hint: 123456789012}
					h.Attempt(ctx, a)
					h.AttemptDone(ctx, a)
					h.Wait(ctx, a)
					h.Guard(ctx, retry.Held{Number: a.Number + 1, Guard: text(n, 1000), Start: a.Start, Elapsed: a.Elapsed, Delay: a.Delay, Err: a.Err, Class: a.Class})
				}
				if i%2 == 0 {
					h.Done(ctx, retry.Summary{Attempts: math.MaxInt32 - i%4/2, Elapsed: 987654321, Waited: 123456789, Reason: retry.ReasonNotIdempotent})
				}
				if i >= 100 {
					ctx := h.Start(t.Context(), retry.Policy{Name: text(i, 1000)})
					h.Done(ctx, retry.Summary{Attempts: 1, Reason: retry.ReasonDeadline, Elapsed: 987654321})
				}
			}
			for _, query := range []string{"?format=json", "", "?window=10s", "?window=1h"} {
				body := get(t, page, query).Body.String()
				if len(body) > limit || !utf8.ValidString(body) {
					t.Errorf("%q, %q: %d bytes, want at most %d", c, query, len(body), limit)
				}
				t.Logf("%q, %q: %d bytes", c, query, len(body))
			}
			r := read(t, page)
			steps, causes := 0, 0
			for _, o := range r.Operations {
				causes += len(o.Causes)
			}
			for _, f := range r.Failed {
				steps += len(f.Steps)
			}
			if ops, gauges := len(r.Operations), len(r.Budgets)+len(r.Limits)+len(r.Hedges)+len(r.Paces); ops != 257 || gauges != 4*256 || len(r.Live.Oldest) != 100 || len(r.Failed) != 64 || steps != 32*8 || causes != 4*257 {
				t.Errorf("not all is there: %d operations, %d gauges, %d live, %d failed with %d steps, %d causes", ops, gauges, len(r.Live.Oldest), len(r.Failed), steps, causes)
			}
		})
	}
}
