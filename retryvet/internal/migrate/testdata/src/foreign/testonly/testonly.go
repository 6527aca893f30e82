package testonly

import (
	"errors"

	"github.com/cenkalti/backoff/v4"
)

var errNotYet = errors.New("not yet")

// What a package that only the tests import marks does not come here.
func call() error {
	return backoff.Retry(func() error { return errNotYet }, backoff.NewExponentialBackOff()) // want `waits at the cap may be shorter: their jitter exceeded it$`
}
