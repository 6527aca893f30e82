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
	"sync"

	"github.com/goretry/retry/internal/clienterr"
	"github.com/goretry/retry/internal/engine"
)

// What single errors mean. The walk through their trees is in classifier.go.

// plain is the type of the errors that errors.New makes: most errors. They say
// nothing but who they are, and those that are known are sentinels.
var plain = reflect.TypeOf(io.EOF)

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
	{sql.ErrConnDone, Permanent}, // a *sql.Conn that is gone does not come back
	{fs.ErrNotExist, Permanent},
	{fs.ErrPermission, Permanent},
	{fs.ErrExist, Permanent},
	{fs.ErrInvalid, Permanent},
	{errors.ErrUnsupported, Permanent},
}

// bySentinel is sentinels for a look-up, which takes a third of ten comparisons.
var bySentinel = func() map[error]Class {
	m := make(map[error]Class, len(sentinels))
	for _, s := range sentinels {
		m[s.err] = s.class
	}
	return m
}()

// lengths has the lengths of the sentinels' texts. Most errors have another one, and
// need no look-up.
var lengths = func() (all uint64) {
	for _, s := range sentinels {
		all |= length(s.err)
	}
	return all
}()

// length returns the length of what err says as a bit, of 64.
func length(err error) uint64 { return 1 << (len(err.Error()) % 64) }

// classifySentinel judges an error of the plain type.
func classifySentinel(err error) Class {
	if lengths&length(err) == 0 {
		return Unknown
	}
	return bySentinel[err]
}

// behindIs is what a method Is is asked, in this order.
var behindIs = func() []known {
	all := append(slices.Clone(sentinels),
		known{net.ErrClosed, Transient}, known{context.DeadlineExceeded, TimedOut}, known{os.ErrDeadlineExceeded, TimedOut})
	for _, e := range errnos {
		all = append(all, known{e.errno, e.class})
	}
	return all
}()

// methods are all that an error may be asked, beside Unwrap for one error.
var methods = []reflect.Type{
	reflect.TypeFor[asMethod](),
	reflect.TypeFor[engine.Refusal](),
	reflect.TypeFor[isMethod](),
	reflect.TypeFor[interface{ Unwrap() []error }](),
	reflect.TypeFor[interface{ SafeToRetry() bool }](),
	reflect.TypeFor[interface{ ErrorCode() string }](),
	reflect.TypeFor[interface{ SQLState() string }](),
	reflect.TypeFor[interface{ Retryable() bool }](),
	reflect.TypeFor[interface{ RetryableError() bool }](),
	reflect.TypeFor[interface{ StatusCode() int }](),
	reflect.TypeFor[interface{ HTTPStatusCode() int }](),
	reflect.TypeFor[asksWait](),
	reflect.TypeFor[interface{ Timeout() bool }](),
}

// behindAs is what a method As is asked, in this order. One that hands the question
// on to errors.As answers the first; others know some types.
var behindAs = append([]reflect.Type{
	reflect.TypeFor[error](),
	reflect.TypeFor[*Error](),
	reflect.TypeFor[*net.DNSError](),
	reflect.TypeFor[*net.OpError](),
	reflect.TypeFor[*url.Error](),
	reflect.TypeFor[errno](),
}, methods...)

// silentTypes are the latest silent types of a chain, which are seldom more: so a
// long chain costs little more than to walk it.
type silentTypes struct {
	types [4]reflect.Type
	next  uint
}

// has reports whether t is silent.
func (s *silentTypes) has(t reflect.Type) bool {
	for i := range s.types {
		if s.types[i] == t {
			return true
		}
	}
	if !silent(t) {
		return false
	}
	s.types[s.next%uint(len(s.types))] = t
	s.next++
	return true
}

// silence remembers what silent found out.
var silence sync.Map // reflect.Type → bool

// silent reports whether an error of type t says nothing but what it wraps. A mark
// does, to those who do not look for marks.
func silent(t reflect.Type) bool {
	if known, ok := silence.Load(t); ok {
		return known.(bool)
	}
	says := slices.ContainsFunc(methods, t.Implements) || permanentTypes[named(t).PkgPath()] != nil || clienterr.Of(t) != nil
	silence.Store(t, !says)
	return !says
}

// named returns the type whose name t has, or whose pointer it is.
func named(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

type errnoClass struct {
	errno errno
	class Class
}

// classifyErrno judges a number of the system: by errnos, else by what its own Is
// method says, which knows the numbers that mean "no such file" and the like.
func classifyErrno(e errno) Class {
	for i := range errnos {
		if errnos[i].errno == e {
			return errnos[i].class
		}
	}
	for _, s := range sentinels {
		if s.class == Permanent && e.Is(s.err) {
			return Permanent
		}
	}
	return Unknown
}

// permanentTypes are types whose errors stay what they are, by package. Names are
// as exact as the types, and link neither crypto/tls nor net/http into a program
// that has no use for them: a third of a small program.
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

// classifyType judges err by the name of its type, or of what it points to.
func classifyType(err error) Class {
	t := named(reflect.TypeOf(err))
	names, ok := permanentTypes[t.PkgPath()]
	switch {
	case !ok:
		return Unknown
	case slices.Contains(names, t.Name()):
		return Permanent
	case t.Kind() == reflect.Uint8: // AlertError of crypto/tls, or its type without a name for us
		return classifyAlert(reflect.ValueOf(err).Uint())
	}
	return Unknown
}

// classifyAlert judges what the peer said when it ended the TLS handshake, by
// the codes of RFC 8446, section 6.
func classifyAlert(code uint64) Class {
	switch code {
	case 40, 42, 43, 44, 45, 46, 48, 70, 120:
		// handshake_failure, bad_certificate, unsupported_certificate, certificate_revoked, certificate_expired,
		// certificate_unknown, unknown_ca, protocol_version, no_application_protocol
		return Permanent
	case 80: // internal_error
		return Transient
	}
	return Unknown
}

// refusedByClient reports whether net/http refused to send such a request at
// all. Its refusals have no type: a test has net/http produce these texts.
func refusedByClient(err error) bool {
	if reflect.TypeOf(err) != plain {
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

// classifyMethods asks an error what it says of itself. Each question is an
// interface of its own: an error may answer several, and have no opinion on the
// first. With asks err asks for a wait, with hinted it or something around it.
func classifyMethods(err error, asks, hinted bool) Class {
	if turnedAway(err) {
		return refused
	}
	if e, ok := err.(interface{ SafeToRetry() bool }); ok && e.SafeToRetry() {
		// pgx returns this one also after a statement whose answer was lost.
		if reflect.TypeOf(err).String() == "*pgconn.connLockError" {
			return Transient
		}
		return Unprocessed
	}
	if c := classifyErrorCode(err); c != Unknown {
		return answered(err, c, hinted)
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
	var status int
	switch e := err.(type) {
	case interface{ StatusCode() int }:
		status = e.StatusCode()
	case interface{ HTTPStatusCode() int }:
		status = e.HTTPStatusCode()
	}
	return classifyStatus(err, status, asks, hinted)
}

// classifyStatus judges the HTTP status of err, with the same asks and hinted.
func classifyStatus(err error, status int, asks, hinted bool) Class {
	c := Class(clienterr.Status(status, asks))
	if c != Unknown {
		// What a code below says is more exact: AWS sends ThrottlingException as a 400.
		within(err, func(err error) bool {
			code := classifyErrorCode(err)
			c = cmp.Or(code, c)
			return code != Unknown
		})
	}
	return answered(err, c, hinted)
}

// A saying is what one error says of itself by its fields, and how long it asks to
// wait, by a method as well.
type saying struct {
	clienterr.Answer
	known bool // of its type more is known: what it says goes before its methods
}

// read reads err, with fields its fields too.
func read(err error, fields bool) (says saying) {
	if fields {
		if t := clienterr.Of(reflect.TypeOf(err)); t != nil {
			says = saying{t.Read(err), t.Known}
		}
	}
	says.Hint = cmp.Or(askedWait(err), says.Hint)
	return says
}

// class returns what err says by its fields. A code that is Throttled is no refusal.
func (says saying) class(err error, hinted bool) Class {
	if says.Class != clienterr.Unknown {
		return Class(says.Class)
	}
	return classifyStatus(err, says.Status, says.Hint > 0, hinted)
}

// The classes of package clienterr have the numbers of ours: their differences are the
// lengths of arrays that hold nothing.
var _ = [...][0]struct{}{
	[Permanent - Class(clienterr.Permanent)]struct{}{},
	[Transient - Class(clienterr.Transient)]struct{}{},
	[TimedOut - Class(clienterr.TimedOut)]struct{}{},
	[Throttled - Class(clienterr.Throttled)]struct{}{},
	[Unprocessed - Class(clienterr.Unprocessed)]struct{}{},
}

// answered returns what a server's answer of class c is: a refusal, if it is
// Throttled and err or what is around it asks for a wait.
func answered(err error, c Class, hinted bool) Class {
	if c != Throttled {
		return c
	}
	if hinted || inspect(err).hint > 0 {
		return refused
	}
	return c
}

func retryable(yes bool) Class {
	if yes {
		return Transient
	}
	return Permanent
}

// classifyErrorCode judges the code that err itself has from an AWS service.
func classifyErrorCode(err error) Class {
	if e, ok := err.(interface{ ErrorCode() string }); ok {
		return Class(clienterr.AWS(e.ErrorCode()))
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
