package severalcalls

import (
	"context"
	"errors"
	"testing"

	"github.com/goretry/retry"
)

// Tests make such operations to see what happens.
func TestTwoCalls(t *testing.T) {
	_ = retry.Run(t.Context(), once, func(ctx context.Context) error {
		return errors.Join(bank{}.Charge(ctx, 1), bank{}.Refund(ctx, 1))
	})
}
