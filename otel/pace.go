package otelretry

import (
	"math"

	"github.com/goretry/retry/pace"
)

var paces = kind[*pace.Pace]{"retry.pace", "retry.pace",
	[]gauge[*pace.Pace]{
		{instrument{"retry.pace.rate", "{attempt}/s", "Attempts that start in a second under a pace, 0 while it is open."}, func(p *pace.Pace) (float64, bool) {
			if rate := p.Rate(); !math.IsInf(rate, 1) { // which not every exporter can write
				return rate, true
			}
			return 0, true
		}},
		{instrument{"retry.pace.wait", "s", "How long an attempt that comes now waits for its turn."},
			func(p *pace.Pace) (float64, bool) { return p.Wait().Seconds(), true }},
	},
	func(p *pace.Pace) float64 { return p.Wait().Seconds() },
}

// ObservePace reports how many attempts in a second p lets start, 0 while it is open, and
// how long one that comes now would wait, as the gauges retry.pace.rate and
// retry.pace.wait with the attribute retry.pace set to name, until unregister is called.
// Names and errors are as with [ObserveBudget].
func ObservePace(name string, p *pace.Pace, opts ...Option) (unregister func() error, err error) {
	return paces.observe(name, p, opts)
}
