package retrygrpc

import (
	"cmp"
	"errors"
	"math"
	"net"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/clienterr"
	"github.com/goretry/retry/internal/engine"
)

// Classify is a [retry.Classifier] for calls in a plain [retry.Do]. It uses only the
// code of a status error: UNAVAILABLE is Transient, DEADLINE_EXCEEDED is TimedOut,
// RESOURCE_EXHAUSTED is Throttled, and all others are Permanent. No error is
// Unprocessed, since a code proves nothing. Classify returns Unknown for nil, for
// errors without a status, and for errors that hold a *[retry.Error], for which
// package retry has rules.
func Classify(err error) retry.Class {
	st, ok := statusOf(err)
	if !ok {
		return retry.Unknown
	}
	return classOf(st.Code())
}

// classOf returns the class of a code, Permanent for the OK of an error.
func classOf(c codes.Code) retry.Class {
	return cmp.Or(retry.Class(clienterr.GRPC(int64(c))), retry.Permanent)
}

// statusOf returns the status of err, unless it belongs to a run inside err.
func statusOf(err error) (*status.Status, bool) {
	if err == nil {
		return nil, false
	}
	if _, ok := errors.AsType[*retry.Error](err); ok {
		return nil, false
	}
	return status.FromError(err)
}

// judge returns the run's error for an attempt that ended with err, and stores its
// class in the call. To the run a Permanent answer is a success: the caller gets the
// answer from the call.
func (a *attempt) judge(err error) error {
	st, ok := statusOf(err)
	if !ok {
		a.class = retry.Policy{Classify: a.ask}.Judge(err).Class
		return err
	}
	if v := engine.Judge(&retry.Policy{}, err); v.Marked || errors.Is(err, retry.ErrRejected) { // which no classifier sees
		a.class = retry.Class(v.Class)
		return err
	}
	wait, pushed, refused := a.pushback()
	f := &failure{error: err, status: st, hint: max(wait, retryInfo(st))}
	a.class = retry.Unknown
	if a.ask != nil {
		a.class = a.ask(err)
	}
	if a.class == retry.Unknown || a.class > retry.Unprocessed {
		a.class = a.classify(st.Code(), f.hint, pushed && wait == 0)
	}
	canceled := st.Code() == codes.Canceled && a.run.Err() != nil
	switch {
	case refused && a.class != retry.Permanent:
		return retry.Refuse(f)
	case a.class == retry.Permanent && a.answered() && !refused && !canceled:
		a.answer = err
		return nil
	}
	return f
}

// classify returns the class of an attempt that ended with a code. hint is what
// the server asked for; now says that it asked for a retry without a wait.
func (a *attempt) classify(c codes.Code, hint time.Duration, now bool) retry.Class {
	class := classOf(c)
	switch c {
	case codes.ResourceExhausted: // also grpc's own code for a message that is too large
		if !a.trailersOnly() {
			class = retry.Permanent
		}
	case codes.Internal, codes.Unknown, codes.Canceled: // a broken stream or a proxy's page; without a stream, bad metadata
		if !a.answered() && (a.sent() || c != codes.Internal) {
			class = retry.Transient
		}
	}
	asks := c == codes.Unavailable || c == codes.ResourceExhausted || c == codes.Aborted
	switch {
	case asks && now:
		return retry.Unprocessed
	case asks && hint > 0:
		return retry.Throttled // with its hint: the server asks for this very call again
	case hint > 0 && (c == codes.Internal || c == codes.Unknown):
		return retry.Transient
	case hint > 0 && c == codes.DeadlineExceeded:
		return class
	case class == retry.Permanent, a.closed() && !a.answered():
		return retry.Permanent
	case !a.sent():
		return retry.Unprocessed
	}
	return class
}

// evidence is what grpc reports about an attempt besides its error. It is complete
// when grpc has returned the error.
type evidence struct {
	header, trailer metadata.MD
	peer            peer.Peer
}

// nobody is the address of the peer until grpc has created a stream.
type nobody struct{ net.Addr }

// sent reports whether there was a stream. Without one the server has not seen the
// attempt.
func (e *evidence) sent() bool { return e.peer.Addr != nobody{} }

// answered reports whether the server has sent a gRPC response.
func (e *evidence) answered() bool { return len(e.header) > 0 || len(e.trailer) > 0 }

// trailersOnly reports whether the response had trailers only, and so was an error
// without headers. Only then are a response's first headers its trailer.
func (e *evidence) trailersOnly() bool {
	return len(e.header) == 0 && len(e.trailer["content-type"]) > 0
}

// pushback returns the wait that the server asks for by grpc-retry-pushback-ms, and
// whether it sent one at all. Any value except a single number that is neither
// negative nor too large is a refusal (gRFC A6, "Pushback").
func (e *evidence) pushback() (wait time.Duration, ok, refused bool) {
	values := e.trailer["grpc-retry-pushback-ms"]
	if len(values) == 0 {
		return 0, false, false
	}
	ms, err := strconv.ParseInt(values[0], 10, 64)
	if len(values) > 1 || err != nil || ms < 0 {
		return 0, false, true
	}
	if ms > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64, true, false
	}
	return time.Duration(ms) * time.Millisecond, true, false
}

// retryInfo returns the longest wait that the details of a status ask for.
func retryInfo(st *status.Status) (wait time.Duration) {
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			wait = max(wait, info.GetRetryDelay().AsDuration())
		}
	}
	return wait
}

// failure is an attempt's error with a status, as runs and hooks see it.
type failure struct {
	error
	status *status.Status
	hint   time.Duration
}

func (f *failure) Unwrap() error              { return f.error }
func (f *failure) GRPCStatus() *status.Status { return f.status }
func (f *failure) RetryAfter() time.Duration  { return f.hint }

// ErrorType returns the code as the error.type of spans and metrics, as the semantic
// conventions for RPCs require: "UNAVAILABLE".
func (f *failure) ErrorType() string { return code.Code(f.status.Code()).String() }

// refusal is the caller's error if the server refuses a retry: the status, and in its
// tree a mark of [retry.Refuse], at which an outer run stops.
type refusal struct {
	marked error
	status *status.Status
}

func (r *refusal) Error() string              { return r.marked.Error() }
func (r *refusal) Unwrap() error              { return r.marked }
func (r *refusal) GRPCStatus() *status.Status { return r.status }

// timeout is the error of an attempt whose own timeout has passed, whatever error grpc
// returned.
type timeout struct{ cause error }

func (t timeout) Error() string { return t.GRPCStatus().String() }

func (t timeout) Unwrap() []error {
	if t.cause == nil {
		return []error{retry.ErrAttemptTimeout}
	}
	return []error{retry.ErrAttemptTimeout, t.cause}
}

func (t timeout) GRPCStatus() *status.Status {
	return status.New(codes.DeadlineExceeded, retry.ErrAttemptTimeout.Error())
}
