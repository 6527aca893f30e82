package hedge

import (
	"context"
	"io"
	"reflect"

	"github.com/goretry/retry"
)

// Value says how to treat the values that attempts return. The zero Value suits most: those that
// lose are closed. Its funcs run on the caller's goroutine, after all attempts have ended.
type Value[T any] struct {
	// Discard is called with each value that the call does not return, including a value returned
	// along with an error, unless it is the zero value. Nil means to call its Close() error method,
	// else that of its field Body, if it has either; a nil pointer is not closed.
	Discard func(T)

	// Hold lets the value that the call returns with a nil error keep its attempt's context. It is
	// called with that value and with a func that ends the context, and returns the value with that
	// func built in, in a Close method say. The func must be called once the value is done with,
	// and may be called more often. Nil means that the context ends when the call returns.
	//
	// Policy.AttemptTimeout ends the context when the attempt does, whatever Hold does: leave it
	// zero for *sql.Rows, and stop a slow op yourself. A call that starts no hedges gives op the
	// context of its run, and does not call Hold.
	Hold func(T, context.CancelFunc) T

	// Take is for [Race]: the method Hold of the Attempts whose attempt is made. Race calls it when
	// the first copy has ended, unless it just calls op. Then Race tells the guards what that copy
	// has come to, and not the run. Do and DoValue set it themselves.
	Take func() (leave func(retry.Exit))

	// Keep is for a Race with Take whose value goes on, such as a response with a body. It is
	// called with the leave of the copy whose result Race returns, and with what that copy has come
	// to: then Race does not call leave, and Keep has to see to it. Nil means none.
	Keep func(leave func(retry.Exit), x retry.Exit)
}

// discard does away with a value that an attempt has returned beside err.
func (v *Value[T]) discard(value T, err error) {
	switch {
	case err != nil && reflect.ValueOf(&value).Elem().IsZero():
	case v.Discard != nil:
		v.Discard(value)
	default:
		closeAny(reflect.ValueOf(value))
	}
}

// closeAny closes v, else its field Body. What Close returns is of no use to anyone.
func closeAny(v reflect.Value) {
	if !v.IsValid() || closeIt(v) { // a nil interface has nothing to close
		return
	}
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return
	}
	field, ok := v.Type().FieldByName("Body")
	if !ok {
		return
	}
	if body, err := v.FieldByIndexErr(field.Index); err == nil { // else it is behind a nil pointer
		closeIt(body)
	}
}

// closeIt reports whether v has a Close method, which it calls unless v is a nil pointer.
func closeIt(v reflect.Value) bool {
	closer, ok := v.Interface().(io.Closer)
	if !ok {
		return false
	}
	for v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if v.Kind() != reflect.Pointer || !v.IsNil() {
		_ = closer.Close()
	}
	return true
}
