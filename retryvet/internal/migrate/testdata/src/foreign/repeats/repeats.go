package repeats

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/cenkalti/backoff/v4"
)

var errNotYet = errors.New("not yet")

type store interface{ load() error }

// The old library waits until the file is there.
func file(name string) error {
	return backoff.Retry(func() error { // want `-fix makes this a retry.Run; waits at the cap may be shorter: their jitter exceeded it; Classify repeats every error, as before: delete it`
		_, err := os.Stat(name)
		return err
	}, backoff.NewExponentialBackOff())
}

// Both libraries repeat these errors.
func plain(ready func() bool) error {
	return backoff.Retry(func() error { // want `-fix makes this a retry.Run; waits at the cap may be shorter: their jitter exceeded it$`
		if !ready() {
			return errNotYet
		}
		return nil
	}, backoff.NewExponentialBackOff())
}

func texts(n int) error {
	return backoff.Retry(func() error { // want `-fix makes this a retry.Run; waits at the cap may be shorter: their jitter exceeded it$`
		if n == 0 {
			return backoff.Permanent(errNotYet)
		}
		if n == 1 {
			return fmt.Errorf("not yet: %d", n)
		}
		return errNotYet
	}, backoff.NewExponentialBackOff())
}

func given(op func() error) error {
	return backoff.Retry(func() error { return op() }, backoff.NewExponentialBackOff()) // want `Classify repeats every error that Permanent has not marked`
}

// An interface may be anybody's, and so may its marks.
func from(ctx context.Context, s store) error {
	return backoff.Retry(func() error { // want `Classify repeats every error that Permanent has not marked`
		return s.load()
	}, backoff.WithContext(backoff.NewExponentialBackOff(), ctx))
}
