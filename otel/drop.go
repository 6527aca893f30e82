package otelretry

import (
	"context"
	"net/http/httptrace"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
)

const peerKey = attribute.Key("network.peer.address")

// DropHook returns a func for retryhttp's Transport.Dropped. For each connection that a retry has
// closed because it had gone silent, it adds the event retry.connection_dropped to the span in the
// context, with the address of the peer, and counts it in retry.connections_dropped. That counter
// has no address: a fleet has too many. The options [WithMeterProvider] and [WithAttributes] apply.
// Build it once and share it. It is safe for concurrent use.
func DropHook(opts ...Option) func(context.Context, httptrace.GotConnInfo) {
	d := &drops{config: configured(opts)}
	d.counter.init(d.meters, otel.GetMeterProvider, newDropCounter)
	d.counted = metric.WithAttributeSet(attribute.NewSet(d.with()...))
	return d.dropped
}

// drops is behind one call of DropHook.
type drops struct {
	config
	counter source[metric.MeterProvider, metric.Int64Counter]
	counted metric.MeasurementOption
}

func newDropCounter(p metric.MeterProvider, _ bool) metric.Int64Counter {
	c, err := meter(p).Int64Counter("retry.connections_dropped", metric.WithUnit("{connection}"),
		metric.WithDescription("Connections that a retry has closed because they had gone silent."))
	return usable[metric.Int64Counter](c, err, noop.Int64Counter{})
}

func (d *drops) dropped(ctx context.Context, info httptrace.GotConnInfo) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		attrs := d.with()
		if info.Conn != nil {
			attrs = append(attrs, peerKey.String(info.Conn.RemoteAddr().String()))
		}
		span.AddEvent("retry.connection_dropped", trace.WithAttributes(attrs...))
	}
	if counter := d.counter.get(); enablerOf(counter).Enabled(ctx) {
		counter.Add(ctx, 1, d.counted)
	}
}
