package retrynats

import (
	"strings"

	"github.com/nats-io/nats.go"
)

// Carrier carries a trace in the headers of a message. It is a TextMapCarrier of
// OpenTelemetry's package propagation, which this module does not require:
//
//	Context: func(ctx context.Context, msg jetstream.Msg) context.Context {
//		return otel.GetTextMapPropagator().Extract(ctx, retrynats.Carrier(msg.Headers()))
//	},
//
// A publisher calls Inject with retrynats.Carrier(msg.Header), for a message of
// [nats.NewMsg].
//
// The keys of a nats.Header keep the case in which they were sent, and publishers send
// both traceparent and Traceparent. Carrier finds any case. A nil Carrier is empty.
type Carrier nats.Header

// Get returns the first value of the key, in any case, or "". If there are several such
// keys, the one that is spelled as key counts.
func (c Carrier) Get(key string) string {
	if values := c[key]; len(values) > 0 {
		return values[0]
	}
	for name, values := range c {
		if len(values) > 0 && strings.EqualFold(name, key) {
			return values[0]
		}
	}
	return ""
}

// Set replaces the values of the key, in any case. It panics if the Carrier is nil.
func (c Carrier) Set(key, value string) {
	for name := range c {
		if strings.EqualFold(name, key) {
			delete(c, name)
		}
	}
	c[key] = []string{value}
}

// Keys returns the keys as they are spelled, in no order.
func (c Carrier) Keys() []string {
	keys := make([]string, 0, len(c))
	for name := range c {
		keys = append(keys, name)
	}
	return keys
}
