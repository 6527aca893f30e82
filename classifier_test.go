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

func TestDefaultClassifier(t *testing.T) {
	const (
		unknown     = retry.Unknown
		permanent   = retry.Permanent
		transient   = retry.Transient
		timedOut    = retry.TimedOut
		throttled   = retry.Throttled
		unprocessed = retry.Unprocessed
	)
	notFound := &net.DNSError{Err: "no such host", IsNotFound: true}
	for _, tt := range []struct {
		err  error
		want retry.Class
	}{
		{nil, unknown},
		{errors.New("x"), unknown},
		{errors.Join(), unknown},

		{retry.ErrAttemptTimeout, timedOut},
		{retry.ErrRejected, transient},
		{context.DeadlineExceeded, timedOut},
		{os.ErrDeadlineExceeded, timedOut},
		{timeout(true), timedOut},
		{timeout(false), unknown},
		{context.Canceled, unknown},
		{&url.Error{Op: "Get", Err: context.Canceled}, unknown},
		{&url.Error{Op: "Get", Err: context.DeadlineExceeded}, timedOut},

		{&retry.Error{Reason: retry.ReasonPermanent, Errs: []error{syscall.ECONNRESET}}, permanent},
		{&retry.Error{Reason: retry.ReasonNotIdempotent, Errs: []error{syscall.ECONNRESET}}, permanent},
		{&retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 2, Errs: []error{syscall.ENETDOWN, syscall.ECONNREFUSED}}, unprocessed},
		{&retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 2, Errs: []error{errDown, syscall.ECONNREFUSED}}, transient}, // the first attempt may have run
		{&retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 3, Errs: []error{syscall.ENETDOWN, errDown, syscall.ECONNREFUSED}}, transient},
		{&retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 3, Errs: []error{syscall.ENETDOWN, syscall.ECONNREFUSED}}, transient}, // and so may one that is not kept
		{&retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 2, Errs: []error{busy{429}, syscall.ECONNREFUSED}}, transient},
		{&retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 2, Errs: []error{syscall.ECONNREFUSED, busy{429}}}, throttled},
		{&retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 2, Errs: []error{busy{503}, busy{429}}}, throttled},
		{&retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 2, Errs: []error{busy{503}, status(429)}}, throttled},
		{&retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 1, Errs: []error{fs.ErrNotExist}}, permanent},
		{&retry.Error{Reason: retry.ReasonCanceled, Errs: []error{syscall.ECONNREFUSED}}, transient}, // of an earlier run of Supervise
		{&retry.Error{Reason: retry.ReasonCanceled, Errs: []error{errors.ErrUnsupported}}, transient},
		{&retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 2, Errs: []error{syscall.ECONNREFUSED, syscall.EMFILE}}, throttled},
		{&retry.Error{Reason: retry.ReasonMaxAttempts, Errs: []error{fs.ErrNotExist, errDown}}, transient},
		{&retry.Error{Reason: retry.ReasonBudget}, transient},

		{syscall.ECONNREFUSED, unprocessed},
		{syscall.ENETUNREACH, unprocessed},
		{syscall.EHOSTUNREACH, unprocessed},
		{syscall.ENETDOWN, unprocessed},
		{syscall.EADDRNOTAVAIL, unprocessed},
		{dial(viaSyscall(syscall.ECONNREFUSED)), unprocessed},
		{dial(viaSyscall(syscall.ETIMEDOUT)), unprocessed},
		{dial(errors.New("x")), unprocessed},
		{dial(context.DeadlineExceeded), unprocessed},
		{dial(viaSyscall(syscall.EACCES)), permanent},
		{dial(x509.HostnameError{}), permanent},
		{dial(notFound), permanent},
		{dial(&net.DNSError{}), unprocessed},
		{read(errors.New("x")), unknown},
		{read(os.ErrDeadlineExceeded), timedOut},
		{read(timeout(true)), timedOut},

		{syscall.ECONNRESET, transient},
		{syscall.EPIPE, transient},
		{syscall.ECONNABORTED, transient},
		{read(viaSyscall(syscall.ECONNRESET)), transient},
		{io.ErrUnexpectedEOF, transient},
		{net.ErrClosed, transient},
		{io.EOF, unknown},
		{&url.Error{Op: "Get", Err: io.EOF}, unknown},
		{syscall.ETIMEDOUT, timedOut},
		{syscall.EAGAIN, transient},
		{syscall.EINTR, transient},

		{syscall.EMFILE, throttled},
		{syscall.ENFILE, throttled},
		{syscall.ENOBUFS, throttled},
		{syscall.ENOMEM, throttled},
		{&fs.PathError{Op: "open", Err: syscall.EMFILE}, throttled},
		{syscall.EACCES, permanent},
		{syscall.EPERM, permanent},
		{syscall.EINVAL, permanent},
		{syscall.EAFNOSUPPORT, permanent},
		{syscall.EPROTOTYPE, permanent},
		{syscall.EMSGSIZE, permanent},
		{syscall.ENOSYS, permanent},
		{syscall.ENOENT, permanent},
		{syscall.EXDEV, unknown},
		{syscall.EEXIST, permanent},
		{syscall.ENOTEMPTY, permanent},
		{syscall.EOPNOTSUPP, permanent},
		{syscall.ENOTSUP, permanent},

		{notFound, permanent},
		{&net.DNSError{IsTimeout: true}, unprocessed},
		{&net.DNSError{IsTemporary: true}, unprocessed},
		{&net.DNSError{}, unknown},

		{x509.UnknownAuthorityError{}, permanent},
		{x509.HostnameError{}, permanent},
		{x509.CertificateInvalidError{}, permanent},
		{&tls.CertificateVerificationError{Err: errors.New("x")}, permanent},
		{tls.RecordHeaderError{Msg: "x"}, permanent},
		{tls.AlertError(40), permanent},
		{tls.AlertError(42), permanent},
		{tls.AlertError(43), permanent},
		{tls.AlertError(44), permanent},
		{tls.AlertError(45), permanent},
		{tls.AlertError(46), permanent},
		{tls.AlertError(48), permanent},
		{tls.AlertError(70), permanent},
		{tls.AlertError(120), permanent},
		{tls.AlertError(80), transient},
		{tls.AlertError(10), unknown},
		{&net.OpError{Op: "remote error", Err: tls.AlertError(48)}, permanent},
		{&net.OpError{Op: "remote error", Err: unnamedAlert(70)}, permanent},
		{&net.OpError{Op: "local error", Err: unnamedAlert(80)}, transient},
		{&net.OpError{Op: "read", Err: unnamedAlert(70)}, unknown},
		{read(os.NewSyscallError("read", syscall.EHOSTUNREACH)), transient},
		{&net.OpError{Op: "write", Err: syscall.ENETDOWN}, transient},

		{&net.AddrError{Err: "x"}, permanent},
		{&net.ParseError{Type: "x"}, permanent},
		{net.InvalidAddrError("x"), permanent},
		{net.UnknownNetworkError("x"), permanent},
		{&url.Error{Op: "Post", Err: dial(viaSyscall(syscall.ECONNREFUSED))}, transient}, // after a redirect, perhaps
		{&url.Error{Op: "Post", Err: dial(notFound)}, permanent},
		{&url.Error{Op: "Post", Err: dial(x509.HostnameError{})}, permanent},
		{&url.Error{Op: "Post", Err: syscall.EMFILE}, throttled},
		{&url.Error{Op: "Post", Err: busy{429}}, throttled},
		{&url.Error{Op: "Get"}, unknown},
		{&url.Error{Op: "parse"}, permanent},
		{&net.OpError{Op: "read"}, unknown},
		{driver.ErrBadConn, unprocessed},
		{sql.ErrNoRows, permanent},
		{sql.ErrTxDone, permanent},
		{sql.ErrConnDone, permanent},
		{fs.ErrNotExist, permanent},
		{fs.ErrPermission, permanent},
		{fs.ErrExist, permanent},
		{fs.ErrInvalid, permanent},
		{errors.ErrUnsupported, permanent},
		{http.ErrNotSupported, permanent},
		{asFS{}, permanent},
		{&http.MaxBytesError{Limit: 1}, permanent},

		{safe(true), unprocessed},
		{safe(false), unknown},
		{sqlState("40001"), transient},
		{sqlState("40P01"), transient},
		{sqlState("08001"), unprocessed},
		{sqlState("08004"), unprocessed},
		{sqlState("57P03"), unprocessed},
		{sqlState("08006"), transient},
		{sqlState("57P01"), transient},
		{sqlState("55P03"), transient},
		{sqlState("53300"), throttled},
		{sqlState("08007"), transient},
		{sqlState("40003"), transient},
		{sqlState("57014"), unknown},
		{sqlState("57P04"), permanent},
		{sqlState("22012"), permanent},
		{sqlState("23505"), permanent},
		{sqlState("28P01"), permanent},
		{sqlState("42P01"), permanent},
		{sqlState("3D000"), permanent},
		{sqlState("0A000"), permanent},
		{sqlState("53"), unknown},
		{sqlState(""), unknown},
		{typed{state: "XX000"}, unknown},
		{typed{state: "XX000", after: 1}, transient},
		{typed{state: "53300", after: 1}, throttled},
		{pgconn.ConnClosed(), transient},
		{fmt.Errorf("exec: %w", pgconn.ConnClosed()), transient},
		{typed{safe: true, state: "42P01"}, unprocessed},
		{typed{safe: false, state: "42P01"}, permanent},
		{typed{after: -1}, unknown},
		{retryable(true), transient},
		{retryable(false), permanent},
		{retryable2(true), transient},
		{retryable2(false), permanent},
		{hinted(time.Second), transient},
		{hinted(0), unknown},

		{status(200), unknown},
		{status(304), unknown},
		{status(399), unknown},
		{status(400), permanent},
		{status(499), permanent},
		{status(403), permanent},
		{status(404), permanent},
		{status(408), transient},
		{status(409), permanent},
		{status(421), unprocessed},
		{status(425), transient},
		{status(429), throttled},
		{status(500), transient},
		{status(501), permanent},
		{status(502), transient},
		{status(503), transient},
		{status(504), timedOut},
		{status(524), timedOut},
		{status(505), permanent},
		{status(599), unknown},
		{awsStatus(503), transient},
		{busy{503}, transient}, // a gateway may say it of a request that ran
		{busy{429}, throttled},
		{busy{421}, unprocessed},
		{busy{500}, transient}, // it may have run: the hint is obeyed all the same
		{busy{403}, throttled}, // GitHub's rate limit
		{soon{403}, throttled},
		{busy{404}, permanent},
		{busy{501}, permanent},
		{busy{0}, transient},

		{code("ThrottlingException"), throttled},
		{code("SlowDown"), throttled},
		{code("RequestTimeout"), transient},
		{code("PriorRequestNotComplete"), transient},
		{code("AccessDenied"), unknown},
		{waits{code("Throttling")}, throttled},
		{operation{responded{400, code("ThrottlingException")}}, throttled},
		{operation{responded{400, code("RequestTimeout")}}, transient},
		{operation{responded{503, code("SlowDown")}}, throttled},
		{operation{responded{400, code("ValidationException")}}, permanent},
		{operation{responded{500, code("InternalServerError")}}, transient},
		{operation{responded{200, code("SlowDown")}}, throttled},
		{operation{responded{429, hinted(time.Second)}}, throttled},
		{responded{400, errors.Join(code("x"), code("SlowDown"))}, throttled},
		{responded{400, nil}, permanent},
		{statusAndCode{400, "ThrottledException"}, throttled},
		{statusAndCode{400, "x"}, permanent},

		{&json.SyntaxError{}, permanent},
		{&json.UnmarshalTypeError{}, permanent},
		{&json.InvalidUnmarshalError{}, permanent},
		{&json.UnsupportedTypeError{}, permanent},
		{&json.UnsupportedValueError{}, permanent},
		{&json.MarshalerError{Err: errors.New("x")}, permanent},
		{&xml.SyntaxError{}, permanent},
		{xml.UnmarshalError("x"), permanent},
		{&xml.UnsupportedTypeError{}, permanent},
		{&xml.TagPathError{}, permanent},
		{&strconv.NumError{Err: strconv.ErrSyntax}, permanent},

		{fmt.Errorf("x: %w", status(404)), permanent},
		{fmt.Errorf("%w: %w", errors.New("x"), syscall.ECONNREFUSED), transient},
		{waits{syscall.ECONNRESET}, transient},
		{waits{retryable(false)}, permanent},
		{waits{errDown}, transient},
		{waits{status(429)}, throttled},
		{waits{nil}, transient},
		{waits{(*url.Error)(nil)}, transient},
		{fmt.Errorf("x: %w", retry.Stop(syscall.EMFILE)), throttled}, // a mark is for runs, and is no hint
		{waits{syscall.EMFILE}, throttled},
		{errors.Join(syscall.ECONNRESET, fs.ErrNotExist), transient},
		{errors.Join(syscall.ECONNREFUSED, syscall.ECONNRESET), transient}, // one of them may have run
		{errors.Join(syscall.ECONNREFUSED, errors.New("x"), syscall.EHOSTUNREACH), transient},
		{errors.Join(syscall.ECONNREFUSED, syscall.EHOSTUNREACH), unprocessed},
		{errors.Join(errors.New("x"), fs.ErrNotExist, syscall.ECONNRESET), permanent},
		{several{nil, syscall.ECONNREFUSED}, unprocessed},
		{several{syscall.ECONNREFUSED, nil}, unprocessed},
		{errors.Join(syscall.ECONNREFUSED, fs.ErrNotExist), permanent},
		{errors.Join(syscall.ECONNREFUSED, errors.New("x")), transient},
		{errors.Join(errors.New("x"), syscall.ECONNREFUSED), transient},
		{errors.Join(busy{429}, syscall.ECONNREFUSED), throttled},
		{errors.Join(syscall.ECONNREFUSED, busy{429}), throttled},
		{errors.Join(busy{429}, syscall.ECONNRESET), throttled},
		{errors.Join(status(429), busy{503}), throttled},
		{errors.Join(status(429), syscall.ECONNRESET), throttled},
		{errors.Join(syscall.ECONNREFUSED, context.DeadlineExceeded), timedOut},
		{errors.Join(context.DeadlineExceeded, syscall.ECONNREFUSED), timedOut},
		{errors.Join(context.DeadlineExceeded, syscall.ECONNRESET), timedOut},
		{errors.Join(syscall.ECONNRESET, context.DeadlineExceeded), transient}, // the first that is known
		{errors.Join(errDown, context.DeadlineExceeded), timedOut},
		{errors.Join(busy{429}, context.DeadlineExceeded), throttled},
	} {
		if got := retry.DefaultClassifier(tt.err); got != tt.want {
			t.Errorf("%T(%v) is %v, want %v", tt.err, tt.err, got, tt.want)
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
