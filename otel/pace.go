package otelretry

import (
	"errors"
	"math"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/goretry/retry"
	"github.com/goretry/retry/errtext"
)

const paceKey = attribute.Key("retry.pace")

// ObservePace reports how many attempts in a second p lets start, 0 while it is open, and
// how long one that comes now would wait, as the gauges retry.pace.rate and
// retry.pace.wait with the attribute retry.pace set to name, until unregister is called.
// Names and errors are as with [ObserveBudget].
func ObservePace(name string, p *retry.Pace, opts ...Option) (unregister func() error, err error) {
	if p == nil {
		return func() error { return nil }, errors.New("otelretry: nil pace")
	}
	c := configured(opts)
	attrs := metric.WithAttributes(c.with(paceKey.String(errtext.Clip(name, brief)))...)
	return c.observe([]gauge{
		{instrument{"retry.pace.rate", "{attempt}/s", "Attempts that start in a second under a pace, 0 while it is open."}, func() float64 {
			if rate := p.Rate(); !math.IsInf(rate, 1) { // which not every exporter can write
				return rate
			}
			return 0
		}},
		{instrument{"retry.pace.wait", "s", "How long an attempt that comes now waits for its turn."}, func() float64 { return p.Wait().Seconds() }},
	}, attrs)
}
