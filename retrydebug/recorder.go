package retrydebug

import (
	"context"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/goretry/retry"
)

// Recorder records runs, and is the [http.Handler] of the page that shows them. The
// zero value is ready. Set the fields before the first use, and do not copy it after.
// It is safe for concurrent use. A nil Recorder records nothing, and serves 404.
//
// It keeps at most 256 names of 128 bytes each (further names share one), 65 536 runs
// underway, and 64 that failed. It starts no goroutine, and its hooks neither wait nor
// panic.
type Recorder struct {
	// Allow reports whether a request may see the page. It must be safe for concurrent
	// use. Nil means that requests from this machine may: those from a loopback address
	// to a loopback address or "localhost", without the headers that proxies set. A proxy
	// on this machine that sets none of Forwarded, X-Forwarded-For, X-Forwarded-Host,
	// X-Real-IP and Via makes all requests look local: then set Allow, or let the proxy
	// authenticate.
	Allow func(*http.Request) bool

	// Trace returns the id of the trace that ctx belongs to, or "". It is called for runs
	// that failed, with the context of Hooks.Done. It must be safe for concurrent use.
	// Nil means that no traces are shown.
	Trace func(ctx context.Context) string

	once       sync.Once
	since      time.Time // the first use
	shards     []*shard
	operations operations
	failures   failures
	gauges     gauges
}

// begin makes r ready.
func (r *Recorder) begin() {
	r.once.Do(func() {
		r.since = time.Now()
		r.operations.init()
		n := 1
		for n < runtime.GOMAXPROCS(0) && n < mostShards {
			n *= 2
		}
		for range n {
			r.shards = append(r.shards, &shard{recorder: r, room: mostListed / n})
		}
	})
}

// Hooks returns hooks that record the runs of the policies they are in. They must not
// be in a policy twice: join them with others by [retry.JoinHooks]. The hooks of a nil
// Recorder are empty.
func (r *Recorder) Hooks() retry.Hooks {
	if r == nil {
		return retry.Hooks{}
	}
	r.begin()
	return retry.Hooks{Start: r.start, Attempt: r.attempt, AttemptDone: r.attemptDone, Wait: r.wait, Guard: r.guard, Done: r.done}
}

// ObserveBudget shows the balance of b, such as a [budget.Token], by that name. A
// second call with the same name replaces b, and a nil b removes it. Balance is called
// when the page is served, and must be safe for concurrent use. So is Price, if b has that
// method: see [retry.Budget]. Then the page also shows what a retry costs. 256 names are shown.
// [ObservePerKey] is for budgets by key. A nil Recorder ignores it.
func (r *Recorder) ObserveBudget(name string, b interface{ Balance() float64 }) {
	if r != nil {
		r.begin()
		observe(&r.gauges, &r.gauges.budgets, name, gauge[budget]{value: b}, b == nil)
	}
}

// ObserveLimit is ObserveBudget for the places of a limit, such as a
// [github.com/goretry/retry/limit.Limit] or an Adaptive. [math.MaxInt] places are no limit.
func (r *Recorder) ObserveLimit(name string, l interface {
	InFlight() int
	Places() int
}) {
	if r != nil {
		r.begin()
		observe(&r.gauges, &r.gauges.limits, name, gauge[limiter]{value: l}, l == nil)
	}
}

// ObserveBreaker is ObserveBudget for how long it is until a circuit breaker admits the next
// attempt, such as a [github.com/goretry/retry/breaker.Breaker].
func (r *Recorder) ObserveBreaker(name string, b interface{ Open() time.Duration }) {
	if r != nil {
		r.begin()
		observe(&r.gauges, &r.gauges.breakers, name, gauge[breaker]{value: b}, b == nil)
	}
}

// ObserveGate is ObserveBudget for whether the gate of a queue is closed, since when, until when, and
// why, such as a [github.com/goretry/retry/retryqueue.Gate].
func (r *Recorder) ObserveGate(name string, g interface {
	Closed() (since, probe time.Time, err error)
}) {
	if r != nil {
		r.begin()
		observe(&r.gauges, &r.gauges.gates, name, gauge[gate]{value: g}, g == nil)
	}
}

// ObserveTarget is ObserveBudget for how much longer a target rests, such as a
// [github.com/goretry/retry/failover.Target].
func (r *Recorder) ObserveTarget(name string, t interface{ Resting() time.Duration }) {
	if r != nil {
		r.begin()
		observe(&r.gauges, &r.gauges.targets, name, gauge[target]{value: t}, t == nil)
	}
}

// ObserveHedge is ObserveBudget for the time after which a hedge makes its second
// attempt, such as that of a [github.com/goretry/retry/hedge.Hedge].
func (r *Recorder) ObserveHedge(name string, h interface{ Wait() time.Duration }) {
	if r != nil {
		r.begin()
		observe(&r.gauges, &r.gauges.hedges, name, gauge[hedger]{value: h}, h == nil)
	}
}

// ObservePace is ObserveBudget for the rate of a [pace.Pace], and for how long an
// attempt that comes now has to wait.
func (r *Recorder) ObservePace(name string, p interface {
	Rate() float64
	Wait() time.Duration
}) {
	if r != nil {
		r.begin()
		observe(&r.gauges, &r.gauges.paces, name, gauge[pacer]{value: p}, p == nil)
	}
}
