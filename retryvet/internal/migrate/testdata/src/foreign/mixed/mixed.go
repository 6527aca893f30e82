package mixed

import (
	"errors"

	"github.com/avast/retry-go/v4"
	"github.com/cenkalti/backoff/v4"
)

func ping() error { return nil }

// What blocks one library does not block the other.
func refused() bool {
	err := backoff.Retry(ping, &backoff.StopBackOff{}) // want `not rewritten: code that its error may reach uses PermanentError: write retry.Stop\(err\) to mark an error`
	var permanent *backoff.PermanentError
	return errors.As(err, &permanent)
}

func rewritten() error {
	return retry.Do(ping, retry.Attempts(2), retry.DelayType(retry.BackOffDelay)) // want `-fix makes this a retry.Run`
}
