package errtree

import "reflect"

// errors.As and errors.Is call methods As and Is of errors, which may search what these wrap, and
// then search it themselves: a chain of n such errors costs them 2ⁿ. These do not.

// Find returns the first error of type T in the tree of err, as errors.AsType does. An interface
// that methods As are to find must have the method Error.
func Find[T error](err error) (found T, ok bool) {
	ok = Walk(err, func(err error) Next {
		if found, ok = err.(T); ok {
			return Stop
		}
		if e, is := err.(asMethod); is && !showsAny(e) {
			if found, ok = As[T](err); ok {
				return Stop
			}
		}
		return Into
	})
	return found, ok
}

// showsAny reports whether the method As of an error finds some error, where Walk goes.
func showsAny(e asMethod) bool {
	var any error
	return e.As(&any) && !IsNil(any)
}

// Holds reports whether target is in the tree of err, as errors.Is does.
func Holds(err, target error) bool {
	comparable := reflect.ValueOf(target).Comparable()
	return Walk(err, func(err error) Next {
		if comparable && err == target || Is(err, target) {
			return Stop
		}
		return Into
	})
}
