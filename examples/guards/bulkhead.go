package guards

import (
	"context"
	"errors"

	"github.com/goretry/retry"
)

// Bulkhead has as many places as its capacity. An attempt that finds none is tried again
// after the backoff.
type Bulkhead chan struct{}

var ErrFull = errors.New("bulkhead is full")

func (b Bulkhead) Enter(context.Context, retry.Entry) (retry.Pass, error) {
	select {
	case b <- struct{}{}:
		return retry.Pass{}, nil
	default:
		return retry.Pass{}, ErrFull
	}
}

func (b Bulkhead) Leave(retry.Pass, retry.Exit) { <-b }
