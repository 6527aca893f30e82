package otelretry_test

import (
	"context"
	"errors"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	otelretry "github.com/goretry/retry/otel"
	"github.com/goretry/retry/pace"
)

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
	p := retry.Policy{Guards: []retry.Guard{pace}, Clock: clock, MaxAttempts: 1}
	for i := range 3 {
		if i == 1 {
			clock.Advance(1053605157) // -10 ln(1 - 1/10) seconds: what is counted fades in ten
		}
		_ = retry.Run(t.Context(), p, func(context.Context) error { return retry.After(errors.New("429"), 0) })
	}
	compare(t, "paced", metrics(t, reader), `
retry.pace.rate [{attempt}/s] pace=model: 1
retry.pace.wait [s] pace=model: 0`)
	if err := unregister(); err != nil {
		t.Error(err)
	}
	compare(t, "unregistered", metrics(t, reader), "")
	if u, err := otelretry.ObservePace("x", nil); err == nil || u() != nil {
		t.Errorf("a nil Pace: %v", err)
	}
}
