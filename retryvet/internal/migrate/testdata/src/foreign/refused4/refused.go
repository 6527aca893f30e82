package refused4

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/goretry/retry"
)

func ping() error                { return nil }
func call(context.Context) error { return nil }
func made() backoff.BackOff      { println("made"); return &backoff.StopBackOff{} }
func use(backoff.BackOff)        {}
func now() time.Duration         { return 0 }

type clock struct{}

func (clock) Now() time.Time { return time.Time{} }

func other() func() error { return nil }

func refused(ctx context.Context, given backoff.BackOff, op func() error, timer backoff.Timer, done context.Context) {
	changing := ping
	changing = op
	two := backoff.WithMaxRetries(&backoff.ZeroBackOff{}, 2)
	use(two)
	_ = backoff.Retry(ping, two)    // want `not rewritten: other code uses its backoff, too`
	_ = backoff.Retry(ping, given)  // want `not rewritten: its backoff is passed in, as the parameter given: let callers pass a retry.Policy`
	_ = backoff.Retry(ping, made()) // want `not rewritten: the backoff comes from another function`

	own := backoff.NewExponentialBackOff()
	own.MaxInterval = 2 * own.InitialInterval
	_ = backoff.Retry(ping, own) // want `not rewritten: other code uses its backoff, too`

	clocked := backoff.NewExponentialBackOff()
	clocked.Clock = clock{}
	_ = backoff.Retry(ping, clocked)                                                                                                             // want `not rewritten: the backoff has a Clock of its own`
	_ = backoff.Retry(ping, backoff.NewExponentialBackOff(backoff.WithClockProvider(backoff.SystemClock)))                                       // want `not rewritten: its backoff has the option WithClockProvider: write Policy.Clock`
	_ = backoff.RetryNotifyWithTimer(ping, &backoff.StopBackOff{}, nil, timer)                                                                   // want `not rewritten: it is given a timer`
	_ = backoff.NewTicker(&backoff.StopBackOff{})                                                                                                // want `not rewritten: retry.Ticker has other rules`
	_ = backoff.Retry(ping, &backoff.ExponentialBackOff{InitialInterval: time.Second})                                                           // want `not rewritten: the backoff is a literal that leaves MaxInterval zero`
	_ = backoff.Retry(ping, backoff.NewConstantBackOff(now()))                                                                                   // want `not rewritten: a duration is neither a constant`
	_ = backoff.Retry(ping, backoff.NewConstantBackOff(-1))                                                                                      // want `not rewritten: a duration is negative`
	_ = backoff.Retry(ping, backoff.WithMaxRetries(&backoff.StopBackOff{}, 1))                                                                   // want `not rewritten: it limits retries twice`
	_ = backoff.Retry(changing, &backoff.StopBackOff{})                                                                                          // want `not rewritten: its operation is a variable that may change: changing`
	_ = backoff.Retry(other(), &backoff.StopBackOff{})                                                                                           // want `not rewritten: its operation is made by a call: other`
	_ = backoff.Retry(io.NopCloser(nil).Close, &backoff.StopBackOff{})                                                                           // want `not rewritten: its operation is made by a call: io.NopCloser`
	_ = backoff.Retry(func() error { return call(done) }, backoff.WithContext(&backoff.StopBackOff{}, ctx))                                      // want `not rewritten: the operation uses done, which is not the context of the run`
	_ = backoff.Retry(func() error { _ = call(ctx); ctx := context.TODO(); return call(ctx) }, backoff.WithContext(&backoff.StopBackOff{}, ctx)) // want `not rewritten: the operation declares a ctx of its own`
	_ = backoff.Retry(func() error { ctx = context.TODO(); return nil }, &backoff.StopBackOff{})                                                 // want `not rewritten: the operation assigns to ctx`
	_ = backoff.Retry(func() error { time.Sleep(1); return nil }, &backoff.StopBackOff{})                                                        // want `not rewritten: the operation sleeps`
	go backoff.Retry(ping, &backoff.StopBackOff{})                                                                                               // want `not rewritten: it is a go or defer statement, which drops its error`
	_ = backoff.Retry(func() error {                                                                                                             // want `not rewritten: it is within another retry`
		return backoff.Retry(ping, &backoff.StopBackOff{}) // want `not rewritten: it is within another retry`
	}, &backoff.StopBackOff{})
	_ = retry.Run(ctx, retry.Policy{}, func(context.Context) error {
		return backoff.Retry(ping, &backoff.StopBackOff{}) // want `not rewritten: it is within a run of package retry`
	})
	_ = backoff.RetryNotify(ping, &backoff.StopBackOff{}, notify()) // want `not rewritten: the function that it notifies is not understood`
}

func notify() backoff.Notify { return nil }

func endless() {
	_ = backoff.Retry(ping, backoff.NewConstantBackOff(time.Second)) // want `not rewritten: nothing would end it`
}

func compared() bool {
	err := backoff.Retry(ping, &backoff.StopBackOff{}) // want `not rewritten: the caller compares or asserts err`
	return err == io.EOF
}

func asserted() bool {
	err := backoff.Retry(ping, &backoff.StopBackOff{}) // want `not rewritten: the caller compares or asserts err`
	_, ok := err.(*os.PathError)
	return ok
}

func asked() bool {
	err := backoff.Retry(ping, &backoff.StopBackOff{}) // want `not rewritten: the caller compares or asserts err`
	return os.IsNotExist(err)
}
