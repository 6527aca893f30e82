package older

import (
	avast0 "github.com/avast/retry-go"
	avast3 "github.com/avast/retry-go/v3"
	backoff0 "github.com/cenkalti/backoff"
	backoff3 "github.com/cenkalti/backoff/v3"
)

func ping() error { return nil }

func calls() {
	_ = backoff0.Retry(ping, &backoff0.StopBackOff{}) // want `cenkalti/backoff: not rewritten: update to github.com/cenkalti/backoff/v4 first`
	_ = backoff3.Retry(ping, &backoff3.StopBackOff{}) // want `cenkalti/backoff v3: not rewritten: update to github.com/cenkalti/backoff/v4 first`
	_ = avast0.Do(ping)                               // want `avast/retry-go: not rewritten: update to github.com/avast/retry-go/v4 first`
	_ = avast3.Do(ping)                               // want `avast/retry-go v3: not rewritten: update to github.com/avast/retry-go/v4 first`
}
