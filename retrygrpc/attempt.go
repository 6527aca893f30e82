package retrygrpc

import (
	"context"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
)

// attempt is one attempt of a call.
type attempt struct {
	*call
	evidence
	limit
	run  context.Context    // the run's for this attempt
	ctx  context.Context    // grpc's: derived from it
	opts []grpc.CallOption  // the caller's, and those that gather evidence
	room [6]grpc.CallOption // for opts, mostly
	kept bool               // a stream goes on in ctx
}

// begin prepares an attempt whose context is to be derived from ctx. It must be
// closed.
func (k *call) begin(ctx context.Context) *attempt {
	a := &k.first
	if a.call != nil {
		a = new(attempt)
	}
	a.call, a.run = k, ctx
	a.peer.Addr = nobody{}
	if n := retry.AttemptNumber(ctx); n > 1 {
		md, _ := metadata.FromOutgoingContext(ctx)
		if md == nil {
			md = metadata.MD{}
		}
		md.Set("grpc-previous-rpc-attempts", strconv.Itoa(n-1))
		ctx = metadata.NewOutgoingContext(ctx, md)
	}
	a.ctx = ctx
	if k.timeout > 0 {
		a.ctx = a.limit.start(ctx, k.ticks, k.timeout)
	}
	a.opts = append(append(a.room[:0], k.opts...), grpc.Header(&a.header), grpc.Trailer(&a.trailer), grpc.Peer(&a.peer))
	return a
}

// end takes the error of a unary call or of a stream's start, and returns the error
// for the run.
func (a *attempt) end(err error) error {
	inTime := a.limit.stop()
	if err == nil && inTime {
		a.kept = true
		return nil
	}
	if err == nil { // the context ends just now, and the stream with it
		a.class = retry.TimedOut
		return &failure{error: timeout{}, status: timeout{}.GRPCStatus()}
	}
	late := a.timedOut()
	if late {
		err = timeout{err}
	}
	err = a.judge(err)
	if late && a.class == retry.Transient {
		a.class = retry.TimedOut // whatever the user's Classify returned: the run does not know the limit
	}
	return err
}

// timedOut reports whether the attempt's own timeout has passed. A server that got the
// deadline may notice before the context ends.
func (a *attempt) timedOut() bool {
	if context.Cause(a.ctx) == retry.ErrAttemptTimeout {
		return true
	}
	deadline, ok := a.ctx.Deadline()
	own := a.until.IsZero() || deadline.Before(a.until)
	return a.policy.AttemptTimeout > 0 && ok && own && time.Until(deadline) <= 0
}

// close ends the attempt's context, unless a stream goes on in it.
func (a *attempt) close() {
	if !a.kept {
		a.limit.stop()
		a.release()
	}
}

// closed reports whether the program has closed the connection: no attempt will
// ever succeed again.
func (k *call) closed() bool { return k.cc.GetState() == connectivity.Shutdown }

// limit ends the context of an attempt that takes too long, on any clock. The context
// has no deadline, since a stream may go on after its first message.
type limit struct {
	timer  context.Context
	cancel context.CancelCauseFunc // nil without a limit
	disarm func() bool
	free   context.CancelFunc
}

func (l *limit) start(ctx context.Context, clock clockx.Clock, d time.Duration) context.Context {
	if clock == nil {
		clock = clockx.System()
	}
	limited, cancel := context.WithCancelCause(ctx)
	timer, free := clock.WithTimeoutCause(ctx, d, retry.ErrAttemptTimeout)
	*l = limit{timer, cancel, context.AfterFunc(timer, func() { cancel(context.Cause(timer)) }), free}
	return limited
}

// stop removes the limit, and reports whether the attempt kept it.
func (l *limit) stop() bool {
	if l.cancel == nil {
		return true
	}
	late := !l.disarm() && context.Cause(l.timer) == retry.ErrAttemptTimeout
	if late {
		l.cancel(retry.ErrAttemptTimeout) // AfterFunc's goroutine may not have come to it
	}
	l.free()
	return !late
}

// release ends the attempt's context.
func (l *limit) release() {
	if l.cancel != nil {
		l.cancel(nil)
	}
}

func system(c clockx.Clock) bool { return c == nil || c == clockx.System() }
