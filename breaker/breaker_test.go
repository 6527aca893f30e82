package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/breaker"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/internal/race"
	"github.com/goretry/retry/retryhttp"
)

var errDown = errors.New("down")

// tester makes attempts at a Breaker on a clock of its own.
type tester struct {
	*testing.T
	breaker.Breaker
	clock *clockx.Virtual
	rand  float64
	drawn int // random numbers
}

func newTester(t *testing.T) *tester {
	return &tester{T: t, clock: clockx.NewVirtual(time.Unix(0, 0)), rand: .5}
}

// enter lets an attempt in, or returns the error of its refusal.
func (b *tester) enter() (retry.Pass, error) {
	return b.Enter(context.Background(), retry.Entry{Number: 1, Clock: b.clock, Rand: func() float64 { b.drawn++; return b.rand }})
}

func (b *tester) admitted() retry.Pass {
	b.Helper()
	p, err := b.enter()
	if err != nil {
		b.Fatalf("an attempt is refused: %v", err)
	}
	return p
}

// refused checks that an attempt is refused, and has to wait for so long.
func (b *tester) refused(want time.Duration) {
	b.Helper()
	_, err := b.enter()
	wait, ok := err.(interface{ RetryAfter() time.Duration })
	if !errors.Is(err, breaker.ErrOpen) || !ok || wait.RetryAfter() != want {
		b.Fatalf("an attempt gets %v, want a refusal for %v", err, want)
	}
}

func (b *tester) open(want time.Duration) {
	b.Helper()
	if got := b.Open(); got != want {
		b.Fatalf("Open = %v, want %v", got, want)
	}
}

func (b *tester) leave(p retry.Pass, x retry.Exit) {
	x.Clock = b.clock
	b.Leave(p, x)
}

func (b *tester) ends(n int, x retry.Exit) {
	b.Helper()
	for range n {
		b.leave(b.admitted(), x)
	}
}

var (
	success = retry.Exit{Ending: retry.Returned}
	failure = returned(errDown)
)

func returned(err error) retry.Exit {
	return retry.Exit{Ending: retry.Returned, Verdict: retry.Policy{}.Judge(err)}
}

// down returns a Breaker that is open for a second.
func down(t *testing.T) *tester {
	b := newTester(t)
	b.ends(20, failure)
	b.open(time.Second)
	return b
}

func class(c retry.Class) retry.Exit {
	return retry.Exit{Ending: retry.Returned, Verdict: retry.Verdict{Err: errDown, Class: c}}
}

func ending(e retry.Ending) retry.Exit {
	return retry.Exit{Ending: e, Verdict: retry.Verdict{Err: errDown}}
}

// What an attempt has come to is a failure, an answer, or nothing.
func TestWhatCounts(t *testing.T) {
	for name, test := range map[string]struct {
		exit retry.Exit
		want string
	}{
		"Transient":            {class(retry.Transient), "failure"},
		"TimedOut":             {class(retry.TimedOut), "failure"},
		"Throttled":            {class(retry.Throttled), "failure"},
		"Unprocessed":          {class(retry.Unprocessed), "failure"},
		"a deadline":           {ending(retry.Expired), "failure"},
		"a throttled deadline": {retry.Exit{Ending: retry.Expired, Verdict: retry.Verdict{Err: errDown, Class: retry.Throttled}}, "failure"},
		"an error of a Refuse": {returned(retry.Refuse(errDown)), "failure"},
		"a success":            {success, "answer"},
		"Permanent":            {class(retry.Permanent), "answer"},
		"Stop":                 {returned(retry.Stop(errDown)), "answer"},
		"Answer":               {returned(retry.Answer(errDown)), "answer"},
		"a poll":               {returned(retry.ErrRejected), "answer"},
		"a 404 at its deadline": {retry.Exit{Ending: retry.Expired, Verdict: retry.Verdict{Err: errDown, Class: retry.Permanent}},
			"answer"},
		"not made":     {ending(retry.NotMade), "nothing"},
		"a refusal":    {retry.Exit{Ending: retry.NotMade, Verdict: retry.Verdict{Err: breaker.ErrOpen}}, "nothing"},
		"canceled":     {ending(retry.Canceled), "nothing"},
		"a panic":      {ending(retry.Panicked), "nothing"},
		"a lost race":  {retry.Exit{Ending: retry.Canceled}, "nothing"},
		"a made panic": {retry.Exit{Ending: retry.Panicked, Verdict: retry.Verdict{Err: errDown, Class: retry.Transient}}, "nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newTester(t)
			b.ends(19, failure)
			b.leave(b.admitted(), test.exit)
			opened := b.Open() > 0
			if want := test.want == "failure"; opened != want {
				t.Errorf("as the twentieth of twenty it opens the breaker: %v, want %v", opened, want)
			}

			if test.want != "failure" {
				b = newTester(t)
				b.ends(3, test.exit)
				b.ends(19, failure)
				b.leave(b.admitted(), failure)
				if opened, want := b.Open() > 0, test.want == "nothing"; opened != want {
					t.Errorf("three of them before twenty failures: it opens: %v, want %v", opened, want)
				}
			}

			b = down(t)
			b.clock.Advance(time.Second)
			b.leave(b.admitted(), test.exit)
			switch test.want {
			case "failure":
				b.refused(2 * time.Second)
			case "answer":
				b.admitted()
				b.admitted()
				b.open(0)
			case "nothing": // the next one is tried at once
				b.admitted()
				b.refused(time.Second)
			}
		})
	}
}

// Twenty of the last ten seconds, nine tenths failed.
func TestOpens(t *testing.T) {
	b := newTester(t)
	b.ends(19, failure)
	b.clock.Advance(10 * time.Second)
	b.ends(1, failure)
	b.open(0)
	b.ends(2, success)
	b.ends(16, failure)
	b.open(0) // 17 of 19
	b.ends(1, failure)
	b.open(time.Second) // 18 of 20
}

// A second, doubled up to a minute, from a second again after the next closing.
func TestWaits(t *testing.T) {
	b := down(t)
	for range 2 {
		for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
			want *= time.Second
			b.refused(want)
			b.clock.Advance(want - 1)
			b.refused(1)
			b.clock.Advance(1)
			b.open(0)
			b.ends(1, failure)
		}
		b.clock.Advance(time.Minute)
		b.ends(1, success)
		b.open(0)
		b.ends(19, failure) // it begins anew
		b.open(0)
		b.ends(1, failure)
	}
}

// Each wait is up to a fifth shorter or longer, by the policy's random numbers.
func TestJitter(t *testing.T) {
	for rand, want := range map[float64]time.Duration{0: 800 * time.Millisecond, .5: time.Second, .75: 1100 * time.Millisecond} {
		b := newTester(t)
		b.rand = rand
		b.ends(20, failure)
		b.open(want)
	}
	b := newTester(t)
	b.ends(19, failure)
	if b.drawn > 0 { // it would change the waits of runs
		t.Errorf("a closed breaker has drawn %d random numbers", b.drawn)
	}

	// They are those of the attempt that opens it, or that is tried.
	b = newTester(t)
	b.ends(19, failure)
	b.rand = 0
	first := b.admitted()
	_, _ = b.Enter(context.Background(), retry.Entry{Clock: b.clock, Rand: func() float64 { return .75 }})
	b.leave(first, failure)
	b.open(800 * time.Millisecond)
	b.clock.Advance(800 * time.Millisecond)
	_, _ = b.Enter(context.Background(), retry.Entry{Clock: b.clock, Rand: func() float64 { return .75 }})
	b.open(800*time.Millisecond + 2200*time.Millisecond)

	different := map[time.Duration]bool{}
	for range 20 {
		b := newTester(t)
		for range 20 {
			p, _ := b.Enter(context.Background(), retry.Entry{Clock: b.clock})
			b.leave(p, failure)
		}
		if wait := b.Open(); wait < 800*time.Millisecond || wait > 1200*time.Millisecond {
			t.Errorf("it is open for %v", wait)
		}
		different[b.Open()] = true
	}
	if len(different) < 10 {
		t.Errorf("%d of 20 waits differ", len(different))
	}
}

// Half-open it admits one at a time. The others come back in a second at most.
func TestHalfOpen(t *testing.T) {
	b := down(t)
	b.clock.Advance(time.Second)
	probe := b.admitted()
	b.refused(time.Second)
	b.open(3 * time.Second)
	b.clock.Advance(2900 * time.Millisecond)
	b.refused(100 * time.Millisecond)
	b.leave(probe, success)
	b.admitted()
	b.admitted()
}

// One that has not ended when as long again as the wait has passed counts as failed: then comes
// the next wait. Its late failure is known, its late success closes.
func TestHungProbe(t *testing.T) {
	for _, late := range []retry.Exit{success, failure} {
		b := down(t)
		b.clock.Advance(time.Second)
		probe := b.admitted()
		b.clock.Advance(time.Second + 2*time.Second - 1) // as long again, and the next wait
		b.refused(1)
		b.clock.Advance(1)
		second := b.admitted()
		b.leave(probe, late)
		if late.Verdict.Err == nil {
			b.open(0)
			b.leave(second, failure)
			b.admitted()
			continue
		}
		b.refused(time.Second)
		b.open(2*time.Second + 4*time.Second)
		b.leave(second, failure)
		b.refused(4 * time.Second)
	}
}

// What began before it opened says nothing afterwards, nor does what began before it closed.
func TestLateEndings(t *testing.T) {
	b := newTester(t)
	var before []retry.Pass
	for range 100 {
		before = append(before, b.admitted())
	}
	b.ends(20, failure)
	b.leave(before[0], success)
	b.refused(time.Second)
	b.leave(before[1], failure)
	b.refused(time.Second)
	b.clock.Advance(time.Second)
	b.ends(1, success)
	for _, p := range before[2:] {
		b.leave(p, failure)
	}
	b.open(0)
}

// A Breaker that nobody has used yet, and none, admit all.
func TestZeroAndNil(t *testing.T) {
	var none *breaker.Breaker
	for _, b := range []*breaker.Breaker{none, new(breaker.Breaker)} {
		if b.Open() != 0 {
			t.Error("it is open")
		}
		for range 19 {
			p, err := b.Enter(context.Background(), retry.Entry{})
			if err != nil {
				t.Fatal(err)
			}
			b.Leave(p, failure)
		}
	}
	p, err := none.Enter(context.Background(), retry.Entry{})
	none.Leave(p, failure)
	if _, err2 := none.Enter(context.Background(), retry.Entry{}); err != nil || err2 != nil {
		t.Error("no breaker refuses", err, err2)
	}
}

func TestErrOpen(t *testing.T) {
	b := down(t)
	_, err := b.enter()
	if got, want := err.Error(), "the circuit is open, because most attempts have failed"; got != want {
		t.Errorf("the refusal is %q, want %q", got, want)
	}
	if got, want := breaker.ErrOpen.Error(), "the circuit is open, because most attempts have failed"; got != want {
		t.Errorf("ErrOpen is %q, want %q", got, want)
	}
	if v := (retry.Policy{}).Judge(err); v.Class != retry.Unprocessed || v.Hint != time.Second {
		t.Errorf("the refusal is %v with a hint of %v", v.Class, v.Hint)
	}
	if wait := breaker.ErrOpen.(interface{ RetryAfter() time.Duration }).RetryAfter(); wait != 0 {
		t.Errorf("ErrOpen itself has a wait of %v", wait)
	}
	if errors.Is(errDown, breaker.ErrOpen) || !errors.Is(fmt.Errorf("%w", err), breaker.ErrOpen) {
		t.Error("errors.Is is wrong about ErrOpen")
	}
}

// policy makes attempts under b without jitter.
func policy(b *breaker.Breaker) retry.Policy {
	return retry.Policy{
		Guards:  []retry.Guard{b},
		Backoff: retry.Constant(100 * time.Millisecond),
		Rand:    func() float64 { return .5 },
	}
}

// fail opens b.
func fail(t *testing.T, b *breaker.Breaker) {
	t.Helper()
	p := policy(b)
	p.MaxAttempts = 1
	for range 20 {
		_, _ = retry.Do(t.Context(), p, func(context.Context) (int, error) { return 0, errDown })
	}
	if b.Open() != time.Second {
		t.Fatalf("twenty failures: Open = %v", b.Open())
	}
}

// No run spends its attempts on an open Breaker: it waits until the Breaker is half-open, or ends at
// once.
func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b breaker.Breaker
		fail(t, &b)
		start := time.Now()
		p := policy(&b)
		p.MaxAttempts = 2
		calls := 0
		_, err := retry.Do(t.Context(), p, func(context.Context) (int, error) { calls++; return 0, nil })
		if took := time.Since(start); err != nil || calls != 1 || took != 1100*time.Millisecond { // and no more than a tenth
			t.Errorf("a run at an open breaker: %v, %d calls, after %v", err, calls, took)
		}

		fail(t, &b)
		start = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = retry.Do(ctx, p, func(context.Context) (int, error) { calls++; return 0, nil })
		e, ok := errors.AsType[*retry.Error](err)
		if !ok || e.Reason != retry.ReasonGuard || e.Guard != "breaker.Breaker" || !errors.Is(err, breaker.ErrOpen) || calls != 1 || time.Since(start) != 0 {
			t.Errorf("a run whose deadline comes first: %v, %d calls, after %v", err, calls, time.Since(start))
		}
	})
}

// A run of NonIdempotent may wait for a Breaker too, since nothing was sent.
func TestNonIdempotent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b breaker.Breaker
		fail(t, &b)
		p := policy(&b)
		p.NonIdempotent = true
		if _, err := retry.Do(t.Context(), p, func(context.Context) (int, error) { return 0, nil }); err != nil {
			t.Error(err)
		}
	})
}

// A guard that refuses an attempt after the Breaker has admitted it says nothing about the
// dependency.
func TestLaterGuardRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b breaker.Breaker
		p := policy(&b)
		p.Guards = append(p.Guards, full{})
		p.MaxAttempts = 100
		_, _ = retry.Do(t.Context(), p, func(context.Context) (int, error) { return 0, nil })
		if b.Open() != 0 {
			t.Error("refusals have opened the breaker")
		}
		fail(t, &b)
		time.Sleep(time.Second)
		_, _ = retry.Do(t.Context(), p, func(context.Context) (int, error) { return 0, nil })
		if b.Open() != 0 {
			t.Error("a refusal has opened the breaker again")
		}
		if _, err := retry.Do(t.Context(), policy(&b), func(context.Context) (int, error) { return 0, nil }); err != nil || b.Open() != 0 {
			t.Error(err)
		}
	})
}

type full struct{}

func (full) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	return retry.Pass{}, errors.New("full")
}
func (full) Leave(retry.Pass, retry.Exit) {}

// Callers that leave, and panics, are not the dependency's failures.
func TestCallersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b breaker.Breaker
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			_, _ = retry.Do(ctx, policy(&b), func(context.Context) (int, error) { cancel(); return 0, errDown })
			func() {
				defer func() { _ = recover() }()
				_, _ = retry.Do(t.Context(), policy(&b), func(context.Context) (int, error) { panic("op") })
			}()
		}
		if b.Open() != 0 {
			t.Error("the breaker is open")
		}
	})
}

// Timeouts are failures, whoever has set them.
func TestTimeouts(t *testing.T) {
	for _, own := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var b breaker.Breaker
			p := policy(&b)
			p.MaxAttempts = 1
			if own {
				p.AttemptTimeout = time.Millisecond
			}
			for range 20 {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
				_, _ = retry.Do(ctx, p, func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
				cancel()
			}
			if b.Open() == 0 {
				t.Error("the breaker is closed")
			}
		})
	}
}

func TestAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b breaker.Breaker
		fail(t, &b)
		start := time.Now()
		a := policy(&b).Attempts(t.Context())
		defer a.Close()
		for a.Next() {
			if took := time.Since(start); took != 1100*time.Millisecond {
				t.Errorf("the attempt starts after %v", took)
			}
			a.Done(nil)
		}
		if a.Err() != nil || b.Open() != 0 {
			t.Error(a.Err(), b.Open())
		}
	})
}

// An attempt that a run abandons between Next and Close does not keep a half-open Breaker for
// ever, nor does one that is held and hangs.
func TestAbandonedAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b breaker.Breaker
		fail(t, &b)
		time.Sleep(time.Second)
		a := policy(&b).Attempts(t.Context())
		a.Next()
		a.Close()
		if b.Open() != 0 {
			t.Errorf("Open = %v after Close", b.Open())
		}
		a = policy(&b).Attempts(t.Context())
		defer a.Close()
		a.Next()
		leave := a.Hold()
		if b.Open() != 3*time.Second {
			t.Errorf("Open = %v beside an attempt", b.Open())
		}
		a.Done(nil)
		time.Sleep(3 * time.Second)
		if b.Open() != 0 {
			t.Errorf("Open = %v beside one that hangs", b.Open())
		}
		leave(retry.Exit{Ending: retry.Returned})
	})
}

// A copy of a race takes no second place while the Breaker is half-open, and the copies that lose
// say nothing.
func TestRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b breaker.Breaker
		h := hedge.Hedge{Delay: 10 * time.Millisecond, Budget: generous{}}
		var calls atomic.Int64
		run := func() error {
			_, err := hedge.Do(t.Context(), policy(&b), &h, func(ctx context.Context) (int, error) {
				calls.Add(1)
				time.Sleep(15 * time.Millisecond)
				return 0, context.Cause(ctx)
			})
			return err
		}
		for range 50 {
			if err := run(); err != nil {
				t.Fatal(err)
			}
		}
		if b.Open() != 0 || calls.Load() != 100 {
			t.Errorf("after 50 races, %d calls: Open = %v", calls.Load(), b.Open())
		}
		time.Sleep(10 * time.Second)
		fail(t, &b)
		time.Sleep(time.Second)
		calls.Store(0)
		if err := run(); err != nil || calls.Load() != 1 || b.Open() != 0 {
			t.Errorf("half-open: %v, %d calls, Open = %v", err, calls.Load(), b.Open())
		}
	})
}

// generous is a budget that grants all.
type generous struct{}

func (generous) Withdraw(retry.Withdrawal) bool { return true }
func (generous) End(retry.Outcome)              {}

// A server that is down gets twenty requests, and then one now and then.
func TestTransport(t *testing.T) {
	var b breaker.Breaker
	var status, requests atomic.Int64
	status.Store(503)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(int(status.Load()))
	}))
	defer server.Close()
	clock := clockx.NewVirtual(time.Unix(0, 0))
	p := policy(&b)
	p.Clock, p.MaxAttempts = clock, 1
	client := &http.Client{Transport: &retryhttp.Transport{Policy: p}}
	get := func() (int, error) {
		resp, err := client.Get(server.URL)
		if err != nil {
			return 0, err
		}
		resp.Body.Close()
		return resp.StatusCode, nil
	}
	for range 20 {
		if code, err := get(); code != 503 {
			t.Fatal(code, err)
		}
	}
	if _, err := get(); !errors.Is(err, breaker.ErrOpen) || requests.Load() != 20 {
		t.Fatalf("the 21st request: %v, and the server has got %d", err, requests.Load())
	}
	clock.Advance(time.Second)
	status.Store(404)
	if code, err := get(); code != 404 || b.Open() != 0 {
		t.Fatalf("half-open: %d, %v, Open = %v", code, err, b.Open())
	}
	status.Store(200)
	for range 20 {
		if code, err := get(); code != 200 {
			t.Fatal(code, err)
		}
	}
	server.Close() // dials are refused
	for range 400 {
		_, _ = get()
	}
	if b.Open() != time.Second {
		t.Errorf("after refused dials Open = %v", b.Open())
	}
}

// 200 goroutines, and a dependency that is down for half of the time: while it is, attempts are made
// one at a time, and it is used again after that.
func TestMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b breaker.Breaker
		start := time.Now()
		down := func() bool { return time.Since(start)%time.Minute >= 30*time.Second }
		var mu sync.Mutex
		var flight, beside, made, served int
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(i), 1))
				p := policy(&b)
				p.MaxAttempts, p.Rand = 1, r.Float64
				for time.Since(start) < 2*time.Minute {
					time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
					halfOpen := false
					_, _ = retry.Do(t.Context(), p, func(context.Context) (int, error) {
						mu.Lock()
						flight++
						halfOpen = b.Open() > 0
						if halfOpen {
							beside = max(beside, flight-1)
						}
						if down() {
							made++
						} else {
							served++
						}
						mu.Unlock()
						time.Sleep(time.Duration(r.Int64N(int64(20 * time.Millisecond))))
						mu.Lock()
						flight--
						mu.Unlock()
						if down() {
							return 0, errDown
						}
						return 0, nil
					})
				}
			})
		}
		wg.Wait()
		if beside > 0 {
			t.Errorf("half-open, %d attempts are made beside another", beside)
		}
		// In half a minute they make some 11 800. It opens after 9 of the 30 seconds in which it is down.
		if made > 2*11800*10/30 || served < 2*11800*13/30 {
			t.Errorf("made while it was down, and while it was well: %d, %d", made, served)
		}
		time.Sleep(time.Minute)
		if _, err := retry.Do(t.Context(), policy(&b), func(context.Context) (int, error) { return 0, nil }); err != nil || b.Open() != 0 {
			t.Errorf("at the end: %v, Open = %v", err, b.Open())
		}
	})
}

// TestParallel is for the race detector: 200 goroutines in real time.
func TestParallel(t *testing.T) {
	var b breaker.Breaker
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			p := policy(&b)
			p.MaxAttempts = 1
			for i := range 100 {
				_, _ = retry.Do(t.Context(), p, func(context.Context) (int, error) {
					if i%20 > 0 {
						return 0, errDown
					}
					return 0, nil
				})
				_ = b.Open()
			}
		})
	}
	wg.Wait()
}

// If a third of all attempts fails at random, less than one of a million of them finds nine tenths
// of the last ten seconds failed, at any rate. Two per second are the worst: fewer never are
// twenty, and with more it takes more failures.
func TestThirdFails(t *testing.T) {
	windows := 1000
	if os.Getenv("RETRY_LONG") != "" {
		windows = 300_000
	}
	for _, rate := range []float64{1.9, 2, 2.2, 3, 20} {
		for _, poisson := range []bool{false, true} {
			var b breaker.Breaker
			r := rand.New(rand.NewPCG(uint64(rate*10), 1))
			clock := clockx.NewVirtual(time.Unix(0, 0))
			opened := 0
			attempts := int(rate * 10 * float64(windows))
			if rate > 3 {
				attempts /= 10
			}
			for range attempts {
				gap := 1 / rate
				if poisson {
					gap *= r.ExpFloat64()
				}
				clock.Advance(time.Duration(gap * float64(time.Second)))
				pass, err := b.Enter(context.Background(), retry.Entry{Clock: clock})
				if err != nil {
					continue
				}
				x := success
				if r.Float64() < 1./3 {
					x = failure
				}
				x.Clock = clock
				b.Leave(pass, x)
				if b.Open() > 0 {
					opened++
					clock.Advance(b.Open())
				}
			}
			t.Logf("%v per second, at random times %v: opened %d times in %d attempts", rate, poisson, opened, attempts)
			if opened > max(attempts/1_000_000, 1) {
				t.Errorf("%v per second, at random times %v: opened %d times in %d attempts", rate, poisson, opened, attempts)
			}
		}
	}
}

func TestAllocates(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	var b breaker.Breaker
	p := retry.Policy{Guards: []retry.Guard{&b}}
	if n := testing.AllocsPerRun(1000, func() {
		_, _ = retry.Do(context.Background(), p, func(context.Context) (int, error) { return 0, nil })
	}); n != 0 {
		t.Errorf("a first try that succeeds allocates %v times", n)
	}
}

func BenchmarkBreaker(b *testing.B) {
	var breaker breaker.Breaker
	p := retry.Policy{Guards: []retry.Guard{&breaker}}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = retry.Do(context.Background(), p, func(context.Context) (int, error) { return 0, nil })
	}
}
