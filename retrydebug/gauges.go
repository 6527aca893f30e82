package retrydebug

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/errtext"
	"github.com/goretry/retry/pace"
)

// gauges are the budgets, limits, breakers, gates, targets, hedges and paces that are observed, by the keys
// of their names.
type gauges struct {
	mu       sync.Mutex
	budgets  map[string]gauge[budget]
	limits   map[string]gauge[limiter]
	breakers map[string]gauge[breaker]
	gates    map[string]gauge[gate]
	targets  map[string]gauge[target]
	hedges   map[string]gauge[hedger]
	paces    map[string]gauge[pacer]
}

type budget interface{ Balance() float64 }

// pricer is a budget that says what a retry costs: see retry.Budget.
type pricer interface {
	Price(retry.Withdrawal) (price, left float64)
}

type limiter interface {
	InFlight() int
	Places() int
}

type breaker interface{ Open() time.Duration }

type gate interface {
	Closed() (since, probe time.Time, err error)
}

type target interface{ Resting() time.Duration }

type hedger interface{ Wait() time.Duration }

type pacer interface {
	Rate() float64
	Wait() time.Duration
}

type gauge[V any] struct {
	name  string // as it is shown
	value V
	parts func() iter.Seq2[string, V] // of a retry.PerKey, else nil
}

// observe sets, replaces or removes a gauge.
func observe[V any](g *gauges, in *map[string]gauge[V], name string, observed gauge[V], remove bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := key(name)
	if remove {
		delete(*in, k)
		return
	}
	if _, ok := (*in)[k]; !ok && len(*in) == names {
		return
	}
	if *in == nil {
		*in = make(map[string]gauge[V])
	}
	observed.name = line(name, longest)
	(*in)[strings.Clone(k)] = observed
}

// ObservePerKey is [Recorder.ObserveBudget], ObserveLimit, ObserveBreaker, ObserveGate, ObserveHedge
// or ObservePace for all that keys has, by what a *T is. The page shows how many there are, and the
// five worst with their keys: the budgets that have least, the fullest limits, the hedges that
// wait, the breakers that are open and the paces that hold attempts back for longest. A nil keys
// removes that name. ObservePerKey panics if a *T is none of these.
func ObservePerKey[T any](r *Recorder, name string, keys *retry.PerKey[T]) {
	if r == nil {
		return
	}
	r.begin()
	g, remove := &r.gauges, keys == nil
	switch any((*T)(nil)).(type) {
	case budget:
		observe(g, &g.budgets, name, gauge[budget]{parts: partsOf[budget](keys)}, remove)
	case limiter:
		observe(g, &g.limits, name, gauge[limiter]{parts: partsOf[limiter](keys)}, remove)
	case gate:
		observe(g, &g.gates, name, gauge[gate]{parts: partsOf[gate](keys)}, remove)
	case breaker:
		observe(g, &g.breakers, name, gauge[breaker]{parts: partsOf[breaker](keys)}, remove)
	case pacer: // before hedger, whose method it has
		observe(g, &g.paces, name, gauge[pacer]{parts: partsOf[pacer](keys)}, remove)
	case hedger:
		observe(g, &g.hedges, name, gauge[hedger]{parts: partsOf[hedger](keys)}, remove)
	default:
		panic(fmt.Sprintf("retrydebug: %T is no budget, limit, breaker, gate, hedge or pace", (*T)(nil)))
	}
}

// partsOf returns what keys has but nil, as V.
func partsOf[V, T any](keys *retry.PerKey[T]) func() iter.Seq2[string, V] {
	return func() iter.Seq2[string, V] {
		return func(yield func(string, V) bool) {
			for key, v := range keys.All() {
				if v != nil && !yield(key, any(v).(V)) {
					return
				}
			}
		}
	}
}

// header is what the reports of all gauges begin with.
type header[R any] struct {
	Name  string `json:"name"`
	Parts int    `json:"parts,omitempty"` // of a retry.PerKey
	Worst []R    `json:"worst,omitempty"` // of these, by key
}

func (h *header[R]) head() *header[R] { return h }

// gaugeReport is what a pointer to the report of a gauge has.
type gaugeReport[R any] interface {
	*R
	head() *header[R]
	badness() float64 // to compare the parts of a PerKey
}

// worstParts is how many of the parts of a PerKey are shown. All gauges of a kind together
// show at most as many parts as there may be gauges.
const worstParts = 5

// reports returns what gauges show, by name.
func reports[V, R any, P gaugeReport[R]](g *gauges, in *map[string]gauge[V], read func(V) R) []R {
	g.mu.Lock()
	sorted := slices.SortedFunc(maps.Values(*in), func(a, b gauge[V]) int { return cmp.Compare(a.name, b.name) })
	g.mu.Unlock()
	reports, left := make([]R, len(sorted)), names
	for i, g := range sorted {
		rep := P(&reports[i])
		if g.parts == nil {
			*rep = read(g.value)
		} else {
			readParts(rep, g.parts(), read, min(worstParts, left))
			left -= len(rep.head().Worst)
		}
		rep.head().Name = g.name
	}
	return reports
}

// readParts makes rep the report of the worst of all parts, with at most so many of them.
func readParts[V, R any, P gaugeReport[R]](rep P, parts iter.Seq2[string, V], read func(V) R, most int) {
	var all []R
	for key, v := range parts {
		part := read(v)
		P(&part).head().Name = key
		all = append(all, part)
	}
	slices.SortStableFunc(all, func(a, b R) int { return cmp.Compare(P(&b).badness(), P(&a).badness()) })
	if len(all) > 0 {
		*rep = all[0]
	}
	worst := slices.Clone(all[:min(len(all), most)])
	for i := range worst {
		h := P(&worst[i]).head()
		h.Name = line(h.Name, longest)
	}
	rep.head().Parts, rep.head().Worst = len(all), worst
}

// safely returns what f returns, and nil if f panics or reports that there is
// nothing to show.
func safely[T any](f func() (T, bool)) (v *T) {
	defer func() {
		if recover() != nil {
			v = nil
		}
	}()
	if got, ok := f(); ok {
		return &got
	}
	return nil
}

// orLeast returns *v, or less than all numbers if there is none.
func orLeast(v *float64) float64 {
	if v == nil {
		return math.Inf(-1)
	}
	return *v
}

type budgetReport struct {
	header[budgetReport]
	Balance *float64 `json:"balance"`
	Tokens  *float64 `json:"tokens,omitempty"`
	Price   *prices  `json:"price,omitempty"`
}

// prices are what a retry costs, in tokens, by the class of the error that it follows. That of
// an Unprocessed one is as that of a Transient one.
type prices struct {
	Transient float64 `json:"transient"`
	Throttled float64 `json:"throttled"`
	TimedOut  float64 `json:"timed_out"`
}

func readBudget(b budget) (r budgetReport) {
	r.Balance = safely(func() (float64, bool) {
		v := b.Balance()
		return v, finite(v)
	})
	if b, ok := b.(pricer); ok {
		r.Tokens, r.Price = readPrices(b)
	}
	return r
}

func readPrices(b pricer) (tokens *float64, p *prices) {
	var left float64
	p = safely(func() (prices, bool) {
		price := func(c retry.Class) (price float64) {
			price, left = b.Price(retry.Withdrawal{Class: c, Retry: 1, Clock: clockx.System()})
			return price
		}
		p := prices{price(retry.Transient), price(retry.Throttled), price(retry.TimedOut)}
		return p, finite(p.Transient) && finite(p.Throttled) && finite(p.TimedOut) && finite(left)
	})
	if p == nil {
		return nil, nil
	}
	return &left, p
}

// short reports whether there is too little for any retry.
func (r *budgetReport) short() bool {
	if r.Price != nil {
		return *r.Tokens < min(r.Price.Transient, r.Price.Throttled, r.Price.TimedOut)
	}
	return *r.Balance <= 0
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func (r *budgetReport) badness() float64 {
	if r.Balance == nil {
		return math.Inf(-1)
	}
	return 1 - *r.Balance
}

type limitReport struct {
	header[limitReport]
	InFlight *int `json:"in_flight"` // many readers have JSON numbers as floats
	Places   *int `json:"places"`
}

func readLimit(l limiter) (r limitReport) {
	r.InFlight = safely(func() (int, bool) { return l.InFlight(), true })
	r.Places = safely(func() (int, bool) {
		n := l.Places()
		return n, n < math.MaxInt
	})
	return r
}

func (r *limitReport) badness() float64 {
	if r.InFlight == nil || r.Places == nil {
		return math.Inf(-1)
	}
	return float64(*r.InFlight) / float64(max(*r.Places, 1))
}

type breakerReport struct {
	header[breakerReport]
	Open *float64 `json:"open"` // 0: it admits the next attempt
}

func readBreaker(b breaker) (r breakerReport) {
	r.Open = safely(func() (float64, bool) {
		d := b.Open()
		return d.Seconds(), d >= 0
	})
	return r
}

func (r *breakerReport) badness() float64 { return orLeast(r.Open) }

type gateReport struct {
	header[gateReport]
	Closed *float64 `json:"closed"`          // for how long; 0: it is open
	Probe  float64  `json:"probe,omitempty"` // from now
	Error  string   `json:"error,omitempty"` // that has closed it
}

func readGate(g gate) (r gateReport) {
	r.Closed = safely(func() (float64, bool) {
		since, probe, err := g.Closed()
		if since.IsZero() {
			return 0, true
		}
		r.Probe, r.Error = max(time.Until(probe), 0).Seconds(), errtext.Of(err)
		return max(time.Since(since).Seconds(), 1e-9), true
	})
	return r
}

// text says how a gate that is closed will open again.
func (r *gateReport) text() string {
	return fmt.Sprintf("closed for %s, next probe in %s, because: %s", seconds(*r.Closed), seconds(r.Probe), r.Error)
}

func (r *gateReport) badness() float64 { return orLeast(r.Closed) }

type targetReport struct {
	header[targetReport]
	Resting *float64 `json:"resting"` // 0: it does not
}

func readTarget(t target) (r targetReport) {
	r.Resting = safely(func() (float64, bool) {
		d := t.Resting()
		return d.Seconds(), d >= 0
	})
	return r
}

func (r *targetReport) badness() float64 { return orLeast(r.Resting) }

type hedgeReport struct {
	header[hedgeReport]
	Delay *float64 `json:"delay"`
}

func readHedge(h hedger) (r hedgeReport) {
	r.Delay = readWait(h)
	return r
}

func (r *hedgeReport) badness() float64 { return orLeast(r.Delay) }

type paceReport struct {
	header[paceReport]
	Rate *float64 `json:"rate"` // nil while it is open
	Wait *float64 `json:"wait"`

	// Of a pace with a quota:
	Quota     *float64 `json:"quota,omitempty"`
	Throttled *float64 `json:"throttled,omitempty"`
	Seems     *float64 `json:"seems,omitempty"` // nil if it seems to be right
	Shared    bool     `json:"shared,omitempty"`
	Alone     string   `json:"alone,omitempty"` // why
}

func readPace(p pacer) (r paceReport) {
	r.Rate = safely(func() (float64, bool) {
		v := p.Rate()
		return v, finite(v)
	})
	r.Wait = readWait(p)
	s := safely(func() (pace.Status, bool) {
		p, ok := p.(interface{ Status() pace.Status })
		if !ok {
			return pace.Status{}, false
		}
		s := p.Status()
		return s, s.Quota > 0 || s.Err != nil
	})
	if s == nil {
		return r
	}
	r.Quota, r.Throttled, r.Shared = &s.Quota, &s.Throttled, s.Shared
	if s.Seems < s.Quota {
		r.Seems = &s.Seems
	}
	if s.Err != nil {
		r.Alone = line(errtext.Of(s.Err), texts)
	}
	return r
}

func (r *paceReport) badness() float64 { return orLeast(r.Wait) }

func readWait(h hedger) *float64 {
	return safely(func() (float64, bool) {
		d := h.Wait()
		return d.Seconds(), d >= 0
	})
}
