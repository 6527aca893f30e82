package alias

import (
	"github.com/cenkalti/backoff/v4"
	retries "github.com/goretry/retry"
)

var policy retries.Policy

func known() {
	_ = backoff.Retry(ping, &backoff.StopBackOff{}) // want `-fix makes this a retry.Run`
}
