package otelretry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/goretry/retry"
	"github.com/goretry/retry/breaker"
	"github.com/goretry/retry/clockx"
	otelretry "github.com/goretry/retry/otel"
)

// trip opens b for a second.
func trip(b *breaker.Breaker, clock clockx.Clock) {
	p := retry.Policy{MaxAttempts: 1, Guards: []retry.Guard{b}, Clock: clock, Rand: func() float64 { return .5 }}
	for range 20 {
		_ = retry.Run(context.Background(), p, func(context.Context) error { return errors.New("503") })
	}
}

func TestObserveBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var users, orders breaker.Breaker
		reader := sdkmetric.NewManualReader()
		opt := otelretry.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
		var unregister []func() error
		for name, b := range map[string]*breaker.Breaker{"users": &users, "orders": &orders} {
			u, err := otelretry.ObserveBreaker(name, b, opt)
			if err != nil {
				t.Fatal(err)
			}
			unregister = append(unregister, u)
		}
		trip(&users, clockx.NewVirtual(time.Unix(0, 0)))
		compare(t, "metrics", metrics(t, reader), `
retry.breaker.open [s] breaker=orders: 0
retry.breaker.open [s] breaker=users: 1`)
		for _, u := range unregister {
			if err := u(); err != nil {
				t.Errorf("unregister: %v", err)
			}
		}
		compare(t, "metrics after unregister", metrics(t, reader), "")
		if u, err := otelretry.ObserveBreaker("x", nil); err == nil || u() != nil {
			t.Errorf("a nil Breaker: %v", err)
		}
	})
}

// The end of a run and its count name a breaker that has refused it.
func TestBreakerIsNamed(t *testing.T) {
	var b breaker.Breaker
	v := view(t, retry.Policy{Name: "get-user", MaxAttempts: 1, Guards: []retry.Guard{&b}})
	trip(&b, v.h.Policy.Clock)
	_ = retry.Run(t.Context(), v.h.Policy, func(context.Context) error { return nil })
	wantGaveUp(t, v, " error.type=breaker.open guard=breaker.Breaker name=get-user reason=guard")
	v.wantSpans(`
get-user 0s-0s name=get-user max_attempts=1 attempts=0 outcome=failure_first_try reason=guard error.type=retry.guard guard=breaker.Breaker Error "guard: breaker.Breaker: the circuit is open, because most attempts have failed"
  @0s retry.guard attempt=1 delay=0 guard=breaker.Breaker class=unprocessed error.type=breaker.open
  @0s retry.gave_up reason=guard attempts=0 guard=breaker.Breaker`)
}

func ExampleObserveBreaker() {
	users := &breaker.Breaker{}
	unregister, err := otelretry.ObserveBreaker("users-api", users)
	if err != nil {
		fmt.Println(err)
	}
	defer func() { _ = unregister() }()
	fmt.Println(users.Open())
	// Output: 0s
}
