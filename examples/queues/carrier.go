package queues

import (
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/twmb/franz-go/pkg/kgo"
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

// RecordCarrier carries a trace in the headers of a record of Kafka.
type RecordCarrier struct{ *kgo.Record }

func (c RecordCarrier) Get(key string) string {
	for _, h := range c.Headers {
		if strings.EqualFold(h.Key, key) {
			return string(h.Value)
		}
	}
	return ""
}

func (c RecordCarrier) Set(key, value string) {
	c.Headers = slices.DeleteFunc(c.Headers, func(h kgo.RecordHeader) bool { return strings.EqualFold(h.Key, key) })
	c.Headers = append(c.Headers, kgo.RecordHeader{Key: key, Value: []byte(value)})
}

func (c RecordCarrier) Keys() (keys []string) {
	for _, h := range c.Headers {
		keys = append(keys, h.Key)
	}
	return keys
}
