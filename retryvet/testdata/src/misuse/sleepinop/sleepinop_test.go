package sleepinop

import (
	"context"
	"testing"
	"time"

	"github.com/goretry/retry"
)

func TestWork(t *testing.T) {
	retry.Run(t.Context(), retry.Policy{}, func(ctx context.Context) error {
		time.Sleep(time.Millisecond) // stands for work
		return try(ctx)
	})
}
