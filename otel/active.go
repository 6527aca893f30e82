package otelretry

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// underway counts the runs of one operation that have not ended, in the lower half
// of its word, and their attempts that have not, in the upper. So it needs no
// state of a run, which would be an allocation for each.
type underway struct{ word atomic.Int64 }

const (
	oneRun     = 1
	oneAttempt = 1 << 32
)

func (u *underway) begin()       { u.word.Add(oneRun) }
func (u *underway) attempt()     { u.word.Add(oneAttempt) }
func (u *underway) attemptDone() { u.word.Add(-oneAttempt) }
func (u *underway) end()         { u.word.Add(-oneRun) }

// states returns how many runs have an attempt underway, and how many have none.
// attempting is never more than there are runs, even if a panic in another hook
// prevented the call of this package's AttemptDone.
func (u *underway) states() (attempting, waiting int64) {
	w := u.word.Load()
	runs := int64(int32(w))
	attempting = min(max((w-runs)/oneAttempt, 0), max(runs, 0))
	return attempting, max(runs, 0) - attempting
}

// activity reports the runs underway to one provider: those of all Hooks that use it,
// since a set of attributes must not be reported to one instrument twice.
type activity struct {
	provider metric.MeterProvider
	mu       sync.Mutex
	members  []weak.Pointer[telemetry]
}

// activities are those of the providers in use. References to Hooks or to the provider
// keep an activity alive, this list does not.
var activities struct {
	sync.Mutex
	all []weak.Pointer[activity]
}

// activityOf returns the activity of a provider, which is registered there at first.
func activityOf(p metric.MeterProvider, m metric.Meter) *activity {
	activities.Lock()
	defer activities.Unlock()
	activities.all = slices.DeleteFunc(activities.all, func(w weak.Pointer[activity]) bool { return w.Value() == nil })
	for _, w := range activities.all {
		if a := w.Value(); a != nil {
			if equal, known := same(a.provider, p); equal && known {
				return a
			}
		}
	}
	a := &activity{provider: p}
	counter, err := m.Int64ObservableUpDownCounter("retry.operation.active", metric.WithUnit("{operation}"),
		metric.WithDescription("Operations that have begun and not ended, by whether an attempt is underway."))
	if err == nil && counter != nil {
		_, err = m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
			a.observe(func(n int64, set attribute.Set) { o.ObserveInt64(counter, n, metric.WithAttributeSet(set)) })
			return nil
		}, counter)
	}
	if err != nil {
		otel.Handle(err)
	}
	activities.all = append(activities.all, weak.Make(a))
	return a
}

// join has the activity report the runs of t too, as long as t uses its provider.
func (a *activity) join(t *telemetry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.members = slices.DeleteFunc(a.members, func(w weak.Pointer[telemetry]) bool {
		member := w.Value()
		return member == nil || member == t
	})
	a.members = append(a.members, weak.Make(t))
}

// observe reports each set of attributes once.
func (a *activity) observe(report func(int64, attribute.Set)) {
	a.mu.Lock()
	members := slices.Clone(a.members)
	a.mu.Unlock()
	type sum struct {
		set attribute.Set
		n   int64
	}
	sums := make(map[attribute.Distinct]sum)
	add := func(o *operation, state string, n int64) {
		set := o.measured.set(stateKey.String(state))
		sums[set.Equivalent()] = sum{set, sums[set.Equivalent()].n + n}
	}
	for _, w := range members {
		t := w.Value()
		if t == nil || t.instruments.latest.Load() == nil || t.instruments.latest.Load().value.activity != a {
			continue // it uses another provider by now
		}
		for _, o := range t.all() {
			attempting, waiting := o.underway.states()
			add(o, "attempting", attempting)
			add(o, "waiting", waiting)
		}
	}
	for _, s := range sums {
		report(s.n, s.set)
	}
}
