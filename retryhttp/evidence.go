package retryhttp

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"reflect"
	"strings"
	"sync/atomic"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/errtree"
)

// evidence is what was seen of an attempt, besides its error. What a Base did may be
// reported by several goroutines.
type evidence struct {
	unready    atomic.Bool // Prepare has failed
	handed     atomic.Bool // a Transport with a Prepare has handed a request to its Base
	redirected atomic.Bool // a redirect was followed; only a client does that
	late       bool        // the response headers have not come in time
	wire       *wire       // nil if the attempt is not watched, since no proof is needed
}

// clear forgets the attempt before.
func (e *evidence) clear() {
	e.unready.Store(false)
	e.handed.Store(false)
	e.redirected.Store(false)
	e.late = false
}

// unsent reports whether nothing was sent, since Prepare has failed before any request.
func (e *evidence) unsent() bool { return e.unready.Load() && !e.handed.Load() }

// watch begins to watch the attempt in ctx.
func (e *evidence) watch(ctx context.Context) context.Context {
	w := new(wire)
	e.wire = w
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:      func(string) { w.asked.Store(true) },
		GotConn:      func(httptrace.GotConnInfo) { w.got.Store(true) },
		WroteHeaders: func() { w.got.Store(true) },
	})
}

// class returns the class of an attempt without a response, by its error and by cause,
// which is the error without what http.Client puts around it. Of an attempt that is
// watched Unprocessed is a proof. So it needs what was seen, and not the error alone: that
// may be the last error of a Base that tried twice.
func (e *evidence) class(err, cause error) retry.Class {
	class := retry.DefaultClassifier(cause)
	switch {
	case refusedByClient(cause):
		return retry.Permanent
	case e.redirected.Load(): // a later request does not show that the first one did nothing
		class = retry.DefaultClassifier(err)
	case refused(err), e.wire.idle():
		return retry.Unprocessed
	}
	if class == retry.Unprocessed && e.wire != nil {
		return retry.Transient
	}
	return class
}

// refusedByClient reports whether net/http has rejected the request, or a proxy the
// client. These errors have nothing but a text; a test makes net/http produce each of
// them. [retry.DefaultClassifier] knows other texts, and only inside the errors of
// http.Client.
func refusedByClient(err error) bool {
	if retry.DefaultClassifier(&url.Error{Err: err}) == retry.Permanent {
		return true
	}
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next
	}
	text := err.Error()
	return strings.HasPrefix(text, "http: ContentLength=") ||
		strings.HasPrefix(text, "http: Request.ContentLength=") ||
		text == "http2: request body larger than specified content length" ||
		text == http.StatusText(http.StatusProxyAuthRequired) // to CONNECT
}

// wire is what was seen of connections. An attempt that requested a connection and never got one
// has sent nothing. The absence of events proves nothing, since not every RoundTripper
// reports them.
//
// Headers that were not reported as written prove nothing either: an HTTP/2 attempt
// that is canceled may return just before it writes them.
type wire struct{ asked, got atomic.Bool }

func (w *wire) idle() bool { return w != nil && w.asked.Load() && !w.got.Load() }

// refused reports whether the server has refused the stream: it guarantees that it has not
// processed the request (RFC 9113, section 8.7; RFC 9114, section 8.1). Of joined errors
// one proves nothing about the others.
func refused(err error) bool {
	for ; !errtree.IsNil(err); err = errors.Unwrap(err) {
		v := reflect.Indirect(reflect.ValueOf(err))
		if v.Kind() != reflect.Struct || v.NumField() != 3 {
			continue
		}
		if v.FieldByName("StreamID").Kind() == reflect.Uint32 && is(v.FieldByName("Code"), refusedStream) {
			return true
		}
		if remote := v.FieldByName("Remote"); remote.Kind() == reflect.Bool && remote.Bool() && is(v.FieldByName("ErrorCode"), requestRejected) {
			return true
		}
	}
	return false
}

// The codes of a refusal, in fields of errors that have the shape of http2.StreamError of
// golang.org/x/net, as the one of net/http has, and of http3.Error of quic-go, in which
// Remote says that the server has sent the code.
const (
	refusedStream   = 0x7   // REFUSED_STREAM
	requestRejected = 0x10b // H3_REQUEST_REJECTED
)

func is(v reflect.Value, code uint64) bool { return v.CanUint() && v.Uint() == code }
