package faq_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retryconf"
	"github.com/goretry/retry/retryhttp"
)

type User struct{ Name string }

var errDown = errors.New("down")

var current atomic.Pointer[retry.Policy]

func change(line string) error {
	p := retryconf.Policy{Policy: *current.Load()} // with its guards, hooks and Classify
	err := p.UnmarshalText([]byte(line))
	if err == nil {
		current.Store(&p.Policy) // budget=earned is one that policies of this name share
	}
	return err
}

func TestChangeWhileRunning(t *testing.T) {
	current.Store(new(retry.Policy))
	if err := change("attempts=2 backoff=constant(1ms)"); err != nil {
		t.Fatal(err)
	}
	calls := 0
	_ = retry.Run(t.Context(), *current.Load(), func(context.Context) error {
		calls++
		_ = change("attempts=5") // for the next run
		return errDown
	})
	if calls != 2 {
		t.Errorf("%d calls, want the 2 of the policy that the run began with", calls)
	}
	if err := change("name=users attempts=3 budget=earned"); err != nil {
		t.Error(err)
	}
	budget := current.Load().Budget
	if err := change("name=users attempts=5 budget=earned"); err != nil || current.Load().Budget != budget {
		t.Errorf("error %v, budget %p; want %p, the one before", err, current.Load().Budget, budget)
	}
	if err := change("attempts=many"); err == nil || current.Load().MaxAttempts != 5 {
		t.Errorf("error %v, policy %+v; want the last good one", err, current.Load())
	}
}

// work does a job within a minute. If its turn would come too late, work tries again when it
// may come in time.
func work(ctx context.Context, policy retry.Policy, job func(context.Context) error) error {
	for {
		inTime, cancel := context.WithTimeout(ctx, time.Minute)
		err := retry.Run(inTime, policy, job)
		cancel()
		e, ok := errors.AsType[*retry.Error](err)
		var late interface{ RetryAfter() time.Duration }
		if !ok || !errors.Is(e.Cause, retry.ErrPaced) || !errors.As(e.Cause, &late) {
			return err // nil, or why the job has failed
		}
		if err := clockx.System().Sleep(ctx, late.RetryAfter()); err != nil {
			return err
		}
	}
}

func TestAWorkerWaitsForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pace := new(pace.Pace)
		var tries, made atomic.Int64
		policy := retry.Policy{Guards: []retry.Guard{pace}, Hooks: retry.Hooks{Start: func(ctx context.Context, _ retry.Policy) context.Context { tries.Add(1); return ctx }}}
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				pace.Hold(time.Minute)
				for range 2 {
					if err := work(t.Context(), policy, func(context.Context) error { made.Add(1); return nil }); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if made.Load() != 100 || tries.Load() > 400 {
			t.Errorf("%d of 100 jobs are made in %d tries", made.Load(), tries.Load())
		}
	})
}

// A job that fails, and the end of the worker's own context, are the worker's error: neither
// counts as done.
func TestAWorkerReturnsWhyAJobIsNotDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pace := new(pace.Pace)
		policy := retry.Policy{Guards: []retry.Guard{pace}}
		if err := work(t.Context(), policy, func(context.Context) error { return retry.Stop(errDown) }); !errors.Is(err, errDown) {
			t.Errorf("a job that fails: %v, want %v", err, errDown)
		}
		pace.Hold(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		calls := 0
		if err := work(ctx, policy, func(context.Context) error { calls++; return nil }); err == nil || calls != 0 {
			t.Errorf("error %v after %d calls, want the deadline's before a call", err, calls)
		}
	})
}

// Full jitter draws from zero on.
func TestAWaitMayBeZero(t *testing.T) {
	p := retry.Policy{Rand: func() float64 { return 0 }}
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_ = retry.Run(t.Context(), p, func(context.Context) error { return errDown })
		if took := time.Since(start); took != 0 {
			t.Errorf("took %v", took)
		}
	})
}

// With MaxElapsed alone time is the limit; with MaxAttempts both hold.
func TestAttemptsBesideMaxElapsed(t *testing.T) {
	if got := (retry.Policy{MaxElapsed: time.Minute}).AttemptLimit(); got != 60_000 {
		t.Errorf("AttemptLimit() = %d, want one per millisecond", got)
	}
	if got := (retry.Policy{}).AttemptLimit(); got != 3 {
		t.Errorf("AttemptLimit() = %d, want 3", got)
	}
}

// A hook tells a retry from the end, also if there is no wait.
func TestLogOfRetries(t *testing.T) {
	var out strings.Builder
	log := log.New(&out, "", 0)
	hooks := retry.Hooks{AttemptDone: func(_ context.Context, a retry.Attempt) {
		switch {
		case a.Err == nil || a.Answered || errors.Is(a.Err, retry.ErrRejected):
		case a.Reason == retry.ReasonNone:
			log.Printf("%s: %v; retrying in %v", a.Name, a.Err, a.Delay)
		default:
			log.Printf("%s: %v; giving up: %v", a.Name, a.Err, a.Reason)
		}
	}}
	p := retry.Policy{Name: "load", MaxAttempts: 2, Backoff: retry.Constant(0), Hooks: hooks}
	_ = retry.Run(t.Context(), p, func(context.Context) error { return errDown })
	_ = retry.Run(t.Context(), p, func(context.Context) error { return retry.Answer(errDown) })
	_ = retry.Run(t.Context(), p, func(context.Context) error { return retry.ErrRejected })
	if want := "load: down; retrying in 0s\nload: down; giving up: max_attempts\n"; out.String() != want {
		t.Errorf("the log is %q, want %q", out.String(), want)
	}
}

func onlyBusy(err error) retry.Class {
	if errors.Is(err, errBusy) || errors.Is(err, io.ErrUnexpectedEOF) {
		return retry.Transient
	}
	return retry.Permanent
}

var errBusy = errors.New("busy")

// Neither a full limit nor a poll is an error of the operation.
func TestOnlyTheseErrors(t *testing.T) {
	for failure, want := range map[error]int{errBusy: 3, fmt.Errorf("load: %w", io.ErrUnexpectedEOF): 3, errDown: 1, retry.After(errDown, 0): 3, retry.ErrRejected: 3} {
		calls := 0
		_ = retry.Run(t.Context(), retry.Policy{Classify: onlyBusy, Backoff: retry.Constant(0)}, func(context.Context) error { calls++; return failure })
		if calls != want {
			t.Errorf("%v: %d calls, want %d", failure, calls, want)
		}
	}
	refusals := 0
	p := retry.Policy{Classify: onlyBusy, Backoff: retry.Constant(0), Guards: []retry.Guard{full{}},
		Hooks: retry.Hooks{Guard: func(context.Context, retry.Held) { refusals++ }}}
	if err := retry.Run(t.Context(), p, func(context.Context) error { return nil }); err == nil || refusals != 3 {
		t.Errorf("%v after %d refusals, want three", err, refusals)
	}
}

type full struct{}

func (full) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	return retry.Pass{}, errors.New("full")
}
func (full) Leave(retry.Pass, retry.Exit) {}

func nameMayCome(err error) retry.Class {
	if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound {
		return retry.Transient
	}
	return retry.Unknown
}

func TestNameThatIsNotFoundYet(t *testing.T) {
	unknown := &net.DNSError{Err: "no such host", Name: "users", IsNotFound: true}
	for want, classify := range map[int]retry.Classifier{1: nil, 3: nameMayCome} {
		calls := 0
		_ = retry.Run(t.Context(), retry.Policy{Classify: classify, Backoff: retry.Constant(0)}, func(context.Context) error { calls++; return unknown })
		if calls != want {
			t.Errorf("%d calls, want %d", calls, want)
		}
	}
}

var errFlaky = errors.New("flaky")

func once(ctx context.Context, load func(context.Context) (User, error)) (User, error) {
	u, err := load(ctx)
	if errors.Is(err, errFlaky) && retry.AttemptNumber(ctx) == 2 {
		return u, retry.Stop(err) // of this kind one retry is enough
	}
	return u, err
}

func TestAttemptsByKindOfError(t *testing.T) {
	for failure, want := range map[error]int{errFlaky: 2, errDown: 5} {
		calls := 0
		_, _ = retry.Do(t.Context(), retry.Policy{MaxAttempts: 5, Backoff: retry.Constant(0)}, func(ctx context.Context) (User, error) {
			return once(ctx, func(context.Context) (User, error) { calls++; return User{}, failure })
		})
		if calls != want {
			t.Errorf("%v: %d calls, want %d", failure, calls, want)
		}
	}
}

func failover(policy retry.Policy, second string) *retryhttp.Transport {
	return &retryhttp.Transport{Policy: policy, Prepare: func(req *http.Request) error {
		if retry.AttemptNumber(req.Context()) > 1 {
			req.URL.Host, req.Host = second, second
		}
		return nil
	}}
}

func TestFailover(t *testing.T) {
	var hosts []string
	handler := func(name string, status int) *httptest.Server {
		return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			hosts = append(hosts, name)
			w.WriteHeader(status)
		}))
	}
	first, second := handler("first", 503), handler("second", 200)
	defer first.Close()
	defer second.Close()
	client := &http.Client{Transport: failover(retry.Policy{Backoff: retry.Constant(0)}, strings.TrimPrefix(second.URL, "http://"))}
	resp, err := client.Get(first.URL)
	if err != nil || resp.StatusCode != 200 || strings.Join(hosts, " ") != "first second" {
		t.Fatalf("%v, %v, hosts %v", resp, err, hosts)
	}
	resp.Body.Close()
}

func consume(ctx context.Context, session func(context.Context) error) error {
	policy := retry.Policy{Name: "consume", MaxElapsed: time.Minute}
	return retry.Supervise(ctx, policy, 10*time.Second, session)
}

func pollForGood(ctx context.Context, p retry.Policy, receive func(context.Context) (string, error), handle func(context.Context, string)) error {
	return retry.Supervise(ctx, p, 0, func(ctx context.Context) error {
		for {
			m, err := receive(ctx)
			if err != nil {
				return err
			}
			handle(ctx, m)
		}
	})
}

// In an outage of an hour a consumer makes a few hundred calls, and then goes on.
func TestAConsumerThatPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, calls, handled := time.Now(), 0, 0
		ctx, cancel := context.WithCancel(t.Context())
		err := pollForGood(ctx, retry.Policy{Name: "poll", Budget: &retry.EarnedBudget{}}, func(ctx context.Context) (string, error) {
			if ctx.Err() != nil {
				return "", ctx.Err()
			}
			calls++
			if at := time.Since(start); at > time.Minute && at < time.Hour {
				return "", errDown
			}
			time.Sleep(time.Second)
			return "m", nil
		}, func(context.Context, string) {
			if handled++; time.Since(start) > 2*time.Hour {
				cancel()
			}
		})
		if e, ok := errors.AsType[*retry.Error](err); !ok && err != nil || ok && e.Reason != retry.ReasonCanceled {
			t.Errorf("the consumer has ended: %v", err)
		}
		if failed := calls - handled; failed < 10 || failed > 600 {
			t.Errorf("%d calls in an outage of an hour", failed)
		}
	})
}

func TestMaxElapsedFromTheFirstFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		err := consume(t.Context(), func(context.Context) error {
			if time.Since(start) < time.Hour {
				time.Sleep(time.Hour)
			}
			return errDown
		})
		if took := time.Since(start) - time.Hour; err == nil || took < 30*time.Second || took > 90*time.Second {
			t.Errorf("after an hour of health it failed for %v, %v; want about a minute", took, err)
		}
	})
}

func patient(ctx context.Context, load func(context.Context) (User, error)) (User, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(retry.AttemptNumber(ctx))*time.Second)
	defer cancel()
	return load(ctx)
}

func TestTimeoutThatGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var took []time.Duration
		_, _ = retry.Do(t.Context(), retry.Policy{Backoff: retry.Constant(0)}, func(ctx context.Context) (User, error) {
			return patient(ctx, func(ctx context.Context) (User, error) {
				start := time.Now()
				<-ctx.Done()
				took = append(took, time.Since(start))
				return User{}, ctx.Err()
			})
		})
		if len(took) != 3 || took[0] != time.Second || took[2] != 3*time.Second {
			t.Errorf("attempts took %v", took)
		}
	})
}

type Job struct{ Done bool }

func finished(ctx context.Context, status func(context.Context) (Job, error)) (Job, error) {
	policy := retry.Policy{Name: "job", MaxElapsed: 10 * time.Minute, AttemptTimeout: 10 * time.Second, Backoff: retry.Constant(2 * time.Second)}
	return retry.Do(ctx, policy, retry.Until(status, func(j Job) bool { return j.Done }))
}

func TestPollAtAnEvenPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, calls := time.Now(), 0
		_, err := finished(t.Context(), func(context.Context) (Job, error) { calls++; return Job{calls == 10}, nil })
		if took := time.Since(start); err != nil || took != 18*time.Second {
			t.Errorf("%v after %v, want nine waits of 2 s", err, took)
		}
	})
}

func rescues(l *slog.Logger) retry.Hooks {
	return retry.Hooks{Done: func(ctx context.Context, s retry.Summary) {
		if s.Err == nil && s.Attempts > 1 {
			l.InfoContext(ctx, "rescued", "name", s.Name, "attempts", s.Attempts, "waited", s.Waited)
		}
	}}
}

func TestRescuesAreLogged(t *testing.T) {
	var log strings.Builder
	l := slog.New(slog.NewTextHandler(&log, nil))
	calls := 0
	policy := retry.Policy{Name: "load", Backoff: retry.Constant(0), Hooks: retry.JoinHooks(retry.SlogHooks(l), rescues(l))}
	for range 2 {
		_ = retry.Run(t.Context(), policy, func(context.Context) error {
			if calls++; calls == 1 {
				return errDown
			}
			return nil
		})
	}
	if got := log.String(); strings.Count(got, "msg=rescued") != 1 || !strings.Contains(got, "attempts=2") {
		t.Errorf("logged %q", got)
	}
}
