package nested

import (
	"context"
	"testing"

	"github.com/goretry/retry"
)

func TestBoth(t *testing.T) {
	err := retry.Run(t.Context(), retry.Policy{}, func(ctx context.Context) error {
		return retry.Run(ctx, inner, op)
	})
	t.Log(err)
}
