package sharedmarks

import (
	"time"

	"github.com/avast/retry-go/v4"
)

func (a *client) fourth() error {
	return retry.Do(func() error { return a.get() }, policyOptions...) // want `-fix makes this a retry.Run; .*; its policy is retryPolicy$`
}

func (a *client) fifth() error {
	return retry.Do(func() error { return a.get() }, policyOptions...) // want `-fix makes this a retry.Run; .*; its policy is retryPolicy$`
}

func (a *client) sixth() error {
	return retry.Do(func() error { return a.get() }, atStart, retry.Delay(time.Second)) // want `not rewritten: its options were made with the first value of Tries, which may change`
}
