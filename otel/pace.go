package otelretry

import (
	"math"

	"github.com/goretry/retry/pace"
)

var paces = kind[*pace.Pace]{"retry.pace", "retry.pace",
	[]gauge[*pace.Pace]{
		{instrument{"retry.pace.rate", "{attempt}/s", "Units of the quota that start in a second under a pace, 0 if it has no quota."}, func(p *pace.Pace) (float64, bool) {
			if rate := p.Rate(); !math.IsInf(rate, 1) { // which not every exporter can write
				return rate, true
			}
			return 0, true
		}, nil},
		{instrument{"retry.pace.wait", "s", "How long an attempt that comes now waits for its turn."},
			func(p *pace.Pace) (float64, bool) { return p.Wait().Seconds(), true }, nil},
		{instrument{"retry.pace.quota", "{attempt}/s", "What the quota of a pace seems to be: less than the number that it was told if attempts are throttled all the same."},
			func(p *pace.Pace) (float64, bool) { s := p.Status(); return s.Seems, s.Quota > 0 }, nil},
		{instrument{"retry.pace.throttled", "1", "Share of the attempts of the last minute that were throttled under a pace with a quota."},
			func(p *pace.Pace) (float64, bool) { s := p.Status(); return s.Throttled, s.Quota > 0 }, nil},
		{instrument{"retry.pace.shared", "1", "1 while a store gives out a pace's quota, 0 while the process goes on alone, with error.type."},
			func(p *pace.Pace) (value float64, ok bool) {
				s := p.Status()
				if s.Shared {
					value = 1
				}
				return value, !s.Since.IsZero() || s.Err != nil
			}, func(p *pace.Pace) error { return p.Status().Err }},
	},
	func(p *pace.Pace) float64 { return p.Wait().Seconds() },
}

// ObservePace reports how many attempts in a second p lets start, 0 if it has no quota, and
// how long one that comes now would wait, as the gauges retry.pace.rate and
// retry.pace.wait with the attribute retry.pace set to name, until unregister is called. Of a
// pace with a quota it also reports what the quota seems to be, and the share of the attempts that is
// throttled all the same, as retry.pace.quota and retry.pace.throttled; of one that is shared whether its
// store answers, as retry.pace.shared: if not, it is 0, and has an error.type. Names and errors
// are as with [ObserveBudget].
func ObservePace(name string, p *pace.Pace, opts ...Option) (unregister func() error, err error) {
	return paces.observe(name, p, opts)
}
