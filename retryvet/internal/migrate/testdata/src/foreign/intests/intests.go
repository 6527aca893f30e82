package intests

import (
	"os"

	"github.com/cenkalti/backoff/v4"
)

func ping() error { return os.Chdir("/") }

// The tests of this package import the library, too: what they mark must end it.
func call() error {
	return backoff.Retry(ping, backoff.NewExponentialBackOff()) // want `Classify repeats every error that Permanent has not marked`
}
