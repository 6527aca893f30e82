package otelretry

import (
	"errors"
	"reflect"
	"sync"

	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// other stands for the values that came after a limit was reached.
const other = "other"

// limit admits the first 256 distinct values that it is shown, and other.
type limit struct {
	mu   sync.RWMutex
	seen map[string]bool
}

const distinct = 256

// The values that this process tells apart.
var names, errorTypes limit

// admit returns value, or other if there were too many before it.
func (l *limit) admit(value string) string {
	value = valid(value)
	l.mu.RLock()
	known, full := l.seen[value], len(l.seen) >= distinct
	l.mu.RUnlock()
	if known {
		return value
	}
	if full {
		return other
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.seen) >= distinct && !l.seen[value] {
		return other
	}
	if l.seen == nil {
		l.seen = make(map[string]bool)
	}
	l.seen[value] = true
	return value
}

// typed holds the names of types whose errors wrap nothing and say nothing of
// themselves.
var typed sync.Map // reflect.Type → string

// errorType returns the error.type of an attempt's own error.
func errorType(err error) string {
	t := reflect.TypeOf(err)
	if name, ok := typed.Load(t); ok {
		return name.(string)
	}
	name := errorTypes.admit(typeName(err))
	switch err.(type) {
	case interface{ ErrorType() string }, interface{ As(any) bool }, interface{ Unwrap() error }, interface{ Unwrap() []error }:
		return name
	}
	typed.Store(t, name)
	return name
}

// typeName follows the rule of the semantic conventions: what a method ErrorType in
// the chain says, else the name of the type below what fmt.Errorf wrapped around
// it. The method is someone else's and may panic.
func typeName(err error) (name string) {
	defer func() {
		if recover() != nil {
			name = reflect.TypeOf(err).String()
		}
	}()
	name = semconv.ErrorType(err).Value.AsString()
	if name == mark {
		name = typeName(unmarked(err))
	}
	return name
}

// unmarked returns what is below the first mark of an error.
func unmarked(err error) error {
	for reflect.TypeOf(err).String() != mark {
		err = errors.Unwrap(err)
	}
	return errors.Unwrap(err)
}

// mark is the type of what retry.Stop and retry.After put around an error, which
// nobody wants to see.
const mark = "*retry.mark"
