package retry

import (
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Class says what an error means for a retry.
type Class uint8

const (
	Unknown     Class = iota // no opinion: the next classifier's turn, and in the end Transient
	Permanent                // trying again gives the same error
	Transient                // trying again may work
	Throttled                // trying again may work, later: the other side is too busy
	Unprocessed              // trying again may work, and op provably did nothing: safe even if it must not run twice
)

var classes = [...]string{"unknown", "permanent", "transient", "throttled", "unprocessed"}

// String returns the class as one lower-case word.
func (c Class) String() string {
	if int(c) >= len(classes) {
		return classes[Unknown]
	}
	return classes[c]
}

// Classifier says what an error means, Unknown if it has no opinion. It gets the
// error as op returned it, and looks for what it knows with errors.As and
// errors.Is. It is never asked about nil, marked errors or [ErrRejected].
type Classifier func(error) Class

// Classifiers asks one classifier after the other and returns the first answer
// that is not Unknown. Nil ones are skipped.
func Classifiers(cs ...Classifier) Classifier {
	cs = slices.Clone(cs)
	return func(err error) Class {
		for _, classify := range cs {
			if classify == nil {
				continue
			}
			if c := classify(err); c != Unknown {
				return c
			}
		}
		return Unknown
	}
}

// AlreadyRetried is a [Classifier] for the outer of two layers that both retry:
// Permanent for an error that holds an [*Error], else Unknown. With it in
// Policy.Classify the attempts of the layers add up instead of multiplying.
func AlreadyRetried(err error) Class {
	if _, ok := errors.AsType[*Error](err); ok {
		return Permanent
	}
	return Unknown
}

// Judge returns what a run with this policy would make of err: its class, by a
// mark of [Stop] or [After], Classify or [DefaultClassifier], and the wait that a
// server asked for, 0 if none, which is not cut to MaxRetryAfter. The class is
// Unknown only for a nil err. It is for code that wraps an op and must know what
// an error means.
func (p Policy) Judge(err error) (c Class, hint time.Duration) {
	if err == nil {
		return Unknown, 0
	}
	return p.judge(err)
}

// judge returns what err means for this policy, and the wait the server asked
// for, 0 if none. It is the one place where an error gets its class.
func (p *Policy) judge(err error) (c Class, hint time.Duration) {
	word, hint := inspect(err)
	switch {
	case word == nil:
	case word == rejected:
		return Transient, 0
	case word.stop:
		return Permanent, 0
	default:
		return Throttled, word.hint
	}
	if p.Classify != nil {
		c = p.Classify(err)
	}
	if c == Unknown || c > Unprocessed {
		c = DefaultClassifier(err)
	}
	if c == Unknown {
		c = Transient
	}
	return c, hint
}

// rejected is what inspect finds for ErrRejected, as if Until had marked it.
var rejected = &mark{err: ErrRejected}

// inspect looks through the tree of err, as errors.As does, for the first mark,
// else for ErrRejected, and for the first wait a server asked for. Below the
// *Error of an inner run it sees only that run's last error, and no marks: they
// were for the inner run.
func inspect(err error) (word *mark, hint time.Duration) {
	for err != nil {
		switch e := err.(type) {
		case *mark:
			return e, 0
		case *Error:
			if hint == 0 {
				_, hint = inspect(e.Last())
			}
			return word, hint
		}
		if hint == 0 {
			hint = askedWait(err)
		}
		if err == ErrRejected {
			word = rejected // unless a mark follows
		}
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			for _, err := range e.Unwrap() {
				w, h := inspect(err)
				switch w {
				case nil:
				case rejected:
					word = w
				default:
					return w, 0
				}
				if hint == 0 {
					hint = h
				}
			}
			return word, hint
		default:
			return word, hint
		}
	}
	return word, hint
}

// askedWait returns the wait that err itself says the server asked for, or 0.
func askedWait(err error) time.Duration {
	if e, ok := err.(interface{ RetryAfter() time.Duration }); ok {
		return max(e.RetryAfter(), 0)
	}
	return 0
}

// DefaultClassifier knows the errors of the standard library, and the methods by
// which others tell about themselves: StatusCode and HTTPStatusCode (HTTP),
// SQLState (SQL drivers), SafeToRetry (pgx), Retryable and RetryableError (AWS),
// RetryAfter. It judges by type, interface and code; only where net/http gives a
// permanent error nothing but a text, by that. The most specific knowledge wins:
// a failed dial is Unprocessed, but Permanent if a bad certificate was the cause.
// Of joined errors the first one it knows decides, but all of them have to be
// Unprocessed for that answer.
func DefaultClassifier(err error) Class {
	if err == nil {
		return Unknown
	}
	if reflect.TypeOf(err) == plain {
		return classifySentinel(err)
	}
	if c := classifyNode(err); c != Unknown {
		return c
	}
	inner := Unknown
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		inner = DefaultClassifier(e.Unwrap())
	case interface{ Unwrap() []error }:
		inner = classifyAll(e.Unwrap())
	default:
		// This one type is not worth linking net/http into every program.
		if reflect.TypeOf(err).String() == "*http.MaxBytesError" {
			return Permanent
		}
	}
	switch e := err.(type) {
	case *net.OpError:
		if e.Op == "dial" && inner != Permanent {
			return Unprocessed
		}
		if inner == Unprocessed && (e.Op == "read" || e.Op == "write") {
			return Transient // "no route to host" on an established connection proves nothing
		}
		// crypto/tls has no exported name for the alerts that it returns: numbers of one byte.
		if v := reflect.ValueOf(e.Err); v.Kind() == reflect.Uint8 && strings.HasSuffix(e.Op, " error") {
			return classifyAlert(tls.AlertError(v.Uint()))
		}
	case *url.Error:
		if e.Op == "parse" || inner == Unknown && refusedByClient(e.Err) {
			return Permanent
		}
	}
	if inner != Unknown {
		return inner
	}
	if askedWait(err) > 0 {
		return Throttled
	}
	if e, ok := err.(interface{ Timeout() bool }); ok && e.Timeout() {
		return Transient
	}
	return Unknown
}

// classifyAll judges what is joined.
func classifyAll(errs []error) Class {
	first, all := Unknown, true
	for _, err := range errs {
		c := DefaultClassifier(err)
		if c != Unprocessed && err != nil {
			all = false
		}
		if first == Unknown || first == Unprocessed && c != Unknown {
			first = c
		}
	}
	if first == Unprocessed && !all {
		return Transient
	}
	return first
}

// classifyNode judges one error without what it wraps.
func classifyNode(err error) Class {
	switch e := err.(type) {
	case *Error:
		return e.class()
	case syscall.Errno:
		return classifyErrno(e)
	case *net.DNSError:
		switch {
		case e.IsNotFound:
			return Permanent
		case e.IsTimeout, e.IsTemporary:
			return Unprocessed
		}
		return Unknown
	case tls.AlertError:
		return classifyAlert(e)
	case x509.UnknownAuthorityError, x509.HostnameError, x509.CertificateInvalidError,
		*tls.CertificateVerificationError, tls.RecordHeaderError,
		*net.AddrError, *net.ParseError, net.InvalidAddrError, net.UnknownNetworkError,
		*json.SyntaxError, *json.UnmarshalTypeError, *json.InvalidUnmarshalError, *json.MarshalerError,
		*json.UnsupportedTypeError, *json.UnsupportedValueError,
		*xml.SyntaxError, *xml.TagPathError, *xml.UnsupportedTypeError, xml.UnmarshalError,
		*strconv.NumError:
		return Permanent
	}
	if err == net.ErrClosed {
		return Transient
	}
	if c := classifyMethods(err); c != Unknown {
		return c
	}
	if e, ok := err.(interface{ Is(error) bool }); ok {
		for _, s := range sentinels {
			if s.class == Permanent && e.Is(s.err) {
				return Permanent
			}
		}
	}
	return Unknown
}

// plain is the type of the errors that errors.New makes. They say nothing but who
// they are: those that are known are sentinels.
var plain = reflect.TypeOf(io.EOF)

var sentinels = []struct {
	err   error
	class Class
}{
	{ErrRejected, Transient},
	{io.ErrUnexpectedEOF, Transient},
	{driver.ErrBadConn, Unprocessed},
	{sql.ErrNoRows, Permanent},
	{sql.ErrTxDone, Permanent},
	{fs.ErrNotExist, Permanent},
	{fs.ErrPermission, Permanent},
	{fs.ErrExist, Permanent},
	{fs.ErrInvalid, Permanent},
	{errors.ErrUnsupported, Permanent},
}

func classifySentinel(err error) Class {
	for i := range sentinels {
		if sentinels[i].err == err {
			return sentinels[i].class
		}
	}
	return Unknown
}

// class returns what an inner run's end means for an outer one.
func (e *Error) class() Class {
	switch {
	case e == nil:
		return Transient
	case e.Reason == ReasonPermanent, e.Reason == ReasonNotIdempotent:
		return Permanent
	}
	if c := DefaultClassifier(e.Last()); c != Unknown {
		return c
	}
	return Transient
}

// refusedByClient reports whether net/http refused to send such a request at
// all. Its refusals have no type: a test has net/http produce these texts.
func refusedByClient(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	return slices.ContainsFunc(refusals, func(refusal string) bool { return strings.HasPrefix(text, refusal) })
}

var refusals = []string{
	"unsupported protocol scheme", "stopped after 10 redirects", "http: no Host in request URL",
	"net/http: invalid method", "net/http: invalid header", "net/http: invalid trailer",
	"http: server gave HTTP response to HTTPS client", "failed to parse Location header",
	"http: nil Request.URL", "http: nil Request.Header", "http: Request.RequestURI can't be set",
}

func classifyErrno(e syscall.Errno) Class {
	switch e {
	case syscall.ECONNREFUSED, syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.EHOSTDOWN, syscall.ENETDOWN,
		syscall.EADDRNOTAVAIL:
		return Unprocessed
	case syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED, syscall.ETIMEDOUT, syscall.EAGAIN, syscall.EINTR:
		return Transient
	case syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM:
		return Throttled
	case syscall.EACCES, syscall.EPERM, syscall.EINVAL, syscall.EAFNOSUPPORT, syscall.EPROTOTYPE, syscall.EMSGSIZE,
		syscall.ENOSYS, syscall.ENOENT, syscall.EEXIST, syscall.ENOTEMPTY:
		return Permanent
	}
	return Unknown
}

// classifyAlert judges what the peer said when it ended the TLS handshake, by
// the codes of RFC 8446, section 6.
func classifyAlert(e tls.AlertError) Class {
	switch e {
	case 40, 42, 43, 44, 45, 46, 48, 70, 120:
		// handshake_failure, bad_certificate, unsupported_certificate, certificate_revoked, certificate_expired,
		// certificate_unknown, unknown_ca, protocol_version, no_application_protocol
		return Permanent
	case 80: // internal_error
		return Transient
	}
	return Unknown
}

// classifyMethods asks an error what it says of itself. Each question is an
// interface of its own: an error may answer several, and shrug at the first.
func classifyMethods(err error) Class {
	if e, ok := err.(interface{ SafeToRetry() bool }); ok && e.SafeToRetry() {
		return Unprocessed
	}
	if e, ok := err.(interface{ SQLState() string }); ok {
		if c := classifySQLState(e.SQLState()); c != Unknown {
			return c
		}
	}
	if e, ok := err.(interface{ Retryable() bool }); ok {
		return retryable(e.Retryable())
	}
	if e, ok := err.(interface{ RetryableError() bool }); ok {
		return retryable(e.RetryableError())
	}
	status := 0
	switch e := err.(type) {
	case interface{ StatusCode() int }:
		status = e.StatusCode()
	case interface{ HTTPStatusCode() int }:
		status = e.HTTPStatusCode()
	}
	return classifyStatus(status, askedWait(err) > 0)
}

func retryable(yes bool) Class {
	if yes {
		return Transient
	}
	return Permanent
}

// classifyStatus judges an HTTP status. 403 with a wait is what GitHub's rate limit
// says.
func classifyStatus(code int, hinted bool) Class {
	switch {
	case code == 429, hinted && (code == 503 || code == 403):
		return Throttled
	case code == 408, code == 425, code == 500, code == 502, code == 503, code == 504:
		return Transient
	case code == 421:
		return Unprocessed
	case code == 501, code == 505, code >= 400 && code < 500:
		return Permanent
	}
	return Unknown
}

// classifySQLState judges a five-character SQLSTATE code (ISO/IEC 9075; the
// PostgreSQL manual, appendix A).
func classifySQLState(code string) Class {
	switch code {
	case "08001", "08004", "57P03":
		return Unprocessed
	case "40001", "40P01", "08000", "08003", "08006", "08007", "40003", "57P01", "57P02", "57P05", "55P03", "55006",
		"25006", "58000", "58030":
		return Transient
	case "57P04":
		return Permanent
	}
	if len(code) != 5 {
		return Unknown
	}
	switch code[:2] {
	case "53":
		return Throttled
	case "22", "23", "28", "42", "3D", "0A":
		return Permanent
	}
	return Unknown
}
