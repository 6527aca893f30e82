package errtext_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/errtext"
	"github.com/goretry/retry/limit"
)

type sqlError string

func (s sqlError) Error() string    { return "ERROR" }
func (s sqlError) SQLState() string { return string(s) }

type statusError int

func (s statusError) Error() string   { return "status" }
func (s statusError) StatusCode() int { return int(s) }

type httpError int

func (s httpError) Error() string       { return "status" }
func (s httpError) HTTPStatusCode() int { return int(s) }

func TestCode(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{errors.New("plain"), ""},
		{fmt.Errorf("reserve: %w", limit.ErrLimited), "limit.limited"},
		{sqlError("40P01"), "40P01"},
		{sqlError("no"), ""},
		{&net.DNSError{IsNotFound: true}, "no_such_host"},
		{&net.DNSError{}, ""},
		{statusError(503), "503"},
		{statusError(200), ""},
		{statusError(399), ""},
		{statusError(400), "400"},
		{statusError(599), "599"},
		{statusError(600), ""},
		{httpError(404), "404"},
		{&retry.Error{Reason: retry.ReasonBudget, Errs: []error{statusError(429)}}, "429"},
		{&retry.Error{Reason: retry.ReasonBudget, Errs: []error{errors.New("plain")}}, "retry.budget"},
		{&retry.Error{Reason: retry.ReasonGuard, Cause: limit.ErrLimited}, "limit.limited"},
		{&retry.Error{Reason: retry.ReasonGuard, Attempts: 1, Errs: []error{statusError(503)}, Cause: limit.ErrLimited}, "503"},
		{&retry.Error{Reason: retry.ReasonGuard, Cause: errors.New("open")}, "retry.guard"},
		{&retry.Error{Reason: retry.ReasonDeadline, Cause: context.DeadlineExceeded}, "retry.deadline"},
	} {
		if got := errtext.Code(tt.err); got != tt.want {
			t.Errorf("Code(%v) = %q, want %q", tt.err, got, tt.want)
		}
	}
}
