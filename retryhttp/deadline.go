package retryhttp

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// DeadlineHandler returns a handler that ends the context of each request of h when
// its caller stops waiting, and after limit at the latest. The request header of that
// name says how many milliseconds the caller waits, as [Transport.TimeoutHeader] sends
// it. If limit is zero or negative, there is no limit. An empty header name is never
// read. DeadlineHandler panics if h is nil.
//
// h gets the caller's time less a twentieth, but at most 100 ms less, so that its
// answer arrives before the caller gives up, and can tell the caller not to retry
// ([Relay]). If the caller has no time left, h is not called, and the status is 503. A
// header that is not a number of digits only, or that is present twice, is ignored.
//
// h gets the server's own ResponseWriter and a request without that header, so that a
// proxy does not forward an outdated time. A client can use the header only to shorten
// its own request. So DeadlineHandler is safe for requests from outside.
//
// A [Transport] sends its AttemptTimeout, which ends at the response headers. Do not
// put DeadlineHandler around handlers that stream for longer: server-sent events,
// downloads, WebSockets.
func DeadlineHandler(h http.Handler, header string, limit time.Duration) http.Handler {
	if h == nil {
		panic("retryhttp: nil handler")
	}
	header = http.CanonicalHeaderKey(header)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var said []string
		if header != "" {
			said = r.Header[header]
		}
		limit := limit
		if left, limited := callersTime(said); limited {
			if left == 0 {
				http.Error(w, "the caller has no time left", http.StatusServiceUnavailable)
				return
			}
			left -= min(left/20, 100*time.Millisecond)
			limit = min(left, cmp.Or(max(limit, 0), left))
		}
		if limit <= 0 && len(said) == 0 {
			h.ServeHTTP(w, r)
			return
		}
		ctx := r.Context()
		if limit > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, limit)
			defer cancel()
		}
		own := r.WithContext(ctx)
		if len(said) > 0 {
			own.Header = r.Header.Clone()
			delete(own.Header, header)
		}
		defer func() {
			if own.MultipartForm != nil && own.MultipartForm != r.MultipartForm { // the server knows only r
				_ = own.MultipartForm.RemoveAll()
			}
		}()
		h.ServeHTTP(w, own)
	})
}

// callersTime parses the values of the header. A number that overflows sets no limit.
func callersTime(said []string) (left time.Duration, limited bool) {
	if len(said) != 1 {
		return 0, false
	}
	digits := strings.TrimSpace(said[0])
	if strings.Trim(digits, "0123456789") != "" { // a sign, which ParseInt would take
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > int64(math.MaxInt64/time.Millisecond) {
		return 0, false
	}
	return time.Duration(n) * time.Millisecond, true
}
