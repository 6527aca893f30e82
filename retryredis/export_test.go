package retryredis

import (
	"context"

	"github.com/goretry/retry/pace"
)

// ReserveAt is Reserve at a time of the test.
func (s *Store) ReserveAt(ctx context.Context, now float64, a pace.Ask) (pace.Slots, error) {
	return s.reserve(ctx, now, a)
}
