package retryhttp

import (
	"net/http"
	"strconv"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/ending"
)

// LimitHandler returns a handler that calls h only if all guards of a request admit it, such
// as a limit on the requests in flight. Otherwise it answers 429 with Retry-After and does
// nothing else, so any request may be sent again. Retry-After is the wait for which the guard
// asks, by its [retry.Pass] or its error ([retry.After], also inside [retry.Stop]), or else one
// second.
//
//	var places = limit.Limit{Max: 100} // one for all that shares a bottleneck
//
//	guards := []retry.Guard{&places}
//	handler := retryhttp.LimitHandler(mux, func(*http.Request) []retry.Guard { return guards })
//
// guards returns those for a request, which are entered in order: the same for all, some for
// a route, or some for a caller ([retry.PerKey]). None admit all. It is called concurrently. A
// request does not wait for a guard. LimitHandler panics if h or guards is nil.
//
// The guards are left when h returns or panics, so those of a WebSocket handler when it
// ends. The request's context says what they get: the handler's time has expired, the caller
// has hung up, or else it has returned. Put [DeadlineHandler] around it: without a deadline
// a limit.Adaptive learns nothing. A status says nothing, because handlers refuse callers for
// reasons other than the load.
//
// h gets the server's own ResponseWriter and request.
func LimitHandler(h http.Handler, guards func(*http.Request) []retry.Guard) http.Handler {
	if h == nil || guards == nil {
		panic("retryhttp: nil handler or guards")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		leave, err := retry.Policy{Guards: guards(r)}.Admit(ctx, retry.Entry{})
		if err != nil {
			wait := max(retry.Policy{}.Judge(retry.Refuse(err)).Hint, time.Second) // by Refuse also the wait behind a Stop
			w.Header().Set("Retry-After", strconv.FormatInt(int64((wait-1)/time.Second)+1, 10))
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		began := time.Now()
		x := retry.Exit{Ending: retry.Panicked}
		if deadline, ok := ctx.Deadline(); ok {
			x.Allowed = max(deadline.Sub(began), 1)
		}
		defer func() {
			x.Took = time.Since(began)
			leave(x)
		}()
		h.ServeHTTP(w, r)
		if x.Ending = ending.Of(ctx); x.Ending != retry.Returned {
			x.Verdict.Err = ctx.Err()
		}
	})
}
