package otelretry

import (
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// ScopeName is the instrumentation scope of all spans and metrics of this package.
const ScopeName = "github.com/goretry/retry/otel"

// version returns the version of this module in the running program, or "(devel)" if
// that was not built from a release. It is the version of the scope.
var version = sync.OnceValue(func() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == ScopeName && m.Replace == nil {
				return m.Version
			}
		}
	}
	return "(devel)"
})

// Option sets what [Hooks] and [ObserveBudget] use. A nil Option is skipped.
type Option func(*config)

type config struct {
	tracers  trace.TracerProvider // nil: the global one
	meters   metric.MeterProvider // nil: the global one
	mode     Attempts
	waitless bool // no spans of waits
	attrs    []attribute.KeyValue
}

func configured(opts []Option) config {
	var c config
	for _, opt := range opts {
		if opt != nil {
			opt(&c)
		}
	}
	return c
}

// with returns the attributes of the options and more, in a slice of its own.
func (c *config) with(kv ...attribute.KeyValue) []attribute.KeyValue {
	return slices.Concat(c.attrs, kv)
}

// ours reports whether an attribute's key is this package's to set, or a namespace
// of one that is, or empty.
func ours(kv attribute.KeyValue) bool {
	switch kv.Key {
	case "", "retry", "error", errorTypeKey:
		return true
	}
	return strings.HasPrefix(string(kv.Key), "retry.") || strings.HasPrefix(string(kv.Key), string(errorTypeKey)+".")
}

// WithTracerProvider sets where spans go. Nil is ignored. The default is the
// global provider, the one that is set when a run starts.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(c *config) {
		if !absent(p) {
			c.tracers = p
		}
	}
}

// WithMeterProvider sets where measurements go. Nil is ignored. The default is the
// global provider, the one that is set when the measurement is made; for
// [ObserveBudget], when it is called.
func WithMeterProvider(p metric.MeterProvider) Option {
	return func(c *config) {
		if !absent(p) {
			c.meters = p
		}
	}
}

// Attempts says which attempts have spans.
type Attempts uint8

const (
	// AllAttempts gives a span to each run and to each of its attempts.
	AllAttempts Attempts = iota

	// RetriedRuns gives spans only to runs that do not succeed at once, and to runs that
	// start with the pause after a failure (see retry.Supervise). The spans are made
	// after the first attempt, with its true times. Spans that this attempt made itself
	// are children of the caller's span. From then on measurements and other hooks are in
	// the run's span. The first attempt has a span if it is retried and the caller has a
	// span. Samplers see only these runs.
	RetriedRuns

	// NoAttempts gives a span to each run and none to attempts.
	NoAttempts
)

// WithAttempts says which attempts have spans. The default is [AllAttempts], which
// also stands for unknown values.
func WithAttempts(a Attempts) Option { return func(c *config) { c.mode = a } }

// WithWaits turns the spans of waits on, which is the default, or off. Without them
// the start of a wait is an event of the run's span.
func WithWaits(on bool) Option { return func(c *config) { c.waitless = !on } }

// WithAttributes adds attributes to every span and every measurement. Use few
// different values, and valid UTF-8. Attributes are dropped if their key is
// error.type, retry, error, or starts with "retry.": these are this package's, and
// error would be a namespace of error.type.
func WithAttributes(kv ...attribute.KeyValue) Option {
	kv = slices.DeleteFunc(slices.Clone(kv), ours)
	return func(c *config) { c.attrs = append(c.attrs, kv...) }
}
