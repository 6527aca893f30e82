package sharedintests

import (
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
)

func newTestBackOff() backoff.BackOff {
	return backoff.WithMaxRetries(backoff.NewConstantBackOff(time.Millisecond), 5)
}

func TestCalls(t *testing.T) {
	_ = backoff.Retry(func() error { return errNotYet }, newBackOff())                                                               // want `-fix makes this a retry.Run; its policy is retryPolicy$`
	_ = backoff.Retry(func() error { return errNotYet }, newOther())                                                                 // want `-fix makes this a retry.Run$`
	_ = backoff.Retry(func() error { return errNotYet }, newTestBackOff())                                                           // want `-fix makes this a retry.Run; its policy is testPolicy$`
	err := backoff.RetryNotify(func() error { return errNotYet }, newTestBackOff(), func(err error, _ time.Duration) { t.Log(err) }) // want `-fix makes this a retry.Run; its policy is testPolicy$`
	if err == nil {
		t.Error("no error")
	}
}
