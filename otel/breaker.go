package otelretry

import "github.com/goretry/retry/breaker"

var breakers = kind[*breaker.Breaker]{"retry.breaker", "retry.breaker",
	[]gauge[*breaker.Breaker]{{instrument{"retry.breaker.open", "s", "How long it is until a circuit breaker admits the next attempt, 0 if it admits one."},
		func(b *breaker.Breaker) (float64, bool) { return b.Open().Seconds(), true }, nil}},
	func(b *breaker.Breaker) float64 { return b.Open().Seconds() },
}

// ObserveBreaker reports how long it is until b admits the next attempt, 0 if it admits one, as
// the gauge retry.breaker.open with the attribute retry.breaker set to name, until unregister is
// called. Names and errors are as with [ObserveBudget].
func ObserveBreaker(name string, b *breaker.Breaker, opts ...Option) (unregister func() error, err error) {
	return breakers.observe(name, b, opts)
}
