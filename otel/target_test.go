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
	"github.com/goretry/retry/failover"
	otelretry "github.com/goretry/retry/otel"
)

func TestObserveTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large, small := &failover.Target[int]{Name: "large"}, &failover.Target[int]{Name: "small"}
		reader := sdkmetric.NewManualReader()
		opt := otelretry.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
		for _, target := range []*failover.Target[int]{large, small} {
			unregister, err := otelretry.ObserveTarget(target.Name, target, opt)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := unregister(); err != nil {
					t.Errorf("unregister: %v", err)
				}
			}()
		}
		large.Hold(time.Minute)
		time.Sleep(20 * time.Second)
		compare(t, "metrics", metrics(t, reader), `
retry.target.resting [s] target=large: 40
retry.target.resting [s] target=small: 0`)
		if u, err := otelretry.ObserveTarget("x", nil); err == nil || u() != nil {
			t.Errorf("a nil target: %v", err)
		}
	})
}

// Spans name the target of each attempt, and the set when a run waits for one.
func TestTargetIsNamed(t *testing.T) {
	v := view(t, retry.Policy{Name: "ask", MaxAttempts: 2, Backoff: retry.Constant(0)})
	s := &failover.Set[int]{Targets: []*failover.Target[int]{{Name: "large"}, {Name: "small"}}}
	_, err := failover.Do(t.Context(), v.h.Policy, s, func(context.Context, *failover.Target[int]) (int, error) { return 0, errors.New("down") })
	if err == nil {
		t.Fatal("no error")
	}
	v.wantSpans(`
ask 0s-0s name=ask max_attempts=2 attempts=2 outcome=failure_after_retry reason=max_attempts error.type=retry.max_attempts Error "max_attempts: small: down"
  @0s retry.gave_up reason=max_attempts attempts=2
  attempt 1 ask 0s-0s name=ask attempt=1 class=transient error.type=*errors.errorString Error "large: down"
  wait ask 0s-0s name=ask attempt=1 delay=0 class=transient error.type=*errors.errorString
  attempt 2 ask 0s-0s name=ask attempt=2 class=transient error.type=*errors.errorString Error "small: down"`)
}

func ExampleObserveTarget() {
	large := &failover.Target[string]{Name: "large"}
	unregister, err := otelretry.ObserveTarget(large.Name, large)
	if err != nil {
		fmt.Println(err)
	}
	defer func() { _ = unregister() }()
	fmt.Println(large.Resting())
	// Output: 0s
}
