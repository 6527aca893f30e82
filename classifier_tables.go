package retry

// May call: errors.go.

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry/internal/clienterr"
	"github.com/goretry/retry/internal/errtree"
	"github.com/goretry/retry/internal/hint"
	"github.com/goretry/retry/internal/neterr"
	"github.com/goretry/retry/internal/sysno"
)

// What single errors mean. The visitors of their trees are in finding.go and class.go.

type known struct {
	err   error
	class Class
}

// sentinels are the known errors that errors.New has returned.
var sentinels = []known{
	{ErrRejected, Transient},
	{io.ErrUnexpectedEOF, Transient},
	{fs.ErrNotExist, Permanent},
	{fs.ErrPermission, Permanent},
	{fs.ErrExist, Permanent},
	{fs.ErrInvalid, Permanent},
	{errors.ErrUnsupported, Permanent},
}

// sentinelIDs are those of sentinels, all of which errors.New has returned.
var sentinelIDs = func() (ids []errtree.ID) {
	for _, s := range sentinels {
		ids = append(ids, errtree.IDOf(s.err))
	}
	return ids
}()

// factsOfSentinel judges an error that errors.New has returned. Of database/sql and of clients, which are
// not imported, only the texts tell their errors.
func factsOfSentinel(err error) facts {
	id := errtree.IDOf(err)
	for i := range sentinelIDs { // a fifth of the time that comparing interfaces takes
		if sentinelIDs[i] == id {
			return facts(sentinels[i].class)
		}
	}
	switch text := err.Error(); text { // as the table of texts would, in a quarter of the time
	case "sql: no rows in result set", "sql: transaction has already been committed or rolled back",
		"sql: connection is already closed": // a *sql.Conn that has lost its connection never gets another
		return facts(Permanent)
	case "driver: bad connection":
		return facts(Unprocessed)
	default:
		return clienterr.Text(text)
	}
}

// shownIs are the targets with which methods Is are called, in this order.
var shownIs = func() []known {
	all := append(slices.Clone(sentinels),
		known{context.DeadlineExceeded, TimedOut}, known{os.ErrDeadlineExceeded, TimedOut})
	for _, k := range sysno.Asked {
		for _, number := range k.Numbers {
			all = append(all, known{number, Class(k.Class)})
		}
	}
	return all
}()

// shownAs make targets of the types with which methods As are called, in this order, besides error.
var shownAs = slices.Concat([]func() any{
	errtree.New[*Error],
	errtree.New[sysno.Number],
	errtree.New[interface{ As(any) bool }],
	errtree.New[interface{ Is(error) bool }],
	errtree.New[interface{ Unwrap() []error }],
}, clienterr.Methods, []func() any{
	errtree.New[asksWait],
	errtree.New[interface{ Timeout() bool }],
})

// named returns t, or the type that t points to.
func named(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// factsOf judges one error without what it wraps.
func factsOf(err error, says saying) facts {
	if says.Facts != 0 {
		return says.Facts
	}
	if neterr.Of(err) == neterr.DNS {
		switch {
		case neterr.Says(err, neterr.NotFound):
			return facts(Permanent) | clienterr.Renewed
		case neterr.Says(err, neterr.Timeout), neterr.Says(err, neterr.Temporary):
			return facts(Unprocessed)
		}
		return 0
	}
	if says.Status == 0 && says.service == "" {
		return 0
	}
	// An error code inside is more exact than a status: AWS sends ThrottlingException with status 400.
	var code facts
	if !says.alone && within(err, func(err error) bool {
		code = clienterr.Code(err, says.service)
		return code != 0
	}) {
		return code
	}
	return says.OfStatus()
}

type asksWait interface {
	error
	RetryAfter() time.Duration
}

// askedWait returns the wait that err itself says the server asked for, hint.Now for a retry at
// once, or 0.
func askedWait(err error) time.Duration {
	e, ok := err.(asksWait)
	if !ok {
		return 0
	}
	wait := max(e.RetryAfter(), 0)
	if e, ok := err.(interface{ RetryNow() bool }); ok && wait == 0 && e.RetryNow() {
		return hint.Now
	}
	return wait
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
	if reason := clienterr.Field(v, "Reason"); !reason.CanInt() || reason.Int() != expired {
		return false
	}
	if detail := clienterr.Field(v, "Detail"); detail.Kind() == reflect.String && strings.Contains(detail.String(), " is before ") {
		return true
	}
	from := clienterr.Field(clienterr.Field(v, "Cert"), "NotBefore")
	return from.IsValid() && time.Now().Before(from.Interface().(time.Time))
}

const expired = 1 // x509.Expired: outside of the time of validity

// A saying is what one error says about itself, and how long it asks to wait.
type saying struct {
	clienterr.Answer
	connects bool   // it is that of a connection that did not come about
	alone    bool   // it holds no other
	service  string // of AWS that an error within it comes from, or ""
}

// read reads err.
func read(err error, at place) (says saying) {
	if t := clienterr.Of(reflect.TypeOf(err)); t != nil {
		says = saying{t.Read(err, at&system == 0), t.Connects, t.Alone, ""}
		if t.Names {
			says.service = clienterr.Service(err)
		}
	}
	says.Hint = cmp.Or(askedWait(err), says.Hint)
	return says
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
