package retrydebug

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goretry/retry"
)

// gauges are the budgets, limits, hedges and paces that are observed, by the keys of their
// names.
type gauges struct {
	mu      sync.Mutex
	budgets map[string]gauge[interface{ Balance() float64 }]
	limits  map[string]gauge[limiter]
	hedges  map[string]gauge[interface{ Wait() time.Duration }]
	paces   map[string]gauge[pacer]
}

type limiter interface {
	InFlight() int
	Places() int
}

type pacer interface {
	Rate() float64
	Wait() time.Duration
}

type gauge[T any] struct {
	name  string // as it is shown
	value T
}

// observe sets, replaces or removes a gauge.
func observe[T any](g *gauges, in *map[string]gauge[T], name string, value T, remove bool) {
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
		*in = make(map[string]gauge[T])
	}
	(*in)[strings.Clone(k)] = gauge[T]{line(name, longest), value}
}

// sorted returns them by name.
func sorted[T any](g *gauges, in *map[string]gauge[T]) []gauge[T] {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.SortedFunc(maps.Values(*in), func(a, b gauge[T]) int { return cmp.Compare(a.name, b.name) })
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

// lowest is how many of the budgets of a [retry.Budgets] are shown.
const lowest = 5

func budgetOf(name string, b interface{ Balance() float64 }) budgetReport {
	rep := budgetReport{Name: name, Balance: balanceOf(b)}
	parts, ok := b.(*retry.Budgets)
	if !ok {
		return rep
	}
	all := safely(func() (budgetReport, bool) {
		all := rep
		for key, b := range parts.All() {
			if b, ok := b.(interface{ Balance() float64 }); ok && all.Parts < lowest {
				all.Lowest = append(all.Lowest, budgetReport{Name: line(key, longest), Balance: balanceOf(b)})
			}
			all.Parts++
		}
		return all, true
	})
	if all == nil {
		return rep
	}
	return *all
}

func balanceOf(b interface{ Balance() float64 }) *float64 {
	return safely(func() (float64, bool) {
		v := b.Balance()
		return v, !math.IsNaN(v) && !math.IsInf(v, 0)
	})
}

// inFlightOf and placesOf are for JSON numbers, which many readers have as floats.
func inFlightOf(l limiter) *int {
	return safely(func() (int, bool) { return l.InFlight(), true })
}

func placesOf(l limiter) *int {
	return safely(func() (int, bool) {
		n := l.Places()
		return n, n < math.MaxInt
	})
}

// rateOf returns nil for a pace that is open.
func rateOf(p pacer) *float64 {
	return safely(func() (float64, bool) {
		r := p.Rate()
		return r, !math.IsNaN(r) && !math.IsInf(r, 0)
	})
}

// delayOf is for hedges and paces.
func delayOf(h interface{ Wait() time.Duration }) *float64 {
	return safely(func() (float64, bool) {
		d := h.Wait()
		return d.Seconds(), d >= 0
	})
}
