package hedge

import (
	"fmt"
	"slices"
	"strings"
)

// ErrLost is the cause ([context.Cause]) of the context of an attempt that is no longer needed:
// another attempt has decided the call, or has panicked.
var ErrLost error = lost{}

type lost struct{}

func (lost) Error() string     { return "hedge: another attempt was faster" }
func (lost) ErrorType() string { return "hedge.lost" } // the error.type of telemetry

// panicValue is the value with which a panic in a hedge is repeated on the caller's goroutine.
type panicValue struct {
	recovered any    // what the hedge panicked with
	stack     []byte // of the hedge's goroutine, as [runtime/debug.Stack] writes it
}

// Error returns what the hedge panicked with, and its stack, which a program that crashes prints.
func (p *panicValue) Error() string {
	return fmt.Sprintf("hedge: panic in a hedge: %v\n\n%s", p.recovered, p.stack)
}

// Unwrap returns the value if it is an error, else nil.
func (p *panicValue) Unwrap() error {
	err, _ := p.recovered.(error)
	return err
}

// failures are the errors of a call in which every attempt failed, in the order in which they came.
// It is used by pointer, since users compare errors.
type failures struct{ errs []error }

func (f *failures) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "hedge: %d attempts failed", len(f.errs))
	separator := ": "
	for _, err := range slices.Backward(f.errs) {
		b.WriteString(separator + fmt.Sprint(err)) // Sprint, because it survives a nil pointer
		separator = "; "
	}
	return b.String()
}

// Unwrap returns them all, the newest first, as [retry.Error] does.
func (f *failures) Unwrap() []error {
	errs := slices.Clone(f.errs)
	slices.Reverse(errs)
	return errs
}
