package refusedavast

import (
	"time"

	"github.com/avast/retry-go/v5"
)

func ping() error          { return nil }
func wait() time.Duration  { return 0 }
func temporary(error) bool { return true }

func refused(made *retry.Retrier, one retry.Option) {
	_ = made.Do(ping)                                                                               // want `not rewritten: the retrier is made elsewhere`
	_ = retry.New(one).Do(ping)                                                                     // want `not rewritten: an option is not written in the call`
	_ = retry.New(retry.Delay(wait())).Do(ping)                                                     // want `not rewritten: a duration is neither a constant`
	_ = retry.New(retry.Delay(0)).Do(ping)                                                          // want `not rewritten: its Delay is zero`
	_ = retry.New(retry.RetryIf(func(err error) bool { ok := temporary(err); return ok })).Do(ping) // want `not rewritten: its RetryIf is neither a function`
	_ = retry.New(retry.RetryIf(retry.IsRecoverable)).Do(ping)                                      // want `not rewritten: its RetryIf uses avast/retry-go`
	_ = retry.New(retry.RetryIf(temporary)).Do(func() error { return retry.Unrecoverable(ping()) }) // want `not rewritten: its operation marks errors with Unrecoverable, and`
	_ = retry.New(retry.MaxDelay(wait())).Do(ping)                                                  // want `not rewritten: a duration is neither`
	_ = retry.New(retry.DelayType(retry.RandomDelay)).Do(ping)                                      // want `not rewritten: its DelayType has no counterpart`
	_ = retry.New(retry.UntilSucceeded()).Do(ping)                                                  // want `not rewritten: nothing would end it`
}
