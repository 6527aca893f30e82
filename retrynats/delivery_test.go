package retrynats_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/retrynats"
	"github.com/nats-io/nats.go/jetstream"
)

// play gives one delivery to a handler, in a bubble, and lets it end before the
// context does.
func play(t *testing.T, m fakeMsg, p retry.Policy, handle func(*journal, context.Context) error, dead func(*journal, *retry.Error) error) *journal {
	t.Helper()
	j := &journal{}
	synctest.Test(t, func(t *testing.T) {
		j.start = time.Now()
		m.j = j
		if m.stored.IsZero() {
			m.stored = j.start
		}
		p.Name = "job"
		h := &retrynats.Handler{Policy: p, Handle: func(ctx context.Context, _ jetstream.Msg) error { return handle(j, ctx) }}
		if dead != nil {
			h.Dead = func(_ context.Context, _ jetstream.Msg, e *retry.Error) error { return dead(j, e) }
		}
		q := newFakeQueue(j)
		stop := q.consume(t, h)
		q.give(&m)
		time.Sleep(time.Minute)
		q.Stop()
		stop()
	})
	return j
}

func fails(err error) func(*journal, context.Context) error {
	return func(*journal, context.Context) error { return err }
}

func TestSuccessIsAcknowledgedAndConfirmed(t *testing.T) {
	j := play(t, fakeMsg{deliveries: 2, ackTakes: 10 * ms}, retry.Policy{Hooks: retry.Hooks{}}, fails(nil), nil)
	j.want(t, "10ms ack")
}

func TestAckWaitsForItsAnswerNoLongerThanAckWait(t *testing.T) {
	j := play(t, fakeMsg{deliveries: 1, ackTakes: -1}, retry.Policy{}, fails(nil), nil)
	j.want(t, "3.9s the ack got no answer")
}

// asked keeps the context of its acknowledgement.
type asked struct {
	*fakeMsg
	ctx *context.Context
}

func (m asked) DoubleAck(ctx context.Context) error {
	*m.ctx = ctx
	return m.fakeMsg.DoubleAck(ctx)
}

func TestContextOfTheAckEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFakeQueue(&journal{})
		var ctx context.Context
		stop := q.consume(t, &retrynats.Handler{Handle: func(context.Context, jetstream.Msg) error { return nil }})
		q.give(asked{&fakeMsg{j: &journal{}, deliveries: 1}, &ctx})
		synctest.Wait()
		if ctx.Err() != context.Canceled {
			t.Errorf("after the ack its context has the error %v, want context.Canceled", ctx.Err())
		}
		stop()
	})
}

func TestRetryIsHandedBackWithTheDelay(t *testing.T) {
	p := retry.Policy{MaxAttempts: 5, Backoff: retry.Exponential{Base: time.Second, Jitter: retry.NoJitter}}
	j := play(t, fakeMsg{deliveries: 3}, p, fails(errDown), nil)
	j.want(t, "0s nak with delay 4s")
}

// least makes the spread after a hint none.
func least() float64 { return 0 }

func TestHintIsAFloor(t *testing.T) {
	j := play(t, fakeMsg{deliveries: 1}, retry.Policy{Backoff: retry.Constant(time.Second), Rand: least}, fails(retry.After(errDown, time.Minute)), nil)
	j.want(t, "0s nak with delay 1m1s")
}

// A delay of 0 would be a plain Nak, and a very long one would overflow.
func TestDelayIsWhatTheServerUnderstands(t *testing.T) {
	j := play(t, fakeMsg{deliveries: 1}, retry.Policy{Backoff: retry.Constant(0)}, fails(errDown), nil)
	j.want(t, "0s nak with delay 1ns")
	j = play(t, fakeMsg{deliveries: 1}, retry.Policy{Backoff: retry.Constant(math.MaxInt64)}, fails(errDown), nil)
	j.want(t, "0s nak with delay 876000h0m0s")
}

func TestAgeCountsFromTheServersTimestamp(t *testing.T) {
	p := retry.Policy{MaxElapsed: time.Hour, Backoff: retry.Constant(time.Minute)}
	bubble := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // when time begins in there
	j := play(t, fakeMsg{deliveries: 9, stored: bubble.Add(-59 * time.Minute)}, p, fails(errDown), nil)
	j.want(t, "0s nak with delay 1m0s")
	j = play(t, fakeMsg{deliveries: 9, stored: bubble.Add(-59*time.Minute - 1)}, p, fails(errDown), nil)
	j.want(t, "0s term")
}

func TestMessageWithoutMetadataIsTheFirstDelivery(t *testing.T) {
	told := &journal{}
	j := playTold(t, told, fakeMsg{unbound: true}, retry.Policy{Backoff: retry.Linear{Base: time.Second, Jitter: retry.NoJitter}}, fails(errDown), nil)
	j.want(t, "0s nak with delay 1s")
	told.want(t, "0s Start job", "0s Attempt 1", "0s AttemptDone 1 in 0s: down, transient, delay 1s, hint 0s",
		"0s Wait 1s after 1", "0s Done 1 in 0s, waited 0s, none: <nil>")
}

func TestMessageIsInProgressWhileHandleAndDeadRun(t *testing.T) {
	j := play(t, fakeMsg{deliveries: 3, ackTakes: 10 * time.Second}, retry.Policy{},
		func(j *journal, _ context.Context) error {
			time.Sleep(2500 * ms)
			j.note("Handle fails")
			return errDown
		},
		func(j *journal, e *retry.Error) error {
			time.Sleep(2 * time.Second)
			j.note("Dead: %v", e)
			return nil
		})
	j.want(t,
		"1.3s in progress",
		"2.5s Handle fails",
		"2.6s in progress", "3.9s in progress",
		"4.5s Dead: job: gave up after 3 attempts in 2.5s (max_attempts): down",
		"4.5s term")
}

// In progress after a Nak with a delay would move the redelivery to AckWait.
func TestNothingIsInProgressAfterTheLastWord(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"ack":   {nil, "4.5s ack"},
		"retry": {errDown, "1.5s nak with delay 1s"},
		"dead":  {retry.Stop(errDown), "1.5s term"},
	} {
		t.Run(name, func(t *testing.T) {
			j := play(t, fakeMsg{deliveries: 1, ackTakes: 3 * time.Second, slow: 3 * time.Second}, retry.Policy{Backoff: retry.Constant(time.Second)}, func(*journal, context.Context) error {
				time.Sleep(1500 * ms)
				return tt.err
			}, nil)
			j.want(t, "1.3s in progress", tt.want)
		})
	}
}

// Handle ends as the message is to be in progress again: the one or the other comes first.
func TestNothingIsInProgressAtTheLastWord(t *testing.T) {
	for range 500 {
		j := play(t, fakeMsg{deliveries: 1}, retry.Policy{Backoff: retry.Constant(time.Second)}, func(*journal, context.Context) error {
			time.Sleep(1300 * ms)
			return errDown
		}, nil)
		const last = "1.3s nak with delay 1s"
		if got := j.String(); got != last && got != "1.3s in progress\n"+last {
			t.Fatalf("it went\n%s\nwant %s at the end", got, last)
		}
	}
}

func TestGoexitStopsTheHeartbeatAndClosesTheHooks(t *testing.T) {
	exit := func(*journal, context.Context) error {
		time.Sleep(1500 * ms)
		runtime.Goexit()
		return nil
	}
	told := &journal{}
	j := playTold(t, told, fakeMsg{deliveries: 2}, retry.Policy{Backoff: retry.Constant(time.Second)}, exit, nil)
	j.want(t, "1.3s in progress", "1.5s nak with delay 1s")
	told.want(t, "0s Start job", "0s Attempt 2",
		"1.5s AttemptDone 2 in 1.5s: retry: panic or runtime.Goexit during the run, unknown, delay 0s, hint 0s",
		"1.5s Done 2 in 1.5s, waited 0s, panic: job: gave up after 2 attempts in 1.5s (panic): retry: panic or runtime.Goexit during the run")

	told = &journal{}
	j = playTold(t, told, fakeMsg{deliveries: 1}, retry.Policy{}, fails(retry.Stop(errDown)), func(*journal, *retry.Error) error {
		return exit(nil, context.Background())
	})
	j.want(t, "1.3s in progress")
	told.want(t, "0s Start job", "0s Attempt 1",
		"0s AttemptDone 1 in 0s: down, permanent, delay 0s, hint 0s",
		"1.5s Done 1 in 1.5s, waited 0s, panic: job: gave up after 1 attempt in 1.5s (panic): down; cause: retry: panic or runtime.Goexit during the run")
}

// playTold is play with hooks that note in told.
func playTold(t *testing.T, told *journal, m fakeMsg, p retry.Policy, handle func(*journal, context.Context) error, dead func(*journal, *retry.Error) error) *journal {
	p.Hooks = telling(told)
	return play(t, m, p, handle, dead)
}

func TestDeadIsAskedEverySecondUntilItHasStored(t *testing.T) {
	asked, handled := 0, 0
	j := play(t, fakeMsg{deliveries: 1}, retry.Policy{}, func(*journal, context.Context) error {
		handled++
		return retry.Stop(errDown)
	}, func(j *journal, e *retry.Error) error {
		j.note("Dead %v", e.Reason)
		asked++
		return []error{errDown, retry.Stop(errDown), retry.After(errDown, time.Hour), nil}[asked-1]
	})
	j.want(t, "0s Dead permanent", "1s Dead permanent", "1.3s in progress", "2s Dead permanent",
		"2.6s in progress", "3s Dead permanent", "3s term")
	if handled != 1 {
		t.Errorf("Handle ran %d times, want once", handled)
	}
}

func TestDeadIsAskedAgainOnThePolicysClock(t *testing.T) {
	clock, asked := clockx.NewVirtual(time.Unix(0, 0)), 0
	j := play(t, fakeMsg{deliveries: 1}, retry.Policy{Clock: clock}, fails(retry.Stop(errDown)), func(j *journal, e *retry.Error) error {
		j.note("Dead at %d", clock.Now().Unix())
		if asked++; asked < 3 {
			return errDown
		}
		return nil
	})
	j.want(t, "0s Dead at 0", "0s Dead at 1", "0s Dead at 2", "0s term")
}

func TestMessageOfACrashedHandlerIsDeadWithoutAnotherRun(t *testing.T) {
	told := &journal{}
	j := playTold(t, told, fakeMsg{deliveries: 4}, retry.Policy{},
		func(*journal, context.Context) error { t.Error("Handle ran"); return nil },
		func(j *journal, e *retry.Error) error { j.note("Dead: %v", e); return nil })
	j.want(t, "0s Dead: job: gave up after 3 attempts in 0s (max_attempts): retryqueue: a delivery ended without a report: a crash, or a lost acknowledgement", "0s term")
	told.want(t, "0s Start job",
		"0s Done 3 in 0s, waited 0s, max_attempts: job: gave up after 3 attempts in 0s (max_attempts): retryqueue: a delivery ended without a report: a crash, or a lost acknowledgement")
}

// Goexit is a panic that does not end the process of the test.
func TestMessageWhoseHandlerPanicsIsDeadAtTheFifthDelivery(t *testing.T) {
	exit := func(*journal, context.Context) error { runtime.Goexit(); return nil }
	p := retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Constant(time.Second)}
	store := func(j *journal, e *retry.Error) error { j.note("Dead: %v", e); return nil }
	play(t, fakeMsg{deliveries: 4}, p, exit, store).want(t, "0s nak with delay 1s")
	play(t, fakeMsg{deliveries: 5}, p, exit, store).want(t, "0s Dead: job: gave up after 5 attempts in 0s (max_attempts): retryqueue: the handler panicked", "0s term")
	play(t, fakeMsg{deliveries: 5}, p, fails(errDown), store).want(t, "0s nak with delay 1s")
	// A panic is not put off for longer than AckWait, also if no dead letter can be stored.
	play(t, fakeMsg{deliveries: 5}, p, exit, func(j *journal, e *retry.Error) error { j.note("Dead"); return errDown }).want(t,
		"0s Dead", "1s Dead", "1.3s in progress", "2s Dead", "2.6s in progress", "3s Dead")
}

func TestHooksSeeEachDelivery(t *testing.T) {
	slow := func(err error) func(*journal, context.Context) error {
		return func(*journal, context.Context) error {
			time.Sleep(20 * ms)
			return err
		}
	}
	for _, tt := range []struct {
		name   string
		number uint64
		p      retry.Policy
		err    error
		want   []string
	}{
		{"success", 2, retry.Policy{}, nil, []string{
			"20ms AttemptDone 2 in 20ms: <nil>, unknown, delay 0s, hint 0s",
			"25ms Done 2 in 25ms, waited 0s, none: <nil>"}},
		{"retry", 1, retry.Policy{Backoff: retry.Constant(time.Second), Rand: least}, retry.After(errDown, time.Minute), []string{
			"20ms AttemptDone 1 in 20ms: down, throttled, delay 1m1s, hint 1m0s",
			"20ms Wait 1m1s after 1",
			"20ms Done 1 in 20ms, waited 0s, none: <nil>"}},
		{"put off by the budget", 2, retry.Policy{Backoff: retry.Constant(time.Second), Budget: &budget.Token{Capacity: -1}}, errDown, []string{
			"20ms AttemptDone 2 in 20ms: down, transient, delay 3s, hint 0s",
			"20ms Wait 3s after 2",
			"20ms Done 2 in 20ms, waited 0s, none: <nil>"}},
		{"dead", 3, retry.Policy{}, errDown, []string{
			"20ms AttemptDone 3 in 20ms: down, transient, delay 0s, hint 0s",
			"20ms Done 3 in 20ms, waited 0s, max_attempts: job: gave up after 3 attempts in 20ms (max_attempts): down"}},
		{"dead at once", 1, retry.Policy{}, retry.Stop(errDown), []string{
			"20ms AttemptDone 1 in 20ms: down, permanent, delay 0s, hint 0s",
			"20ms Done 1 in 20ms, waited 0s, permanent: job: gave up after 1 attempt in 20ms (permanent): down"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			told := &journal{}
			playTold(t, told, fakeMsg{deliveries: tt.number, ackTakes: 5 * ms}, tt.p, slow(tt.err), nil)
			begin := []string{"0s Start job", "0s Attempt " + string(rune('0'+tt.number))}
			told.want(t, append(begin, tt.want...)...)
		})
	}
}

// A caller's own wrapping is kept; only a mark on top is taken off.
func TestHooksSeeErrorsAsHandleReturnedThem(t *testing.T) {
	for _, err := range []error{errDown, errors.Join(retry.Stop(errDown), errDown)} {
		var seen error
		p := retry.Policy{Hooks: retry.Hooks{AttemptDone: func(_ context.Context, a retry.Attempt) { seen = a.Err }}}
		play(t, fakeMsg{deliveries: 1}, p, fails(retry.Stop(retry.After(err, 1))), nil)
		if seen != err {
			t.Errorf("AttemptDone saw %#v, want %#v", seen, err)
		}
	}
}

func TestStartsContextReachesHandleDeadAndHooks(t *testing.T) {
	type key struct{}
	seen := map[string]any{}
	h := &retrynats.Handler{
		Policy: retry.Policy{MaxAttempts: 1, Hooks: retry.Hooks{
			Start: func(ctx context.Context, _ retry.Policy) context.Context { return context.WithValue(ctx, key{}, "run") },
			Attempt: func(ctx context.Context, _ retry.Attempt) context.Context {
				seen["Attempt"] = ctx.Value(key{})
				return context.WithValue(ctx, key{}, "attempt")
			},
			AttemptDone: func(ctx context.Context, _ retry.Attempt) { seen["AttemptDone"] = ctx.Value(key{}) },
			Done:        func(ctx context.Context, _ retry.Summary) { seen["Done"] = ctx.Value(key{}) },
		}},
		Handle: func(ctx context.Context, _ jetstream.Msg) error {
			seen["Handle"] = ctx.Value(key{})
			return errDown
		},
		Dead: func(ctx context.Context, _ jetstream.Msg, _ *retry.Error) error {
			seen["Dead"] = ctx.Value(key{})
			return nil
		},
	}
	synctest.Test(t, func(t *testing.T) {
		q := newFakeQueue(&journal{})
		stop := q.consume(t, h)
		q.give(&fakeMsg{j: &journal{}, deliveries: 1})
		synctest.Wait()
		stop()
	})
	for where, want := range map[string]string{"Attempt": "run", "Handle": "attempt", "AttemptDone": "attempt", "Dead": "run", "Done": "run"} {
		if seen[where] != want {
			t.Errorf("%s saw the context of %v, want %v", where, seen[where], want)
		}
	}
}

// Handle's is the first attempt of this process. The delivery's number is in the message.
func TestHandleKnowsItsAttempt(t *testing.T) {
	j := play(t, fakeMsg{deliveries: 7}, retry.Policy{MaxAttempts: 9, AttemptTimeout: 2 * time.Second, Backoff: retry.Constant(1)},
		func(j *journal, ctx context.Context) error {
			<-ctx.Done()
			j.note("attempt %d ended: %v, %v", retry.AttemptNumber(ctx), ctx.Err(), context.Cause(ctx))
			return context.Cause(ctx)
		}, nil)
	j.want(t, "1.3s in progress",
		"2s attempt 1 ended: context deadline exceeded, retry: attempt timed out", "2s nak with delay 1ns")
}

func TestContextOfHandleEndsWithIt(t *testing.T) {
	var handles context.Context
	p := retry.Policy{AttemptTimeout: time.Hour, Hooks: retry.Hooks{Done: func(context.Context, retry.Summary) {
		if handles.Err() != context.Canceled {
			t.Errorf("after Handle its context has the error %v, want context.Canceled", handles.Err())
		}
	}}}
	play(t, fakeMsg{deliveries: 1}, p, func(_ *journal, ctx context.Context) error { handles = ctx; return nil }, nil)
}

// What the policy's classifier says of an attempt that timed out counts.
func TestTimeoutDoesNotOverruleThePolicy(t *testing.T) {
	for _, timeout := range []time.Duration{1, time.Second} {
		p := retry.Policy{AttemptTimeout: timeout, Classify: func(error) retry.Class { return retry.Permanent }}
		j := play(t, fakeMsg{deliveries: 1}, p, func(_ *journal, ctx context.Context) error {
			<-ctx.Done()
			return errDown
		}, nil)
		j.want(t, timeout.String()+" term")
	}
}

// Handle may hide that its time ran out: hooks and the budget know all the same. What
// says more than that something went wrong stays what it is.
func TestTimeoutThatHandleHides(t *testing.T) {
	for err, want := range map[error]retry.Class{
		errDown: retry.TimedOut, retry.ErrAttemptTimeout: retry.TimedOut, retry.After(errDown, time.Second): retry.Throttled, syscall.ECONNREFUSED: retry.Unprocessed,
	} {
		for _, timeout := range []time.Duration{time.Second, 2 * time.Second, time.Hour} { // 2 s: Handle returns as its time runs out
			var told, charged retry.Class
			p := retry.Policy{MaxAttempts: 9, AttemptTimeout: timeout, Backoff: retry.Constant(1), Budget: charges{&charged}}
			p.Hooks.AttemptDone = func(_ context.Context, a retry.Attempt) { told = a.Class }
			play(t, fakeMsg{deliveries: 1}, p, func(_ *journal, ctx context.Context) error {
				select {
				case <-ctx.Done():
				case <-time.After(2 * time.Second):
				}
				return err
			}, nil)
			want := want
			if timeout == time.Hour {
				want = retry.Policy{}.Judge(err).Class
			}
			if told != want || charged != want {
				t.Errorf("%v with a timeout of %v: hooks see %v, the budget %v, want %v", err, timeout, told, charged, want)
			}
		}
	}
}

// charges is a budget that grants everything and notes the class.
type charges struct{ class *retry.Class }

func (c charges) Withdraw(w retry.Withdrawal) bool { *c.class = w.Class; return true }
func (charges) End(retry.Outcome)                  {}

// What runs, and what arrives too late to run, goes to another consumer, once this one
// cannot get it again.
func TestShutdownHandsBackAfterTheDrain(t *testing.T) {
	j, told := &journal{}, &journal{}
	synctest.Test(t, func(t *testing.T) {
		j.start, told.start = time.Now(), time.Now()
		q := newFakeQueue(j)
		q.buffer = []jetstream.Msg{&fakeMsg{j: j, deliveries: 1}}
		h := &retrynats.Handler{
			Policy: retry.Policy{Name: "job", MaxAttempts: 1, Hooks: telling(told)},
			Handle: func(ctx context.Context, _ jetstream.Msg) error {
				<-ctx.Done()
				time.Sleep(10 * ms)
				j.note("Handle fails")
				return retry.Stop(ctx.Err())
			},
			Dead: func(context.Context, jetstream.Msg, *retry.Error) error { t.Error("Dead was asked"); return nil },
		}
		stop := q.consume(t, h)
		q.give(&fakeMsg{j: j, deliveries: 1})
		time.Sleep(500 * ms)
		stop()
		j.note("closed")
	})
	j.want(t, "500ms drain", "510ms Handle fails", "600ms drained", "600ms nak", "600ms nak", "600ms closed")
	told.want(t, "0s Start job", "0s Attempt 1",
		"510ms AttemptDone 1 in 510ms: context canceled, unknown, delay 0s, hint 0s",
		"600ms Done 1 in 600ms, waited 0s, none: <nil>")
}

func TestSuccessDuringAShutdownIsKept(t *testing.T) {
	j := &journal{}
	synctest.Test(t, func(t *testing.T) {
		j.start = time.Now()
		q := newFakeQueue(j)
		stop := q.consume(t, &retrynats.Handler{Handle: func(ctx context.Context, _ jetstream.Msg) error {
			<-ctx.Done()
			time.Sleep(4 * time.Second) // longer than AckWait
			return nil
		}})
		q.give(&fakeMsg{j: j, deliveries: 1, ackTakes: time.Second})
		time.Sleep(500 * ms)
		stop()
		j.note("closed")
	})
	j.want(t, "500ms drain", "600ms drained", "1.3s in progress", "2.6s in progress", "3.9s in progress", "5.5s ack", "5.5s closed")
}

func TestShutdownEndsTheRepeatsOfDead(t *testing.T) {
	j, told := &journal{}, &journal{}
	synctest.Test(t, func(t *testing.T) {
		j.start, told.start = time.Now(), time.Now()
		q := newFakeQueue(j)
		stop := q.consume(t, &retrynats.Handler{
			Policy: retry.Policy{Name: "job", MaxAttempts: 1, Hooks: telling(told)},
			Handle: func(context.Context, jetstream.Msg) error { return errDown },
			Dead:   func(context.Context, jetstream.Msg, *retry.Error) error { j.note("Dead"); return errDown },
		})
		q.give(&fakeMsg{j: j, deliveries: 1})
		time.Sleep(1900 * ms)
		stop()
	})
	j.want(t, "0s Dead", "1s Dead", "1.3s in progress", "1.9s drain", "2s drained", "2s nak")
	told.want(t, "0s Start job", "0s Attempt 1",
		"0s AttemptDone 1 in 0s: down, transient, delay 0s, hint 0s",
		"2s Done 1 in 2s, waited 0s, none: <nil>")
}

// A message that is handed back is in progress no more, however long that takes.
func TestNothingIsInProgressAfterTheHandBack(t *testing.T) {
	j := &journal{}
	synctest.Test(t, func(t *testing.T) {
		j.start = time.Now()
		q := newFakeQueue(j)
		stop := q.consume(t, &retrynats.Handler{Handle: func(ctx context.Context, _ jetstream.Msg) error { <-ctx.Done(); return ctx.Err() }})
		q.give(&fakeMsg{j: j, deliveries: 1, slow: 3 * time.Second})
		time.Sleep(time.Second)
		stop()
	})
	j.want(t, "1s drain", "1.1s drained", "1.1s nak")
}

// What was decided does not end with a context of the user's own.
func TestADeadLetterOutlivesTheContextOfADelivery(t *testing.T) {
	j, told := &journal{}, &journal{}
	synctest.Test(t, func(t *testing.T) {
		j.start, told.start = time.Now(), time.Now()
		q := newFakeQueue(j)
		stop := q.consume(t, &retrynats.Handler{
			Policy: retry.Policy{Name: "job", MaxAttempts: 1, Hooks: telling(told)},
			Context: func(ctx context.Context, _ jetstream.Msg) context.Context {
				ctx, cancel := context.WithTimeout(ctx, 1500*ms)
				context.AfterFunc(ctx, cancel)
				return ctx
			},
			Handle: func(context.Context, jetstream.Msg) error { return errDown },
			Dead: func(context.Context, jetstream.Msg, *retry.Error) error {
				j.note("Dead")
				if time.Since(j.start) < 3*time.Second {
					return errDown
				}
				return nil
			},
		})
		q.give(&fakeMsg{j: j, deliveries: 1})
		time.Sleep(time.Minute)
		stop()
	})
	j.want(t, "0s Dead", "1s Dead", "1.3s in progress", "2s Dead", "2.6s in progress", "3s Dead", "3s term", "1m0s drain", "1m0.1s drained")
	told.want(t, "0s Start job", "0s Attempt 1",
		"0s AttemptDone 1 in 0s: down, transient, delay 0s, hint 0s",
		"3s Done 1 in 3s, waited 0s, max_attempts: job: gave up after 1 attempt in 0s (max_attempts): down")
}

// The server counts each delivery, so "not yet" ends with the policy's last one.
func TestNotYet(t *testing.T) {
	for deliveries, want := range map[uint64]string{2: "0s nak with delay 1s", 3: "0s term"} {
		j := play(t, fakeMsg{deliveries: deliveries}, retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(time.Second)}, fails(retry.ErrRejected), nil)
		j.want(t, want)
	}
}

// Hooks come between the look at the context and the handler.
func TestHandleDoesNotRunOnceTheContextHasEnded(t *testing.T) {
	j := &journal{}
	synctest.Test(t, func(t *testing.T) {
		q := newFakeQueue(j)
		ctx, cancel := context.WithCancelCause(context.Background())
		var seen error
		consuming, err := (&retrynats.Handler{
			Policy: retry.Policy{Hooks: retry.Hooks{
				Attempt:     func(context.Context, retry.Attempt) context.Context { cancel(errDown); return nil },
				AttemptDone: func(_ context.Context, a retry.Attempt) { seen = a.Err },
			}},
			Handle: func(context.Context, jetstream.Msg) error { t.Error("Handle ran"); return nil },
		}).Consume(ctx, fakeJetStream{q: q}, fakeConsumer{q: q})
		if err != nil {
			t.Fatal(err)
		}
		q.give(&fakeMsg{j: j, deliveries: 1})
		<-consuming.Closed()
		if seen != errDown {
			t.Errorf("AttemptDone saw %v, want the context's cause", seen)
		}
	})
	j.want(t, "0s drain", "100ms drained", "100ms nak")
}

// Stop ends the delivery of messages, not those that were delivered.
func TestStopLeavesRunningHandlersAlone(t *testing.T) {
	j := &journal{}
	synctest.Test(t, func(t *testing.T) {
		j.start = time.Now()
		q := newFakeQueue(j)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		consuming, err := (&retrynats.Handler{Handle: func(ctx context.Context, _ jetstream.Msg) error {
			time.Sleep(500 * ms)
			return ctx.Err()
		}}).Consume(ctx, fakeJetStream{q: q}, fakeConsumer{q: q})
		if err != nil {
			t.Fatal(err)
		}
		q.give(&fakeMsg{j: j, deliveries: 1})
		synctest.Wait()
		consuming.Stop()
		<-consuming.Closed()
		j.note("closed")
	})
	j.want(t, "500ms ack", "500ms closed")
}

// registry is a context that counts who waits for its end.
type registry struct {
	context.Context
	done    chan struct{}
	waiting *atomic.Int32
}

func (r registry) Done() <-chan struct{} { return r.done }
func (r registry) AfterFunc(func()) (stop func() bool) {
	r.waiting.Add(1)
	return func() bool { r.waiting.Add(-1); return true }
}

// The context may live much longer, and serve many subscriptions.
func TestContextForgetsASubscriptionThatHasEnded(t *testing.T) {
	for _, fails := range []error{nil, errDown} {
		synctest.Test(t, func(t *testing.T) {
			q := newFakeQueue(&journal{})
			q.err = fails
			ctx := registry{context.Background(), make(chan struct{}), new(atomic.Int32)}
			h := &retrynats.Handler{Handle: func(context.Context, jetstream.Msg) error { return nil }}
			consuming, err := h.Consume(ctx, fakeJetStream{q: q}, fakeConsumer{q: q})
			if err == nil {
				q.Stop()
				<-consuming.Closed()
			}
			if n := ctx.waiting.Load(); n != 0 || err != fails {
				t.Errorf("Consume() = %v, and the context still has %d who wait for its end", err, n)
			}
			if n := q.drains.Load(); n != 0 {
				t.Errorf("Drain was called %d times after the end", n)
			}
		})
	}
}

func TestOneHandlerServesManyMessagesAtOnce(t *testing.T) {
	j := &journal{}
	synctest.Test(t, func(t *testing.T) {
		j.start = time.Now()
		h := &retrynats.Handler{Handle: func(context.Context, jetstream.Msg) error {
			time.Sleep(500 * ms)
			return nil
		}}
		first, second := newFakeQueue(j), newFakeQueue(j)
		for _, q := range []*fakeQueue{first, second} {
			stop := q.consume(t, h)
			defer stop()
			for range 2 {
				q.give(&fakeMsg{j: j, deliveries: 1})
			}
		}
		time.Sleep(time.Second)
		j.want(t, "500ms ack", "500ms ack", "500ms ack", "500ms ack")
	})
}
