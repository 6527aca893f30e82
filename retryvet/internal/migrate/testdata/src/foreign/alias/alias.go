package alias

import (
	"time"

	"github.com/avast/retry-go/v4"
)

func ping() error { return nil }

func both(options []retry.Option) {
	_ = retry.Do(ping, retry.Attempts(2), retry.Delay(time.Second), retry.DelayType(retry.FixedDelay)) // want `-fix makes this a retry.Run`
	_ = retry.Do(ping, options...)                                                                     // want `not rewritten: its options are passed in, as the parameter options`
}
