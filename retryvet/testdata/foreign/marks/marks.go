package marks

import "github.com/cenkalti/backoff/v4"

func ping() error { return backoff.Permanent(nil) }

func refused() {
	_ = backoff.Retry(ping, &backoff.StopBackOff{}) // want `not rewritten: Permanent is called outside of an operation that is written in its call`
}
