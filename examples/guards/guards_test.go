package guards_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"
	"golang.org/x/time/rate"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/examples/guards"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retrytest"
)

const ms = time.Millisecond

var errDown = errors.New("down")

// ended fails the test unless a run has ended by a guard, with so many attempts.
func ended(t *testing.T, err error, cause error, attempts int) {
	t.Helper()
	e, ok := errors.AsType[*retry.Error](err)
	if !ok || e.Reason != retry.ReasonGuard || !errors.Is(e.Cause, cause) || e.Attempts != attempts || e.Undone != (attempts == 0) {
		t.Errorf("the run ended with %+v, want one that a guard ended with %v after %d attempts", err, cause, attempts)
	}
}

// tripsAfterTwo are settings of a breaker that opens for ten seconds.
func tripsAfterTwo() gobreaker.Settings {
	return gobreaker.Settings{Timeout: 10 * time.Second, ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= 2 }}
}

// A run that a guard holds until its turn succeeds; one that holds a place meanwhile keeps
// it from all others, which use up their three attempts.
func TestPacesGoBeforeLimits(t *testing.T) {
	for _, tt := range []struct {
		name   string
		guards func(*pace.Pace, *limit.Limit) []retry.Guard
		want   int
	}{
		{"pace, limit", func(p *pace.Pace, l *limit.Limit) []retry.Guard { return []retry.Guard{p, l} }, 20},
		{"limit, pace", func(p *pace.Pace, l *limit.Limit) []retry.Guard { return []retry.Guard{l, p} }, 6},
	} {
		synctest.Test(t, func(t *testing.T) {
			pace, places := &pace.Pace{Quota: 20}, &limit.Limit{Max: 6}
			policy := retry.Policy{Guards: tt.guards(pace, places), Backoff: retry.Exponential{Jitter: retry.NoJitter}}
			pace.Hold(time.Second) // the server has said that the quota is used up
			var wg sync.WaitGroup
			var mu sync.Mutex
			succeeded := 0
			for range 20 {
				wg.Go(func() {
					err := retry.Run(t.Context(), policy, func(context.Context) error { time.Sleep(50 * ms); return nil })
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						succeeded++
					} else {
						ended(t, err, limit.ErrLimited, 0)
					}
				})
			}
			wg.Wait()
			if succeeded != tt.want || places.InFlight() != 0 {
				t.Errorf("%s: %d of 20 calls succeed, and %d places are taken; want %d and none", tt.name, succeeded, places.InFlight(), tt.want)
			}
		})
	}
}

// A refusal is no attempt, and costs the budget nothing, but MaxAttempts counts it.
func TestWhatARefusalDoes(t *testing.T) {
	budget := new(retry.EarnedBudget)
	full := &limit.Limit{Max: 1}
	underway, err := (retry.Policy{Guards: []retry.Guard{full}}).Admit(t.Context(), retry.Entry{})
	if err != nil {
		t.Fatal(err)
	}
	h := retrytest.New(t, retry.Policy{
		NonIdempotent: true, Budget: budget,
		Guards:  []retry.Guard{full},
		Backoff: retry.Exponential{Jitter: retry.NoJitter},
	})
	before := budget.Balance()
	err = retry.Run(t.Context(), h.Policy, func(context.Context) error { return nil })
	ended(t, err, limit.ErrLimited, 0)
	h.AssertAttempts(0)
	h.AssertDelays()
	h.AssertHeld(retry.Held{Number: 1, Err: limit.ErrLimited, Delay: 100 * ms}, retry.Held{Number: 1, Err: limit.ErrLimited, Delay: 200 * ms}, retry.Held{Number: 1, Err: limit.ErrLimited})
	if got := budget.Balance(); got != before {
		t.Errorf("the budget has %v, want %v", got, before)
	}
	underway(retry.Exit{})
	if err := retry.Run(t.Context(), h.Policy, func(context.Context) error { return nil }); err != nil || full.InFlight() != 0 {
		t.Errorf("with a place free the run ended with %v, and %d are taken", err, full.InFlight())
	}
}

func TestOpenBreakerEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := guards.NewBreaker(tripsAfterTwo())
		budget := new(retry.EarnedBudget)
		policy := retry.Policy{MaxAttempts: 5, Backoff: retry.Constant(0), Budget: budget, Guards: []retry.Guard{b}}
		start := time.Now()
		err := retry.Run(t.Context(), policy, func(context.Context) error { return errDown })
		ended(t, err, gobreaker.ErrOpenState, 2)
		balance := budget.Balance()
		err = retry.Run(t.Context(), policy, func(context.Context) error { return nil })
		ended(t, err, gobreaker.ErrOpenState, 0)
		if took := time.Since(start); took != 0 || budget.Balance() != balance {
			t.Errorf("the runs took %v, and the second left %v in the budget, want 0s and %v", took, budget.Balance(), balance)
		}
		time.Sleep(10*time.Second + 1)
		if err := retry.Run(t.Context(), policy, func(context.Context) error { return nil }); err != nil || b.State() != gobreaker.StateClosed {
			t.Errorf("the half-open breaker: %v, and then %v", err, b.State())
		}
	})
}

// The policy forbids a second call of op without proof. A refusal is one.
func TestRunsWaitForAHalfOpenBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := guards.NewPatientBreaker(tripsAfterTwo())
		policy := retry.Policy{NonIdempotent: true, MaxAttempts: 4, Backoff: retry.Constant(0), Guards: []retry.Guard{b}, Rand: func() float64 { return 0 }}
		start := time.Now()
		calls := 0
		op := func(context.Context) error {
			if calls++; calls <= 2 {
				return retry.Undone(errDown)
			}
			return nil
		}
		if err := retry.Run(t.Context(), policy, op); err != nil || calls != 3 || time.Since(start) != 10*time.Second+1 {
			t.Errorf("%d calls, %v after %v; want a third one when the breaker is half-open", calls, err, time.Since(start))
		}
		_ = retry.Run(t.Context(), policy, func(context.Context) error { return errDown })
		_ = retry.Run(t.Context(), policy, func(context.Context) error { return errDown })
		time.Sleep(7 * time.Second)
		start = time.Now() // one that comes later waits only for the rest
		if err := retry.Run(t.Context(), policy, op); err != nil || time.Since(start) != 3*time.Second+1 {
			t.Errorf("%v after %v, want none after 3s", err, time.Since(start))
		}
		_ = retry.Run(t.Context(), policy, func(context.Context) error { return errDown })
		_ = retry.Run(t.Context(), policy, func(context.Context) error { return errDown })
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start = time.Now()
		err := retry.Run(ctx, policy, op) // it would wait in vain
		ended(t, err, gobreaker.ErrOpenState, 0)
		if time.Since(start) != 0 {
			t.Errorf("a run without the time ended after %v, want 0s", time.Since(start))
		}
	})
}

// Of ten runs one tries the half-open breaker. The others wait for their backoff.
func TestOneRunTriesAHalfOpenBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := guards.NewPatientBreaker(tripsAfterTwo())
		policy := retry.Policy{MaxAttempts: 5, Backoff: retry.Constant(time.Second), Guards: []retry.Guard{b}, Rand: func() float64 { return 0 }}
		once := policy
		once.MaxAttempts = 1
		for range 2 {
			_ = retry.Run(t.Context(), once, func(context.Context) error { return errDown })
		}
		start := time.Now()
		var mu sync.Mutex
		var began []time.Duration
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				err := retry.Run(t.Context(), policy, func(context.Context) error {
					mu.Lock()
					began = append(began, time.Since(start))
					mu.Unlock()
					time.Sleep(500 * ms)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		want := slices.Repeat([]time.Duration{12*time.Second + 1}, 10)
		want[0] = 11*time.Second + 1
		if !slices.Equal(began, want) {
			t.Errorf("the attempts began at %v, want %v", began, want)
		}
	})
}

// What a breaker counts: only what the dependency has to do with.
func TestBreakerCounts(t *testing.T) {
	for _, tt := range []struct {
		name string
		op   func(ctx context.Context, cancel func()) error
		want string // successes, failures, exclusions
	}{
		{"a success", func(context.Context, func()) error { return nil }, "1 0 0"},
		{"a failure", func(context.Context, func()) error { return errDown }, "0 1 0"},
		{"a permanent error is an answer", func(context.Context, func()) error { return retry.Stop(errDown) }, "1 0 0"},
		{"so is an Answer", func(context.Context, func()) error { return retry.Answer(errDown) }, "1 0 0"},
		{"and one that is not the one wanted yet", func(context.Context, func()) error { return retry.ErrRejected }, "1 0 0"},
		{"but not that of an overloaded server", func(context.Context, func()) error { return retry.Refuse(errDown) }, "0 1 0"},
		{"throttled", func(context.Context, func()) error { return retry.After(errDown, time.Second) }, "0 1 0"},
		{"its deadline", func(ctx context.Context, _ func()) error { <-ctx.Done(); return ctx.Err() }, "0 1 0"},
		{"the caller has gone", func(ctx context.Context, cancel func()) error { cancel(); return ctx.Err() }, "0 0 1"},
		{"a panic", func(context.Context, func()) error { panic("op") }, "0 1 0"},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := guards.NewBreaker(gobreaker.Settings{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			func() {
				defer func() { _ = recover() }()
				_ = retry.Run(ctx, retry.Policy{MaxAttempts: 1, AttemptTimeout: time.Second, Guards: []retry.Guard{b}}, func(ctx context.Context) error { return tt.op(ctx, cancel) })
			}()
			c := b.Counts()
			if got := fmt.Sprint(c.TotalSuccesses, c.TotalFailures, c.TotalExclusions); got != tt.want || c.Requests != 1 {
				t.Errorf("%s: successes, failures and exclusions are %s, want %s", tt.name, got, tt.want)
			}
		})
	}
}

// Without IsExcluded a half-open breaker would stay so for good: its place stays taken.
func TestRefusedAttemptGivesItsHalfOpenPlaceBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, places := guards.NewBreaker(tripsAfterTwo()), &limit.Limit{Max: 1}
		policy := retry.Policy{MaxAttempts: 1, Guards: []retry.Guard{b, places}}
		for range 2 {
			_ = retry.Run(t.Context(), policy, func(context.Context) error { return errDown })
		}
		time.Sleep(10*time.Second + 1)
		underway, err := (retry.Policy{Guards: []retry.Guard{places}}).Admit(t.Context(), retry.Entry{})
		if err != nil {
			t.Fatal(err)
		}
		err = retry.Run(t.Context(), policy, func(context.Context) error { return nil })
		ended(t, err, limit.ErrLimited, 0)
		underway(retry.Exit{Ending: retry.Returned})
		if err := retry.Run(t.Context(), policy, func(context.Context) error { return nil }); err != nil || b.State() != gobreaker.StateClosed {
			t.Errorf("the next run: %v, and the breaker is %v, want it closed", err, b.State())
		}
	})
}

// Before a pace a half-open breaker has its place taken by a call that waits. Behind it
// calls wait for a breaker that is open.
func TestWhereABreakerGoes(t *testing.T) {
	for _, tt := range []struct {
		name           string
		breakerFirst   bool
		open, halfOpen string // what becomes of nine calls, while the pace holds calls for a second
	}{
		{"breaker, pace", true, "9 refused at once", "1 succeeded, 8 refused at once"},
		{"pace, breaker", false, "9 refused later", "9 succeeded"},
	} {
		synctest.Test(t, func(t *testing.T) {
			b, pace := guards.NewBreaker(tripsAfterTwo()), new(pace.Pace)
			policy := retry.Policy{MaxAttempts: 1, Guards: []retry.Guard{pace, b}}
			if tt.breakerFirst {
				policy.Guards = []retry.Guard{b, pace}
			}
			for range 2 {
				_ = retry.Run(t.Context(), policy, func(context.Context) error { return errDown })
			}
			nine := func() string {
				pace.Hold(time.Second)
				var mu sync.Mutex
				var succeeded, soon, late int
				var wg sync.WaitGroup
				for range 9 {
					wg.Go(func() {
						start := time.Now()
						err := retry.Run(t.Context(), policy, func(context.Context) error { return nil })
						mu.Lock()
						defer mu.Unlock()
						switch {
						case err == nil:
							succeeded++
						case time.Since(start) == 0:
							soon++
						default:
							late++
						}
					})
				}
				wg.Wait()
				var told []string
				for what, n := range map[string]int{"succeeded": succeeded, "refused at once": soon, "refused later": late} {
					if n > 0 {
						told = append(told, fmt.Sprintf("%d %s", n, what))
					}
				}
				slices.Sort(told)
				return strings.Join(told, ", ")
			}
			if got := nine(); got != tt.open {
				t.Errorf("%s, open: %s, want %s", tt.name, got, tt.open)
			}
			time.Sleep(11 * time.Second)
			if got := nine(); got != tt.halfOpen {
				t.Errorf("%s, half-open: %s, want %s", tt.name, got, tt.halfOpen)
			}
		})
	}
}

// Retries wait for the limiter too, on the policy's clock.
func TestLimiterHoldsAttemptsBack(t *testing.T) {
	h := retrytest.New(t, retry.Policy{
		Guards:  []retry.Guard{guards.Limiter{Limiter: rate.NewLimiter(rate.Every(10*time.Second), 1)}},
		Backoff: retry.Constant(time.Second),
	})
	err := retry.Run(t.Context(), h.Policy, func(context.Context) error { return errDown })
	h.AssertHeld(retry.Held{Number: 2, Guard: "guards.Limiter", Delay: 9 * time.Second}, retry.Held{Number: 3, Guard: "guards.Limiter", Delay: 9 * time.Second})
	h.AssertDelays(time.Second, time.Second)
	h.AssertReason(retry.ReasonMaxAttempts)
	if s := h.Summary(); s.Elapsed != 20*time.Second || s.Waited != 20*time.Second {
		t.Errorf("%v; it took %v, of which %v were waits, want 20s of waits", err, s.Elapsed, s.Waited)
	}
}

// refuser refuses all attempts, a while after it was asked.
type refuser struct{ after func() }

func (r refuser) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	r.after()
	return retry.Pass{}, retry.Stop(limit.ErrLimited)
}
func (r refuser) Leave(retry.Pass, retry.Exit) {}

// An attempt that is not made leaves its time to the next one.
func TestLimiterTakesTimeBack(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(h *retrytest.Harness, p *retry.Policy) (context.Context, context.CancelFunc)
	}{
		{"a later guard refuses it at once", func(h *retrytest.Harness, p *retry.Policy) (context.Context, context.CancelFunc) {
			p.Guards = append(p.Guards, refuser{func() {}})
			return context.WithCancel(t.Context())
		}},
		{"or a nanosecond later", func(h *retrytest.Harness, p *retry.Policy) (context.Context, context.CancelFunc) {
			p.Guards = append(p.Guards, refuser{func() { h.Clock.Advance(1) }})
			return context.WithCancel(t.Context())
		}},
		{"the wait would outlast the deadline", func(h *retrytest.Harness, p *retry.Policy) (context.Context, context.CancelFunc) {
			return h.Clock.WithTimeoutCause(t.Context(), 10*time.Second, nil)
		}},
		{"the caller goes while it waits", func(h *retrytest.Harness, p *retry.Policy) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			stop := h.Clock.AfterFunc(3*time.Second, cancel)
			return ctx, func() { stop(); cancel() }
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			limiter := guards.Limiter{Limiter: rate.NewLimiter(rate.Every(10*time.Second), 1)}
			h := retrytest.New(t, retry.Policy{MaxAttempts: 1, Guards: []retry.Guard{limiter}})
			start := h.Clock.Now()
			if err := retry.Run(t.Context(), h.Policy, func(context.Context) error { return nil }); err != nil {
				t.Fatal(err)
			}
			spoiled := h.Policy
			ctx, cancel := tt.spoil(h, &spoiled)
			defer cancel()
			if err := retry.Run(ctx, spoiled, func(context.Context) error { return nil }); err == nil {
				t.Fatal("the attempt was made")
			}
			// At ten seconds if the one before has left its time unused, or used none.
			if err := retry.Run(t.Context(), h.Policy, func(context.Context) error { return nil }); err != nil {
				t.Fatal(err)
			}
			if got := h.Clock.Now().Sub(start).Round(time.Second); got != 10*time.Second {
				t.Errorf("the next attempt began at %v, want 10s", got)
			}
		})
	}
}

// A copy enters the guards as any attempt does, but is not sent if it would have to wait.
func TestHedgesEnterGuards(t *testing.T) {
	limited := func(burst int) retry.Guard {
		return guards.Limiter{Limiter: rate.NewLimiter(rate.Every(time.Hour), burst)}
	}
	for _, tt := range []struct {
		name    string
		guard   retry.Guard
		copies  int
		refused bool
	}{
		{"two places", &limit.Limit{Max: 2}, 2, false},
		{"one place", &limit.Limit{Max: 1}, 1, true},
		{"a burst of two", limited(2), 2, false},
		{"a burst of one", limited(1), 1, true},
		{"a closed breaker", guards.NewBreaker(tripsAfterTwo()), 2, false},
		{"a fleet's quota", &guards.Quota{Client: &http.Client{Transport: answers{"200"}.transport(t)}, URL: "http://quota/take"}, 1, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			var got hedge.Summary
			h := &hedge.Hedge{Delay: 10 * ms, Hedged: func(_ context.Context, s hedge.Summary) { got = s }}
			start := time.Now()
			_, err := hedge.Do(t.Context(), retry.Policy{MaxAttempts: 1, Guards: []retry.Guard{tt.guard}}, h, func(ctx context.Context) (int, error) {
				select {
				case <-time.After(time.Second / time.Duration(hedge.Number(ctx))):
				case <-ctx.Done():
				}
				return 0, ctx.Err()
			})
			want := time.Second
			if tt.copies == 2 {
				want = 510 * ms // the second copy is faster
			}
			if took := time.Since(start); err != nil || got.Started != tt.copies || (got.Refused != nil) != tt.refused || took != want {
				t.Errorf("%s: %v after %v, %+v; want %d copies and %v", tt.name, err, took, got, tt.copies, want)
			}
			if l, ok := tt.guard.(*limit.Limit); ok && l.InFlight() != 0 {
				t.Errorf("%s: %d are taken after the call", tt.name, l.InFlight())
			}
			if b, ok := tt.guard.(guards.Breaker); ok && (b.Counts().TotalSuccesses != 1 || b.Counts().TotalExclusions != 1) {
				t.Errorf("%s: the breaker counts %+v, want the copy that has lost excluded", tt.name, b.Counts())
			}
		})
	}
}

// A limiter gets the turn of a hedge that was not sent back.
func TestRefusedHedgeLeavesItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := retry.Policy{MaxAttempts: 1, Guards: []retry.Guard{guards.Limiter{Limiter: rate.NewLimiter(rate.Every(10*time.Second), 1)}}}
		start := time.Now()
		_, _ = hedge.Do(t.Context(), policy, &hedge.Hedge{Delay: 10 * ms}, func(context.Context) (int, error) { time.Sleep(time.Second); return 0, nil })
		if err := retry.Run(t.Context(), policy, func(context.Context) error { return nil }); err != nil || time.Since(start) != 10*time.Second {
			t.Errorf("the next call: %v at %v, want it at 10s", err, time.Since(start))
		}
	})
}

// answers are what a quota's process answers, one after the other: a status, and the seconds
// of Retry-After.
type answers []string

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func (a answers) transport(t *testing.T) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if len(a) == 0 {
			t.Error("the quota was asked too often")
			return nil, errDown
		}
		var status, seconds int
		if _, err := fmt.Sscan(a[0], &status); err != nil {
			return nil, errDown
		}
		resp := &http.Response{StatusCode: status, Status: a[0], Header: http.Header{}, Body: io.NopCloser(strings.NewReader("")), Request: req}
		if _, err := fmt.Sscan(a[0], &status, &seconds); err == nil {
			resp.Header.Set("Retry-After", fmt.Sprint(seconds))
		}
		a = a[1:]
		return resp, nil
	})
}

func TestQuotaIsAskedAgain(t *testing.T) {
	quota := &guards.Quota{Client: &http.Client{Transport: answers{"429 5", "429 3", "200", "500", "200"}.transport(t)}, URL: "http://quota/take"}
	h := retrytest.New(t, retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(time.Minute), Guards: []retry.Guard{quota}})
	err := retry.Run(t.Context(), h.Policy, func(context.Context) error { return nil })
	h.AssertHeld(retry.Held{Number: 1, Guard: "guards.Quota", Delay: 5 * time.Second}) // once, though it was asked again
	h.AssertAttempts(1)
	if s := h.Summary(); err != nil || s.Waited != 8*time.Second {
		t.Errorf("%v after %v, want a success after 8s", err, s.Waited)
	}
	err = retry.Run(t.Context(), h.Policy, func(context.Context) error { return nil })
	if held := h.Held(); err != nil || len(held) != 1 || held[0].Class != retry.Unprocessed || held[0].Delay != time.Minute {
		t.Errorf("%v, %+v; want one try more after a broken quota", err, held)
	}
}

// A handler's request waits for no guard, but a guard may talk to others until its deadline: the
// Quota to its server, over a socket.
func TestQuotaOfAHandler(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked%2 == 0 {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()
	quota := &guards.Quota{Client: server.Client(), URL: server.URL}
	handler := retryhttp.LimitHandler(http.NotFoundHandler(), func(*http.Request) []retry.Guard { return []retry.Guard{quota} })
	for n, want := range []string{"404 ", "429 7", "404 ", "429 7"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if got := fmt.Sprint(w.Code, " ", w.Header().Get("Retry-After")); got != want {
			t.Errorf("request %d: %q, want %q", n+1, got, want)
		}
	}
	if asked != 4 {
		t.Errorf("the quota was asked %d times", asked)
	}
}

// patient is a guard that takes as long as it may, less a nanosecond.
type patient struct{ had *time.Duration }

func (p patient) Enter(ctx context.Context, e retry.Entry) (retry.Pass, error) {
	*p.had = e.Patience
	if e.Patience < time.Hour {
		time.Sleep(e.Patience - 1)
	}
	return retry.Pass{}, ctx.Err()
}

func (patient) Leave(retry.Pass, retry.Exit) {}

func TestPatienceOfAHandler(t *testing.T) {
	for _, deadline := range []time.Duration{0, 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			var had time.Duration
			handler := retryhttp.LimitHandler(http.NotFoundHandler(), func(*http.Request) []retry.Guard { return []retry.Guard{patient{&had}} })
			r, want := httptest.NewRequest(http.MethodGet, "/", nil), time.Duration(math.MaxInt64)
			if deadline > 0 {
				ctx, cancel := context.WithTimeout(r.Context(), deadline)
				defer cancel()
				r, want = r.WithContext(ctx), deadline
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if had != want || w.Code != http.StatusNotFound {
				t.Errorf("with a deadline of %v: patience %v, want %v; status %d", deadline, had, want, w.Code)
			}
			if _, err := (retry.Policy{Guards: []retry.Guard{patient{&had}}}).Admit(r.Context(), retry.Entry{Hedge: true}); err != nil || had != 0 {
				t.Errorf("a hedge: patience %v, %v", had, err)
			}
		})
	}
}

// A stream is in flight until it is closed. One that could not be opened is not.
func TestStreamHoldsItsPlace(t *testing.T) {
	places := &limit.Limit{Max: 1}
	h := retrytest.New(t, retry.Policy{Guards: []retry.Guard{places}, Backoff: retry.Constant(time.Second)})
	dials := 0
	dial := func(context.Context) (io.ReadCloser, error) {
		if dials++; dials == 1 {
			return nil, errDown
		}
		return io.NopCloser(strings.NewReader("")), nil
	}
	s, err := guards.Open(t.Context(), h.Policy, dial)
	if err != nil || places.InFlight() != 1 {
		t.Fatalf("%v, and %d in flight, want the stream", err, places.InFlight())
	}
	h.AssertAttempts(2)
	_, err = guards.Open(t.Context(), h.Policy, dial)
	ended(t, err, limit.ErrLimited, 0)
	for range 2 {
		if err := s.Close(); err != nil || places.InFlight() != 0 {
			t.Errorf("Close() = %v, and %d in flight, want none", err, places.InFlight())
		}
	}
}

// A Classify that was written for op does not see the errors of guards.
func TestClassifyDoesNotSeeGuards(t *testing.T) {
	full := &limit.Limit{Max: 1}
	if _, err := full.Enter(t.Context(), retry.Entry{}); err != nil {
		t.Fatal(err)
	}
	h := retrytest.New(t, retry.Policy{Guards: []retry.Guard{full}, Classify: func(error) retry.Class { return retry.Permanent }})
	err := retry.Run(t.Context(), h.Policy, func(context.Context) error { return nil })
	ended(t, err, limit.ErrLimited, 0)
	if got := len(h.Held()); got != 3 {
		t.Errorf("the guard was asked %d times, want three", got)
	}
}

// counted has a Pace in a field, and counts its attempts.
type counted struct {
	pace    pace.Pace
	entered int
}

func (c *counted) Enter(ctx context.Context, e retry.Entry) (retry.Pass, error) {
	c.entered++
	return c.pace.Enter(ctx, e)
}

func (c *counted) Leave(p retry.Pass, x retry.Exit) { c.pace.Leave(p, x) }

// hidden holds a Guard in an interface.
type hidden struct{ retry.Guard }

// A retry after a 429 costs nothing under a Pace with a quota, which limits these itself, whatever is
// around the Pace: its Pass says so.
func TestAWrapperAroundAPaceLosesNothing(t *testing.T) {
	held := &counted{pace: pace.Pace{Quota: 10}}
	for name, guard := range map[string]retry.Guard{"a Pace": &pace.Pace{Quota: 10}, "in a field": held, "behind an interface": hidden{&pace.Pace{Quota: 10}}} {
		budget := new(budget.Token)
		h := retrytest.New(t, retry.Policy{MaxAttempts: 2, Budget: budget, Guards: []retry.Guard{guard}})
		_ = retry.Run(t.Context(), h.Policy, func(context.Context) error { return retry.After(errDown, time.Second) })
		h.AssertAttempts(2)
		if budget.Balance() != 1 {
			t.Errorf("%s: the retry has cost something", name)
		}
	}
	if held.entered != 2 {
		t.Errorf("the pace in a field was entered %d times, want 2", held.entered)
	}
	held = new(counted)
	h := retrytest.New(t, retry.Policy{Guards: []retry.Guard{held}})
	_ = retry.Run(t.Context(), h.Policy, func(context.Context) error { held.pace.Hold(time.Second); return nil })
	if err := retry.Run(t.Context(), h.Policy, func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
	h.AssertHeld(retry.Held{Number: 1, Guard: "guards_test.counted", Delay: time.Second})
}
