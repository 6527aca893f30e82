package retrydebug_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/retrydebug"
)

const ms = time.Millisecond

type refuse struct{}

func (refuse) Withdraw(retry.Withdrawal) bool { return false }
func (refuse) End(retry.Outcome)              {}

func TestOutcomes(t *testing.T) {
	until := func(p retry.Policy, accepted int) {
		n := 0
		_, _ = retry.Do(context.Background(), p, retry.Until(func(context.Context) (int, error) { n++; return n, nil },
			func(n int) bool { return n >= accepted }))
	}
	for _, tt := range []struct {
		name      string
		do        func(p retry.Policy)
		want      window // of its runs by outcome, attempts and reasons
		lastError string
	}{
		{"first try", func(p retry.Policy) { run(p) }, window{FirstTry: 1, Attempts: 1}, ""},
		{"after a retry", func(p retry.Policy) { run(p, errDown) }, window{AfterRetry: 1, Attempts: 2}, "connection refused"},
		{"attempts", func(p retry.Policy) { run(p, errDown, errDown, errDown) },
			window{Failed: 1, Attempts: 3, Reasons: map[string]int{"max_attempts": 1}}, "connection refused"},
		{"not idempotent", func(p retry.Policy) { p.NonIdempotent = true; run(p, errors.New("reset")) },
			window{Failed: 1, Attempts: 1, Reasons: map[string]int{"not_idempotent": 1}}, "reset"},
		{"budget", func(p retry.Policy) { p.Budget = refuse{}; run(p, errDown) },
			window{Failed: 1, Attempts: 1, Reasons: map[string]int{"budget": 1}}, "connection refused"},
		{"a permanent error", func(p retry.Policy) { run(p, retry.Stop(errors.New("404"))) },
			window{Permanent: 1, Attempts: 1, Reasons: map[string]int{"permanent": 1}}, "404"},
		{"a permanent error in the end", func(p retry.Policy) { run(p, errDown, retry.Stop(errors.New("404"))) },
			window{Permanent: 1, Attempts: 2, Reasons: map[string]int{"permanent": 1}}, "404"},
		{"an answer", func(p retry.Policy) { run(p, retry.Answer(errors.New("404"))) }, window{FirstTry: 1, Attempts: 1}, ""},
		{"an answer in the end", func(p retry.Policy) { run(p, errDown, retry.Answer(errors.New("404"))) },
			window{AfterRetry: 1, Attempts: 2}, "connection refused"},
		{"a poll", func(p retry.Policy) { until(p, 3) }, window{FirstTry: 1, Attempts: 3}, ""},
		{"a poll given up", func(p retry.Policy) { until(p, 4) }, window{Failed: 1, Attempts: 3, Reasons: map[string]int{"max_attempts": 1}}, ""},
		{"a poll with a pace of its own", func(p retry.Policy) {
			run(p, retry.After(retry.ErrRejected, ms), fmt.Errorf("not yet: %w", retry.ErrRejected))
		},
			window{FirstTry: 1, Attempts: 3}, ""},
		{"a poll in which an attempt fails", func(p retry.Policy) { run(p, retry.ErrRejected, errDown) }, window{AfterRetry: 1, Attempts: 3}, "connection refused"},
		{"the caller's cancel", func(p retry.Policy) {
			ctx, cancel := context.WithCancel(context.Background())
			_ = retry.Run(ctx, p, func(ctx context.Context) error { cancel(); return ctx.Err() })
		}, window{Canceled: 1, Attempts: 1, Reasons: map[string]int{"canceled": 1}}, ""},
		{"the caller's cancel in a wait", func(p retry.Policy) {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(50*ms, cancel)
			_ = retry.Run(ctx, p, func(context.Context) error { return errDown })
		}, window{Canceled: 1, Attempts: 1, Reasons: map[string]int{"canceled": 1}}, "connection refused"},
		{"the deadline in an attempt", func(p retry.Policy) {
			ctx, cancel := context.WithTimeout(context.Background(), 50*ms)
			defer cancel()
			_ = retry.Run(ctx, p, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		}, window{Failed: 1, Attempts: 1, Reasons: map[string]int{"deadline": 1}}, "context deadline exceeded"},
		{"the deadline before the first attempt", func(p retry.Policy) {
			ctx, cancel := context.WithTimeout(context.Background(), 0)
			defer cancel()
			_ = retry.Run(ctx, p, nil0)
		}, window{Failed: 1, Reasons: map[string]int{"deadline": 1}}, ""},
		{"a panic", func(p retry.Policy) {
			defer func() { _ = recover() }()
			_ = retry.Run(context.Background(), p, func(context.Context) error { panic("op") })
		}, window{Failed: 1, Attempts: 1, Reasons: map[string]int{"panic": 1}}, "retry: panic or runtime.Goexit during the run"},
		{"two lives", func(p retry.Policy) {
			_ = retry.Supervise(context.Background(), p, time.Second, taking(2*time.Second, errDown))
		}, window{AfterRetry: 1, FirstTry: 1, Attempts: 2}, "connection refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var page retrydebug.Recorder
				tt.do(policy(&page, "op"))
				r := read(t, &page)
				o := r.operation(t, "op")
				for name, w := range o.Windows {
					got := window{FirstTry: w.FirstTry, AfterRetry: w.AfterRetry, Failed: w.Failed, Permanent: w.Permanent, Canceled: w.Canceled, Attempts: w.Attempts, Reasons: w.Reasons}
					if len(w.Reasons) == 0 {
						got.Reasons = nil
					}
					if !reflect.DeepEqual(got, tt.want) {
						t.Errorf("%s: %+v, want %+v", name, got, tt.want)
					}
					if w.Runs != w.FirstTry+w.AfterRetry+w.Failed+w.Permanent+w.Canceled {
						t.Errorf("%s: %d runs, and %+v", name, w.Runs, w)
					}
				}
				text := ""
				if o.LastError != nil {
					text = o.LastError.Error
				}
				if text != tt.lastError {
					t.Errorf("last error %q, want %q", text, tt.lastError)
				}
				if r.Live.Total != 0 || o.Live != 0 || o.Waiting != 0 || len(r.Live.Oldest) != 0 {
					t.Errorf("still live: %+v", r.Live)
				}
			})
		})
	}
}

func nil0(context.Context) error { return nil }

func TestWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var page retrydebug.Recorder
		p := policy(&page, "op")
		begin := time.Now()
		until := func(at time.Duration) { time.Sleep(time.Until(begin.Add(at))) }
		end := func(at time.Duration, errs ...error) { // a run that ends then
			until(at - 10*ms - time.Duration(min(len(errs), 2))*110*ms)
			run(p, errs...)
		}
		history := func(n int, cells map[int][3]int) (h [][3]int) {
			h = make([][3]int, n)
			for i, c := range cells {
				h[i] = c
			}
			return h
		}
		check := func(name string, seconds float64, runs int, h [][3]int) {
			t.Helper()
			r := read(t, &page)
			w := r.operation(t, "op").Windows[name]
			if w.Seconds != seconds || w.Runs != runs || !reflect.DeepEqual(w.History, h) {
				t.Errorf("%v, %s: %d runs in %v s, %v\nwant %d in %v s, %v", time.Since(begin), name, w.Runs, w.Seconds, w.History, runs, seconds, h)
			}
		}

		end(500 * ms)
		check("10s", .5, 1, history(10, map[int][3]int{9: {1, 0, 0}}))
		check("1m", .5, 1, history(12, map[int][3]int{11: {1, 0, 0}}))
		check("1h", .5, 1, history(60, map[int][3]int{59: {1, 0, 0}}))
		end(999*ms, errDown)
		end(1000 * ms)
		until(4989 * ms)
		run(p, retry.Stop(errDown))
		end(5500 * ms)
		check("10s", 5.5, 5, history(10, map[int][3]int{4: {1, 1, 0}, 5: {1, 0, 0}, 8: {0, 0, 1}, 9: {1, 0, 0}}))
		check("1m", 5.5, 5, history(12, map[int][3]int{10: {2, 1, 1}, 11: {1, 0, 0}}))
		end(9999 * ms)
		check("10s", 9.999, 6, history(10, map[int][3]int{0: {1, 1, 0}, 1: {1, 0, 0}, 4: {0, 0, 1}, 5: {1, 0, 0}, 9: {1, 0, 0}}))
		until(10 * time.Second) // the first cell is out, the new one is empty
		check("10s", 9, 4, history(10, map[int][3]int{0: {1, 0, 0}, 3: {0, 0, 1}, 4: {1, 0, 0}, 8: {1, 0, 0}}))
		until(10250 * ms)
		check("10s", 9.25, 4, history(10, map[int][3]int{0: {1, 0, 0}, 3: {0, 0, 1}, 4: {1, 0, 0}, 8: {1, 0, 0}}))
		check("1m", 10.25, 6, history(12, map[int][3]int{9: {2, 1, 1}, 10: {2, 0, 0}}))

		// A cell of the ring is used again a minute later, and runs of before are gone.
		end(62*time.Second, errDown, errDown, errDown)
		check("10s", 10-1, 1, history(10, map[int][3]int{9: {0, 0, 1}}))
		check("1m", 57, 3, history(12, map[int][3]int{0: {2, 0, 0}, 11: {0, 0, 1}}))
		check("1h", 62, 7, history(60, map[int][3]int{58: {4, 1, 1}, 59: {0, 0, 1}}))

		// What a shard has kept for an hour, because nobody asked and no run ended, goes to
		// where it belongs.
		end(90 * time.Second)
		until(time.Hour + 59*time.Second)
		check("1m", 59, 0, history(12, nil))
		check("1h", 3599, 2, history(60, map[int][3]int{0: {1, 0, 1}}))
		until(3 * time.Hour)
		check("10s", 9, 0, history(10, nil))
		check("1h", 3540, 0, history(60, nil))
	})
}

func TestQuantiles(t *testing.T) {
	within := func(t *testing.T, what string, got float64, want time.Duration) {
		t.Helper()
		if ratio := got / want.Seconds(); ratio > 1.5 || ratio < 1/1.5 {
			t.Errorf("%s: %v s, want %v within a factor of 1.5", what, got, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		for took := 200 * time.Microsecond; took <= 10*time.Minute; took = took*11/10 + 1 {
			var page retrydebug.Recorder
			_ = retry.Run(t.Context(), policy(&page, "op"), taking(took))
			r := read(t, &page)
			w := r.operation(t, "op").Windows["1h"]
			within(t, "p50", w.P50, took)
			within(t, "p99", w.P99, took)
		}
		var page retrydebug.Recorder
		p := policy(&page, "op")
		for i := range 200 {
			took := 5 * ms
			if i%100 == 0 {
				took = time.Second // one in a hundred: the 99th part of the runs is faster
			}
			_ = retry.Run(t.Context(), p, taking(took))
		}
		r := read(t, &page)
		w := r.operation(t, "op").Windows["1m"]
		within(t, "p50", w.P50, 5*ms)
		within(t, "p99", w.P99, 5*ms)
		_ = retry.Run(t.Context(), p, taking(time.Second)) // three in 201
		r = read(t, &page)
		w = r.operation(t, "op").Windows["1m"]
		within(t, "p99", w.P99, time.Second)
		// The ends: as fast, and as slow, as can be.
		_ = retry.Run(t.Context(), policy(&page, "fast"), nil0)
		_ = retry.Run(t.Context(), policy(&page, "slow"), taking(30*time.Hour))
		r = read(t, &page)
		if w := r.operation(t, "fast").Windows["1h"]; w.P50 <= 0 && w.Runs > 0 || w.P50 > .0001 {
			t.Errorf("no time at all: %v s", w.P50)
		}
		if w := r.operation(t, "slow").Windows["1h"]; w.P99 < 400 {
			t.Errorf("30 hours: %v s", w.P99)
		}
	})
}

func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var page retrydebug.Recorder
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		begin := time.Now()
		at := func(at time.Duration, want ...live) {
			t.Helper()
			time.Sleep(time.Until(begin.Add(at)))
			synctest.Wait()
			r := read(t, &page)
			if !reflect.DeepEqual(r.Live.Oldest, want) {
				t.Errorf("%v: %+v\nwant %+v", at, r.Live.Oldest, want)
			}
			waiting := 0
			for _, n := range want {
				if n.State == "waiting" {
					waiting++
				}
			}
			if r.Live.Total != len(want) || r.Live.Waiting != waiting {
				t.Errorf("%v: %d live, %d waiting, want %d, %d", at, r.Live.Total, r.Live.Waiting, len(want), waiting)
			}
		}
		go func() {
			_ = retry.Run(ctx, policy(&page, "hangs"), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		}()
		hangs := func(age float64) live {
			return live{Name: "hangs", Attempt: 1, Limit: 3, State: "attempting", Age: age, For: age}
		}
		at(0, hangs(0))
		at(2*time.Second, hangs(2))

		p := policy(&page, "asked")
		p.MaxAttempts = retry.Unlimited
		go func() { // attempts at 2.0 to 2.5, 3.6 to 4.1, 4.2 to 4.7
			_ = retry.Run(ctx, p, taking(500*ms, retry.After(errDown, time.Second), retry.ErrRejected))
		}()
		asked := func(attempt int, state string, age, since, next, hint float64, last string) live {
			return live{Name: "asked", Attempt: attempt, State: state, Age: age, For: since, NextIn: next, Hint: hint, LastError: last}
		}
		at(2250*ms, hangs(2.25), asked(1, "attempting", .25, .25, 0, 0, ""))
		at(2500*ms, hangs(2.5), asked(2, "waiting", .5, 0, 1.1, 1, "connection refused"))
		at(3*time.Second, hangs(3), asked(2, "waiting", 1, .5, .6, 1, "connection refused"))
		at(3600*ms, hangs(3.6), asked(2, "attempting", 1.6, 0, 0, 0, "connection refused"))
		at(4150*ms, hangs(4.15), asked(3, "waiting", 2.15, .05, .05, 0, "retry: value not accepted"))
		at(4250*ms, hangs(4.25), asked(3, "attempting", 2.25, .05, 0, 0, "retry: value not accepted"))
		at(5*time.Second, hangs(5))
	})
}

// A pause of Supervise belongs to the run that follows.
func TestSupervisedPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var page retrydebug.Recorder
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		go func() {
			_ = retry.Supervise(ctx, policy(&page, "consume"), time.Second, taking(2*time.Second, errDown, errDown))
		}()
		time.Sleep(1960 * ms)
		check := func(want live) {
			t.Helper()
			r := read(t, &page)
			if len(r.Live.Oldest) != 1 || r.Live.Oldest[0] != want {
				t.Errorf("%+v\nwant %+v", r.Live.Oldest, want)
			}
		}
		check(live{Name: "consume", Attempt: 1, State: "attempting", Age: 1.96, For: 1.96})
		time.Sleep(100 * ms) // 2.06
		check(live{Name: "consume", Attempt: 1, State: "waiting", Age: .06, For: .06, NextIn: .04, LastError: "connection refused"})
		time.Sleep(time.Second) // 3.06
		check(live{Name: "consume", Attempt: 1, State: "attempting", Age: 1.06, For: .96, LastError: "connection refused"})
		time.Sleep(1080 * ms) // 4.14
		check(live{Name: "consume", Attempt: 1, State: "waiting", Age: .04, For: .04, NextIn: .06, LastError: "connection refused"})
	})
}

func TestOldestRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var page retrydebug.Recorder
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		for i := range 250 {
			go func() {
				_ = retry.Run(ctx, policy(&page, fmt.Sprint("op", i%10)), func(ctx context.Context) error { <-ctx.Done(); return nil })
			}()
			time.Sleep(ms)
		}
		r := read(t, &page)
		if r.Live.Total != 250 || len(r.Live.Oldest) != 100 {
			t.Fatalf("%d live, %d of them shown, want 250, 100", r.Live.Total, len(r.Live.Oldest))
		}
		for i, n := range r.Live.Oldest {
			if want := (live{Name: fmt.Sprint("op", i%10), Attempt: 1, Limit: 3, State: "attempting", Age: n.Age, For: n.Age}); n != want || math.Abs(n.Age-.001*float64(250-i)) > 1e-9 {
				t.Errorf("%d: %+v, want %+v", i, n, want)
			}
		}
		if o := r.operation(t, "op3"); o.Live != 25 || o.Waiting != 0 {
			t.Errorf("op3: %d live, %d waiting, want 25, 0", o.Live, o.Waiting)
		}
	})
}

func TestNothingStaysLive(t *testing.T) {
	fails := errors.New("fails")
	for name, other := range map[string]retry.Hooks{
		"no other hook": {},
		"Start":         {Start: func(context.Context, retry.Policy) context.Context { panic("hook") }},
		"Attempt":       {Attempt: func(context.Context, retry.Attempt) context.Context { panic("hook") }},
		"second Attempt": {Attempt: func(ctx context.Context, a retry.Attempt) context.Context {
			if a.Number == 2 {
				panic("hook")
			}
			return ctx
		}},
		"AttemptDone": {AttemptDone: func(context.Context, retry.Attempt) { panic("hook") }},
		"Wait":        {Wait: func(context.Context, retry.Attempt) { panic("hook") }},
		"Done":        {Done: func(context.Context, retry.Summary) { panic("hook") }},
		"exit":        {Wait: func(context.Context, retry.Attempt) { runtime.Goexit() }},
	} {
		for _, first := range []bool{true, false} {
			t.Run(fmt.Sprint("panic in ", name, ", page first ", first), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var page retrydebug.Recorder
					p := policy(&page, "op")
					p.Hooks = retry.JoinHooks(other, page.Hooks())
					if first {
						p.Hooks = retry.JoinHooks(page.Hooks(), other)
					}
					ctx, cancel := context.WithCancel(t.Context())
					for _, do := range []func(){
						func() { run(p) },
						func() { run(p, fails, fails, fails) },
						func() { run(p, fails, retry.Stop(fails)) },
						func() { _ = retry.Run(ctx, p, func(context.Context) error { panic("op") }) },
						func() { _ = retry.Run(ctx, p, func(context.Context) error { runtime.Goexit(); return nil }) },
						func() {
							a := p.Attempts(ctx)
							defer a.Close()
							a.Next()
							a.Done(nil)
						},
						func() {
							a := p.Attempts(ctx)
							defer a.Close()
							for a.Next() {
								if a.Number() == 2 {
									panic("loop")
								}
								a.Done(fails)
							}
						},
						func() { _ = retry.Supervise(ctx, p, ms, taking(2*ms, fails, fails)) },
						func() {
							time.AfterFunc(50*ms, cancel)
							_ = retry.Run(ctx, p, func(context.Context) error { return fails })
						},
						func() { _ = retry.Run(ctx, p, nil0) }, // canceled before
					} {
						done := make(chan bool)
						go func() {
							defer close(done)
							defer func() { _ = recover() }()
							do()
						}()
						<-done
					}
					r := read(t, &page)
					if r.Live.Total != 0 || r.Live.Waiting != 0 || len(r.Live.Oldest) != 0 {
						t.Errorf("live: %+v", r.Live)
					}
					w := window{}
					if len(r.Operations) > 0 {
						w = r.Operations[0].Windows["1m"]
					}
					if started := name != "Start" || first; (w.Runs > 0) != started {
						t.Errorf("%d runs counted", w.Runs)
					}
				})
			})
		}
	}
}

// Hooks that are called by themselves: each sequence of five, on one run.
func TestHooksInAnyOrder(t *testing.T) {
	var page retrydebug.Recorder
	h := page.Hooks()
	calls := []func(context.Context){
		func(ctx context.Context) { h.Attempt(ctx, retry.Attempt{Number: 1}) },
		func(ctx context.Context) {
			h.AttemptDone(ctx, retry.Attempt{Number: 1, Err: errDown, Duration: -time.Hour})
		},
		func(ctx context.Context) { h.AttemptDone(ctx, retry.Attempt{Number: 1, Elapsed: math.MinInt64}) },
		func(ctx context.Context) {
			h.Wait(ctx, retry.Attempt{Number: math.MaxInt, Err: errDown, Delay: math.MaxInt64})
		},
		func(ctx context.Context) { h.Wait(ctx, retry.Attempt{}) },
		func(ctx context.Context) {
			h.Done(ctx, retry.Summary{Attempts: -1, Elapsed: math.MaxInt64, Reason: 255})
		},
		func(ctx context.Context) {
			h.Done(ctx, retry.Summary{Attempts: 2, Elapsed: math.MinInt64, Err: (*retry.Error)(nil)})
		},
	}
	const length = 5
	total := int(math.Pow(float64(len(calls)), length))
	ended, live := 0, 0
	for n := range total {
		ctx := h.Start(t.Context(), retry.Policy{Name: "op"})
		over, begun := false, false
		for i, left := 0, n; i < length; i, left = i+1, left/len(calls) {
			call := left % len(calls)
			calls[call](ctx)
			begun = begun || !over && (call == 0 || call == 3 || call == 4)
			over = over || call >= 5
		}
		if over {
			ended++
		} else if begun {
			live++
		}
	}
	for _, call := range calls { // without a run
		call(t.Context())
	}
	r := read(t, &page)
	o := r.operation(t, "op")
	if w := o.Windows["1h"]; w.Runs != ended {
		t.Errorf("%d runs ended, want %d", w.Runs, ended)
	}
	if r.Live.Total != live || o.Waiting < 0 || o.Waiting > live {
		t.Errorf("%d live, %d of them waiting, want %d live", r.Live.Total, o.Waiting, live)
	}
}

// A run that this process has taken over: the delivery of a message is an attempt, and
// those before it have failed elsewhere.
func TestLaterDelivery(t *testing.T) {
	var page retrydebug.Recorder
	h := page.Hooks()
	for _, number := range []int{1, 3} {
		ctx := h.Start(t.Context(), retry.Policy{Name: "message"})
		h.Attempt(ctx, retry.Attempt{Number: number, Start: time.Now()})
		h.AttemptDone(ctx, retry.Attempt{Number: number, Start: time.Now()})
		h.Done(ctx, retry.Summary{Attempts: number})
	}
	r := read(t, &page)
	if w := r.operation(t, "message").Windows["1h"]; w.FirstTry != 1 || w.AfterRetry != 1 || w.Attempts != 4 {
		t.Errorf("%+v, want one at first and one after others", w)
	}
}

func TestFailedRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		page := retrydebug.Recorder{Trace: func(ctx context.Context) string { s, _ := ctx.Value(key{}).(string); return s }}
		p := policy(&page, "op")
		ctx := context.WithValue(t.Context(), key{}, "0af7651916cd43dd8448eb211c80319c")
		begin := time.Now()
		time.Sleep(time.Second)
		_ = retry.Run(ctx, p, taking(10*ms, retry.After(errDown, time.Second), errDown, errors.New("reset")))
		want := failed{Name: "op", Count: 1, Time: begin.Add(2230 * ms), Reason: "max_attempts", Attempts: 3, Seconds: 1.23, Waited: 1.2, Trace: "0af7651916cd43dd8448eb211c80319c", Steps: []step{
			{Attempt: 1, Start: 0, Seconds: .01, Class: "throttled", Error: "connection refused", Wait: 1.1, Hint: 1},
			{Attempt: 2, Start: 1.11, Seconds: .01, Class: "transient", Error: "connection refused", Wait: .1},
			{Attempt: 3, Start: 1.22, Seconds: .01, Class: "transient", Error: "reset"},
		}}
		check := func(want failed) {
			t.Helper()
			r := read(t, &page)
			if len(r.Failed) == 0 {
				t.Fatal("no run has failed")
			}
			got := r.Failed[0]
			if !got.Time.Equal(want.Time) {
				t.Errorf("failed at %v, want %v", got.Time, want.Time)
			}
			got.Time = want.Time
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%+v\nwant %+v", got, want)
			}
		}
		check(want)

		// The first attempt and the latest seven.
		p.MaxAttempts = 12
		time.Sleep(time.Until(begin.Add(time.Minute)))
		var errs []error
		for i := range 12 {
			errs = append(errs, fmt.Errorf("error %d", i+1))
		}
		run(p, errs...)
		want = failed{Name: "op", Count: 1, Time: begin.Add(time.Minute + 1220*ms), Reason: "max_attempts", Attempts: 12, Seconds: 1.22, Waited: 1.1}
		for _, n := range []int{1, 6, 7, 8, 9, 10, 11, 12} {
			s := step{Attempt: n, Start: (time.Duration(n-1) * 110 * ms).Seconds(), Seconds: .01, Class: "transient", Error: fmt.Sprint("error ", n), Wait: .1}
			if n == 12 {
				s.Wait = 0
			}
			want.Steps = append(want.Steps, s)
		}
		check(want)

		// No attempt was made.
		expired, cancel := context.WithTimeoutCause(t.Context(), 0, errors.New("too\nlate"))
		defer cancel()
		_ = retry.Run(expired, p, nil0)
		check(failed{Name: "op", Count: 1, Time: time.Now(), Reason: "deadline", Cause: "too late", Steps: []step{}})

		// A poll that gave up, and a permanent error after a retry.
		p.MaxAttempts = 2
		run(p, retry.ErrRejected, retry.ErrRejected)
		check(failed{Name: "op", Count: 1, Time: time.Now(), Reason: "max_attempts", Attempts: 2, Seconds: .12, Waited: .1, Steps: []step{
			{Attempt: 1, Seconds: .01, Class: "transient", Error: "retry: value not accepted", Wait: .1},
			{Attempt: 2, Start: .11, Seconds: .01, Class: "transient", Error: "retry: value not accepted"},
		}})
		run(p, errDown, retry.Stop(errors.New("404")))
		check(failed{Name: "op", Count: 1, Time: time.Now(), Reason: "permanent", Attempts: 2, Seconds: .12, Waited: .1, Steps: []step{
			{Attempt: 1, Seconds: .01, Class: "transient", Error: "connection refused", Wait: .1},
			{Attempt: 2, Start: .11, Seconds: .01, Class: "permanent", Error: "404"},
		}})

		// These are not among them.
		r := read(t, &page)
		before := len(r.Failed)
		run(p, retry.Stop(errDown))
		run(p, errDown)
		canceled, stop := context.WithCancel(t.Context())
		time.AfterFunc(50*ms, stop)
		_ = retry.Run(canceled, p, func(context.Context) error { return errDown })
		if r := read(t, &page); len(r.Failed) != before {
			t.Errorf("%+v is among the failed", r.Failed[0])
		}
	})
}

// Thousands of runs without retries do not push out those that have them.
func TestFailedRunsThatAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var page retrydebug.Recorder
		p := policy(&page, "op")
		p.MaxAttempts = 2
		for i := range 40 {
			run(p.Named(fmt.Sprint("retried", i)), errDown, errDown)
		}
		p.Budget = refuse{}
		for i := range 1000 {
			run(p.Named(fmt.Sprint("refused", i/10)), errors.New(fmt.Sprint("connection ", i, " refused")))
		}
		r := read(t, &page)
		var names []string
		for i, f := range r.Failed {
			names = append(names, f.Name)
			if want := map[bool]int{true: 1, false: 10}[f.Attempts == 2]; f.Count != want {
				t.Errorf("%s stands for %d runs, want %d", f.Name, f.Count, want)
			}
			if i > 0 && f.Time.After(r.Failed[i-1].Time) {
				t.Errorf("run %d ended after run %d", i, i-1)
			}
		}
		var want []string
		for i := range 32 {
			want = append(want, fmt.Sprint("refused", 99-i))
		}
		for i := range 32 {
			want = append(want, fmt.Sprint("retried", 39-i))
		}
		if !slices.Equal(names, want) {
			t.Errorf("%v\nwant %v", names, want)
		}
	})
}

// grudging is an error whose methods may be called on the run's goroutine alone.
type grudging struct{ calls *atomic.Int64 }

func (g grudging) Error() string { g.calls.Add(1); return "grudging" }

func TestErrorsAreTextsOnceTheyAreRecorded(t *testing.T) {
	var page retrydebug.Recorder
	var calls atomic.Int64
	run(policy(&page, "op"), grudging{&calls}, grudging{&calls}, grudging{&calls})
	before := calls.Load()
	for range 3 {
		r := read(t, &page)
		get(t, &page, "")
		if r.operation(t, "op").LastError.Error != "grudging" {
			t.Errorf("last error %+v", r.operation(t, "op").LastError)
		}
	}
	if after := calls.Load(); after != before {
		t.Errorf("the page has called an error's method %d times", after-before)
	}
}

// awful panics wherever it can.
type awful struct{}

func (*awful) Error() string                    { panic("Error") }
func (*awful) Unwrap() error                    { panic("Unwrap") }
func (*awful) ErrorType() string                { panic("ErrorType") }
func (*awful) Balance() float64                 { panic("Balance") }
func (*awful) InFlight() int                    { panic("InFlight") }
func (*awful) Places() int                      { panic("Places") }
func (*awful) Open() time.Duration              { panic("Open") }
func (*awful) Wait() time.Duration              { panic("Wait") }
func (*awful) Resting() time.Duration           { panic("Resting") }
func (*awful) Rate() float64                    { panic("Rate") }
func (*awful) Classify(error) retry.Class       { return retry.Transient }
func (*awful) Trace(ctx context.Context) string { panic("Trace") }

func TestHooksDoNotPanic(t *testing.T) {
	page := retrydebug.Recorder{Trace: (*awful)(nil).Trace}
	p := policy(&page, "op")
	p.Backoff, p.Classify = retry.Constant(0), (*awful)(nil).Classify
	page.ObserveBudget("b", &awful{})
	page.ObserveLimit("l", &awful{})
	page.ObserveBreaker("h", &awful{})
	page.ObserveTarget("h", &awful{})
	page.ObserveHedge("h", &awful{})
	page.ObservePace("p", &awful{})
	for _, err := range []error{&awful{}, (*awful)(nil), fmt.Errorf("a: %w", &awful{}), fmt.Errorf("a: %w", (*awful)(nil))} {
		h := page.Hooks()
		ctx := h.Start(t.Context(), p)
		h.Attempt(ctx, retry.Attempt{Number: 1, Start: time.Now()})
		h.AttemptDone(ctx, retry.Attempt{Number: 1, Start: time.Now(), Err: err})
		h.Wait(ctx, retry.Attempt{Start: time.Now(), Err: err})
		h.Done(ctx, retry.Summary{Attempts: 1, Reason: retry.ReasonMaxAttempts, Err: &retry.Error{Errs: []error{err}, Cause: err}})
	}
	r := read(t, &page)
	if w := r.operation(t, "op").Windows["1h"]; w.Failed != 4 || r.Live.Total != 0 || len(r.Failed) != 3 {
		t.Errorf("%+v, %+v", w, r.Failed)
	}
	runs := 0
	for _, f := range r.Failed { // in any order: all may have ended at the same time
		if runs += f.Count; f.Trace != "" {
			t.Errorf("%+v", f)
		}
	}
	if runs != 4 {
		t.Errorf("%d runs, want 4: %+v", runs, r.Failed)
	}
	if r.Budgets[0].Balance != nil || r.Limits[0].InFlight != nil || r.Limits[0].Places != nil || r.Hedges[0].Delay != nil || r.Paces[0].Rate != nil || r.Paces[0].Wait != nil {
		t.Errorf("%+v %+v %+v %+v", r.Budgets, r.Limits, r.Hedges, r.Paces)
	}
}

// other is a context of another kind, around ours or below it.
type other struct{ context.Context }

func TestNestedAndJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var one, two retrydebug.Recorder
		wrapping := retry.Hooks{
			Start: func(ctx context.Context, _ retry.Policy) context.Context {
				return other{context.WithValue(ctx, other{}, 1)}
			},
			Attempt: func(ctx context.Context, _ retry.Attempt) context.Context {
				return other{context.WithValue(ctx, other{}, 2)}
			},
		}
		outer := policy(&one, "outer")
		outer.Hooks = retry.JoinHooks(wrapping, one.Hooks(), wrapping, two.Hooks(), wrapping)
		inner := policy(&one, "inner")
		begin := time.Now()
		n := 0
		err := retry.Run(t.Context(), outer, func(ctx context.Context) error {
			n++
			err := retry.Run(other{ctx}, inner, taking(10*ms, errDown))
			if n == 1 {
				for i, page := range []*retrydebug.Recorder{&one, &two} {
					r := read(t, page)
					if r.Live.Total != 1 || r.Live.Oldest[0] != (live{Name: "outer", Attempt: 1, Limit: 3, State: "attempting", Age: .12, For: .12}) {
						t.Errorf("recorder %d: %+v", i, r.Live)
					}
				}
				return errDown
			}
			return err
		})
		if err != nil || time.Since(begin) != 340*ms {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		for page, want := range map[*retrydebug.Recorder]map[string][3]int{
			&one: {"outer": {1, 2, 0}, "inner": {2, 4, 0}}, &two: {"outer": {1, 2, 0}},
		} {
			r := read(t, page)
			got := map[string][3]int{}
			for _, o := range r.Operations {
				w := o.Windows["1m"]
				got[o.Name] = [3]int{w.AfterRetry, int(w.Attempts), o.Live}
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		}
	})
}

// A run on a clock of its own is counted at the time of day.
func TestPolicyClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var page retrydebug.Recorder
		p := policy(&page, "op")
		p.Clock = late{clockx.System()}
		time.Sleep(5 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = retry.Run(ctx, p, taking(2*time.Second, errDown)) }()
		check := func(want live) {
			t.Helper()
			synctest.Wait()
			if r := read(t, &page); len(r.Live.Oldest) != 1 || r.Live.Oldest[0] != want {
				t.Errorf("%+v\nwant %+v", r.Live.Oldest, want)
			}
		}
		time.Sleep(1500 * ms)
		check(live{Name: "op", Attempt: 1, Limit: 3, State: "attempting", Age: 1.5, For: 1.5})
		time.Sleep(540 * ms)
		check(live{Name: "op", Attempt: 2, Limit: 3, State: "waiting", Age: 2.04, For: .04, NextIn: .06, LastError: "connection refused"})
		cancel()
		synctest.Wait()

		clock := clockx.NewVirtual(time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC))
		p.Clock, p.MaxAttempts = clock, 1
		_ = retry.Run(t.Context(), p, func(context.Context) error { clock.Advance(time.Hour); return errDown })
		r := read(t, &page)
		w := r.operation(t, "op").Windows["10s"]
		if w.Runs != 2 || w.History[9] != [3]int{0, 0, 1} || w.P99 < 3600/1.5 && w.P99 < 400 {
			t.Errorf("%+v", w)
		}
		if f := r.Failed[0]; f.Seconds != 3600 || !f.Time.Equal(time.Now()) {
			t.Errorf("%+v", f)
		}
	})
}

// late is a clock that lags behind by thirty years.
type late struct{ clockx.Clock }

func (l late) Now() time.Time { return l.Clock.Now().AddDate(-30, 0, 0) }

func TestNames(t *testing.T) {
	var page retrydebug.Recorder
	call := func(name string) { _ = retry.Run(t.Context(), policy(&page, name), nil0) }
	long := strings.Repeat("é", 64)
	for _, name := range []string{"", "other", long, long + "x", long + "xy", "a\nb\x1b"} {
		call(name)
	}
	want := map[string]int{"": 1, "other": 1, long: 1, strings.Repeat("é", 62) + "…": 2, "a b\uFFFD": 1}
	check := func() {
		t.Helper()
		r := read(t, &page)
		got := map[string]int{}
		for _, o := range r.Operations {
			name := o.Name
			if o.Other {
				name += ", all"
			}
			got[name] += o.Windows["1h"].Runs
			if len(o.Name) > 128 {
				t.Errorf("a name of %d bytes", len(o.Name))
			}
		}
		for name, runs := range want {
			if got[name] != runs {
				t.Errorf("%d runs of %q, want %d", got[name], name, runs)
			}
		}
	}
	check()
	for i := range 300 {
		call(fmt.Sprint("op", i))
	}
	call("other")
	want["op0"], want["op250"], want["op251"], want["other"] = 1, 1, 0, 2
	want["other, all"] = 300 - 251 // two of the long names are one
	check()
	if r := read(t, &page); len(r.Operations) != 257 {
		t.Errorf("%d operations, want 257", len(r.Operations))
	}
}

type observed struct {
	balance          float64
	inFlight, places int
	wait             time.Duration
}

func (o observed) Balance() float64       { return o.balance }
func (o observed) InFlight() int          { return o.inFlight }
func (o observed) Places() int            { return o.places }
func (o observed) Wait() time.Duration    { return o.wait }
func (o observed) Open() time.Duration    { return o.wait }
func (o observed) Resting() time.Duration { return o.wait }
func (o observed) Rate() float64          { return o.balance }

func TestGauges(t *testing.T) {
	var page retrydebug.Recorder
	for name, o := range map[string]observed{
		"c":      {.25, 3, 20, 1500 * ms},
		"a\n":    {0, 0, math.MaxInt, 0},
		"b":      {math.NaN(), 7, 1, -1},
		"gone":   {},
		"worse":  {math.Inf(-1), 0, 0, 0},
		"twice":  {1, 1, 1, 1},
		"twice ": {1, 1, 1, 1},
	} {
		page.ObserveBudget(name, o)
		page.ObserveLimit(name, o)
		page.ObserveBreaker(name, o)
		page.ObserveTarget(name, o)
		page.ObserveHedge(name, o)
		page.ObservePace(name, o)
	}
	twice := observed{.5, 2, 2, 2 * time.Second}
	page.ObserveBudget("twice", twice)
	page.ObserveLimit("twice", twice)
	page.ObserveBreaker("twice", twice)
	page.ObserveTarget("twice", twice)
	page.ObserveHedge("twice", twice)
	page.ObservePace("twice", twice)
	for _, name := range []string{"gone", "never"} {
		page.ObserveBudget(name, nil)
		page.ObserveLimit(name, nil)
		page.ObserveBreaker(name, nil)
		page.ObserveTarget(name, nil)
		page.ObserveHedge(name, nil)
		page.ObservePace(name, nil)
	}
	r := read(t, &page)
	var got []string
	show := func(v any) string {
		if v := reflect.ValueOf(v); !v.IsNil() {
			return fmt.Sprint(v.Elem())
		}
		return "null"
	}
	for i := range r.Budgets {
		got = append(got, fmt.Sprintf("%s: %s %s/%s %s %s %s %s/%s", r.Budgets[i].Name, show(r.Budgets[i].Balance), show(r.Limits[i].InFlight), show(r.Limits[i].Places), show(r.Breakers[i].Open), show(r.Targets[i].Resting), show(r.Hedges[i].Delay), show(r.Paces[i].Rate), show(r.Paces[i].Wait)))
	}
	want := []string{"a : 0 0/null 0 0 0 0/0", "b: null 7/1 null null null null/null", "c: 0.25 3/20 1.5 1.5 1.5 0.25/1.5", "twice: 0.5 2/2 2 2 2 0.5/2", "twice : 1 1/1 1e-09 1e-09 1e-09 1/1e-09", "worse: null 0/0 0 0 0 null/0"}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	for i := range 300 {
		page.ObserveBudget(fmt.Sprint(i), twice)
		page.ObserveLimit(fmt.Sprint(i), twice)
		page.ObserveBreaker(fmt.Sprint(i), twice)
		page.ObserveTarget(fmt.Sprint(i), twice)
		page.ObserveHedge(fmt.Sprint(i), twice)
		page.ObservePace(fmt.Sprint(i), twice)
	}
	page.ObserveBudget("c", observed{}) // is there
	r = read(t, &page)
	if len(r.Budgets) != 256 || len(r.Limits) != 256 || len(r.Breakers) != 256 || len(r.Targets) != 256 || len(r.Hedges) != 256 || len(r.Paces) != 256 {
		t.Errorf("%d, %d, %d, %d, %d, %d gauges, want 256 each", len(r.Budgets), len(r.Limits), len(r.Breakers), len(r.Targets), len(r.Hedges), len(r.Paces))
	}
	if i := slices.IndexFunc(r.Budgets, func(b gauge) bool { return b.Name == "c" }); i < 0 || *r.Budgets[i].Balance != 0 {
		t.Error("a budget was not replaced")
	}
}

func TestNilRecorder(t *testing.T) {
	var page *retrydebug.Recorder
	if h := page.Hooks(); h.Start != nil || h.Attempt != nil || h.AttemptDone != nil || h.Wait != nil || h.Guard != nil || h.Done != nil {
		t.Error("a nil Recorder has hooks")
	}
	page.ObserveBudget("b", observed{})
	page.ObserveLimit("l", observed{})
	page.ObserveBreaker("h", observed{})
	page.ObserveTarget("h", observed{})
	page.ObserveHedge("h", observed{})
	page.ObservePace("p", observed{})
	retrydebug.ObservePerKey(page, "k", new(retry.PerKey[retry.EarnedBudget]))
}

// No goroutine and no timer: a bubble of synctest ends only if there are none.
func TestNoGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := runtime.NumGoroutine()
		var page retrydebug.Recorder
		run(policy(&page, "op"), errDown)
		get(t, &page, "")
		if n := runtime.NumGoroutine(); n > before {
			t.Errorf("%d goroutines more", n-before)
		}
	})
}

// shutGate is a gate that has closed a minute ago.
type shutGate struct{ at time.Time }

func (g shutGate) Closed() (since, probe time.Time, err error) {
	if g.at.IsZero() {
		return time.Time{}, time.Time{}, nil
	}
	return g.at, g.at.Add(90 * time.Second), errors.New("connection refused")
}

// The page says since when a gate is closed, when the next probe is, and why.
func TestGates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var page retrydebug.Recorder
		page.ObserveGate("billing", shutGate{time.Now()})
		page.ObserveGate("mail", shutGate{})
		time.Sleep(time.Minute)
		r := read(t, &page)
		if len(r.Gates) != 2 || *r.Gates[0].Closed != 60 || r.Gates[0].Probe != 30 || r.Gates[0].Error != "connection refused" || *r.Gates[1].Closed != 0 {
			t.Errorf("gates are %+v", r.Gates)
		}
		text := parse(t, get(t, &page, "").Body).words()
		for _, want := range []string{
			"The gate billing keeps messages in their queue: closed for 1m00s, next probe in 30.0s, because: connection refused.",
			"gate billing closed for 1m00s, next probe in 30.0s, because: connection refused", "gate mail open",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the page does not say %q:\n%s", want, text)
			}
		}
		page.ObserveGate("billing", nil)
		if r := read(t, &page); len(r.Gates) != 1 {
			t.Errorf("a gate that was removed is there: %+v", r.Gates)
		}
	})
}
