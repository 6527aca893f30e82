package ending_test

import (
	"context"
	"errors"
	"testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/ending"
)

func TestOf(t *testing.T) {
	canceled := func(cause error) context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		return ctx
	}
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for name, tt := range map[string]struct {
		ctx  context.Context
		want retry.Ending
	}{
		"a context that goes on":        {t.Context(), retry.Returned},
		"a cancel":                      {canceled(nil), retry.Canceled},
		"a cancel with a cause":         {canceled(errors.New("shutdown")), retry.Canceled},
		"a deadline":                    {late, retry.Expired},
		"a timeout of the attempt's":    {canceled(retry.ErrAttemptTimeout), retry.Expired},
		"a cause that is no end itself": {canceled(context.DeadlineExceeded), retry.Canceled},
	} {
		if got := ending.Of(tt.ctx); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
