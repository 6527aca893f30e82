package wide

import (
	"errors"

	"github.com/cenkalti/backoff/v4"
)

func ping() error { return nil }

func refused() bool {
	err := backoff.Retry(ping, &backoff.StopBackOff{}) // want `not rewritten: PermanentError, which has no exact counterpart, is used where its error may come`
	var permanent *backoff.PermanentError
	return errors.As(err, &permanent)
}
