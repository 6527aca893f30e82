package otelretry

import (
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/goretry/retry"
	"github.com/goretry/retry/errtext"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// underway counts the runs of one operation that have not ended, in the lower half
// of its word, and their attempts that have not, in the upper. So it needs no
// state of a run, which would be an allocation for each.
//
// It also knows since when the operation has been failing: see failing.
type underway struct {
	word  atomic.Int64
	since atomic.Int64 // the first failure after the latest success, in nanoseconds since 1970; 0: none
	began atomic.Int64 // the latest attempt after it
}

const (
	oneRun     = 1
	oneAttempt = 1 << 32
)

func (u *underway) begin() { u.word.Add(oneRun) }
func (u *underway) end()   { u.word.Add(-oneRun) }

func (u *underway) attempt() {
	u.word.Add(oneAttempt)
	if u.since.Load() != 0 { // else nobody needs the time
		u.began.Store(time.Now().UnixNano())
	}
}

// healthy is how long an attempt is up that counts as a success for failing, as in [retry.Supervise].
const healthy = time.Minute

func (u *underway) attemptDone(ctx context.Context, a *retry.Attempt) {
	u.word.Add(-oneAttempt)
	switch failed := a.Err != nil && errtext.Failed(ctx, *a); {
	case failed && a.Duration < healthy:
		if u.since.Load() == 0 {
			u.since.CompareAndSwap(0, time.Now().UnixNano())
		}
	case a.Err != nil && !failed && a.Class == retry.Unknown: // its caller has canceled it
	case u.since.Load() != 0:
		u.since.Store(0)
	}
}

// failing returns for how long nothing but failures has come of the operation. It is 0 while no run is
// underway, and once an attempt is up for a minute: a session that has been mended need not end.
func (u *underway) failing(now time.Time) time.Duration {
	attempting, waiting := u.states()
	since := u.since.Load()
	if since == 0 || attempting+waiting == 0 || attempting > 0 && now.Sub(time.Unix(0, max(u.began.Load(), since))) >= healthy {
		return 0
	}
	return max(now.Sub(time.Unix(0, since)), 0)
}

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
	gauge, err := m.Float64ObservableGauge("retry.operation.failing", metric.WithUnit("s"),
		metric.WithDescription("For how long all attempts of an operation have failed, while it is underway; else 0."))
	if err == nil && gauge != nil {
		_, err = m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
			a.observeFailing(func(d time.Duration, set attribute.Set) {
				o.ObserveFloat64(gauge, d.Seconds(), metric.WithAttributeSet(set))
			})
			return nil
		}, gauge)
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
	type sum struct {
		set attribute.Set
		n   int64
	}
	sums := make(map[attribute.Distinct]sum)
	add := func(o *operation, state string, n int64) {
		set := o.measured.set(stateKey.String(state))
		sums[set.Equivalent()] = sum{set, sums[set.Equivalent()].n + n}
	}
	for o := range a.operations() {
		attempting, waiting := o.underway.states()
		add(o, "attempting", attempting)
		add(o, "waiting", waiting)
	}
	for _, s := range sums {
		report(s.n, s.set)
	}
}

// observeFailing reports each set of attributes once: of several the one that has failed for longest.
func (a *activity) observeFailing(report func(time.Duration, attribute.Set)) {
	type worst struct {
		set attribute.Set
		d   time.Duration
	}
	all, now := make(map[attribute.Distinct]worst), time.Now()
	for o := range a.operations() {
		set := o.measured.set()
		all[set.Equivalent()] = worst{set, max(all[set.Equivalent()].d, o.underway.failing(now))}
	}
	for _, w := range all {
		report(w.d, w.set)
	}
}

// operations returns those of all Hooks that use the provider now.
func (a *activity) operations() iter.Seq[*operation] {
	a.mu.Lock()
	members := slices.Clone(a.members)
	a.mu.Unlock()
	return func(yield func(*operation) bool) {
		for _, w := range members {
			t := w.Value()
			if t == nil || t.instruments.latest.Load() == nil || t.instruments.latest.Load().value.activity != a {
				continue // it uses another provider by now
			}
			for _, o := range t.all() {
				if !yield(o) {
					return
				}
			}
		}
	}
}
