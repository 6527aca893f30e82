package retrygrpc

import (
	"context"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
)

// attempt is one attempt of a call.
type attempt struct {
	*call
	evidence
	limit  timeLimit
	held   *held              // nil for a unary call, and if nobody wants to know when the stream ends
	answer error              // the server's
	ctx    context.Context    // grpc's: derived from the run's for this attempt
	opts   []grpc.CallOption  // the caller's, and those that gather evidence
	room   [7]grpc.CallOption // for opts, mostly
}

// begin prepares the attempt that the run has announced.
func (k *call) begin() *attempt {
	a, ctx := &k.first, k.run.Context()
	if n := k.run.Number(); n > 1 {
		a = new(attempt)
		md, _ := metadata.FromOutgoingContext(ctx)
		if md == nil {
			md = metadata.MD{}
		}
		md.Set(previousAttempts, strconv.Itoa(n-1))
		ctx = metadata.NewOutgoingContext(ctx, md)
	}
	k.last = a
	a.call, a.ctx = k, ctx
	if k.untimed && k.timeout > 0 {
		a.ctx = a.limit.start(ctx, k.clock, k.timeout)
	}
	a.gather(append(a.room[:0], k.opts...))
	if a != &k.first {
		a.deliver(k.opts) // nothing yet: grpc sets what they ask for only if the attempt gets a stream
	}
	return a
}

// gather makes the options of an attempt that is about to begin: the caller's, and those that gather
// evidence.
func (a *attempt) gather(callers []grpc.CallOption) {
	a.before, a.peer.Addr = a.cc.GetState(), nobody{}
	a.opts = append(callers, grpc.Header(&a.header), grpc.Trailer(&a.trailer), grpc.Peer(&a.peer), grpc.OnFinish(a.finished))
}

func (a *attempt) finished(error) { a.asked.Store(true) }

// end ends an attempt of which nothing goes on, a unary call or a stream that has failed or is
// over, and returns the verdict on its error for the run.
func (a *attempt) end(err error) retry.Verdict {
	defer a.close()
	if err == nil {
		return retry.Verdict{}
	}
	a.limit.stop()
	v := a.failed(err)
	a.call.answer = a.answer
	return v
}

// failed returns the verdict on an error.
func (a *attempt) failed(err error) retry.Verdict {
	late := a.timedOut()
	if late {
		err = timeout{err}
	}
	v := a.judge(err)
	if late && v.Class == retry.Transient {
		v.Class = retry.TimedOut // whatever the user's Classify returned: the run may not know the limit
	}
	return v
}

// goOn ends the attempt for the run, and keeps its stream, unless the attempt has come to
// its limit just now: that has ended the stream.
func (a *attempt) goOn() retry.Verdict {
	if a.limit.stop() {
		a.hold()
		return retry.Verdict{}
	}
	a.close()
	return retry.Verdict{Err: &failure{error: timeout{}, status: timeout{}.GRPCStatus()}, Class: retry.TimedOut}
}

// timedOut reports whether the attempt's own timeout has passed. A server that got the
// deadline may notice before the context ends.
func (a *attempt) timedOut() bool {
	if context.Cause(a.ctx) == retry.ErrAttemptTimeout {
		return true
	}
	if a.untimed || a.timeout <= 0 {
		return false
	}
	deadline, ok := a.ctx.Deadline()
	callers, has := a.run.RunContext().Deadline()
	return ok && !(has && !deadline.Before(callers)) && time.Until(deadline) <= 0
}

// close ends the attempt's context.
func (a *attempt) close() {
	a.limit.stop()
	a.limit.release()
}

// timeLimit is the context of an attempt that ends if the attempt takes too long, on any
// clock. It has no deadline, since a stream may go on after its first message.
type timeLimit struct {
	context.Context // nil without a limit
	timer           context.Context
	cancel          context.CancelCauseFunc
	disarm          func() bool
	free            context.CancelFunc
}

func (l *timeLimit) start(ctx context.Context, clock clockx.Clock, d time.Duration) context.Context {
	timer, free := orSystem(clock).WithTimeoutCause(ctx, d, retry.ErrAttemptTimeout) // first: it may panic
	limited, cancel := context.WithCancelCause(ctx)
	*l = timeLimit{limited, timer, cancel, context.AfterFunc(timer, func() { cancel(context.Cause(timer)) }), free}
	return l
}

// Err is DeadlineExceeded after the limit, as if that were a deadline.
func (l *timeLimit) Err() error {
	err := l.Context.Err()
	if err != nil && context.Cause(l.Context) == retry.ErrAttemptTimeout {
		return context.DeadlineExceeded
	}
	return err
}

// stop removes the limit, and reports whether the attempt kept it.
func (l *timeLimit) stop() bool {
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

// release ends the context.
func (l *timeLimit) release() {
	if l.cancel != nil {
		l.cancel(nil)
	}
}

func system(c clockx.Clock) bool { return orSystem(c) == clockx.System() }

// orSystem returns a policy's clock, of which nil is the system's.
func orSystem(c clockx.Clock) clockx.Clock {
	if c == nil {
		return clockx.System()
	}
	return c
}
