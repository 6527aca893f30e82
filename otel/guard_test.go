package otelretry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/breaker"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/limit"
	otelretry "github.com/goretry/retry/otel"
	"github.com/goretry/retry/pace"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// plan has attempts wait for so long each, or refuses them by an error.
type plan []any

func (p *plan) Enter(context.Context, retry.Entry) (pass retry.Pass, err error) {
	if len(*p) == 0 {
		return retry.Pass{}, nil
	}
	next := (*p)[0]
	*p = (*p)[1:]
	if err, ok := next.(error); ok {
		return retry.Pass{}, err
	}
	return retry.Pass{Wait: next.(time.Duration)}, nil
}
func (p *plan) Leave(retry.Pass, retry.Exit) {}

// A wait for a guard is no wait for a retry, and neither it nor a refusal is an attempt.
func TestGuardsAreNamed(t *testing.T) {
	guarded := func() retry.Policy {
		return retry.Policy{Name: "pay", MaxAttempts: 4, Guards: []retry.Guard{&plan{300 * ms, limit.ErrLimited, 2 * time.Second, limit.ErrLimited}}}
	}
	fails := func(v *viewer) {
		_ = retry.Run(t.Context(), v.h.Policy, func(context.Context) error {
			v.h.Clock.Advance(10 * ms)
			return errDown
		})
	}
	const measured = `
retry.attempt.duration [s] error.type=*errors.errorString class=transient name=pay: 2 runs, sum 0.02
retry.gave_up [{operation}] error.type=limit.limited guard=otelretry_test.plan name=pay reason=guard: 1
retry.guards [{attempt}] guard=otelretry_test.plan guard.result=refused name=pay: 2
retry.guards [{attempt}] guard=otelretry_test.plan guard.result=waited name=pay: 2
retry.operation.attempts [{attempt}] name=pay outcome=failure_after_retry: 1 runs, sum 2
retry.operation.duration [s] error.type=retry.guard name=pay outcome=failure_after_retry: 1 runs, sum 3.02
retry.operation.waited [s] name=pay: 1 runs, sum 3`
	for _, mode := range []otelretry.Attempts{otelretry.AllAttempts, otelretry.RetriedRuns} {
		v := view(t, guarded(), otelretry.WithAttempts(mode))
		fails(v)
		v.wantSpans(`
pay 0s-3.02s name=pay max_attempts=4 attempts=2 outcome=failure_after_retry reason=guard error.type=retry.guard waited=3 guard=otelretry_test.plan Error "guard: otelretry_test.plan: limit: too many attempts in flight; attempts failed with: connection refused"
  @3.02s retry.guard attempt=3 delay=0 guard=otelretry_test.plan class=unprocessed error.type=limit.limited
  @3.02s retry.gave_up reason=guard attempts=2 guard=otelretry_test.plan
  guard pay 0s-300ms name=pay attempt=1 delay=0.3 guard=otelretry_test.plan
  attempt 1 pay 300ms-310ms name=pay attempt=1 class=transient error.type=*errors.errorString Error "connection refused"
  wait pay 310ms-410ms name=pay attempt=1 delay=0.1 class=transient error.type=*errors.errorString
  guard pay 410ms-610ms name=pay attempt=2 delay=0.2 guard=otelretry_test.plan class=unprocessed error.type=limit.limited
  guard pay 610ms-2.61s name=pay attempt=2 delay=2 guard=otelretry_test.plan
  attempt 2 pay 2.61s-2.62s name=pay attempt=2 class=transient error.type=*errors.errorString Error "connection refused"
  wait pay 2.62s-3.02s name=pay attempt=2 delay=0.4 class=transient error.type=*errors.errorString`)
		v.wantMetrics(measured)
	}
	v := view(t, guarded(), otelretry.WithAttempts(otelretry.NoAttempts), otelretry.WithWaits(false))
	fails(v)
	v.wantSpans(`
pay 0s-3.02s name=pay max_attempts=4 attempts=2 outcome=failure_after_retry reason=guard error.type=retry.guard waited=3 guard=otelretry_test.plan Error "guard: otelretry_test.plan: limit: too many attempts in flight; attempts failed with: connection refused"
  @0s retry.guard attempt=1 delay=0.3 guard=otelretry_test.plan
  @310ms retry.wait attempt=1 delay=0.1 class=transient error.type=*errors.errorString
  @410ms retry.guard attempt=2 delay=0.2 guard=otelretry_test.plan class=unprocessed error.type=limit.limited
  @610ms retry.guard attempt=2 delay=2 guard=otelretry_test.plan
  @2.62s retry.wait attempt=2 delay=0.4 class=transient error.type=*errors.errorString
  @3.02s retry.guard attempt=3 delay=0 guard=otelretry_test.plan class=unprocessed error.type=limit.limited
  @3.02s retry.gave_up reason=guard attempts=2 guard=otelretry_test.plan`)
	v.wantMetrics(measured)
}

// A run that a guard never let start has failed: alerts count it by its error.type.
func TestARunWithoutAttemptsThatAGuardEnded(t *testing.T) {
	for _, mode := range []otelretry.Attempts{otelretry.AllAttempts, otelretry.RetriedRuns} {
		v := view(t, retry.Policy{MaxAttempts: 2, Guards: []retry.Guard{&plan{limit.ErrLimited, limit.ErrLimited}}}, otelretry.WithAttempts(mode))
		_ = v.run(t.Context())
		v.wantSpans(`
retry 0s-100ms max_attempts=2 attempts=0 outcome=failure_first_try reason=guard error.type=retry.guard waited=0.1 guard=otelretry_test.plan Error "guard: otelretry_test.plan: limit: too many attempts in flight"
  @100ms retry.guard attempt=1 delay=0 guard=otelretry_test.plan class=unprocessed error.type=limit.limited
  @100ms retry.gave_up reason=guard attempts=0 guard=otelretry_test.plan
  guard 0s-100ms attempt=1 delay=0.1 guard=otelretry_test.plan class=unprocessed error.type=limit.limited`)
		wantGaveUp(t, v, " error.type=limit.limited guard=otelretry_test.plan reason=guard")
	}
}

// A full limit may refuse one attempt for days.
func TestRefusalsOfARunHaveFewSpans(t *testing.T) {
	for _, opt := range []otelretry.Option{otelretry.WithWaits(true), otelretry.WithWaits(false)} {
		refusals := new(plan)
		for range 100 {
			*refusals = append(*refusals, limit.ErrLimited)
		}
		v := view(t, retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Constant(ms), Guards: []retry.Guard{refusals}}, opt)
		_ = v.run(t.Context(), succeeds(ms))
		if n := strings.Count(v.tree(), "class=unprocessed"); n != 32 {
			t.Errorf("%d refusals are shown, want 32", n)
		}
		if want := "retry.guards [{attempt}] guard=otelretry_test.plan guard.result=refused: 100"; !strings.Contains(metrics(t, v.reader), want) {
			t.Errorf("no %s in\n%s", want, metrics(t, v.reader))
		}
	}
}

// Types of guards are few, but hooks may be called with anything.
func TestTypesOfGuardsAreBounded(t *testing.T) {
	otelretry.Forget()
	t.Cleanup(otelretry.Forget)
	v := view(t, retry.Policy{})
	for i := range 1000 {
		v.hooks.Guard(t.Context(), retry.Held{Guard: fmt.Sprint("guard", i, "\xff"), Err: errDown})
	}
	if n := strings.Count(metrics(t, v.reader), "retry.guards"); n != 257 {
		t.Errorf("%d rows, want 256 types and the others", n)
	}
}

// Of what a PerKey has the five worst are reported, by rank, and how many there are.
func TestObservePerKey(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	opt := otelretry.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	budgets := retry.PerKey[budget.Token]{New: func(key string) *budget.Token {
		if key == "none" {
			return nil
		}
		return &budget.Token{Capacity: 10, Cost: 1}
	}}
	limits := retry.PerKey[limit.Limit]{New: func(string) *limit.Limit { return &limit.Limit{Max: 10} }}
	hedges := retry.PerKey[hedge.Hedge]{New: func(key string) *hedge.Hedge {
		if key == "never" {
			return &hedge.Hedge{Delay: hedge.Never}
		}
		return &hedge.Hedge{Delay: time.Duration(key[0]-'0') * time.Second}
	}}
	var breakers retry.PerKey[breaker.Breaker]
	var paces retry.PerKey[pace.Pace]
	var adaptive retry.PerKey[limit.Adaptive]
	adaptive.For("calm")
	var unregister []func() error
	for _, observe := range []func() (func() error, error){
		func() (func() error, error) { return otelretry.ObservePerKey("shards", &budgets, opt) },
		func() (func() error, error) { return otelretry.ObservePerKey("shards", &limits, opt) },
		func() (func() error, error) { return otelretry.ObservePerKey("shards", &breakers, opt) },
		func() (func() error, error) { return otelretry.ObservePerKey("shards", &hedges, opt) },
		func() (func() error, error) { return otelretry.ObservePerKey("shards", &paces, opt) },
		func() (func() error, error) { return otelretry.ObservePerKey("calm", &adaptive, opt) },
	} {
		u, err := observe()
		if err != nil {
			t.Errorf("observing: %v", err)
		}
		unregister = append(unregister, u)
	}
	compare(t, "metrics without a key", metrics(t, reader), `
retry.breaker.parts [{part}] breaker=shards: 0
retry.budget.parts [{part}] budget=shards: 0
retry.hedge.parts [{part}] hedge.name=shards: 0
retry.limit.in_flight [{attempt}] limit=calm limit.rank=1: 0
retry.limit.parts [{part}] limit=calm: 1
retry.limit.parts [{part}] limit=shards: 0
retry.pace.parts [{part}] pace=shards: 0`)
	for _, n := range []int{3, 1, 5, 2, 6, 4} {
		key := fmt.Sprint(n)
		for range n {
			budgets.For(key).Withdraw(retry.Withdrawal{Class: retry.Transient})
			_, _ = limits.For(key).Enter(t.Context(), retry.Entry{})
		}
		hedges.For(key)
	}
	budgets.For("none")
	hedges.For("never")
	breakers.For("closed")
	trip(breakers.For("open"), clockx.NewVirtual(time.Unix(0, 0)))
	paces.For("open")
	compare(t, "metrics", metrics(t, reader), `
retry.breaker.open [s] breaker=shards breaker.rank=1: 1
retry.breaker.open [s] breaker=shards breaker.rank=2: 0
retry.breaker.parts [{part}] breaker=shards: 2
retry.budget.balance [1] budget=shards budget.rank=1: 0.4
retry.budget.balance [1] budget=shards budget.rank=2: 0.5
retry.budget.balance [1] budget=shards budget.rank=3: 0.6
retry.budget.balance [1] budget=shards budget.rank=4: 0.7
retry.budget.balance [1] budget=shards budget.rank=5: 0.8
retry.budget.parts [{part}] budget=shards: 6
retry.hedge.delay [s] hedge.name=shards hedge.rank=1: 6
retry.hedge.delay [s] hedge.name=shards hedge.rank=2: 5
retry.hedge.delay [s] hedge.name=shards hedge.rank=3: 4
retry.hedge.delay [s] hedge.name=shards hedge.rank=4: 3
retry.hedge.delay [s] hedge.name=shards hedge.rank=5: 2
retry.hedge.parts [{part}] hedge.name=shards: 7
retry.limit.in_flight [{attempt}] limit=calm limit.rank=1: 0
retry.limit.in_flight [{attempt}] limit=shards limit.rank=1: 6
retry.limit.in_flight [{attempt}] limit=shards limit.rank=2: 5
retry.limit.in_flight [{attempt}] limit=shards limit.rank=3: 4
retry.limit.in_flight [{attempt}] limit=shards limit.rank=4: 3
retry.limit.in_flight [{attempt}] limit=shards limit.rank=5: 2
retry.limit.parts [{part}] limit=calm: 1
retry.limit.parts [{part}] limit=shards: 6
retry.limit.places [{attempt}] limit=shards limit.rank=1: 10
retry.limit.places [{attempt}] limit=shards limit.rank=2: 10
retry.limit.places [{attempt}] limit=shards limit.rank=3: 10
retry.limit.places [{attempt}] limit=shards limit.rank=4: 10
retry.limit.places [{attempt}] limit=shards limit.rank=5: 10
retry.pace.parts [{part}] pace=shards: 1
retry.pace.rate [{attempt}/s] pace=shards pace.rank=1: 0
retry.pace.wait [s] pace=shards pace.rank=1: 0`)
	for _, u := range unregister {
		if err := u(); err != nil {
			t.Errorf("unregister: %v", err)
		}
	}
	compare(t, "metrics after unregister", metrics(t, reader), "")
	if u, err := otelretry.ObservePerKey[limit.Limit]("x", nil); err == nil || u() != nil {
		t.Errorf("a nil PerKey: %v", err)
	}
	if u, err := otelretry.ObservePerKey("x", new(retry.PerKey[retry.Policy])); err == nil || u() != nil {
		t.Errorf("policies: %v", err)
	}
	if u, err := otelretry.ObservePerKey("x", &paces, otelretry.WithMeterProvider(failing{})); !errors.Is(err, errMeter) || u() != nil {
		t.Errorf("failing meter: %v", err)
	}
}
