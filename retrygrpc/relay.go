package retrygrpc

import (
	"context"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/goretry/retry"
)

// Relay tells the caller of a handler that fails with err whether and when to call
// again, by the trailer grpc-retry-pushback-ms. The first of these rules that fits err
// counts:
//
//   - If [retry.Final] holds, the pushback is -1: the caller does not retry. That is so
//     for a run that has made retries and failed, and for an answer that Client got.
//   - If err is marked by [retry.Undone], the handler did nothing, and any caller may
//     call again: the pushback is the wait that err asks for, or 0. A permanent error
//     gets none.
//   - If err holds a run that ended because a server asked for a wait above
//     Policy.MaxRetryAfter, the pushback is that wait, if the proto file of the method
//     says by idempotency_level that it may run twice. Otherwise it is -1, because to a
//     caller a wait means that any method may be called again.
//
// Relay is for a handler that does not return err itself, but for example the result
// of [status.Error]. Otherwise [ServerOptions] have it called. Call it once: gRPC takes two
// pushbacks for a refusal. ctx is the handler's. Outside of a handler, once ctx has
// ended, and for a nil err, Relay does nothing.
//
//	retrygrpc.Relay(ctx, err)
//	return nil, status.Error(codes.Unavailable, "orders are down")
func Relay(ctx context.Context, err error) {
	method, _ := grpc.Method(ctx)
	pushbackFor(method, err).send(ctx)
}

// Status returns a status error for a handler that fails with err, and does what [Relay]
// does. Its message is msg: the caller does not see the text of err. Its code is
//
//   - CANCELLED or DEADLINE_EXCEEDED if ctx, the handler's, has ended;
//   - that of the status in err, if there is one;
//   - UNKNOWN, RESOURCE_EXHAUSTED or DEADLINE_EXCEEDED if err is Permanent, Throttled or
//     TimedOut to the zero [retry.Policy];
//   - UNAVAILABLE for all else, such as a transaction that was rolled back.
//
// A wait that is the pushback is also in the details of the status, as RetryInfo. If all
// that the handler did was what failed with err, and nothing of it is left, mark err by
// [retry.Undone]: then callers may repeat a method that must not run twice, too. Of a
// transaction [retry.Error].Undone says so:
//
//	if e, ok := errors.AsType[*retry.Error](err); ok && e.Undone {
//		err = retry.Undone(err)
//	}
//	return nil, retrygrpc.Status(ctx, err, "the order was not booked")
//
// Status(ctx, nil, msg) is nil.
func Status(ctx context.Context, err error, msg string) error {
	if err == nil {
		return nil
	}
	method, _ := grpc.Method(ctx)
	said := pushbackFor(method, err)
	said.send(ctx)
	st := status.New(codeOf(ctx, err), msg)
	if said.wait > 0 {
		if detailed, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(said.wait)}); err == nil {
			st = detailed
		}
	}
	return st.Err()
}

// codeOf returns the code for a handler's error.
func codeOf(ctx context.Context, err error) codes.Code {
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Code()
	}
	if st, ok := status.FromError(err); ok && st.Code() != codes.OK {
		return st.Code()
	}
	switch v := (retry.Policy{}).Judge(err); {
	case v.Class == retry.Permanent:
		return codes.Unknown
	case v.Class == retry.TimedOut && !v.Undone:
		return codes.DeadlineExceeded
	case v.Class == retry.Throttled:
		return codes.ResourceExhausted
	}
	return codes.Unavailable // also for a TimedOut error that was undone: callers may repeat that one whatever the method
}

// pushback is what a server tells its caller.
type pushback struct {
	value string // of the trailer; none if empty
	wait  time.Duration
}

// pushbackFor returns what the server of a method tells its caller if it fails with err.
func pushbackFor(method string, err error) pushback {
	if err == nil {
		return pushback{}
	}
	v := retry.Policy{}.Judge(err)
	left := most
	e, _ := search(err, &left)
	late := e != nil && e.Reason == retry.ReasonRetryAfter && v.Hint > 0
	switch {
	case retry.Final(err), late && !v.Undone && !declaredIdempotent(method):
		return pushback{value: "-1"}
	case late, v.Undone && v.Class != retry.Permanent:
		return pushback{milliseconds(v.Hint), v.Hint}
	}
	return pushback{}
}

// milliseconds returns d as a number of whole milliseconds, rounded up.
func milliseconds(d time.Duration) string {
	ms := d / time.Millisecond
	if d%time.Millisecond > 0 {
		ms++
	}
	return strconv.FormatInt(int64(ms), 10)
}

// send sets the trailer, unless the caller has left.
func (p pushback) send(ctx context.Context) {
	if p.value != "" && ctx.Err() == nil {
		_ = grpc.SetTrailer(ctx, metadata.Pairs(pushbackKey, p.value)) // fails outside of a handler
	}
}
