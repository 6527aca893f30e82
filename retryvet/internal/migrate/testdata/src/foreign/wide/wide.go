package wide

import (
	"errors"

	"github.com/cenkalti/backoff/v4"
)

func ping() error { return nil }

func refused() bool {
	err := backoff.Retry(ping, &backoff.StopBackOff{}) // want `not rewritten: code that its error may reach uses PermanentError: write retry.Stop\(err\) to mark an error`
	var permanent *backoff.PermanentError
	return errors.As(err, &permanent)
}
