package otelretry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/fleetpace"
	otelretry "github.com/goretry/retry/otel"
)

func TestObservePace(t *testing.T) {
	clock := clockx.NewVirtual(time.Unix(0, 0))
	pace := &retry.Pace{Clock: clock}
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

// store is a fleet that is away, or has nothing to say.
type store struct{ away bool }

func (s *store) Exchange(context.Context, fleetpace.Report) (fleetpace.Answer, error) {
	if s.away {
		return fleetpace.Answer{}, errors.New("away")
	}
	return fleetpace.Answer{Epoch: 1}, nil
}

func (s *store) News(context.Context) <-chan struct{} { return nil }

func TestObserveSharedPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pace := new(retry.Pace)
		reader := sdkmetric.NewManualReader()
		opt := otelretry.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
		unregister, err := otelretry.ObservePace("model", pace, opt)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unregister() }()
		for _, tt := range []struct {
			what string
			away bool
			want string
		}{{"alone", true, `
retry.pace.alone [s] pace=model: 5
retry.pace.rate [{attempt}/s] pace=model: 0
retry.pace.wait [s] pace=model: 0`}, {"shared", false, `
retry.pace.alone [s] pace=model: 0
retry.pace.rate [{attempt}/s] pace=model: 0
retry.pace.wait [s] pace=model: 0`}} {
			ctx, cancel := context.WithCancel(t.Context())
			go func() { _ = pace.Share(ctx, &store{tt.away}) }()
			time.Sleep(5 * time.Second)
			compare(t, tt.what, metrics(t, reader), tt.want)
			cancel()
			synctest.Wait()
		}
		compare(t, "not shared", metrics(t, reader), `
retry.pace.rate [{attempt}/s] pace=model: 0
retry.pace.wait [s] pace=model: 0`)
	})
}
