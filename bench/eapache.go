package bench

import (
	"context"
	"time"

	"github.com/eapache/go-resiliency/retrier"
)

// eapache is used as in the README, a Retrier made once; it returns no value, so
// the work function keeps it. Of an error of the operation and one of the context
// it returns either: here the first, by WithSurfaceWorkErrors.
var eapache = Peer{
	Name:   "eapache/go-resiliency",
	Module: "github.com/eapache/go-resiliency",
	New: func(s Spec) Call {
		if s.Virtual || s.Tokens || s.Listener != nil {
			return nil
		}
		r := eapacheRetrier(s)
		return func(ctx context.Context, op Op) (v Row, err error) {
			err = r.RunCtx(ctx, func(ctx context.Context) (err error) {
				v, err = op(ctx)
				return err
			})
			return v, err
		}
	},
	Inline: func(ctx context.Context, op Op) (v Row, err error) {
		r := retrier.New(retrier.LimitedExponentialBackoff(3, 100*time.Millisecond, 10*time.Second), nil)
		err = r.RunCtx(ctx, func(ctx context.Context) (err error) {
			v, err = op(ctx)
			return err
		})
		return v, err
	},
}

func eapacheRetrier(s Spec) *retrier.Retrier {
	waits := retrier.ConstantBackoff(max(s.Attempts-1, 1), s.Wait)
	if s.Max > 0 {
		waits = retrier.LimitedExponentialBackoff(len(waits), s.Wait, s.Max)
	}
	r := retrier.New(waits, nil).WithSurfaceWorkErrors()
	if s.Attempts == 0 {
		r.WithInfiniteRetry()
	}
	if s.Jitter {
		r.SetJitter(.5)
	}
	return r
}
