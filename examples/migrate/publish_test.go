package migrate_test

import (
	"context"
	"errors"
	"testing"

	"github.com/goretry/retry"
)

// publish returns what callers got before: the last attempt's error alone.
func publish(err error) error {
	if e, ok := errors.AsType[*retry.Error](err); ok {
		return e.Last() // the Cause if no attempt was made; never nil
	}
	return err
}

// A package whose callers compare its errors, or that documents them.
func TestPublish(t *testing.T) {
	err := retry.Run(t.Context(), retry.Policy{MaxAttempts: 1}, func(context.Context) error { return errGone })
	if !errors.Is(err, errGone) || publish(err) != errGone {
		t.Errorf("%v becomes %v, want %v", err, publish(err), errGone)
	}
	canceled, cancel := context.WithCancelCause(t.Context())
	cancel(errDown)
	if err := retry.Run(canceled, retry.Policy{}, func(context.Context) error { return nil }); publish(err) != errDown {
		t.Errorf("of a run that made no attempt %v is left, want the cause %v", publish(err), errDown)
	}
	if publish(nil) != nil || publish(errGone) != errGone {
		t.Error("it changes other errors")
	}
}
