package retryhttp

import (
	"net/http"
	"strconv"
	"time"

	"github.com/goretry/retry"
)

// Relay is for a handler that calls other servers and has failed with err. It sets
// headers that tell the handler's own caller whether and when to retry, and returns
// the status to answer with. Without it the retries of several services multiply.
//
//	http.Error(w, "orders are down", retryhttp.Relay(w.Header(), err))
//
// Relay sets X-Should-Retry: false in h if err
//
//   - is marked by [retry.Stop] or [retry.Refuse];
//   - holds a run that ended because the error is permanent, because a server refused a
//     retry, or because the work may have been done;
//   - holds a run that made retries and came to a limit other than Policy.MaxRetryAfter.
//
// Otherwise it does not change that header. It sets Retry-After to the wait that err
// asks for, in seconds rounded up, unless h has that header.
//
// The status is 500 if err is Permanent to the zero [retry.Policy] and no server has
// refused a retry. Otherwise it is 503. It is never a status that proves that nothing
// was done, such as 429, because the handler may have done part of the work. For a nil
// err, and for a nil *[retry.Error], the status is 200 and h is not changed, so you
// can pass the result of [GaveUp]. Relay writes no body. Do not send the text of err
// to strangers.
func Relay(h http.Header, err error) (code int) {
	if e, ok := err.(*retry.Error); err == nil || ok && e == nil {
		return http.StatusOK
	}
	if retry.Final(err) {
		h.Set("X-Should-Retry", "false")
	}
	verdict := retry.Policy{}.Judge(err)
	if wait := verdict.Hint; wait > 0 && len(h["Retry-After"]) == 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((wait-1)/time.Second)+1, 10))
	}
	if verdict.Class == retry.Permanent && !verdict.Refused {
		return http.StatusInternalServerError
	}
	return http.StatusServiceUnavailable
}
