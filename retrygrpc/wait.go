package retrygrpc

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/goretry/retry/clockx"
)

// waiting is a call as the clock of its own run, around the clock that the policy has:
// a wait ends when the program closes the connection, and so does the run. It makes no
// further attempt: while Close is underway that could still reach the server. A
// context that ends with the connection would do too, but would cost something in
// every call. This costs something only in calls that wait.
type waiting call

// errClosing is what grpc returns for a call on a closed connection.
var errClosing = status.Error(codes.Canceled, "grpc: the client connection is closing")

func (w *waiting) clock() clockx.Clock {
	if w.ticks == nil {
		return clockx.System()
	}
	return w.ticks
}

func (w *waiting) Now() time.Time { return w.clock().Now() }

func (w *waiting) WithTimeoutCause(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	return w.clock().WithTimeoutCause(ctx, d, cause)
}

func (w *waiting) Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return w.clock().Sleep(ctx, d)
	}
	awake, wake := context.WithCancel(ctx)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		defer wake()
		for state := w.cc.GetState(); state != connectivity.Shutdown; state = w.cc.GetState() {
			if !w.cc.WaitForStateChange(awake, state) {
				return
			}
		}
	}()
	err := w.clock().Sleep(awake, d)
	wake()
	<-watching
	if err != nil && ctx.Err() == nil {
		return errClosing
	}
	return err
}
