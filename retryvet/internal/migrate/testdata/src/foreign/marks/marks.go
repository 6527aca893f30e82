package marks

import "github.com/cenkalti/backoff/v4"

func ping() error { return backoff.Permanent(nil) }

// Only the old library knows its marks.
func asks() {
	_ = backoff.Retry(ping, backoff.NewExponentialBackOff()) // want `-fix makes this a retry.Run; waits at the cap may be shorter: their jitter exceeded it; Classify repeats every error that Permanent has not marked, as before`
}
