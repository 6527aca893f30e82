package otelretry_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	otelretry "github.com/goretry/retry/otel"
	"github.com/goretry/retry/pace"
)

// down is a store that is not there.
type down struct{}

func (down) Reserve(context.Context, pace.Ask) (pace.Slots, error) {
	return pace.Slots{}, syscall.ECONNREFUSED
}

func (down) News(context.Context) <-chan struct{} { return nil }

func TestObserveAQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := &pace.Pace{Quota: 25}
		reader := sdkmetric.NewManualReader()
		opt := otelretry.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
		if _, err := otelretry.ObservePace("model", model, opt); err != nil {
			t.Fatal(err)
		}
		compare(t, "alone", metrics(t, reader), `
retry.pace.quota [{attempt}/s] pace=model: 25
retry.pace.rate [{attempt}/s] pace=model: 25
retry.pace.throttled [1] pace=model: 0
retry.pace.wait [s] pace=model: 0`)
		for i := range 1000 {
			_ = retry.Run(t.Context(), retry.Policy{Guards: []retry.Guard{model}, MaxAttempts: 1}, func(context.Context) error {
				if i%5 == 0 {
					return retry.After(errors.New("429"), 0)
				}
				return nil
			})
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go model.Share(ctx, down{})
		time.Sleep(3 * time.Second)
		compare(t, "shared with nobody", metrics(t, reader), `
retry.pace.quota [{attempt}/s] pace=model: 20.01
retry.pace.rate [{attempt}/s] pace=model: 25
retry.pace.shared [1] error.type=syscall.Errno pace=model: 0
retry.pace.throttled [1] pace=model: 0.1997
retry.pace.wait [s] pace=model: 0`)
	})
}

func TestObservePace(t *testing.T) {
	clock := clockx.NewVirtual(time.Unix(0, 0))
	pace := &pace.Pace{Clock: clock}
	reader := sdkmetric.NewManualReader()
	opt := otelretry.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	unregister, err := otelretry.ObservePace("model", pace, opt)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "open", metrics(t, reader), `
retry.pace.rate [{attempt}/s] pace=model: 0
retry.pace.wait [s] pace=model: 0`)
	pace.Hold(20 * time.Second)
	compare(t, "held", metrics(t, reader), `
retry.pace.rate [{attempt}/s] pace=model: 0
retry.pace.wait [s] pace=model: 20`)
	if err := unregister(); err != nil {
		t.Error(err)
	}
	compare(t, "unregistered", metrics(t, reader), "")
	if u, err := otelretry.ObservePace("x", nil); err == nil || u() != nil {
		t.Errorf("a nil Pace: %v", err)
	}
}
