package retryqueue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/retryqueue"
)

// gates is a Gate in a bubble, whose probes come after 1 s, 2 s, 4 s and so on.
type gates struct {
	*retryqueue.Gate
	t     *testing.T
	start time.Time
	told  []string // what Changed got, and when
	n     int
}

func inGate(t *testing.T, test func(g *gates)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := &gates{Gate: &retryqueue.Gate{Policy: retry.Policy{Rand: func() float64 { return .5 }}}, t: t, start: time.Now()}
		g.Probe = retry.Exponential{Base: time.Second, Max: time.Minute, Jitter: retry.NoJitter}
		g.Changed = func(err error) { g.told = append(g.told, fmt.Sprint(time.Since(g.start), " ", err)) }
		test(g)
	})
}

// at sleeps until so long after the start.
func (g *gates) at(d time.Duration) { time.Sleep(time.Until(g.start.Add(d))) }

// turn waits for a turn, and returns when it came.
func (g *gates) turn() (done func(string, error), at time.Duration) {
	g.t.Helper()
	done, err := g.Wait(g.t.Context())
	if err != nil {
		g.t.Fatal(err)
	}
	return done, time.Since(g.start)
}

// run has a message of its own come to err.
func (g *gates) run(err error) (at time.Duration) {
	g.t.Helper()
	done, at := g.turn()
	g.n++
	done(fmt.Sprint(g.n), err)
	return at
}

// close closes the gate, half a second after now.
func (g *gates) close() {
	g.t.Helper()
	for i := range 6 {
		if i == 5 {
			time.Sleep(time.Second / 2)
		}
		g.run(errDown)
	}
	g.want(true)
}

func (g *gates) want(closed bool) {
	g.t.Helper()
	if since, probe, err := g.Closed(); since.IsZero() == closed || closed && (probe.IsZero() || err == nil) {
		g.t.Fatalf("after %v: closed since %v, probe %v, %v; want %v", time.Since(g.start), since, probe, err, closed)
	}
}

// full checks that no message may start now.
func (g *gates) full() {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), 1)
	defer cancel()
	if _, err := g.Wait(ctx); err == nil {
		g.t.Fatalf("after %v a message may start", time.Since(g.start))
	}
}

func TestGateClosesWhenFiveMessagesFail(t *testing.T) {
	inGate(t, func(g *gates) {
		for range 5 {
			g.run(errDown)
		}
		g.want(false) // half a second is not over
		g.at(time.Second / 2)
		g.run(errDown)
		since, probe, err := g.Closed()
		if since.Sub(g.start) != time.Second/2 || probe.Sub(g.start) != 1500*ms || err != errDown {
			t.Errorf("closed since %v, probe %v, %v", since.Sub(g.start), probe.Sub(g.start), err)
		}
		if !slices.Equal(g.told, []string{"500ms down"}) {
			t.Errorf("Changed got %q", g.told)
		}
	})
}

func TestOneBadMessageClosesNoGate(t *testing.T) {
	inGate(t, func(g *gates) {
		for range 100 {
			done, _ := g.turn()
			done("bad", errDown)
			time.Sleep(time.Second)
		}
		g.want(false)
	})
}

// In a queue of few messages ten failures in a row are enough, of two messages in ten seconds.
func TestGateOfAQueueWithFewMessages(t *testing.T) {
	inGate(t, func(g *gates) {
		for i := range 10 {
			done, _ := g.turn()
			done(fmt.Sprint(i%2), errDown)
			g.want(i == 9)
			if i < 9 {
				time.Sleep(1200 * ms)
			}
		}
	})
}

// A dependency that fails half of its calls is used on; one that fails eight of nine is not.
func TestGateCountsSuccesses(t *testing.T) {
	for every, closes := range map[int]bool{2: false, 6: false, 9: true} { // one of so many succeeds
		inGate(t, func(g *gates) {
			closed := false
			for i := range 200 {
				var err error
				if i%every < every-1 {
					err = errDown
				}
				g.run(err)
				time.Sleep(100 * ms)
				since, _, _ := g.Closed()
				closed = closed || !since.IsZero()
			}
			if closed != closes {
				t.Errorf("one of %d succeeds: closed %v, want %v", every, closed, closes)
			}
		})
	}
}

// Also a handler that is canceled by itself is only one that failed.
func TestAnErrorOfOneMessageClosesNoGate(t *testing.T) {
	for _, err := range []error{context.Canceled, errDown, context.DeadlineExceeded, retry.Refuse(errDown)} {
		inGate(t, func(g *gates) {
			g.run(err)
			time.Sleep(time.Second)
			g.run(err)
			g.want(false)
		})
	}
}

func TestWhatAnErrorSaysToAGate(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		says string
	}{
		"nil":             {nil, "works"},
		"an answer":       {retry.Answer(errDown), "works"},
		"not yet":         {retry.ErrRejected, "works"},
		"not yet, later":  {retry.After(retry.ErrRejected, time.Minute), "works"},
		"stop":            {retry.Stop(errDown), "nothing"},
		"the process":     {retry.Stop(context.Canceled), "nothing"}, // stops, as its caller says
		"its receive":     {retry.Stop(fmt.Errorf("receive: %w", context.Canceled)), "nothing"},
		"malformed":       {fmt.Errorf("x: %w", errSyntax()), "nothing"},
		"a timeout":       {context.DeadlineExceeded, "failed"},
		"canceled":        {context.Canceled, "failed"}, // by the handler itself
		"any other":       {errDown, "failed"},
		"a refusal":       {retry.Refuse(errDown), "failed"},
		"a run that fell": {&retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 3, Errs: []error{errDown}}, "failed"},
	} {
		inGate(t, func(g *gates) {
			g.close()
			g.at(1500 * ms)
			g.run(tt.err)
			got := "failed"
			if since, probe, _ := g.Closed(); since.IsZero() {
				got = "works"
			} else if probe.Sub(g.start) == 1600*ms {
				got = "nothing"
			} else if probe.Sub(g.start) != 3500*ms {
				t.Errorf("%s: the next probe comes after %v", name, probe.Sub(g.start))
			}
			if got != tt.says {
				t.Errorf("%s: %s, want %s", name, got, tt.says)
			}
		})
	}
}

func errSyntax() error { return json.Unmarshal([]byte("{]"), new(any)) }

// While it is closed one message passes after each wait.
func TestProbes(t *testing.T) {
	inGate(t, func(g *gates) {
		g.close()
		for _, want := range []time.Duration{1500, 3500, 7500, 15500, 31500, 63500, 123500, 183500} {
			if at := g.run(errDown); at != want*ms {
				t.Errorf("a probe at %v, want %v", at, want*ms)
			}
		}
		if at := g.run(retry.After(errDown, 2*time.Minute)); at != 243500*ms {
			t.Errorf("a probe at %v, want 4m3.5s", at)
		}
		if at := g.run(retry.After(errDown, time.Hour)); at != 363500*ms {
			t.Errorf("the probe after the hint of two minutes at %v", at)
		}
		if at := g.run(nil); at != 663500*ms { // five minutes, whatever it asks for
			t.Errorf("the probe after the hint of an hour at %v", at)
		}
		g.want(false)
		if want := []string{"500ms down", "11m3.5s <nil>"}; !slices.Equal(g.told, want) {
			t.Errorf("Changed got %q, want %q", g.told, want)
		}
	})
}

// Without a Probe the waits double up to a minute at most, and are a fifth longer or shorter. They are so by
// the policy's random numbers, or by those of math/rand/v2.
func TestProbesByDefault(t *testing.T) {
	for random, part := range map[float64]float64{0: .8, .5: 1, 1: 1.2, -1: 0} {
		inGate(t, func(g *gates) {
			g.Probe, g.Policy.Rand = nil, func() float64 { return random }
			if random < 0 {
				g.Policy.Rand = nil
			}
			g.close()
			last := 500 * ms
			for _, wait := range []float64{1, 2, 4, 8, 16, 32, 50, 50} {
				at := g.run(errDown)
				got := (at - last).Seconds() / wait
				if last = at; part > 0 && math.Abs(got-part) > 1e-6 || got < .8-1e-6 || got > 1.2+1e-6 {
					t.Errorf("random numbers of %v: a wait of %v times %v s", random, got, wait)
				}
			}
		})
	}
}

// A hint counts up to MaxRetryAfter, also one that comes late, while the gate is closed already.
func TestHintsOfAGate(t *testing.T) {
	inGate(t, func(g *gates) {
		g.Policy.MaxRetryAfter = 20 * time.Second
		late, _ := g.turn()
		g.close()
		late("late", retry.After(errDown, 10*time.Second))
		if at := g.run(retry.After(errDown, time.Minute)); at != 10500*ms {
			t.Errorf("the probe after a late hint of ten seconds at %v", at)
		}
		if at := g.run(nil); at != 30500*ms {
			t.Errorf("the probe after a hint of more than MaxRetryAfter at %v", at)
		}
	})
}

// Who waits is woken by the success of another one.
func TestASuccessWakesWhoWaitsForAGate(t *testing.T) {
	inGate(t, func(g *gates) {
		g.Probe = retry.Constant(time.Hour)
		g.close()
		probe, _ := g.turn()
		starts := make(chan time.Duration, 2)
		for range 2 {
			go func() {
				_, at := g.turn()
				starts <- at
			}()
		}
		time.Sleep(time.Minute)
		probe("a", nil)
		synctest.Wait()
		want := time.Hour + time.Minute + 500*ms
		if len(starts) != 2 || <-starts != want || <-starts != want {
			t.Errorf("they do not both start after %v", want)
		}
	})
}

// broken is a clock that does not sleep.
type broken struct{ clockx.Clock }

func (broken) Sleep(context.Context, time.Duration) error { return errDown }

func TestWaitOfAGateWhoseClockFails(t *testing.T) {
	inGate(t, func(g *gates) {
		g.Policy.Clock = broken{clockx.System()}
		g.close()
		if done, err := g.Wait(g.t.Context()); err != errDown || done != nil {
			t.Errorf("Wait() = %v, want the clock's error", err)
		}
	})
}

// A probe that hangs counts as failed when the next is due. Its late success still opens.
func TestAProbeThatHangs(t *testing.T) {
	inGate(t, func(g *gates) {
		g.close()
		first, at := g.turn()
		if at != 1500*ms {
			t.Errorf("the first probe at %v", at)
		}
		g.full()
		if _, at := g.turn(); at != 3500*ms {
			t.Errorf("the second probe at %v, want 3.5s", at)
		}
		g.at(5 * time.Second)
		first("late", nil)
		g.want(false)
		first("late", errDown) // only the first call counts
	})
}

// What started before the closing neither opens the gate nor counts, and what started before the
// opening does not close it.
func TestLateNewsOfAGate(t *testing.T) {
	inGate(t, func(g *gates) {
		var early []func(string, error)
		for range 30 {
			done, _ := g.turn()
			early = append(early, done)
		}
		g.close()
		early[0]("early", nil)
		g.want(true)
		if at := g.run(nil); at != 1500*ms {
			t.Errorf("the probe at %v", at)
		}
		for i, done := range early[1:] {
			time.Sleep(50 * ms)
			done(fmt.Sprint("early", i), errDown)
		}
		g.want(false)
	})
}

// Opening is a ramp: one message, and one more for each that has succeeded, all after ten.
func TestRampOfAGate(t *testing.T) {
	inGate(t, func(g *gates) {
		g.close()
		g.run(nil)
		for successes := 1; successes < 10; successes++ {
			var turns []func(string, error)
			for range successes + 1 {
				done, _ := g.turn()
				turns = append(turns, done)
			}
			g.full()
			turns[0]("a", nil)
			for _, done := range turns[1:] {
				done("b", retry.Stop(errDown))
			}
		}
		for range 1000 {
			g.turn()
		}
	})
}

func TestWaitOfAGateEndsWithItsContext(t *testing.T) {
	inGate(t, func(g *gates) {
		g.close()
		cause := errors.New("shutdown")
		ctx, cancel := context.WithCancelCause(g.t.Context())
		time.AfterFunc(100*ms, func() { cancel(cause) })
		if _, err := g.Wait(ctx); err != cause || time.Since(g.start) != 600*ms {
			t.Errorf("%v after %v", err, time.Since(g.start))
		}
	})
}

// Changed may open the gate that has just closed. Then its next call follows.
func TestChangedThatChangesTheGate(t *testing.T) {
	inGate(t, func(g *gates) {
		calling := false
		early, _ := g.turn()
		g.Changed = func(err error) {
			if g.told = append(g.told, fmt.Sprint(err)); calling {
				t.Error("Changed is called by itself")
			}
			calling = true
			if err != nil {
				time.Sleep(time.Second)
				g.run(nil)
				early("early", nil)
			}
			calling = false
		}
		for i := range 6 {
			if i == 5 {
				time.Sleep(500 * ms)
			}
			g.run(errDown)
		}
		g.want(false)
		if want := []string{"down", "<nil>"}; !slices.Equal(g.told, want) {
			t.Errorf("Changed got %q, want %q", g.told, want)
		}
	})
}

// Changed may call the gate, and is not called twice at a time, though many messages end at once. Each
// closing comes before its opening.
func TestChangedIsCalledInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g retryqueue.Gate
		var mu sync.Mutex
		var told []bool
		g.Changed = func(err error) {
			if !mu.TryLock() {
				t.Error("two calls of Changed at a time")
				return
			}
			defer mu.Unlock()
			_, _, _ = g.Closed()
			time.Sleep(10 * ms)
			told = append(told, err != nil)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				for n := 0; ; n++ {
					done, err := g.Wait(ctx)
					if err != nil {
						return
					}
					time.Sleep(time.Duration(1+i) * 10 * ms)
					if down := time.Now().Minute()%2 == 0; down {
						done(fmt.Sprint(i, n), errDown)
					} else {
						done(fmt.Sprint(i, n), nil)
					}
				}
			})
		}
		wg.Wait()
		for i, closed := range told {
			if closed != (i%2 == 0) {
				t.Fatalf("Changed got %v", told)
			}
		}
		if len(told) < 50 {
			t.Errorf("%d changes in an hour of outages of a minute", len(told))
		}
	})
}

// A message counts once, though its done is called twice.
func TestDoneCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &retryqueue.Gate{Failures: 3}
		for range 2 {
			done, err := g.Wait(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			done("", errDown)
			done("", errDown)
			time.Sleep(time.Second)
		}
		if since, _, _ := g.Closed(); !since.IsZero() {
			t.Error("two failures have closed a gate of three")
		}
	})
}
