package retry

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry/internal/clienterr"
	"github.com/goretry/retry/internal/sysno"
)

// What single errors mean. The visitors of their trees are in finding.go and class.go.

// errorString is the type of the errors that errors.New returns, which is that of most
// errors. The known ones are sentinels.
var errorString = reflect.TypeOf(io.EOF)

type known struct {
	err   error
	class Class
}

var sentinels = []known{
	{ErrRejected, Transient},
	{io.ErrUnexpectedEOF, Transient},
	{driver.ErrBadConn, Unprocessed},
	{sql.ErrNoRows, Permanent},
	{sql.ErrTxDone, Permanent},
	{sql.ErrConnDone, Permanent}, // a *sql.Conn that has lost its connection never gets another
	{fs.ErrNotExist, Permanent},
	{fs.ErrPermission, Permanent},
	{fs.ErrExist, Permanent},
	{fs.ErrInvalid, Permanent},
	{errors.ErrUnsupported, Permanent},
}

// classifySentinel judges an error that errors.New has returned.
func classifySentinel(err error) Class {
	for i := range sentinels {
		if sentinels[i].err == err {
			return sentinels[i].class
		}
	}
	if slices.Contains(permanentTexts, err.Error()) {
		return Permanent
	}
	return Unknown
}

// permanentTexts are errors of go-git, which has them instead of the statuses 401, 403 and
// 404. It is not imported, so only their texts tell them.
var permanentTexts = []string{"authentication required", "authorization failed", "invalid auth method", "repository not found"}

// behindIs are the targets with which methods Is are called, in this order.
var behindIs = func() []known {
	all := append(slices.Clone(sentinels),
		known{net.ErrClosed, Transient}, known{context.DeadlineExceeded, TimedOut}, known{os.ErrDeadlineExceeded, TimedOut})
	for _, n := range sysno.All {
		all = append(all, known{n.Number, Class(n.Class)})
	}
	return all
}()

// behindAs are the types with which methods As are called, in this order, besides error.
var behindAs = []reflect.Type{
	reflect.TypeFor[*Error](),
	reflect.TypeFor[*net.DNSError](),
	reflect.TypeFor[*net.OpError](),
	reflect.TypeFor[*url.Error](),
	reflect.TypeFor[sysno.Number](),

	reflect.TypeFor[interface{ As(any) bool }](),
	reflect.TypeFor[interface{ Is(error) bool }](),
	reflect.TypeFor[interface{ Unwrap() []error }](),
	reflect.TypeFor[interface{ SafeToRetry() bool }](),
	reflect.TypeFor[interface{ ErrorCode() string }](),
	reflect.TypeFor[interface{ ErrorCode() int }](),
	reflect.TypeFor[interface{ SQLState() string }](),
	reflect.TypeFor[interface{ Retryable() bool }](),
	reflect.TypeFor[interface{ RetryableError() bool }](),
	reflect.TypeFor[interface{ StatusCode() int }](),
	reflect.TypeFor[interface{ HTTPStatusCode() int }](),
	reflect.TypeFor[asksWait](),
	reflect.TypeFor[interface{ Timeout() bool }](),
}

// named returns t, or the type that t points to.
func named(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// timedOut reports whether err itself, without what it wraps, is a timeout.
func timedOut(err error) bool {
	e, ok := err.(interface{ Timeout() bool })
	return ok && e.Timeout()
}

// classifyNode judges one error without what it wraps.
func classifyNode(err error, says saying, lasting bool) Class {
	if says.known {
		if c := says.class(err); c != Unknown {
			return c
		}
	}
	if e, ok := err.(*net.DNSError); ok {
		switch {
		case e.IsNotFound && lasting:
			return Transient
		case e.IsNotFound:
			return Permanent
		case e.IsTimeout, e.IsTemporary:
			return Unprocessed
		}
		return Unknown
	}
	if err == net.ErrClosed {
		return Transient
	}
	if c := classifyMethods(err, says.Hint > 0); c != Unknown {
		return c
	}
	if c := classifyType(err); c != Unknown || says.known {
		return c
	}
	return says.class(err)
}

type asksWait interface {
	error
	RetryAfter() time.Duration
}

// askedWait returns the wait that err itself says the server asked for, or 0.
func askedWait(err error) time.Duration {
	if e, ok := err.(asksWait); ok {
		return max(e.RetryAfter(), 0)
	}
	return 0
}

// permanentTypes are types of permanent errors, by package. Names are as exact as
// types, and do not link crypto/tls and net/http into a program that does not use
// them: these make up a third of a small program.
var permanentTypes = map[string][]string{
	"crypto/tls":  {"CertificateVerificationError", "RecordHeaderError"},
	"crypto/x509": {"UnknownAuthorityError", "HostnameError", "CertificateInvalidError"},
	"encoding/json": {
		"SyntaxError", "UnmarshalTypeError", "InvalidUnmarshalError", "MarshalerError", "UnsupportedTypeError",
		"UnsupportedValueError",
	},
	"encoding/xml": {"SyntaxError", "TagPathError", "UnsupportedTypeError", "UnmarshalError"},
	"net":          {"AddrError", "ParseError", "InvalidAddrError", "UnknownNetworkError"},
	"net/http":     {"MaxBytesError"},
	"strconv":      {"NumError"},
}

// classifyType judges err by the name of its type, or of the type that it points to.
func classifyType(err error) Class {
	t := named(reflect.TypeOf(err))
	names, ok := permanentTypes[t.PkgPath()]
	switch {
	case !ok:
		return Unknown
	case slices.Contains(names, t.Name()):
		if cut(t, err) {
			return Transient
		}
		return Permanent
	case t.Kind() == reflect.Uint8: // AlertError of crypto/tls, or its type without a name for us
		return Class(clienterr.Alert(reflect.ValueOf(err).Uint()))
	}
	return Unknown
}

// cut reports whether err, of type t or a pointer to it, says that JSON or XML has ended too
// early: the connection may have broken. Then a Decoder of encoding/json returns
// io.ErrUnexpectedEOF. After the end Unmarshal puts a blank, which is wrong only in a literal.
func cut(t reflect.Type, err error) bool {
	if t.Name() != "SyntaxError" {
		return false
	}
	text := err.Error()
	if t.PkgPath() == "encoding/xml" {
		return strings.Contains(text, ": unexpected EOF")
	}
	return text == "unexpected end of JSON input" || strings.HasPrefix(text, "invalid character ' ' ")
}

// aboutTLS reports whether errors of type t may hold that of a certificate.
func aboutTLS(t reflect.Type) bool {
	switch pkg := named(t).PkgPath(); pkg {
	case "crypto/tls", "crypto/x509":
		return true
	default:
		return strings.HasPrefix(pkg, "github.com/quic-go/quic-go/")
	}
}

// early reports whether err says that a certificate is not valid yet: a device may start with
// a clock of 1970. Not every system's verifier says so, but all give the certificate.
func early(err error) bool {
	t := reflect.TypeOf(err)
	if t.PkgPath() != "crypto/x509" || t.Name() != "CertificateInvalidError" {
		return false
	}
	v := reflect.ValueOf(err)
	if reason := v.FieldByName("Reason"); !reason.CanInt() || reason.Int() != expired {
		return false
	}
	if detail := v.FieldByName("Detail"); detail.Kind() == reflect.String && strings.Contains(detail.String(), " is before ") {
		return true
	}
	cert := v.FieldByName("Cert")
	if cert.Kind() != reflect.Pointer || cert.IsNil() {
		return false
	}
	from, ok := cert.Elem().FieldByName("NotBefore").Interface().(time.Time)
	return ok && time.Now().Before(from)
}

const expired = 1 // x509.Expired: outside of the time of validity

// refusedByClient reports whether net/http refused to send the request at all. These
// errors have no type, only texts, which a test makes net/http produce.
func refusedByClient(err error) bool {
	if reflect.TypeOf(err) != errorString {
		return false
	}
	refused, _ := clienterr.Refused(err.Error())
	return refused
}

// classifyMethods judges an error by its methods. It tries one interface after the
// other: an error may have several, and the first may not decide. asks says that err
// asks for a wait.
func classifyMethods(err error, asks bool) Class {
	if e, ok := err.(interface{ SafeToRetry() bool }); ok && e.SafeToRetry() {
		// pgx returns this error also after a statement whose answer was lost.
		if reflect.TypeOf(err).String() == "*pgconn.connLockError" {
			return Transient
		}
		return Unprocessed
	}
	if c := classifyErrorCode(err); c != Unknown {
		return c
	}
	if e, ok := err.(interface{ SQLState() string }); ok {
		if c := Class(clienterr.SQLState(e.SQLState(), err)); c != Unknown {
			return c
		}
	}
	if e, ok := err.(interface{ ErrorCode() int }); ok {
		if c := Class(clienterr.JSONRPC(e.ErrorCode())); c != Unknown {
			return c
		}
	}
	if e, ok := err.(interface{ Retryable() bool }); ok {
		return retryable(e.Retryable())
	}
	if e, ok := err.(interface{ RetryableError() bool }); ok {
		return retryable(e.RetryableError())
	}
	var status int
	switch e := err.(type) {
	case interface{ StatusCode() int }:
		status = e.StatusCode()
	case interface{ HTTPStatusCode() int }:
		status = e.HTTPStatusCode()
	}
	return classifyStatus(err, status, asks)
}

// classifyStatus judges the HTTP status of err. asks says that err asks for a wait.
func classifyStatus(err error, status int, asks bool) Class {
	c := Class(clienterr.Status(status, asks))
	if c != Unknown {
		// An error code inside is more exact: AWS sends ThrottlingException with status 400.
		within(err, func(err error) bool {
			code := classifyErrorCode(err)
			c = cmp.Or(code, c)
			return code != Unknown
		})
	}
	return c
}

// A saying is what one error says about itself by its fields, and how long it asks to
// wait, by a field or a method.
type saying struct {
	clienterr.Answer
	known bool // its type is known, so this decides before its methods
}

// read reads err.
func read(err error, at place) (says saying) {
	if t := clienterr.Of(reflect.TypeOf(err)); t != nil && (t.Known || at&system == 0) {
		says = saying{t.Read(err), t.Known}
	}
	says.Hint = cmp.Or(askedWait(err), says.Hint)
	return says
}

// class returns the class of err by its fields.
func (says saying) class(err error) Class {
	if says.Class != clienterr.Unknown {
		return Class(says.Class)
	}
	return classifyStatus(err, says.Status, says.Hint > 0 || says.Timed)
}

// The classes of package clienterr have the same numbers as ours: this does not
// compile otherwise, because the differences are lengths of arrays.
var _ = [...][0]struct{}{
	[Permanent - Class(clienterr.Permanent)]struct{}{},
	[Transient - Class(clienterr.Transient)]struct{}{},
	[TimedOut - Class(clienterr.TimedOut)]struct{}{},
	[Throttled - Class(clienterr.Throttled)]struct{}{},
	[Unprocessed - Class(clienterr.Unprocessed)]struct{}{},
}

func retryable(yes bool) Class {
	if yes {
		return Transient
	}
	return Permanent
}

// classifyErrorCode judges err's own error code of an AWS service.
func classifyErrorCode(err error) Class {
	if e, ok := err.(interface{ ErrorCode() string }); ok {
		return Class(clienterr.AWS(e.ErrorCode()))
	}
	return Unknown
}
