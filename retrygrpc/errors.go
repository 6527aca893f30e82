package retrygrpc

import (
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goretry/retry"
)

// failure is an attempt's error with a status, as runs and hooks see it.
type failure struct {
	error
	status *status.Status
	hint   time.Duration
	now    bool // the server asks for a retry at once
}

func (f *failure) Unwrap() error              { return f.error }
func (f *failure) GRPCStatus() *status.Status { return f.status }
func (f *failure) RetryAfter() time.Duration  { return f.hint }
func (f *failure) RetryNow() bool             { return f.now }

func (f *failure) ErrorType() string { return errorType(f.status) }

// errorType returns the code as the error.type of spans and metrics, as the semantic
// conventions for RPCs require: "UNAVAILABLE".
func errorType(st *status.Status) string { return code.Code(st.Code()).String() }

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

// outcome is what the caller gets if the server has decided: an answer, or a refusal,
// whose mark of [retry.Refuse] ends an outer run. It looks like the status error.
type outcome struct {
	error
	status *status.Status
}

// final returns the caller's error for a status that no retry follows.
func final(err error, st *status.Status) error {
	if f, ok := err.(*failure); ok {
		err = f.error
	}
	return &outcome{err, st}
}

func (o *outcome) Unwrap() error              { return o.error }
func (o *outcome) GRPCStatus() *status.Status { return o.status }
func (o *outcome) ErrorType() string          { return errorType(o.status) }

// Final tells [retry.Final] that whoever called may not ask again.
func (o *outcome) Final() bool { return true }

// gaveUp is a *[retry.Error] with a status.
type gaveUp struct {
	err    *retry.Error
	status *status.Status
}

func (g *gaveUp) Error() string              { return g.err.Error() }
func (g *gaveUp) Unwrap() error              { return g.err }
func (g *gaveUp) GRPCStatus() *status.Status { return g.status }
