package errorignored

import (
	"testing"

	"github.com/goretry/retry"
)

func TestCount(t *testing.T) { retry.Run(t.Context(), retry.Policy{}, op) }
