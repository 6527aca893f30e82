package otelretry

import "github.com/goretry/retry/retryqueue"

var gates = kind[*retryqueue.Gate]{"retry.gate", "retry.gate",
	[]gauge[*retryqueue.Gate]{{instrument{"retry.gate.closed", "{gate}", "1 while the gate of a queue is closed, with error.type, else 0."},
		func(g *retryqueue.Gate) (closed float64, ok bool) {
			if since, _, _ := g.Closed(); !since.IsZero() {
				closed = 1
			}
			return closed, true
		},
		func(g *retryqueue.Gate) error {
			_, _, err := g.Closed()
			return err
		}}},
	func(g *retryqueue.Gate) (badness float64) {
		since, _, _ := g.Closed()
		if !since.IsZero() {
			badness = 1
		}
		return badness
	},
}

// ObserveGate reports whether g is closed, as the gauge retry.gate.closed with the attribute
// retry.gate set to name, until unregister is called: 1 and the error.type of what has closed it, or
// 0. Names and errors are as with [ObserveBudget].
func ObserveGate(name string, g *retryqueue.Gate, opts ...Option) (unregister func() error, err error) {
	return gates.observe(name, g, opts)
}
