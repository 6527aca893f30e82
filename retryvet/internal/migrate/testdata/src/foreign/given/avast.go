package given

import (
	"context"
	"time"

	"github.com/avast/retry-go/v4"
)

var fixed = []retry.Option{retry.Attempts(4), retry.Delay(time.Second), retry.DelayType(retry.FixedDelay)}

var attempts = retry.Attempts(7)

func shared() error {
	return retry.Do(func() error { return errNotYet }, fixed...) // want `avast/retry-go v4: -fix makes this a retry.Run$`
}

func local(ctx context.Context) error {
	options := []retry.Option{
		attempts,
		retry.Delay(time.Second),
		retry.DelayType(retry.FixedDelay),
		retry.Context(ctx),
	}
	return retry.Do(func() error { return errNotYet }, options...) // want `-fix makes this a retry.Run$`
}

func longer(more ...retry.Option) error {
	options := []retry.Option{attempts}
	options = append(options, more...)
	return retry.Do(func() error { return errNotYet }, options...) // want `not rewritten: not all of its options are written in the call`
}

var (
	tries = uint(4)
	Tries = uint(5) // anybody may set it
)

func triesOfThePackage() error {
	return retry.Do(func() error { return errNotYet }, retry.Attempts(tries), retry.DelayType(retry.FixedDelay)) // want `-fix makes this a retry.Run$`
}

func triesThatMayBeZero() error {
	return retry.Do(func() error { return errNotYet }, retry.Attempts(Tries), retry.DelayType(retry.FixedDelay)) // want `-fix makes this a retry.Run$`
}

func converted() error {
	return retry.Do(func() error { return errNotYet }, retry.Attempts(uint(6)), retry.DelayType(retry.FixedDelay)) // want `-fix makes this a retry.Run$`
}
