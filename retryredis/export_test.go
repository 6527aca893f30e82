package retryredis

import (
	"context"

	"github.com/goretry/retry/fleetpace"
)

// ExchangeAt is Exchange at a time, and with a random number, of the test.
func (f *Fleet) ExchangeAt(ctx context.Context, now, random float64, r fleetpace.Report) (fleetpace.Answer, error) {
	return f.exchange(ctx, now, random, r)
}
