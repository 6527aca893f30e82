package otelretry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	otelretry "github.com/goretry/retry/otel"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retrytest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"
)

func fails(d time.Duration) retrytest.Step[int]    { return retrytest.Fail[int](errDown).Taking(d) }
func succeeds(d time.Duration) retrytest.Step[int] { return retrytest.Return(1).Taking(d) }

const ms = time.Millisecond

func TestFirstTrySuccess(t *testing.T) {
	v := view(t, retry.Policy{Name: "fetch"})
	v.run(t.Context(), succeeds(30*ms))
	v.wantSpans(`
		fetch 0s-30ms name=fetch max_attempts=3 attempts=1 outcome=success_first_try
		  attempt 1 fetch 0s-30ms name=fetch attempt=1`)
	v.wantMetrics(`
		retry.attempt.duration [s] name=fetch: 1 runs, sum 0.03
		retry.operation.attempts [{attempt}] name=fetch outcome=success_first_try: 1 runs, sum 1
		retry.operation.duration [s] name=fetch outcome=success_first_try: 1 runs, sum 0.03`)
}

func TestSuccessAfterRetries(t *testing.T) {
	v := view(t, retry.Policy{Name: "fetch", MaxAttempts: 4})
	v.run(t.Context(),
		fails(50*ms),
		retrytest.Fail[int](retry.After(errDown, 300*ms)).Taking(10*ms),
		succeeds(30*ms))
	v.wantSpans(`
		fetch 0s-690ms name=fetch max_attempts=4 attempts=3 outcome=success_after_retry waited=0.6
		  attempt 1 fetch 0s-50ms name=fetch attempt=1 class=transient error.type=*errors.errorString Error "connection refused"
		  wait fetch 50ms-150ms name=fetch attempt=1 delay=0.1 class=transient error.type=*errors.errorString
		  attempt 2 fetch 150ms-160ms name=fetch attempt=2 class=throttled error.type=*errors.errorString hint=0.3 Error "connection refused"
		  wait fetch 160ms-660ms name=fetch attempt=2 delay=0.5 class=throttled error.type=*errors.errorString hint=0.3
		  attempt 3 fetch 660ms-690ms name=fetch attempt=3`)
	v.wantMetrics(`
		retry.attempt.duration [s] error.type=*errors.errorString class=throttled name=fetch: 1 runs, sum 0.01
		retry.attempt.duration [s] error.type=*errors.errorString class=transient name=fetch: 1 runs, sum 0.05
		retry.attempt.duration [s] name=fetch: 1 runs, sum 0.03
		retry.operation.attempts [{attempt}] name=fetch outcome=success_after_retry: 1 runs, sum 3
		retry.operation.duration [s] name=fetch outcome=success_after_retry: 1 runs, sum 0.69
		retry.operation.waited [s] name=fetch: 1 runs, sum 0.6`)
}

type refuse struct{}

func (refuse) Withdraw(retry.Withdrawal) bool { return false }
func (refuse) End(retry.Outcome)              {}

func TestEachReason(t *testing.T) {
	for _, tt := range []struct {
		reason   retry.Reason
		policy   retry.Policy
		err      error
		attempts int
	}{
		{retry.ReasonPermanent, retry.Policy{}, retry.Stop(errDown), 1},
		{retry.ReasonRefused, retry.Policy{}, retry.Refuse(errDown), 1},
		{retry.ReasonNotIdempotent, retry.Policy{NonIdempotent: true}, errDown, 1},
		{retry.ReasonMaxAttempts, retry.Policy{}, errDown, 3},
		{retry.ReasonMaxElapsed, retry.Policy{MaxAttempts: 3, MaxElapsed: 200 * ms}, errDown, 2},
		{retry.ReasonRetryAfter, retry.Policy{}, retry.After(errDown, time.Hour), 1},
		{retry.ReasonBudget, retry.Policy{Budget: refuse{}}, errDown, 1},
		{retry.ReasonDeadline, retry.Policy{}, errDown, 2},
	} {
		t.Run(tt.reason.String(), func(t *testing.T) {
			v := view(t, tt.policy)
			ctx := t.Context()
			if tt.reason == retry.ReasonDeadline {
				var cancel context.CancelFunc
				ctx, cancel = v.h.Clock.WithTimeoutCause(ctx, 200*ms, nil)
				defer cancel()
			}
			v.run(ctx, retrytest.Fail[int](tt.err), retrytest.Fail[int](tt.err), retrytest.Fail[int](tt.err))
			outcome := "failure_first_try"
			if tt.attempts > 1 {
				outcome = "failure_after_retry"
			}
			tree := v.tree()
			waited := []string{"", "", " waited=0.1", " waited=0.3"}[tt.attempts]
			run := fmt.Sprintf(" max_attempts=3 attempts=%d outcome=%s reason=%s error.type=retry.%[3]s%s Error %q\n",
				tt.attempts, outcome, tt.reason, waited, tt.reason.String()+": connection refused")
			gaveUp := fmt.Sprintf(" retry.gave_up reason=%s attempts=%d\n", tt.reason, tt.attempts)
			if tt.reason == retry.ReasonRetryAfter {
				gaveUp = strings.TrimSuffix(gaveUp, "\n") + " hint=3600\n"
			}
			if !strings.Contains(tree, run) || !strings.Contains(tree, gaveUp) || strings.Count(tree, "\n  wait ") != tt.attempts-1 {
				t.Errorf("spans:\n%swant %d waits and\n%s%s", tree, tt.attempts-1, run, gaveUp)
			}
			got := metrics(t, v.reader)
			for _, want := range []string{
				fmt.Sprintf("retry.gave_up [{operation}] error.type=*errors.errorString reason=%s: 1\n", tt.reason),
				fmt.Sprintf("retry.operation.duration [s] error.type=retry.%s outcome=%s: 1 runs", tt.reason, outcome),
				fmt.Sprintf("retry.operation.attempts [{attempt}] outcome=%s: 1 runs, sum %d\n", outcome, tt.attempts),
			} {
				if !strings.Contains(got, want) {
					t.Errorf("metrics:\n%swant %s", got, want)
				}
			}
		})
	}
}

func TestGivingUpTellsWhen(t *testing.T) {
	v := view(t, retry.Policy{MaxAttempts: 2})
	v.run(t.Context(), fails(10*ms), fails(20*ms))
	v.wantSpans(`
		retry 0s-130ms max_attempts=2 attempts=2 outcome=failure_after_retry reason=max_attempts error.type=retry.max_attempts waited=0.1 Error "max_attempts: connection refused"
		  @130ms retry.gave_up reason=max_attempts attempts=2
		  attempt 1 0s-10ms attempt=1 class=transient error.type=*errors.errorString Error "connection refused"
		  wait 10ms-110ms attempt=1 delay=0.1 class=transient error.type=*errors.errorString
		  attempt 2 110ms-130ms attempt=2 class=transient error.type=*errors.errorString Error "connection refused"`)
}

func TestCanceledByItsCaller(t *testing.T) {
	t.Run("during an attempt", func(t *testing.T) {
		v := view(t, retry.Policy{MaxAttempts: retry.Unlimited})
		ctx, cancel := context.WithCancel(t.Context())
		v.h.Clock.AfterFunc(20*ms, cancel)
		v.run(ctx, fails(50*ms))
		v.wantSpans(`
			retry 0s-20ms attempts=1 outcome=canceled
			  @20ms retry.gave_up reason=canceled attempts=1
			  attempt 1 0s-20ms attempt=1 class=unknown`)
		v.wantMetrics(`
			retry.attempt.duration [s] class=unknown: 1 runs, sum 0.02
			retry.gave_up [{operation}] reason=canceled: 1
			retry.operation.attempts [{attempt}] outcome=canceled: 1 runs, sum 1
			retry.operation.duration [s] outcome=canceled: 1 runs, sum 0.02`)
	})
	t.Run("during a wait", func(t *testing.T) {
		v := view(t, retry.Policy{})
		ctx, cancel := context.WithCancel(t.Context())
		v.h.Clock.AfterFunc(60*ms, cancel)
		v.run(ctx, fails(0))
		v.wantSpans(`
			retry 0s-60ms max_attempts=3 attempts=1 outcome=canceled waited=0.06
			  @60ms retry.gave_up reason=canceled attempts=1
			  attempt 1 0s-0s attempt=1 class=transient error.type=*errors.errorString Error "connection refused"
			  wait 0s-60ms attempt=1 delay=0.1 class=transient error.type=*errors.errorString`)
		v.wantMetrics(`
			retry.attempt.duration [s] error.type=*errors.errorString class=transient: 1 runs, sum 0
			retry.gave_up [{operation}] error.type=*errors.errorString reason=canceled: 1
			retry.operation.attempts [{attempt}] outcome=canceled: 1 runs, sum 1
			retry.operation.duration [s] outcome=canceled: 1 runs, sum 0.06
			retry.operation.waited [s]: 1 runs, sum 0.06`)
	})
	t.Run("before the run", func(t *testing.T) {
		v := view(t, retry.Policy{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		v.run(ctx)
		v.wantSpans(`
			retry 0s-0s max_attempts=3 attempts=0 outcome=canceled
			  @0s retry.gave_up reason=canceled attempts=0`)
		v.wantMetrics(`
			retry.gave_up [{operation}] reason=canceled: 1
			retry.operation.attempts [{attempt}] outcome=canceled: 1 runs, sum 0
			retry.operation.duration [s] outcome=canceled: 1 runs, sum 0`)
	})
}

// stopped is a context that says in its own words that it was canceled.
type stopped struct{ context.Context }

func (c stopped) Err() error {
	if c.Context.Err() != nil {
		return errors.New("stopped")
	}
	return nil
}

// The cancel ends an attempt whose own error says otherwise.
func TestWhatACancelEndsIsNoError(t *testing.T) {
	for name, cancelled := range map[string]func(context.Context) context.Context{
		"by context": func(ctx context.Context) context.Context { return ctx },
		"by another": func(ctx context.Context) context.Context { return stopped{ctx} },
	} {
		t.Run(name, func(t *testing.T) {
			v := view(t, retry.Policy{AttemptTimeout: time.Second}).withoutEvents()
			ctx, cancel := context.WithCancel(t.Context())
			_ = retry.Run(cancelled(ctx), v.h.Policy, func(context.Context) error {
				cancel()
				return errDown
			})
			v.wantSpans(`
				retry 0s-0s max_attempts=3 attempts=1 outcome=canceled
				  attempt 1 0s-0s attempt=1 class=unknown`)
			if got, want := metrics(t, v.reader), "retry.attempt.duration [s] class=unknown: 1 runs"; !strings.Contains(got, want) {
				t.Errorf("metrics:\n%swant %s", got, want)
			}
		})
	}
	t.Run("but not a panic", func(t *testing.T) {
		v := view(t, retry.Policy{}).withoutEvents()
		ctx, cancel := context.WithCancel(t.Context())
		func() {
			defer func() { _ = recover() }()
			_ = retry.Run(ctx, v.h.Policy, func(context.Context) error {
				cancel()
				panic("boom")
			})
		}()
		v.wantSpans(`
			retry 0s-0s max_attempts=3 attempts=1 outcome=failure_first_try reason=panic error.type=retry.panic Error "panic: retry: panic or runtime.Goexit during the run"
			  attempt 1 0s-0s attempt=1 class=unknown error.type=retry.panic Error "retry: panic or runtime.Goexit during the run"`)
	})
	t.Run("nor a deadline", func(t *testing.T) {
		v := view(t, retry.Policy{}).withoutEvents()
		ctx, cancel := v.h.Clock.WithTimeoutCause(t.Context(), 10*ms, nil)
		defer cancel()
		v.run(ctx, fails(time.Second))
		v.wantSpans(`
			retry 0s-10ms max_attempts=3 attempts=1 outcome=failure_first_try reason=deadline error.type=retry.deadline Error "deadline: context deadline exceeded"
			  attempt 1 0s-10ms attempt=1 class=unknown error.type=context.deadlineExceededError Error "context deadline exceeded"`)
	})
}

// A poll is no outage: what Until did not accept is no error. That it gave up is one.
func TestAPollIsNoOutage(t *testing.T) {
	v := view(t, retry.Policy{MaxAttempts: 4})
	answers := []error{retry.ErrRejected, fmt.Errorf("pending: %w", retry.ErrRejected), errors.Join(errDown, retry.ErrRejected),
		retry.Run(t.Context(), retry.Policy{MaxAttempts: 1}, func(context.Context) error { return retry.ErrRejected })}
	_ = retry.Run(t.Context(), v.h.Policy, func(ctx context.Context) error { return answers[retry.AttemptNumber(ctx)-1] })
	v.wantSpans(`
		retry 0s-700ms max_attempts=4 attempts=4 outcome=failure_after_retry reason=max_attempts error.type=retry.max_attempts waited=0.7 Error "max_attempts: max_attempts: retry: value not accepted"
		  @700ms retry.gave_up reason=max_attempts attempts=4
		  attempt 1 0s-0s attempt=1 class=transient
		  wait 0s-100ms attempt=1 delay=0.1 class=transient
		  attempt 2 100ms-100ms attempt=2 class=transient
		  wait 100ms-300ms attempt=2 delay=0.2 class=transient
		  attempt 3 300ms-300ms attempt=3 class=transient
		  wait 300ms-700ms attempt=3 delay=0.4 class=transient
		  attempt 4 700ms-700ms attempt=4 class=transient error.type=retry.max_attempts Error "max_attempts: retry: value not accepted"`)
	for _, want := range []string{
		"retry.attempt.duration [s] class=transient: 3 runs",
		"retry.attempt.duration [s] error.type=retry.max_attempts class=transient: 1 runs",
	} {
		if got := metrics(t, v.reader); !strings.Contains(got, want) {
			t.Errorf("metrics:\n%swant %s", got, want)
		}
	}
}

func TestATickIsNoError(t *testing.T) {
	v := view(t, retry.Policy{MaxAttempts: 2}, otelretry.WithWaits(false)).withoutEvents()
	for range retry.NewTicker(t.Context(), v.h.Policy).C {
	}
	v.wantSpans(`
		retry 0s-100ms max_attempts=2 attempts=2 outcome=failure_after_retry reason=max_attempts error.type=retry.max_attempts waited=0.1 Error "max_attempts: retry: value not accepted"
		  attempt 1 0s-0s attempt=1 class=transient
		  attempt 2 100ms-100ms attempt=2 class=transient`)
}

// Nor is a value that Until did not accept an error if it came too late.
func TestALatePollIsNoOutage(t *testing.T) {
	v := view(t, retry.Policy{MaxAttempts: 1, AttemptTimeout: time.Second}).withoutEvents()
	_ = retry.Run(t.Context(), v.h.Policy, func(ctx context.Context) error {
		_ = v.h.Clock.Sleep(ctx, time.Hour)
		return retry.ErrRejected
	})
	v.wantSpans(`
		retry 0s-1s max_attempts=1 attempts=1 outcome=failure_first_try reason=max_attempts error.type=retry.max_attempts Error "max_attempts: retry: value not accepted"
		  attempt 1 0s-1s attempt=1 class=timed_out`)
}

// An answer that the caller expects is a success, whatever kind of spans there are.
func TestAnAnswerIsNoFailure(t *testing.T) {
	answer := fmt.Errorf("get: %w", retry.Answer(errDown))
	v := view(t, retry.Policy{})
	v.run(t.Context(), fails(0), retrytest.Fail[int](answer))
	v.wantSpans(`
		retry 0s-100ms max_attempts=3 attempts=2 outcome=success_after_retry waited=0.1
		  attempt 1 0s-0s attempt=1 class=transient error.type=*errors.errorString Error "connection refused"
		  wait 0s-100ms attempt=1 delay=0.1 class=transient error.type=*errors.errorString
		  attempt 2 100ms-100ms attempt=2`)
	got := metrics(t, v.reader)
	for _, want := range []string{"retry.attempt.duration [s]: 1 runs", "retry.operation.duration [s] outcome=success_after_retry: 1 runs"} {
		if !strings.Contains(got, want) {
			t.Errorf("metrics:\n%swant %s", got, want)
		}
	}
	if strings.Contains(got, "gave_up") {
		t.Errorf("metrics:\n%swant no run that gave up", got)
	}
	v = view(t, retry.Policy{}, otelretry.WithAttempts(otelretry.RetriedRuns))
	v.inSpan(t.Context(), func(ctx context.Context) { v.run(ctx, retrytest.Fail[int](answer)) })
	v.wantSpans(`caller 0s-0s kind server`)
}

// A mark says more: what is stopped is an error, also with a value that was refused.
func TestAPollThatIsStoppedIsAnError(t *testing.T) {
	v := view(t, retry.Policy{}).withoutEvents()
	v.run(t.Context(), retrytest.Fail[int](retry.Stop(fmt.Errorf("gone: %w", retry.ErrRejected))))
	v.wantSpans(`
		retry 0s-0s max_attempts=3 attempts=1 outcome=failure_first_try reason=permanent error.type=retry.permanent Error "permanent: gone: retry: value not accepted"
		  attempt 1 0s-0s attempt=1 class=permanent error.type=*errors.errorString Error "gone: retry: value not accepted"`)
}

// A poll that takes days must not fill anyone's memory with its spans.
func TestALongRunShows32Attempts(t *testing.T) {
	for _, tt := range []struct {
		name   string
		opts   []otelretry.Option
		spans  string
		events int // waits that have no span, and that it gave up
	}{
		{"all", nil, "32 attempts, 32 waits", 1},
		{"retried runs", []otelretry.Option{otelretry.WithAttempts(otelretry.RetriedRuns)}, "32 attempts, 32 waits", 1},
		{"no attempts", []otelretry.Option{otelretry.WithAttempts(otelretry.NoAttempts)}, "0 attempts, 32 waits", 1},
		{"no waits", []otelretry.Option{otelretry.WithWaits(false)}, "32 attempts, 0 waits", 33},
		{"neither", []otelretry.Option{otelretry.WithAttempts(otelretry.NoAttempts), otelretry.WithWaits(false)}, "0 attempts, 0 waits", 33},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := view(t, retry.Policy{Name: "poll", MaxAttempts: 40, Backoff: retry.Constant(time.Second)}, tt.opts...)
			var above []string // the spans that the last attempts are called in
			v.inSpan(t.Context(), func(ctx context.Context) {
				_ = retry.Run(ctx, v.h.Policy, func(ctx context.Context) error {
					if retry.AttemptNumber(ctx) > 32 {
						above = append(above, oteltrace.SpanFromContext(ctx).(trace.ReadOnlySpan).Name())
					}
					return errDown
				})
			})
			if want := slices.Repeat([]string{"poll"}, 8); !slices.Equal(above, want) {
				t.Errorf("attempts 33 to 40 are called in %q, want %q", above, want)
			}
			attempts, waits := 0, 0
			for _, s := range v.spans.Ended() {
				number := 0
				for _, kv := range s.Attributes() {
					if kv.Key == "retry.attempt" {
						number = int(kv.Value.AsInt64())
					}
				}
				name := "attempt poll"
				switch {
				case s.Name() == "wait poll":
					waits++
				case s.Name() == "poll":
					if len(s.Events()) != tt.events {
						t.Errorf("%d events, want %d", len(s.Events()), tt.events)
					}
					if got, want := attributes(s.Attributes()), " name=poll max_attempts=40 attempts=40 outcome=failure_after_retry reason=max_attempts error.type=retry.max_attempts waited=39"; got != want {
						t.Errorf("the run has%s, want%s", got, want)
					}
				case s.SpanKind() == oteltrace.SpanKindInternal:
					attempts++
					if number <= 16 {
						name = fmt.Sprintf("attempt %d poll", number)
					}
					if s.Name() != name {
						t.Errorf("attempt %d is called %s, want %s", number, s.Name(), name)
					}
				}
			}
			if got := fmt.Sprintf("%d attempts, %d waits", attempts, waits); got != tt.spans {
				t.Errorf("spans of %s, want %s", got, tt.spans)
			}
		})
	}
}

// deliver makes one delivery of a message as a queue does: Done says success for a
// delivery that another one is to follow.
func (v *viewer) deliver(ctx context.Context, number int, delay time.Duration) {
	h, p := v.h.Policy.Hooks, v.h.Policy
	ctx = h.Start(ctx, p)
	a := retry.Attempt{Name: p.Name, Number: number, Start: v.h.Clock.Now()}
	actx := h.Attempt(ctx, a)
	v.h.Clock.Advance(10 * ms)
	a.Duration, a.Elapsed, a.Err, a.Class, a.Delay = 10*ms, 10*ms, errDown, retry.Transient, delay
	h.AttemptDone(actx, a)
	if delay > 0 {
		h.Wait(ctx, a)
	}
	h.Done(ctx, retry.Summary{Name: p.Name, Attempts: number, Elapsed: 10 * ms})
}

// Its wait is the queue's: no span of this process is as long.
func TestADeliveryThatAnotherOneFollows(t *testing.T) {
	for _, mode := range []otelretry.Attempts{otelretry.AllAttempts, otelretry.RetriedRuns} {
		v := view(t, retry.Policy{Name: "job"}, otelretry.WithAttempts(mode))
		v.inSpan(t.Context(), func(ctx context.Context) { v.deliver(ctx, 40, time.Hour) })
		v.wantSpans(`
			caller 0s-10ms kind server
			  job 0s-10ms name=job max_attempts=3 attempts=40 outcome=success_after_retry
			    attempt job 0s-10ms name=job attempt=40 class=transient error.type=*errors.errorString Error "connection refused"`)
		v.wantMetrics(`
			retry.attempt.duration [s] error.type=*errors.errorString class=transient name=job: 1 runs, sum 0.01
			retry.operation.attempts [{attempt}] name=job outcome=success_after_retry: 1 runs, sum 40
			retry.operation.duration [s] name=job outcome=success_after_retry: 1 runs, sum 0.01`)
	}
}

// A life that another one is to follow has no wait either.
func TestALifeThatAnotherOneFollows(t *testing.T) {
	for _, mode := range []otelretry.Attempts{otelretry.AllAttempts, otelretry.RetriedRuns} {
		v := view(t, retry.Policy{Name: "feed"}, otelretry.WithAttempts(mode))
		v.inSpan(t.Context(), func(ctx context.Context) { v.deliver(ctx, 1, 0) })
		v.wantSpans(`
			caller 0s-10ms kind server
			  feed 0s-10ms name=feed max_attempts=3 attempts=1 outcome=success_first_try
			    attempt 1 feed 0s-10ms name=feed attempt=1 class=transient error.type=*errors.errorString Error "connection refused"`)
	}
}

// The pause after a healthy life belongs to the life that follows.
func TestThePauseBetweenTwoLives(t *testing.T) {
	for _, mode := range []otelretry.Attempts{otelretry.AllAttempts, otelretry.RetriedRuns} {
		v := view(t, retry.Policy{Name: "feed", MaxAttempts: 5}, otelretry.WithAttempts(mode))
		var paused string
		v.h.Clock.AfterFunc(time.Minute+50*ms, func() { paused = metrics(t, v.reader) })
		v.inSpan(t.Context(), func(ctx context.Context) {
			lives := 0
			_ = retry.Supervise(ctx, v.h.Policy, time.Minute, func(context.Context) error {
				if lives++; lives == 1 {
					v.h.Clock.Advance(time.Minute)
					return retry.After(errDown, 300*ms)
				}
				v.h.Clock.Advance(10 * ms)
				return nil
			})
		})
		first := "\n  feed 0s-1m0s name=feed max_attempts=5 attempts=1 outcome=success_first_try" +
			"\n    attempt 1 feed 0s-1m0s name=feed attempt=1 class=throttled error.type=*errors.errorString hint=0.3 Error \"connection refused\""
		v.wantSpans("caller 0s-1m0.41s kind server" + first + `
  feed 1m0s-1m0.41s name=feed max_attempts=5 attempts=1 outcome=success_first_try waited=0.4
    wait feed 1m0s-1m0.4s name=feed attempt=0 delay=0.4 class=throttled error.type=*errors.errorString hint=0.3
    attempt 1 feed 1m0.4s-1m0.41s name=feed attempt=1`)
		if want := "retry.operation.active [{operation}] name=feed state=waiting: 1"; !strings.Contains(paused, want) {
			t.Errorf("in the pause:\n%swant %s", paused, want)
		}
	}
}

// After the pause between two lives the attempt waits for its turn, too.
func TestATurnAfterAPauseLosesNoSpan(t *testing.T) {
	for _, mode := range []otelretry.Attempts{otelretry.AllAttempts, otelretry.RetriedRuns} {
		v := view(t, retry.Policy{Name: "feed", MaxAttempts: 5}, otelretry.WithAttempts(mode))
		p := v.h.Policy
		pace := &pace.Pace{Clock: p.Clock}
		p.Guards = []retry.Guard{pace}
		v.inSpan(t.Context(), func(ctx context.Context) {
			lives := 0
			_ = retry.Supervise(ctx, p, time.Minute, func(context.Context) error {
				if lives++; lives == 1 {
					v.h.Clock.Advance(time.Minute)
					pace.Hold(time.Second)
					return errDown
				}
				return nil
			})
		})
		if started, ended := len(v.spans.Started()), len(v.spans.Ended()); started != ended {
			t.Errorf("%v: %d spans have begun, %d have ended:\n%s", mode, started, ended, v.tree())
		}
		if waits, turns := strings.Count(v.tree(), "wait feed"), strings.Count(v.tree(), "guard feed"); waits != 1 || turns != 1 {
			t.Errorf("%v: %d spans of waits and %d of turns, want one each:\n%s", mode, waits, turns, v.tree())
		}
	}
}

// A pause that its caller cuts short.
func TestAPauseThatIsCutShort(t *testing.T) {
	for _, mode := range []otelretry.Attempts{otelretry.AllAttempts, otelretry.RetriedRuns} {
		synctest.Test(t, func(t *testing.T) {
			v := view(t, retry.Policy{}, otelretry.WithAttempts(mode))
			v.start = time.Now()
			p := v.h.Policy
			p.Clock = nil
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			time.AfterFunc(time.Second+50*ms, cancel)
			_ = retry.Supervise(ctx, p, time.Second, func(context.Context) error {
				time.Sleep(time.Second)
				return errDown
			})
			want := `
  retry 1s-1.05s attempts=0 outcome=canceled waited=0.05
    @1.05s retry.gave_up reason=canceled attempts=0
    wait 1s-1.05s attempt=0 delay=0.1 class=transient error.type=*errors.errorString
`
			if got := "\n" + strings.ReplaceAll("  "+v.tree(), "\n", "\n  "); !strings.Contains(got, want) {
				t.Errorf("spans:%swant%s", got, want)
			}
			wantGaveUp(t, v, " reason=canceled")
		})
	}
}

func TestDeadlineBeforeTheRun(t *testing.T) {
	v := view(t, retry.Policy{}).withoutEvents()
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	v.run(ctx)
	v.wantSpans(`
		retry 0s-0s max_attempts=3 attempts=0 outcome=failure_first_try reason=deadline error.type=retry.deadline Error "deadline: context deadline exceeded"`)
}

func TestPanicAndGoexitEndTheSpans(t *testing.T) {
	for name, leave := range map[string]func(){
		"panic":  func() { panic("boom") },
		"Goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			v := view(t, retry.Policy{})
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer func() { _ = recover() }()
				_ = retry.Run(context.Background(), v.h.Policy, func(context.Context) error {
					v.h.Clock.Advance(10 * ms)
					leave()
					return nil
				})
			}()
			<-done
			v.wantSpans(`
				retry 0s-10ms max_attempts=3 attempts=1 outcome=failure_first_try reason=panic error.type=retry.panic Error "panic: retry: panic or runtime.Goexit during the run"
				  @10ms retry.gave_up reason=panic attempts=1
				  attempt 1 0s-10ms attempt=1 class=unknown error.type=retry.panic Error "retry: panic or runtime.Goexit during the run"`)
			v.wantMetrics(`
				retry.attempt.duration [s] error.type=retry.panic class=unknown: 1 runs, sum 0.01
				retry.gave_up [{operation}] error.type=retry.panic reason=panic: 1
				retry.operation.attempts [{attempt}] outcome=failure_first_try: 1 runs, sum 1
				retry.operation.duration [s] error.type=retry.panic outcome=failure_first_try: 1 runs, sum 0.01`)
		})
	}
}

// A run whose start another hook breaks off has an end, and its span too.
func TestPanicInTheStartOfAnotherHookLeavesNoSpanOpen(t *testing.T) {
	v := view(t, retry.Policy{})
	p := v.h.Policy
	p.Hooks = retry.JoinHooks(v.hooks, retry.Hooks{Start: func(context.Context, retry.Policy) context.Context { panic("boom") }})
	func() {
		defer func() { _ = recover() }()
		_ = retry.Run(t.Context(), p, succeed)
	}()
	v.wantSpans(`
		retry 0s-0s max_attempts=3 attempts=0 outcome=failure_first_try reason=panic error.type=retry.panic Error "panic: retry: panic or runtime.Goexit during the run"
		  @0s retry.gave_up reason=panic attempts=0`)
}

func TestPanicInAnotherHookLosesNoSpan(t *testing.T) {
	v := view(t, retry.Policy{})
	v.h.Policy.Hooks = retry.JoinHooks(v.h.Policy.Hooks, retry.Hooks{
		Attempt: func(context.Context, retry.Attempt) context.Context { panic("boom") },
	})
	func() {
		defer func() { _ = recover() }()
		v.run(t.Context(), succeeds(0))
	}()
	v.wantSpans(`
		retry 0s-0s max_attempts=3 attempts=0 outcome=failure_first_try reason=panic error.type=retry.panic Error "panic: retry: panic or runtime.Goexit during the run"
		  @0s retry.gave_up reason=panic attempts=0
		  attempt 1 0s-0s attempt=1 class=unknown error.type=retry.panic Error "retry: panic or runtime.Goexit during the run"`)
}

func TestOtherHooksFindTheAttemptsSpan(t *testing.T) {
	v := view(t, retry.Policy{MaxAttempts: 2})
	var found []string
	find := func(ctx context.Context, _ retry.Attempt) {
		found = append(found, oteltrace.SpanFromContext(ctx).(trace.ReadOnlySpan).Name())
	}
	v.h.Policy.Hooks = retry.JoinHooks(v.h.Policy.Hooks, retry.Hooks{AttemptDone: find, Wait: find})
	v.run(t.Context(), fails(0), fails(0))
	if want := []string{"attempt 1", "retry", "attempt 2"}; !slices.Equal(found, want) {
		t.Errorf("other hooks are called in %q, want %q", found, want)
	}
}

func TestTwoHooksInOneRun(t *testing.T) {
	v, w := view(t, retry.Policy{}), view(t, retry.Policy{})
	v.h.Policy.Hooks = retry.JoinHooks(v.h.Policy.Hooks, w.hooks)
	v.run(t.Context(), fails(10*ms), succeeds(0))
	want := `
		retry 0s-110ms max_attempts=3 attempts=2 outcome=success_after_retry waited=0.1
		  attempt 1 0s-10ms attempt=1 class=transient error.type=*errors.errorString Error "connection refused"
		  wait 10ms-110ms attempt=1 delay=0.1 class=transient error.type=*errors.errorString
		  attempt 2 110ms-110ms attempt=2`
	v.wantSpans(want)
	if got := len(w.spans.Ended()); got != 4 {
		t.Errorf("%d spans of the second, want 4", got)
	}
}

func TestWhatTheOperationTracesIsBelowItsAttempt(t *testing.T) {
	v := view(t, retry.Policy{})
	tracer := v.traces.Tracer("client")
	_ = retry.Run(t.Context(), v.h.Policy, func(ctx context.Context) error {
		_, span := tracer.Start(ctx, fmt.Sprint("GET ", retry.AttemptNumber(ctx)),
			oteltrace.WithTimestamp(v.h.Clock.Now()), oteltrace.WithSpanKind(oteltrace.SpanKindClient))
		span.End(oteltrace.WithTimestamp(v.h.Clock.Now()))
		if retry.AttemptNumber(ctx) == 2 {
			return nil
		}
		return errDown
	})
	v.wantSpans(`
		retry 0s-100ms max_attempts=3 attempts=2 outcome=success_after_retry waited=0.1
		  attempt 1 0s-0s attempt=1 class=transient error.type=*errors.errorString Error "connection refused"
		    GET 1 0s-0s kind client
		  wait 0s-100ms attempt=1 delay=0.1 class=transient error.type=*errors.errorString
		  attempt 2 100ms-100ms attempt=2
		    GET 2 100ms-100ms kind client`)
}

func TestNestedRuns(t *testing.T) {
	v := view(t, retry.Policy{Name: "outer", MaxAttempts: 2})
	calls := 0
	_ = retry.Run(t.Context(), v.h.Policy, func(ctx context.Context) error {
		return retry.Run(ctx, v.h.Policy.Named("inner"), func(context.Context) error {
			v.h.Clock.Advance(10 * ms)
			if calls++; calls < 4 {
				return errDown
			}
			return nil
		})
	})
	v.wantSpans(`
		outer 0s-340ms name=outer max_attempts=2 attempts=2 outcome=success_after_retry waited=0.1
		  attempt 1 outer 0s-120ms name=outer attempt=1 class=transient error.type=retry.max_attempts Error "max_attempts: connection refused"
		    inner 0s-120ms name=inner max_attempts=2 attempts=2 outcome=failure_after_retry reason=max_attempts error.type=retry.max_attempts waited=0.1 Error "max_attempts: connection refused"
		      @120ms retry.gave_up reason=max_attempts attempts=2
		      attempt 1 inner 0s-10ms name=inner attempt=1 class=transient error.type=*errors.errorString Error "connection refused"
		      wait inner 10ms-110ms name=inner attempt=1 delay=0.1 class=transient error.type=*errors.errorString
		      attempt 2 inner 110ms-120ms name=inner attempt=2 class=transient error.type=*errors.errorString Error "connection refused"
		  wait outer 120ms-220ms name=outer attempt=1 delay=0.1 class=transient error.type=retry.max_attempts
		  attempt 2 outer 220ms-340ms name=outer attempt=2
		    inner 220ms-340ms name=inner max_attempts=2 attempts=2 outcome=success_after_retry waited=0.1
		      attempt 1 inner 220ms-230ms name=inner attempt=1 class=transient error.type=*errors.errorString Error "connection refused"
		      wait inner 230ms-330ms name=inner attempt=1 delay=0.1 class=transient error.type=*errors.errorString
		      attempt 2 inner 330ms-340ms name=inner attempt=2`)
}

// dropping samples everything but runs named inner.
type dropping struct{}

func (dropping) Description() string { return "dropping" }
func (dropping) ShouldSample(p trace.SamplingParameters) trace.SamplingResult {
	if p.Name == "inner" {
		return trace.NeverSample().ShouldSample(p)
	}
	return trace.AlwaysSample().ShouldSample(p)
}

func viewDropping(t *testing.T, name string, opts ...otelretry.Option) *viewer {
	spans := tracetest.NewSpanRecorder()
	provider := trace.NewTracerProvider(trace.WithSampler(dropping{}), trace.WithSpanProcessor(spans))
	v := view(t, retry.Policy{Name: name}, append(opts, otelretry.WithTracerProvider(provider))...)
	v.spans = spans
	return v
}

func TestAnUnsampledInnerRunLeavesTheOuterOnesSpansAlone(t *testing.T) {
	v := viewDropping(t, "outer")
	_ = retry.Run(t.Context(), v.h.Policy, func(ctx context.Context) error {
		err := retry.Run(ctx, v.h.Policy.Named("inner"), func(context.Context) error { return errDown })
		v.h.Clock.Advance(10 * ms)
		return retry.Stop(err)
	})
	v.wantSpans(`
		outer 0s-310ms name=outer max_attempts=3 attempts=1 outcome=failure_first_try reason=permanent error.type=retry.permanent Error "permanent: max_attempts: connection refused"
		  @310ms retry.gave_up reason=permanent attempts=1
		  attempt 1 outer 0s-310ms name=outer attempt=1 class=permanent error.type=retry.max_attempts Error "max_attempts: connection refused"`)
}

func TestConcurrentRunsShareHooks(t *testing.T) {
	v := view(t, retry.Policy{Name: "fetch", Backoff: retry.Constant(0)}, otelretry.WithAttributes(attribute.String("region", "eu")))
	p := v.h.Policy
	p.Clock = nil
	other := view(t, retry.Policy{}, otelretry.WithAttempts(otelretry.RetriedRuns))
	p.Hooks = retry.JoinHooks(v.hooks, other.hooks)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 50 {
				_ = retry.Run(t.Context(), p, func(ctx context.Context) error {
					if retry.AttemptNumber(ctx) < 3 {
						return errDown
					}
					return nil
				})
			}
		})
	}
	wg.Wait()
	want := "attempts [{attempt}] region=eu name=fetch outcome=success_after_retry: 800 runs, sum 2400\n"
	if got := metrics(t, v.reader); !strings.Contains(got, want) {
		t.Errorf("metrics:\n%swant %s", got, want)
	}
	if got := len(other.spans.Ended()); got != 16*50*6 {
		t.Errorf("%d spans of retried runs, want %d", got, 16*50*6)
	}
	if got := len(v.spans.Ended()); got != 16*50*6 {
		t.Fatalf("%d spans, want %d", got, 16*50*6)
	}
	runs := map[oteltrace.SpanID]string{}
	for _, s := range v.spans.Ended() {
		if s.Name() != "fetch" {
			runs[s.Parent().SpanID()] += fmt.Sprintln(s.Name() + attributes(s.Attributes()))
			continue
		}
		if want := " region=eu name=fetch max_attempts=3 attempts=3 outcome=success_after_retry"; !strings.HasPrefix(attributes(s.Attributes()), want+" waited=") || len(s.Events()) != 0 {
			t.Fatalf("run has%s and %d events, want%s and none", attributes(s.Attributes()), len(s.Events()), want)
		}
	}
	failed := "attempt %d fetch region=eu name=fetch attempt=%[1]d class=transient error.type=*errors.errorString\n" +
		"wait fetch region=eu name=fetch attempt=%[1]d delay=0 class=transient error.type=*errors.errorString\n"
	want = fmt.Sprintf(failed, 1) + fmt.Sprintf(failed, 2) + "attempt 3 fetch region=eu name=fetch attempt=3\n"
	for _, got := range runs {
		if got != want {
			t.Fatalf("attempts:\n%swant:\n%s", got, want)
		}
	}
}

// inSpan calls f below a span of the caller.
func (v *viewer) inSpan(ctx context.Context, f func(context.Context)) {
	ctx, span := v.traces.Tracer("caller").Start(ctx, "caller", oteltrace.WithTimestamp(v.start), oteltrace.WithSpanKind(oteltrace.SpanKindServer))
	f(ctx)
	span.End(oteltrace.WithTimestamp(v.h.Clock.Now()))
}

func TestRetriedRuns(t *testing.T) {
	option := otelretry.WithAttempts(otelretry.RetriedRuns)
	t.Run("first-try success", func(t *testing.T) {
		v := view(t, retry.Policy{}, option)
		v.inSpan(t.Context(), func(ctx context.Context) { v.run(ctx, succeeds(ms)) })
		v.wantSpans(`caller 0s-1ms kind server`)
	})
	t.Run("retried", func(t *testing.T) {
		v := view(t, retry.Policy{}, option)
		v.inSpan(t.Context(), func(ctx context.Context) {
			v.h.Clock.Advance(5 * ms)
			v.run(ctx, fails(10*ms), fails(20*ms), succeeds(30*ms))
		})
		v.wantSpans(`
			caller 0s-365ms kind server
			  retry 5ms-365ms max_attempts=3 attempts=3 outcome=success_after_retry waited=0.3
			    attempt 1 5ms-15ms attempt=1 class=transient error.type=*errors.errorString Error "connection refused"
			    wait 15ms-115ms attempt=1 delay=0.1 class=transient error.type=*errors.errorString
			    attempt 2 115ms-135ms attempt=2 class=transient error.type=*errors.errorString Error "connection refused"
			    wait 135ms-335ms attempt=2 delay=0.2 class=transient error.type=*errors.errorString
			    attempt 3 335ms-365ms attempt=3`)
	})
	t.Run("later hooks and measurements are in its span", func(t *testing.T) {
		v := view(t, retry.Policy{MaxAttempts: 2}, option)
		var found []string
		find := func(ctx context.Context) {
			found = append(found, oteltrace.SpanFromContext(ctx).(trace.ReadOnlySpan).Name())
		}
		v.h.Policy.Hooks = retry.JoinHooks(v.h.Policy.Hooks, retry.Hooks{
			AttemptDone: func(ctx context.Context, _ retry.Attempt) { find(ctx) },
			Wait:        func(ctx context.Context, _ retry.Attempt) { find(ctx) },
			Done:        func(ctx context.Context, _ retry.Summary) { find(ctx) },
		})
		v.inSpan(t.Context(), func(ctx context.Context) { v.run(ctx, fails(ms), fails(20*ms)) })
		if want := []string{"caller", "retry", "attempt 2", "retry"}; !slices.Equal(found, want) {
			t.Errorf("other hooks are called in %q, want %q", found, want)
		}
		want := map[string]string{"retry.attempt.duration": "retry, attempt 2", "retry.operation.duration": "retry", "retry.operation.attempts": "retry", "retry.operation.waited": "retry", "retry.gave_up": "retry"}
		if got := exemplars(t, v); !maps.Equal(got, want) {
			t.Errorf("exemplars lead to %v, want %v", got, want)
		}
	})
	t.Run("without a span of the caller", func(t *testing.T) {
		v := view(t, retry.Policy{}, option)
		v.run(t.Context(), fails(10*ms), succeeds(30*ms))
		v.wantSpans(`
			retry 0s-140ms max_attempts=3 attempts=2 outcome=success_after_retry waited=0.1
			  wait 10ms-110ms attempt=1 delay=0.1 class=transient error.type=*errors.errorString
			  attempt 2 110ms-140ms attempt=2`)
	})
	t.Run("first-try failure", func(t *testing.T) {
		v := view(t, retry.Policy{MaxAttempts: 1}, option)
		v.inSpan(t.Context(), func(ctx context.Context) { v.run(ctx, fails(10*ms)) })
		v.wantSpans(`
			caller 0s-10ms kind server
			  retry 0s-10ms max_attempts=1 attempts=1 outcome=failure_first_try reason=max_attempts error.type=retry.max_attempts Error "max_attempts: connection refused"
			    @10ms retry.gave_up reason=max_attempts attempts=1`)
	})
	t.Run("canceled before the run", func(t *testing.T) {
		v := view(t, retry.Policy{}, option)
		v.inSpan(t.Context(), func(ctx context.Context) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			v.run(ctx)
		})
		v.wantSpans(`
			caller 0s-0s kind server
			  retry 0s-0s max_attempts=3 attempts=0 outcome=canceled
			    @0s retry.gave_up reason=canceled attempts=0`)
	})
	t.Run("unsampled", func(t *testing.T) {
		v := view(t, retry.Policy{}, option)
		v.run(unsampled(), fails(10*ms), succeeds(0))
		v.wantSpans(``)
	})
	t.Run("its own span is not sampled", func(t *testing.T) {
		v := viewDropping(t, "inner", option)
		v.run(t.Context(), fails(10*ms), succeeds(0))
		v.wantSpans(``)
	})
	t.Run("what the first attempt traces is below the caller", func(t *testing.T) {
		v := view(t, retry.Policy{}, option)
		v.inSpan(t.Context(), func(ctx context.Context) {
			_ = retry.Run(ctx, v.h.Policy, func(ctx context.Context) error {
				_, span := v.traces.Tracer("client").Start(ctx, "GET", oteltrace.WithTimestamp(v.h.Clock.Now()), oteltrace.WithSpanKind(oteltrace.SpanKindClient))
				span.End(oteltrace.WithTimestamp(v.h.Clock.Now()))
				if retry.AttemptNumber(ctx) == 1 {
					return errDown
				}
				return nil
			})
		})
		v.wantSpans(`
			caller 0s-100ms kind server
			  GET 0s-0s kind client
			  retry 0s-100ms max_attempts=3 attempts=2 outcome=success_after_retry waited=0.1
			    attempt 1 0s-0s attempt=1 class=transient error.type=*errors.errorString Error "connection refused"
			    wait 0s-100ms attempt=1 delay=0.1 class=transient error.type=*errors.errorString
			    attempt 2 100ms-100ms attempt=2
			      GET 100ms-100ms kind client`)
	})
	t.Run("panic", func(t *testing.T) {
		v := view(t, retry.Policy{}, option)
		func() {
			defer func() { _ = recover() }()
			_ = retry.Run(t.Context(), v.h.Policy, func(context.Context) error { panic("boom") })
		}()
		v.wantSpans(`
			retry 0s-0s max_attempts=3 attempts=1 outcome=failure_first_try reason=panic error.type=retry.panic Error "panic: retry: panic or runtime.Goexit during the run"
			  @0s retry.gave_up reason=panic attempts=1`)
	})
	t.Run("on the system clock, with a slow hook", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			v := view(t, retry.Policy{}, option)
			v.start = time.Now()
			p := v.h.Policy
			p.Clock = nil
			p.Hooks = retry.JoinHooks(p.Hooks, retry.Hooks{Done: func(context.Context, retry.Summary) { time.Sleep(time.Second) }})
			_ = retry.Run(t.Context(), p, func(context.Context) error {
				time.Sleep(10 * ms)
				return retry.Stop(errDown)
			})
			v.wantSpans(`
				retry 0s-1.01s max_attempts=3 attempts=1 outcome=failure_first_try reason=permanent error.type=retry.permanent Error "permanent: connection refused"
				  @1.01s retry.gave_up reason=permanent attempts=1`)
		})
	})
}

func TestSystemClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := view(t, retry.Policy{})
		v.start = time.Now()
		p := v.h.Policy
		p.Clock = nil
		_ = retry.Run(t.Context(), p, func(ctx context.Context) error {
			time.Sleep(10 * ms)
			if retry.AttemptNumber(ctx) == 1 {
				return errDown
			}
			return nil
		})
		v.wantSpans(`
			retry 0s-120ms max_attempts=3 attempts=2 outcome=success_after_retry waited=0.1
			  attempt 1 0s-10ms attempt=1 class=transient error.type=*errors.errorString Error "connection refused"
			  wait 10ms-110ms attempt=1 delay=0.1 class=transient error.type=*errors.errorString
			  attempt 2 110ms-120ms attempt=2`)
	})
}

// ticking is a clock that moves on when it is read, as real ones do.
type ticking struct{ *clockx.Virtual }

func (c ticking) Now() time.Time {
	c.Advance(ms)
	return c.Virtual.Now()
}

func TestNoAttemptBeginsBeforeItsRun(t *testing.T) {
	for _, mode := range []otelretry.Attempts{otelretry.AllAttempts, otelretry.RetriedRuns, 99} {
		v := view(t, retry.Policy{}, otelretry.WithAttempts(mode))
		p := v.h.Policy
		p.Clock = ticking{v.h.Clock}
		v.inSpan(t.Context(), func(ctx context.Context) {
			_ = retry.Run(ctx, p, func(ctx context.Context) error {
				if retry.AttemptNumber(ctx) == 1 {
					return errDown
				}
				return nil
			})
		})
		spans := v.spans.Ended()
		run := spans[len(spans)-2]
		for _, s := range spans[:len(spans)-2] {
			if s.StartTime().Before(run.StartTime()) || s.EndTime().After(run.EndTime()) || s.EndTime().Before(s.StartTime()) {
				t.Errorf("%s is at %v-%v, its run at %v-%v", s.Name(), s.StartTime(), s.EndTime(), run.StartTime(), run.EndTime())
			}
		}
		if len(spans) != 5 || run.Name() != "retry" {
			t.Errorf("mode %d: %d spans, want 5", mode, len(spans))
		}
	}
}

func TestNoAttempts(t *testing.T) {
	v := view(t, retry.Policy{}, otelretry.WithAttempts(otelretry.NoAttempts))
	v.run(t.Context(), fails(10*ms), succeeds(30*ms))
	v.wantSpans(`
		retry 0s-140ms max_attempts=3 attempts=2 outcome=success_after_retry waited=0.1
		  wait 10ms-110ms attempt=1 delay=0.1 class=transient error.type=*errors.errorString`)
}

// A wait is told of once: by its span, or else by an event.
func TestWaitsWithoutSpansAreEvents(t *testing.T) {
	v := view(t, retry.Policy{}, otelretry.WithWaits(false))
	v.run(t.Context(), fails(10*ms), retrytest.Fail[int](retry.After(errDown, 300*ms)), succeeds(0))
	v.wantSpans(`
		retry 0s-610ms max_attempts=3 attempts=3 outcome=success_after_retry waited=0.6
		  @10ms retry.wait attempt=1 delay=0.1 class=transient error.type=*errors.errorString
		  @110ms retry.wait attempt=2 delay=0.5 class=throttled error.type=*errors.errorString hint=0.3
		  attempt 1 0s-10ms attempt=1 class=transient error.type=*errors.errorString Error "connection refused"
		  attempt 2 110ms-110ms attempt=2 class=throttled error.type=*errors.errorString hint=0.3 Error "connection refused"
		  attempt 3 610ms-610ms attempt=3`)
}

func TestUnsampledCaller(t *testing.T) {
	v := view(t, retry.Policy{})
	var below oteltrace.SpanContext
	_ = retry.Run(unsampled(), v.h.Policy, func(ctx context.Context) error {
		below = oteltrace.SpanContextFromContext(ctx)
		return nil
	})
	if want := oteltrace.SpanContextFromContext(unsampled()).TraceID(); below.TraceID() != want || below.IsSampled() {
		t.Errorf("op is in trace %v, sampled: %v; want %v, unsampled", below.TraceID(), below.IsSampled(), want)
	}
	v.wantSpans(``)
}

// A typedError says its own type.
type typedError struct{ kind string }

func (e typedError) Error() string     { return "typed" }
func (e typedError) ErrorType() string { return e.kind }

// A brokenError panics when it is asked anything.
type brokenError struct{ p *string }

func (e *brokenError) Error() string     { return *e.p }
func (e *brokenError) ErrorType() string { return *e.p }

// What a person can act on is a code, which errors of the same type differ in.
type (
	sqlError    struct{ state string }
	statusError struct{ status int }
	awsError    struct{ status int }
)

func (sqlError) Error() string         { return "sql" }
func (e sqlError) SQLState() string    { return e.state }
func (statusError) Error() string      { return "status" }
func (e statusError) StatusCode() int  { return e.status }
func (awsError) Error() string         { return "aws" }
func (e awsError) HTTPStatusCode() int { return e.status }

func TestErrorType(t *testing.T) {
	var none *retry.Error
	ended := func(errs ...error) error {
		return &retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: len(errs), Errs: errs}
	}
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{errDown, "*errors.errorString"},
		{fmt.Errorf("get: %w", errDown), "*errors.errorString"},
		{fmt.Errorf("get: %w", context.DeadlineExceeded), "context.deadlineExceededError"},
		{fmt.Errorf("get: %w", typedError{"timeout"}), "timeout"},
		{typedError{"timeout"}, "timeout"},
		{&url.Error{Op: "Get", Err: retry.ErrAttemptTimeout}, "retry.attempt_timeout"},
		{&url.Error{Op: "Get", Err: context.DeadlineExceeded}, "context.deadlineExceededError"},
		{&url.Error{Op: "Get", Err: refused}, "*net.OpError"},
		{&url.Error{Op: "Get", Err: fmt.Errorf("redirect: %w", &url.Error{Err: fmt.Errorf("get: %w", io.ErrUnexpectedEOF)})}, "*errors.errorString"},
		{&url.Error{Op: "Get"}, "*url.Error"},
		{fmt.Errorf("get: %w", retry.Stop(&url.Error{Op: "Get", Err: refused})), "*net.OpError"},
		{refused, "*net.OpError"},
		{fmt.Errorf("get: %w", refused), "*net.OpError"},
		{&fs.PathError{Op: "open", Err: syscall.ENOENT}, "syscall.Errno"},
		{&os.LinkError{Op: "link", Err: syscall.ENOENT}, "syscall.Errno"},
		{os.NewSyscallError("connect", syscall.ECONNREFUSED), "syscall.Errno"},
		{typedError{"t\xff"}, "t\uFFFD"},
		{fmt.Errorf("get: %w", retry.Stop(fmt.Errorf("get: %w", retry.Stop(context.DeadlineExceeded)))), "context.deadlineExceededError"},
		{typedError{""}, "github.com/goretry/retry/otel_test.typedError"},
		{context.DeadlineExceeded, "context.deadlineExceededError"},
		{none, "*retry.Error"},
		{errors.Join(errDown, typedError{"first"}), "first"},
		{errors.Join(errDown, typedError{"second"}), "second"},
		{&brokenError{}, "*otelretry_test.brokenError"},
		{sqlError{"40001"}, "40001"},
		{sqlError{"08006"}, "08006"}, // another code of a type that was seen before
		{fmt.Errorf("tx: %w", sqlError{"40P01"}), "40P01"},
		{sqlError{"none"}, "github.com/goretry/retry/otel_test.sqlError"},
		{statusError{503}, "503"},
		{statusError{429}, "429"},
		{statusError{0}, "github.com/goretry/retry/otel_test.statusError"},
		{awsError{400}, "400"},
		{&url.Error{Op: "Get", Err: &net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}}}, "no_such_host"},
		{&net.DNSError{IsNotFound: true}, "no_such_host"},
		{&net.DNSError{IsTimeout: true}, "*net.DNSError"},
		{ended(statusError{500}, statusError{503}), "503"},
		{ended(errDown), "retry.max_attempts"},
		{ended(), "retry.max_attempts"},
	} {
		v := view(t, retry.Policy{MaxAttempts: 1}).withoutEvents()
		v.h.Policy.Classify = func(error) retry.Class { return retry.Transient }
		func() {
			defer func() { _ = recover() }() // of the broken error's text, in whoever prints the *Error
			v.run(t.Context(), retrytest.Fail[int](tt.err))
		}()
		if got := v.tree(); !strings.Contains(got, " attempt=1 class=") || !strings.Contains(got, " error.type="+tt.want+" Error ") {
			t.Errorf("%T: spans:\n%swant error.type=%s", tt.err, got, tt.want)
		}
	}
}

func TestAttributesThatCollide(t *testing.T) {
	theirs := []attribute.KeyValue{attribute.String("region", "eu"), attribute.String("region", "us")}
	option := otelretry.WithAttributes(theirs...)
	theirs[1] = attribute.String("changed", "later")
	v := view(t, retry.Policy{Name: "fetch"}, option, otelretry.WithAttributes(
		attribute.String("retry.name", "theirs"), attribute.Int("retry.outcome", 1), attribute.String("error.type", "none"), attribute.String("", "empty"),
		attribute.String("retry", "theirs"), attribute.Bool("error", false), attribute.String("error.type.code", "theirs")))
	v.run(t.Context(), succeeds(0))
	v.wantSpans(`
		fetch 0s-0s region=us name=fetch max_attempts=3 attempts=1 outcome=success_first_try
		  attempt 1 fetch 0s-0s region=us name=fetch attempt=1`)
	v.wantMetrics(`
		retry.attempt.duration [s] region=us name=fetch: 1 runs, sum 0
		retry.operation.attempts [{attempt}] region=us name=fetch outcome=success_first_try: 1 runs, sum 1
		retry.operation.duration [s] region=us name=fetch outcome=success_first_try: 1 runs, sum 0`)
}

func TestTextsAreWhatExportersTake(t *testing.T) {
	v := view(t, retry.Policy{Name: "f\xff", MaxAttempts: 1}).withoutEvents()
	v.run(t.Context(), retrytest.Fail[int](errors.New("a\xff"+strings.Repeat("é", 1<<20))))
	for _, s := range v.spans.Ended() {
		if text := s.Status().Description; !utf8.ValidString(text) || len(text) > 5000 || !strings.Contains(text, "a\uFFFDé") {
			t.Errorf("the status of %s has %d bytes: %.60q", s.Name(), len(text), text)
		}
		if name := attributes(s.Attributes()[:1]); s.Name() != "f\uFFFD" && s.Name() != "attempt 1 f\uFFFD" || name != " name=f\uFFFD" {
			t.Errorf("span %q,%s", s.Name(), name)
		}
	}
	if got := metrics(t, v.reader); !strings.Contains(got, "name=f\uFFFD") {
		t.Errorf("metrics:\n%s", got)
	}
}

func TestLongNamesAreCut(t *testing.T) {
	t.Cleanup(otelretry.Forget)
	v := view(t, retry.Policy{Name: strings.Repeat("é", 1<<19) + "x", MaxAttempts: 1}).withoutEvents()
	v.run(t.Context(), retrytest.Fail[int](typedError{strings.Repeat("a", 127) + "é" + strings.Repeat("b", 1<<20)}))
	name, kind := strings.Repeat("é", 64), strings.Repeat("a", 127) // no half a character
	v.wantSpans(fmt.Sprintf(`
		%[1]s 0s-0s name=%[1]s max_attempts=1 attempts=1 outcome=failure_first_try reason=max_attempts error.type=retry.max_attempts Error "max_attempts: typed"
		  attempt 1 %[1]s 0s-0s name=%[1]s attempt=1 class=transient error.type=%[2]s Error "typed"`, name, kind))
	if got, want := metrics(t, v.reader), fmt.Sprintf("retry.attempt.duration [s] error.type=%s class=transient name=%s: 1 runs", kind, name); !strings.Contains(got, want) {
		t.Errorf("metrics:\n%swant %s", got, want)
	}
}

func TestContextsOfARunEndWithTheCallers(t *testing.T) {
	v := view(t, retry.Policy{})
	type key struct{}
	ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "kept"))
	_ = retry.Run(ctx, v.h.Policy, func(ctx context.Context) error {
		before := runtime.NumGoroutine()
		below, stop := context.WithCancel(ctx)
		defer stop()
		if got := runtime.NumGoroutine(); got != before {
			t.Errorf("a context below the attempt's started %d goroutines", got-before)
		}
		shutdown := errors.New("shutdown")
		cancel(shutdown)
		if context.Cause(below) != shutdown || below.Value(key{}) != "kept" {
			t.Errorf("cause %v, value %v", context.Cause(below), below.Value(key{}))
		}
		return nil
	})
}
