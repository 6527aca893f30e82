package otelretry

import "time"

// target is a failover.Target, whatever its value.
type target interface{ Resting() time.Duration }

var targets = kind[target]{"retry.target", "retry.target",
	[]gauge[target]{{instrument{"retry.target.resting", "s", "How much longer a target of package failover rests, 0 if it does not."},
		func(t target) (float64, bool) { return t.Resting().Seconds(), true }, nil}},
	func(t target) float64 { return t.Resting().Seconds() },
}

// ObserveTarget reports how much longer t rests, such as a [failover.Target], 0 if it does not, as the gauge
// retry.target.resting with the attribute retry.target set to name, until unregister is called. Observe
// the first choice at least: its rest is what nobody else sees. Names and errors are as with [ObserveBudget].
//
// [failover.Target]: https://pkg.go.dev/github.com/goretry/retry/failover#Target
func ObserveTarget(name string, t interface{ Resting() time.Duration }, opts ...Option) (unregister func() error, err error) {
	return targets.observe(name, t, opts)
}
