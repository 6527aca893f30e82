package otelretry

import (
	"context"
	"math"
	"strings"

	"github.com/goretry/retry/hedge"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
)

const (
	hedgeNameKey    = attribute.Key("retry.hedge.name")
	hedgeStartedKey = attribute.Key("retry.hedge.started")
	hedgeWinnerKey  = attribute.Key("retry.hedge.winner")
	hedgeRefusedKey = attribute.Key("retry.hedge.refused")
	hedgeDelayKey   = attribute.Key("retry.hedge.delay")
	hedgeResultKey  = attribute.Key("retry.hedge.result")
)

// HedgeHook returns a func for [hedge.Hedge].Hedged. For each call that was still
// running at its delay, it adds the event retry.hedge to the span in the context. That
// is the attempt's span if the policy has the [Hooks] of this package. It also counts
// the call in retry.hedges, by its name and result: won if a hedge succeeded first,
// lost if not, and refused_ with the reason if there was no hedge. A call whose caller
// had canceled by then has no result. The options [WithMeterProvider]
// and [WithAttributes] apply. Build it once and share it. It is safe for concurrent
// use.
func HedgeHook(opts ...Option) func(context.Context, hedge.Summary) {
	h := &hedges{config: configured(opts)}
	h.counted.most, h.counted.build = cached, h.options
	h.counter.init(h.meters, otel.GetMeterProvider, newHedgeCounter)
	return h.hedged
}

// hedges is behind one call of HedgeHook.
type hedges struct {
	config
	counter source[metric.MeterProvider, metric.Int64Counter]
	counted cache[hedged, []metric.AddOption]
}

// hedged is what a call is counted by.
type hedged struct{ name, result string }

func newHedgeCounter(p metric.MeterProvider, _ bool) metric.Int64Counter {
	c, err := meter(p).Int64Counter("retry.hedges", metric.WithUnit("{call}"),
		metric.WithDescription("Calls that were slow, by what became of their hedges."))
	return usable[metric.Int64Counter](c, err, noop.Int64Counter{})
}

func (h *hedges) options(c hedged) []metric.AddOption {
	attrs := h.with(hedgeResultKey.String(c.result))
	if c.name != "" {
		attrs = append(attrs, nameKey.String(c.name))
	}
	return []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(attrs...))}
}

func (h *hedges) hedged(ctx context.Context, s hedge.Summary) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		attrs := h.with(hedgeStartedKey.Int(s.Started), hedgeWinnerKey.Int(s.Winner), hedgeDelayKey.Float64(s.Delay.Seconds()))
		if s.Refused != nil {
			attrs = append(attrs, hedgeRefusedKey.String(refusal(s.Refused)))
		}
		span.AddEvent("retry.hedge", trace.WithAttributes(attrs...))
	}
	counter := h.counter.get()
	if result := resultOf(s); result != "" && enablerOf(counter).Enabled(ctx) {
		name := s.Name
		if name != "" {
			name, _ = admit(&names, name)
		}
		counter.Add(ctx, 1, h.counted.get(hedged{name, result})...)
	}
}

// resultOf returns what became of the hedges of a call, "" if it wanted none.
func resultOf(s hedge.Summary) string {
	switch {
	case s.Started > 1 && s.Winner > 1:
		return "won"
	case s.Started > 1:
		return "lost"
	case s.Refused != nil:
		return "refused_" + refusal(s.Refused)
	}
	return ""
}

// refusal returns the word for what refused a hedge.
func refusal(err error) string {
	if e, ok := err.(interface{ ErrorType() string }); ok {
		return strings.TrimPrefix(e.ErrorType(), "hedge.")
	}
	return "unknown"
}

var delays = kind[*hedge.Hedge]{"retry.hedge", hedgeNameKey,
	[]gauge[*hedge.Hedge]{{instrument{"retry.hedge.delay", "s", "How long an attempt runs before it is hedged."},
		func(h *hedge.Hedge) (float64, bool) { wait := h.Wait(); return wait.Seconds(), wait >= 0 }, nil}},
	func(h *hedge.Hedge) float64 { return h.Wait().Seconds() },
}

// ObserveHedge reports the delay of h as the gauge retry.hedge.delay, in seconds, with
// the attribute retry.hedge.name set to name, until unregister is called. A Hedge that
// never hedges has no delay and is not reported. Names and errors are as for
// [ObserveBudget].
func ObserveHedge(name string, h *hedge.Hedge, opts ...Option) (unregister func() error, err error) {
	return delays.observe(name, h, opts)
}

// limiter is a [limit.Limit], a [limit.Adaptive] or another limit of attempts in flight.
type limiter interface {
	InFlight() int
	Places() int
}

var limits = kind[limiter]{"retry.limit", "retry.limit",
	[]gauge[limiter]{
		{instrument{"retry.limit.places", "{attempt}", "Attempts that may be in flight."},
			func(l limiter) (float64, bool) { n := l.Places(); return float64(n), n < math.MaxInt }, nil},
		{instrument{"retry.limit.in_flight", "{attempt}", "Attempts in flight under a limit."},
			func(l limiter) (float64, bool) { return float64(l.InFlight()), true }, nil},
	},
	func(l limiter) float64 { return float64(l.InFlight()) / float64(l.Places()) },
}

// ObserveLimit reports how many places l has, such as a [limit.Limit] or a [limit.Adaptive], and
// how many of them are taken, as the gauges retry.limit.places and retry.limit.in_flight with the
// attribute retry.limit set to name, until unregister is called. While l limits nothing, it has
// no number of places to report. Names and errors are as with [ObserveBudget].
func ObserveLimit(name string, l interface {
	InFlight() int
	Places() int
}, opts ...Option) (unregister func() error, err error) {
	return limits.observe(name, l, opts)
}
