package guards

import (
	"context"

	"github.com/goretry/retry"
	"github.com/goretry/retry/limit"
)

// WithImportance says that a call is important.
func WithImportance(ctx context.Context) context.Context {
	return context.WithValue(ctx, important{}, true)
}

type important struct{} // the key of a context's value

// Important leaves a quarter of the places to calls that are important. Set Max.
type Important struct{ limit.Limit }

func (g *Important) Enter(ctx context.Context, e retry.Entry) (retry.Pass, error) {
	if ctx.Value(important{}) == nil && 4*g.InFlight() >= 3*g.Max {
		return retry.Pass{}, limit.ErrLimited
	}
	return g.Limit.Enter(ctx, e) // Leave is the Limit's
}
