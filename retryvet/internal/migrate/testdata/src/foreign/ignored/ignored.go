package ignored

import "github.com/cenkalti/backoff/v4"

func ping() error { return nil }

func kept() {
	//retryvet:ignore foreign: until the next release
	_ = backoff.Retry(ping, &backoff.StopBackOff{})
	_ = backoff.Retry(ping, &backoff.StopBackOff{}) // want `-fix makes this a retry.Run`
}
