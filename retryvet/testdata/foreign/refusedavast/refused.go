package refusedavast

import (
	"time"

	"github.com/avast/retry-go/v5"
)

func ping() error { return nil }

func refused(d time.Duration, made *retry.Retrier, one retry.Option) {
	_ = made.Do(ping)                                                       // want `not rewritten: the retrier is made elsewhere`
	_ = retry.New(one).Do(ping)                                             // want `not rewritten: an option is not written in the call`
	_ = retry.New(retry.Delay(d)).Do(ping)                                  // want `not rewritten: a duration is no constant`
	_ = retry.New(retry.Delay(0)).Do(ping)                                  // want `not rewritten: its delay is zero`
	_ = retry.New(retry.RetryIf(func(error) bool { return true })).Do(ping) // want `not rewritten: RetryIf has no exact counterpart`
	_ = retry.New(retry.DelayType(retry.RandomDelay)).Do(ping)              // want `not rewritten: its DelayType is not understood`
	_ = retry.New(retry.UntilSucceeded()).Do(ping)                          // want `not rewritten: nothing would end it`
}
