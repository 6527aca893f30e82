package retry_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/pgconn"
	"github.com/goretry/retry/limit"
)

// Errors of other libraries, by their methods.
type (
	safe       bool
	sqlState   string
	status     int
	awsStatus  int
	retryable  bool
	retryable2 bool
	timeout    bool
	busy       struct{ status }
	soon       struct{ status }
)

func (safe) Error() string              { return "safe" }
func (e safe) SafeToRetry() bool        { return bool(e) }
func (e sqlState) Error() string        { return string(e) }
func (e sqlState) SQLState() string     { return string(e) }
func (e status) Error() string          { return "status" }
func (e status) StatusCode() int        { return int(e) }
func (e awsStatus) Error() string       { return "status" }
func (e awsStatus) HTTPStatusCode() int { return int(e) }
func (retryable) Error() string         { return "aws" }
func (e retryable) Retryable() bool     { return bool(e) }
func (retryable2) Error() string        { return "aws" }
func (e retryable2) RetryableError() bool {
	return bool(e)
}
func (timeout) Error() string             { return "timeout" }
func (e timeout) Timeout() bool           { return bool(e) }
func (e busy) RetryAfter() time.Duration  { return time.Second }
func (e soon) RetryAfter() time.Duration  { return 1 }
func (e typed) Error() string             { return "typed" }
func (e typed) SafeToRetry() bool         { return e.safe }
func (e typed) SQLState() string          { return e.state }
func (e typed) RetryAfter() time.Duration { return e.after }

// As the AWS SDK for Go has them: an operation's error wraps a response's, which
// wraps the service's.
type (
	code      string
	operation struct{ err error }
	responded struct {
		awsStatus
		err error
	}
	statusAndCode struct {
		awsStatus
		code string
	}
)

func (e code) Error() string              { return string(e) }
func (e code) ErrorCode() string          { return string(e) }
func (e operation) Error() string         { return "operation error" }
func (e operation) Unwrap() error         { return e.err }
func (e responded) Unwrap() error         { return e.err }
func (e statusAndCode) ErrorCode() string { return e.code }

// typed answers several questions.
type typed struct {
	safe  bool
	state string
	after time.Duration
}

// Errors that say they timed out, and something else.
type (
	hintedTimeout struct{ hinted }
	slowStatus    struct{ status }
	slowly        struct{ error }
)

func (hintedTimeout) Timeout() bool { return true }
func (slowStatus) Timeout() bool    { return true }
func (slowly) Timeout() bool        { return true }
func (e slowly) Unwrap() error      { return e.error }

// unnamedAlert is as crypto/tls has it.
type unnamedAlert uint8

func (unnamedAlert) Error() string { return "tls: alert" }

// several joins errors, some of which are none.
type several []error

func (several) Error() string     { return "several" }
func (s several) Unwrap() []error { return s }

// waits wraps an error and asks for a wait.
type waits struct{ error }

func (w waits) Unwrap() error           { return w.error }
func (waits) RetryAfter() time.Duration { return time.Second }

// asFS is an error that says by its Is method what it is.
type asFS struct{}

func (asFS) Error() string        { return "gone" }
func (asFS) Is(target error) bool { return target == fs.ErrNotExist }

func dial(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
func read(err error) error { return &net.OpError{Op: "read", Net: "tcp", Err: err} }
func viaSyscall(e syscall.Errno) error {
	return os.NewSyscallError("connect", e)
}

var noSuchHost = &net.DNSError{Err: "no such host", IsNotFound: true}

// judged is an error and its class.
type judged struct {
	err  error
	want retry.Class
}

var classesOf = map[string][]judged{
	"nothing known": {
		{nil, retry.Unknown},
		{errors.New("x"), retry.Unknown},
		{errors.Join(), retry.Unknown},
	},
	"timeouts and contexts": {
		{retry.ErrAttemptTimeout, retry.TimedOut},
		{retry.ErrRejected, retry.Transient},
		{context.DeadlineExceeded, retry.TimedOut},
		{os.ErrDeadlineExceeded, retry.TimedOut},
		{timeout(true), retry.TimedOut},
		{timeout(false), retry.Unknown},
		{context.Canceled, retry.Unknown},
		{&url.Error{Op: "Get", Err: context.Canceled}, retry.Unknown},
		{&url.Error{Op: "Get", Err: context.DeadlineExceeded}, retry.TimedOut},
	},
	"inner runs": {
		{&retry.Error{Reason: retry.ReasonPermanent, Errs: []error{syscall.ECONNRESET}}, retry.Permanent},
		{&retry.Error{Reason: retry.ReasonNotIdempotent, Errs: []error{syscall.ECONNRESET}}, retry.Permanent},
		{&retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 2, Errs: []error{syscall.ENETDOWN, syscall.ECONNREFUSED}}, retry.Unprocessed},
		{&retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 2, Errs: []error{errDown, syscall.ECONNREFUSED}}, retry.Transient}, // the first attempt may have run
		{&retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 3, Errs: []error{syscall.ENETDOWN, errDown, syscall.ECONNREFUSED}}, retry.Transient},
		{&retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 3, Errs: []error{syscall.ENETDOWN, syscall.ECONNREFUSED}}, retry.Transient}, // and so may one that is not kept
		{&retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 2, Errs: []error{busy{429}, syscall.ECONNREFUSED}}, retry.Transient},
		{&retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 2, Errs: []error{syscall.ECONNREFUSED, busy{429}}}, retry.Throttled},
		{&retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 2, Errs: []error{busy{503}, busy{429}}}, retry.Throttled},
		{&retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 2, Errs: []error{busy{503}, status(429)}}, retry.Throttled},
		{&retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 1, Errs: []error{fs.ErrNotExist}}, retry.Permanent},
		{&retry.Error{Reason: retry.ReasonCanceled, Errs: []error{syscall.ECONNREFUSED}}, retry.Transient}, // of an earlier run of Supervise
		{&retry.Error{Reason: retry.ReasonCanceled, Errs: []error{errors.ErrUnsupported}}, retry.Transient},
		{&retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 2, Errs: []error{syscall.ECONNREFUSED, syscall.EMFILE}}, retry.Throttled},
		{&retry.Error{Reason: retry.ReasonMaxAttempts, Errs: []error{fs.ErrNotExist, errDown}}, retry.Transient},
		{&retry.Error{Reason: retry.ReasonBudget}, retry.Transient},
	},
	"failed dials": {
		{syscall.ECONNREFUSED, retry.Unprocessed},
		{syscall.ENETUNREACH, retry.Unprocessed},
		{syscall.EHOSTUNREACH, retry.Unprocessed},
		{syscall.ENETDOWN, retry.Unprocessed},
		{syscall.EADDRNOTAVAIL, retry.Unprocessed},
		{dial(viaSyscall(syscall.ECONNREFUSED)), retry.Unprocessed},
		{dial(viaSyscall(syscall.ETIMEDOUT)), retry.Unprocessed},
		{dial(errors.New("x")), retry.Unprocessed},
		{dial(context.DeadlineExceeded), retry.Unprocessed},
		{dial(viaSyscall(syscall.EACCES)), retry.Permanent},
		{dial(x509.HostnameError{}), retry.Permanent},
		{dial(noSuchHost), retry.Permanent},
		{dial(&net.DNSError{}), retry.Unprocessed},
		{read(errors.New("x")), retry.Unknown},
		{read(os.ErrDeadlineExceeded), retry.TimedOut},
		{read(timeout(true)), retry.TimedOut},
	},
	"broken connections": {
		{syscall.ECONNRESET, retry.Transient},
		{syscall.EPIPE, retry.Transient},
		{syscall.ECONNABORTED, retry.Transient},
		{read(viaSyscall(syscall.ECONNRESET)), retry.Transient},
		{io.ErrUnexpectedEOF, retry.Transient},
		{net.ErrClosed, retry.Transient},
		{io.EOF, retry.Unknown},
		{&url.Error{Op: "Get", Err: io.EOF}, retry.Unknown},
		{syscall.ETIMEDOUT, retry.TimedOut},
		{syscall.EAGAIN, retry.Transient},
		{syscall.EINTR, retry.Transient},
	},
	"system calls": {
		{syscall.EMFILE, retry.Throttled},
		{syscall.ENFILE, retry.Throttled},
		{syscall.ENOBUFS, retry.Throttled},
		{syscall.ENOMEM, retry.Throttled},
		{&fs.PathError{Op: "open", Err: syscall.EMFILE}, retry.Throttled},
		{syscall.EACCES, retry.Permanent},
		{syscall.EPERM, retry.Permanent},
		{syscall.EINVAL, retry.Permanent},
		{syscall.EAFNOSUPPORT, retry.Permanent},
		{syscall.EPROTOTYPE, retry.Permanent},
		{syscall.EMSGSIZE, retry.Permanent},
		{syscall.ENOSYS, retry.Permanent},
		{syscall.ENOENT, retry.Permanent},
		{syscall.EXDEV, retry.Unknown},
		{syscall.EEXIST, retry.Permanent},
		{syscall.ENOTEMPTY, retry.Permanent},
		{syscall.EOPNOTSUPP, retry.Permanent},
		{syscall.ENOTSUP, retry.Permanent},
	},
	"name resolution": {
		{noSuchHost, retry.Permanent},
		{&net.DNSError{IsTimeout: true}, retry.Unprocessed},
		{&net.DNSError{IsTemporary: true}, retry.Unprocessed},
		{&net.DNSError{}, retry.Unknown},
	},
	"TLS": {
		{x509.UnknownAuthorityError{}, retry.Permanent},
		{x509.HostnameError{}, retry.Permanent},
		{x509.CertificateInvalidError{}, retry.Permanent},
		{&tls.CertificateVerificationError{Err: errors.New("x")}, retry.Permanent},
		{tls.RecordHeaderError{Msg: "x"}, retry.Permanent},
		{tls.AlertError(40), retry.Permanent},
		{tls.AlertError(42), retry.Permanent},
		{tls.AlertError(43), retry.Permanent},
		{tls.AlertError(44), retry.Permanent},
		{tls.AlertError(45), retry.Permanent},
		{tls.AlertError(46), retry.Permanent},
		{tls.AlertError(48), retry.Permanent},
		{tls.AlertError(70), retry.Permanent},
		{tls.AlertError(120), retry.Permanent},
		{tls.AlertError(80), retry.Transient},
		{tls.AlertError(10), retry.Permanent},
		{tls.AlertError(99), retry.Unknown},
		{&net.OpError{Op: "remote error", Err: tls.AlertError(48)}, retry.Permanent},
		{&net.OpError{Op: "remote error", Err: unnamedAlert(70)}, retry.Permanent},
		{&net.OpError{Op: "local error", Err: unnamedAlert(80)}, retry.Transient},
		{&net.OpError{Op: "read", Err: unnamedAlert(70)}, retry.Unknown},
		{read(os.NewSyscallError("read", syscall.EHOSTUNREACH)), retry.Transient},
		{&net.OpError{Op: "write", Err: syscall.ENETDOWN}, retry.Transient},
	},
	"net, net/url and sentinels": {
		{&net.AddrError{Err: "x"}, retry.Permanent},
		{&net.ParseError{Type: "x"}, retry.Permanent},
		{net.InvalidAddrError("x"), retry.Permanent},
		{net.UnknownNetworkError("x"), retry.Permanent},
		{&url.Error{Op: "Post", Err: dial(viaSyscall(syscall.ECONNREFUSED))}, retry.Transient}, // after a redirect, perhaps
		{&url.Error{Op: "Post", Err: dial(noSuchHost)}, retry.Permanent},
		{&url.Error{Op: "Post", Err: dial(x509.HostnameError{})}, retry.Permanent},
		{&url.Error{Op: "Post", Err: syscall.EMFILE}, retry.Throttled},
		{&url.Error{Op: "Post", Err: busy{429}}, retry.Throttled},
		{&url.Error{Op: "Get"}, retry.Unknown},
		{&url.Error{Op: "parse"}, retry.Permanent},
		{&net.OpError{Op: "read"}, retry.Unknown},
		{driver.ErrBadConn, retry.Unprocessed},
		{sql.ErrNoRows, retry.Permanent},
		{sql.ErrTxDone, retry.Permanent},
		{sql.ErrConnDone, retry.Permanent},
		{fs.ErrNotExist, retry.Permanent},
		{fs.ErrPermission, retry.Permanent},
		{fs.ErrExist, retry.Permanent},
		{fs.ErrInvalid, retry.Permanent},
		{errors.ErrUnsupported, retry.Permanent},
		{http.ErrNotSupported, retry.Permanent},
		{asFS{}, retry.Permanent},
		{&http.MaxBytesError{Limit: 1}, retry.Permanent},
	},
	"methods of drivers": {
		{safe(true), retry.Unprocessed},
		{safe(false), retry.Unknown},
		{sqlState("40001"), retry.Transient},
		{sqlState("40P01"), retry.Transient},
		{sqlState("08001"), retry.Transient},
		{sqlState("08004"), retry.Transient},
		{sqlState("57P03"), retry.Unprocessed},
		{sqlState("08006"), retry.Transient},
		{sqlState("57P01"), retry.Transient},
		{sqlState("55P03"), retry.Transient},
		{sqlState("53300"), retry.Throttled},
		{sqlState("08007"), retry.Transient},
		{sqlState("40003"), retry.Transient},
		{sqlState("57014"), retry.Unknown},
		{sqlState("57P04"), retry.Permanent},
		{sqlState("22012"), retry.Permanent},
		{sqlState("23505"), retry.Permanent},
		{sqlState("28P01"), retry.Permanent},
		{sqlState("42P01"), retry.Permanent},
		{sqlState("3D000"), retry.Permanent},
		{sqlState("0A000"), retry.Permanent},
		{sqlState("53"), retry.Unknown},
		{sqlState(""), retry.Unknown},
		{typed{state: "XX000"}, retry.Unknown},
		{typed{state: "XX000", after: 1}, retry.Transient},
		{typed{state: "53300", after: 1}, retry.Throttled},
		{pgconn.ConnClosed(), retry.Transient},
		{fmt.Errorf("exec: %w", pgconn.ConnClosed()), retry.Transient},
		{typed{safe: true, state: "42P01"}, retry.Unprocessed},
		{typed{safe: false, state: "42P01"}, retry.Permanent},
		{typed{after: -1}, retry.Unknown},
		{retryable(true), retry.Transient},
		{retryable(false), retry.Permanent},
		{retryable2(true), retry.Transient},
		{retryable2(false), retry.Permanent},
		{hinted(time.Second), retry.Transient},
		{hinted(0), retry.Unknown},
	},
	"statuses": {
		{status(200), retry.Unknown},
		{status(304), retry.Unknown},
		{status(399), retry.Unknown},
		{status(400), retry.Permanent},
		{status(498), retry.Permanent},
		{status(499), retry.Transient},
		{status(403), retry.Permanent},
		{status(404), retry.Permanent},
		{status(408), retry.Transient},
		{status(409), retry.Permanent},
		{status(421), retry.Unprocessed},
		{status(425), retry.Transient},
		{status(429), retry.Throttled},
		{status(500), retry.Transient},
		{status(501), retry.Permanent},
		{status(502), retry.Transient},
		{status(503), retry.Transient},
		{status(504), retry.TimedOut},
		{status(524), retry.TimedOut},
		{status(505), retry.Permanent},
		{status(599), retry.TimedOut},
		{status(590), retry.Unknown},
		{awsStatus(503), retry.Transient},
		{busy{503}, retry.Transient}, // a gateway may say it of a request that ran
		{busy{429}, retry.Throttled},
		{busy{421}, retry.Unprocessed},
		{busy{500}, retry.Transient}, // it may have run: the hint is obeyed all the same
		{busy{403}, retry.Throttled}, // GitHub's rate limit
		{soon{403}, retry.Throttled},
		{busy{404}, retry.Permanent},
		{busy{501}, retry.Permanent},
		{busy{0}, retry.Transient},
	},
	"codes of AWS": {
		{code("ThrottlingException"), retry.Throttled},
		{code("SlowDown"), retry.Throttled},
		{code("RequestTimeout"), retry.Transient},
		{code("PriorRequestNotComplete"), retry.Throttled},
		{code("AccessDenied"), retry.Permanent},
		{code("Wrong"), retry.Unknown},
		{waits{code("Throttling")}, retry.Throttled},
		{operation{responded{400, code("ThrottlingException")}}, retry.Throttled},
		{operation{responded{400, code("RequestTimeout")}}, retry.Transient},
		{operation{responded{503, code("SlowDown")}}, retry.Throttled},
		{operation{responded{400, code("ValidationException")}}, retry.Permanent},
		{operation{responded{500, code("InternalServerError")}}, retry.Transient},
		{operation{responded{200, code("SlowDown")}}, retry.Throttled},
		{operation{responded{429, hinted(time.Second)}}, retry.Throttled},
		{responded{400, errors.Join(code("x"), code("SlowDown"))}, retry.Throttled},
		{responded{400, nil}, retry.Permanent},
		{statusAndCode{400, "ThrottledException"}, retry.Throttled},
		{statusAndCode{400, "x"}, retry.Permanent},
	},
	"documents": {
		{&json.SyntaxError{}, retry.Permanent},
		{&json.UnmarshalTypeError{}, retry.Permanent},
		{&json.InvalidUnmarshalError{}, retry.Permanent},
		{&json.UnsupportedTypeError{}, retry.Permanent},
		{&json.UnsupportedValueError{}, retry.Permanent},
		{&json.MarshalerError{Err: errors.New("x")}, retry.Permanent},
		{&xml.SyntaxError{}, retry.Permanent},
		{xml.UnmarshalError("x"), retry.Permanent},
		{&xml.UnsupportedTypeError{}, retry.Permanent},
		{&xml.TagPathError{}, retry.Permanent},
		{&strconv.NumError{Err: strconv.ErrSyntax}, retry.Permanent},
	},
	"trees": {
		{fmt.Errorf("x: %w", status(404)), retry.Permanent},
		{fmt.Errorf("%w: %w", errors.New("x"), syscall.ECONNREFUSED), retry.Transient},
		{waits{syscall.ECONNRESET}, retry.Transient},
		{waits{retryable(false)}, retry.Permanent},
		{waits{errDown}, retry.Transient},
		{waits{status(429)}, retry.Throttled},
		{waits{nil}, retry.Transient},
		{waits{(*url.Error)(nil)}, retry.Transient},
		{fmt.Errorf("x: %w", retry.Stop(syscall.EMFILE)), retry.Throttled}, // a mark is for runs, and is no hint
		{waits{syscall.EMFILE}, retry.Throttled},
		{errors.Join(syscall.ECONNRESET, fs.ErrNotExist), retry.Transient},
		{errors.Join(syscall.ECONNREFUSED, syscall.ECONNRESET), retry.Transient}, // one of them may have run
		{errors.Join(syscall.ECONNREFUSED, errors.New("x"), syscall.EHOSTUNREACH), retry.Transient},
		{errors.Join(syscall.ECONNREFUSED, syscall.EHOSTUNREACH), retry.Unprocessed},
		{errors.Join(errors.New("x"), fs.ErrNotExist, syscall.ECONNRESET), retry.Permanent},
		{several{nil, syscall.ECONNREFUSED}, retry.Unprocessed},
		{several{syscall.ECONNREFUSED, nil}, retry.Unprocessed},
		{errors.Join(syscall.ECONNREFUSED, fs.ErrNotExist), retry.Permanent},
		{errors.Join(syscall.ECONNREFUSED, errors.New("x")), retry.Transient},
		{errors.Join(errors.New("x"), syscall.ECONNREFUSED), retry.Transient},
		{errors.Join(busy{429}, syscall.ECONNREFUSED), retry.Throttled},
		{errors.Join(syscall.ECONNREFUSED, busy{429}), retry.Throttled},
		{errors.Join(busy{429}, syscall.ECONNRESET), retry.Throttled},
		{errors.Join(status(429), busy{503}), retry.Throttled},
		{errors.Join(status(429), syscall.ECONNRESET), retry.Throttled},
		{errors.Join(syscall.ECONNREFUSED, context.DeadlineExceeded), retry.TimedOut},
		{errors.Join(context.DeadlineExceeded, syscall.ECONNREFUSED), retry.TimedOut},
		{errors.Join(context.DeadlineExceeded, syscall.ECONNRESET), retry.TimedOut},
		{errors.Join(syscall.ECONNRESET, context.DeadlineExceeded), retry.Transient}, // the first that is known
		{errors.Join(errDown, context.DeadlineExceeded), retry.TimedOut},
		{errors.Join(busy{429}, context.DeadlineExceeded), retry.Throttled},
	},
}

func TestDefaultClassifier(t *testing.T) {
	for kind, errs := range classesOf {
		for _, tt := range errs {
			if got := retry.DefaultClassifier(tt.err); got != tt.want {
				t.Errorf("%s: %T(%v) is %v, want %v", kind, tt.err, tt.err, got, tt.want)
			}
		}
	}
}

// Which errors say that no answer came in time, and which look like it. The requests
// of failed dials were never sent.
func TestTimedOut(t *testing.T) {
	const (
		unknown     = retry.Unknown
		transient   = retry.Transient
		timedOut    = retry.TimedOut
		unprocessed = retry.Unprocessed
	)
	dialTimeout, dnsTimeout := dial(os.NewSyscallError("connect", syscall.ETIMEDOUT)), &net.DNSError{IsTimeout: true}
	for _, tt := range []struct {
		name string
		err  error
		want retry.Class
	}{
		{"attempt's deadline", retry.ErrAttemptTimeout, timedOut},
		{"context's deadline", context.DeadlineExceeded, timedOut},
		{"deadline of a connection or file", os.ErrDeadlineExceeded, timedOut},
		{"any Timeout method", timeout(true), timedOut},
		{"Timeout method below others", fmt.Errorf("x: %w", waits{timeout(true)}), timedOut},
		{"Timeout method, and a wait", hintedTimeout{hinted(time.Second)}, timedOut},
		{"Timeout method above what is not known", slowly{errDown}, timedOut},
		{"Timeout method above what asks for a wait", slowly{hinted(time.Second)}, timedOut},
		{"Timeout method above what is known", slowly{fs.ErrNotExist}, retry.Permanent},
		{"Timeout method above a refused connection", slowly{syscall.ECONNREFUSED}, unprocessed},
		{"Timeout method of a status", slowStatus{408}, transient},
		{"ETIMEDOUT", syscall.ETIMEDOUT, timedOut},
		{"ETIMEDOUT of a read", read(os.NewSyscallError("read", syscall.ETIMEDOUT)), timedOut},
		{"deadline of a write", &net.OpError{Op: "write", Err: os.ErrDeadlineExceeded}, timedOut},
		{"file's deadline", &fs.PathError{Op: "read", Err: os.ErrDeadlineExceeded}, timedOut},
		{"504", status(504), timedOut},
		{"504 with a hint", busy{504}, timedOut},
		{"504 with a hint around it", waits{status(504)}, timedOut},
		{"AWS's 504", awsStatus(504), timedOut},
		{"inner run", &retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 1, Errs: []error{context.DeadlineExceeded}}, timedOut},
		{"inner run that ended with another error", &retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 2, Errs: []error{context.DeadlineExceeded, syscall.ECONNRESET}}, transient},
		{"inner run without an attempt", &retry.Error{Reason: retry.ReasonDeadline, Cause: context.DeadlineExceeded}, transient},

		{"dial", dialTimeout, unprocessed},
		{"dial below a url.Error", &url.Error{Op: "Get", Err: dialTimeout}, transient},
		{"DNS", dnsTimeout, unprocessed},
		{"DNS below a url.Error", &url.Error{Op: "Get", Err: dial(dnsTimeout)}, transient},
		{"EAGAIN", syscall.EAGAIN, transient}, // though its Timeout is true
		{"EINTR", syscall.EINTR, transient},
		{"408", status(408), transient}, // the server has waited for the request
		{"500", status(500), transient},
		{"502", status(502), transient},
		{"503", busy{503}, transient},
		{"AWS's RequestTimeout", code("RequestTimeout"), transient}, // a connection went silent, says S3
		{"AWS's RequestTimeoutException", code("RequestTimeoutException"), transient},
		{"AWS's RequestTimeout, in a 504", operation{responded{504, code("RequestTimeout")}}, transient},
		{"statement canceled", sqlState("57014"), unknown}, // by whom is not said
		{"transaction's resolution unknown", sqlState("08007"), transient},
		{"statement's completion unknown", sqlState("40003"), transient},
		{"no place", limit.ErrLimited, unprocessed},
	} {
		if got := retry.DefaultClassifier(tt.err); got != tt.want {
			t.Errorf("%s: %T(%v) is %v, want %v", tt.name, tt.err, tt.err, got, tt.want)
		}
		judgedAsEver(t, tt.err)
	}
}

// What net/http and crypto/tls really return, as far as it has no type to go by.
func TestDefaultClassifierOnRealClients(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("/loop", http.RedirectHandler("/loop", http.StatusFound))
	mux.HandleFunc("/hang", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/short", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, "12345")
	})
	mux.HandleFunc("/nowhere", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://local host/")
		w.WriteHeader(http.StatusFound)
	})
	mux.HandleFunc("/json", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"a": nope}`) })
	plain, secure := httptest.NewServer(mux), httptest.NewUnstartedServer(mux)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer plain.Close()
	defer secure.Close()
	closed := httptest.NewServer(mux)
	closed.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the system accepts connections, and nobody says anything on them
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()

	get := func(url string, change func(*http.Request)) error {
		req, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if change != nil {
			change(req)
		}
		client := &http.Client{Timeout: 10 * time.Second}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		return json.NewDecoder(resp.Body).Decode(new(map[string]any))
	}
	for _, tt := range []struct {
		name string
		err  error
		want retry.Class
	}{
		{"unsupported scheme", get("gopher://localhost/", nil), retry.Permanent},
		{"too many redirects", get(plain.URL+"/loop", nil), retry.Permanent},
		{"redirect to no URL", get(plain.URL+"/nowhere", nil), retry.Permanent},
		{"no TLS version in common", func() error {
			modern := httptest.NewUnstartedServer(mux)
			modern.TLS = &tls.Config{MinVersion: tls.VersionTLS13}
			modern.Config.ErrorLog = log.New(io.Discard, "", 0)
			modern.StartTLS()
			defer modern.Close()
			_, err := tls.Dial("tcp", modern.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12})
			return err
		}(), retry.Permanent},
		{"no host", get("http:///x", nil), retry.Permanent},
		{"bad URL", get("http://local host/", nil), retry.Permanent},
		{"bad port", get("http://[::1]:x/", nil), retry.Permanent},
		{"bad method", get(plain.URL, func(r *http.Request) { r.Method = "BAD METHOD" }), retry.Permanent},
		{"bad header", get(plain.URL, func(r *http.Request) { r.Header["A\n"] = []string{"b"} }), retry.Permanent},
		{"bad trailer", get(plain.URL, func(r *http.Request) { r.Trailer = http.Header{"A\n": {"b"}} }), retry.Permanent},
		{"unknown authority", get(secure.URL, nil), retry.Permanent},
		{"TLS to a plain server", get(strings.Replace(plain.URL, "http:", "https:", 1), nil), retry.Permanent},
		{"nobody listens", get(closed.URL, nil), retry.Transient}, // http.Client may have followed a redirect
		{"nobody listens, without http.Client", func() error {
			req, err := http.NewRequest(http.MethodGet, closed.URL, nil)
			if err != nil {
				return err
			}
			resp, err := http.DefaultTransport.RoundTrip(req)
			if err == nil {
				resp.Body.Close()
			}
			return err
		}(), retry.Unprocessed},
		{"client timeout", func() error {
			client := &http.Client{Timeout: 20 * time.Millisecond}
			resp, err := client.Get(plain.URL + "/hang")
			if err == nil {
				resp.Body.Close()
			}
			return err
		}(), retry.TimedOut},
		{"TLS handshake's timeout", func() error {
			client := &http.Client{Transport: &http.Transport{TLSHandshakeTimeout: 20 * time.Millisecond}}
			resp, err := client.Get("https://" + silent.Addr().String())
			if err == nil {
				resp.Body.Close()
			}
			return err
		}(), retry.TimedOut},
		{"read deadline", func() error {
			conn, err := net.Dial("tcp", silent.Addr().String())
			if err != nil {
				return err
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now()); err != nil {
				return err
			}
			_, err = conn.Read(make([]byte, 1))
			return err
		}(), retry.TimedOut},
		{"dial's timeout", func() error {
			_, err := net.DialTimeout("tcp", silent.Addr().String(), time.Nanosecond)
			return err
		}(), retry.Unprocessed},
		{"body cut short", get(plain.URL+"/short", nil), retry.Transient},
		{"not JSON", get(plain.URL+"/json", nil), retry.Permanent},
		{"number out of range", func() error { _, err := strconv.Atoi("x"); return err }(), retry.Permanent},
		{"no such file", func() error { _, err := os.Open("no such file"); return err }(), retry.Permanent},
		{"unknown network", func() error { _, err := net.Dial("nope", "localhost:1"); return err }(), retry.Permanent},
		{"missing port", func() error { _, err := net.Dial("tcp", "127.0.0.1"); return err }(), retry.Permanent},
		{"closed connection", func() error {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			l.Close()
			_, err = l.Accept()
			return err
		}(), retry.Transient},
	} {
		if got := retry.DefaultClassifier(tt.err); got != tt.want {
			t.Errorf("%s: %T(%v) is %v, want %v", tt.name, tt.err, tt.err, got, tt.want)
		}
		judgedAsEver(t, tt.err)
	}
}

func TestClassifiers(t *testing.T) {
	say := func(c retry.Class) retry.Classifier { return func(error) retry.Class { return c } }
	for _, tt := range []struct {
		cs   []retry.Classifier
		want retry.Class
	}{
		{nil, retry.Unknown},
		{[]retry.Classifier{nil, say(retry.Unknown)}, retry.Unknown},
		{[]retry.Classifier{say(retry.Unprocessed + 1), say(255)}, retry.Unknown},
		{[]retry.Classifier{say(255), say(retry.Throttled)}, retry.Throttled},
		{[]retry.Classifier{say(retry.Unknown), nil, say(retry.Throttled), say(retry.Permanent)}, retry.Throttled},
	} {
		if got := retry.Classifiers(tt.cs...)(errDown); got != tt.want {
			t.Errorf("%d classifiers say %v, want %v", len(tt.cs), got, tt.want)
		}
	}
}

func TestClassifiersKeepsItsOwnList(t *testing.T) {
	cs := []retry.Classifier{func(error) retry.Class { return retry.Permanent }}
	classify := retry.Classifiers(cs...)
	cs[0] = nil
	if got := classify(errDown); got != retry.Permanent {
		t.Errorf("after the caller's list changed it says %v, want permanent", got)
	}
}

func TestClassifyComesBeforeDefaultClassifier(t *testing.T) {
	for _, tt := range []struct {
		say   retry.Class
		calls int
	}{
		{retry.Transient, 2},
		{retry.Unknown, 1}, // then the default knows: permanent
		{retry.Class(99), 1},
	} {
		p, _ := virtual()
		p.MaxAttempts = 2
		p.Classify = func(error) retry.Class { return tt.say }
		calls := 0
		_ = retry.Run(t.Context(), p, func(context.Context) error { calls++; return fs.ErrNotExist })
		if calls != tt.calls {
			t.Errorf("Classify says %d: %d calls, want %d", tt.say, calls, tt.calls)
		}
	}
}

// An error that nests what must be looked into does not take exponential time.
func TestDeepTreesAreJudgedOnce(t *testing.T) {
	err := errDown
	for range 200 {
		err = &url.Error{Op: "Get", Err: &net.OpError{Op: "read", Err: err}}
	}
	if got := retry.DefaultClassifier(err); got != retry.Unknown {
		t.Errorf("it is %v, want unknown", got)
	}
}
