package queues

import (
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
)

// Carrier carries a trace in the headers of a message of NATS: a TextMapCarrier of OpenTelemetry's
// package propagation. The keys of a nats.Header keep the case in which they were sent, and
// publishers send both traceparent and Traceparent.
type Carrier nats.Header

func (c Carrier) Get(key string) string {
	for name, values := range c {
		if len(values) > 0 && strings.EqualFold(name, key) {
			return values[0]
		}
	}
	return ""
}

func (c Carrier) Set(key, value string) {
	maps.DeleteFunc(c, func(name string, _ []string) bool { return strings.EqualFold(name, key) })
	c[key] = []string{value}
}

func (c Carrier) Keys() []string { return slices.Collect(maps.Keys(c)) }
