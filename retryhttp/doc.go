// Package retryhttp retries HTTP requests, for any user of [http.Client]:
//
//	client := &http.Client{Transport: &retryhttp.Transport{Policy: policy}}
//
// It also has a typed call, and a download that continues after a break:
//
//	user, err := retryhttp.JSON[User](ctx, policy, http.DefaultClient, req)
//	resp, err := retryhttp.Download(ctx, policy, http.DefaultClient, req)
//
// # Which requests are retried
//
// A run of package retry decides, by these rules for HTTP:
//
//   - A request may run twice if its method is GET, HEAD, OPTIONS, TRACE, PUT or
//     DELETE, if it has an Idempotency-Key or X-Idempotency-Key, or if [Idempotent]
//     says so.
//   - A request that may run twice is retried after 408, 420, 421, 423, 425, 429, 430, 444,
//     449, 460, 499, 5xx except 501, 505, 506, 508, 510, 511, 526 and 561, and 403 with a
//     retry time (Retry-After or a rate-limit reset). With a key it is also retried after
//     409, since the first request is still underway. After an error of the transport it is
//     retried unless [retry.DefaultClassifier] calls that error permanent.
//   - Any other request is retried if it provably did nothing: it never got a
//     connection, or the server answered 421, refused its HTTP/2 stream, or rejected it
//     with 429 or 403 and a retry time, which may be now. A 503 proves nothing, not even
//     with a Retry-After: a gateway may answer 503 to requests that ran.
//   - A request is never retried if its body can't be sent again ([ErrNotReplayable]),
//     after 101 Switching Protocols, or once the caller has the response. [Download]
//     continues where its body broke off.
//   - A response that says X-Should-Retry: false, Stripe-Should-Retry: false or
//     X-Envoy-Overloaded ends the run. If its status would otherwise be retried, the run
//     has failed, with ReasonRefused; a permanent status stays an answer.
//   - With X-Should-Retry: true or Stripe-Should-Retry: true any status from 400 on is
//     retried as a 5xx is, even one that would be permanent. That header does not prove
//     that nothing was done.
//   - An error of [Transport.Check] says by a mark or a wait what it means, and so does
//     Policy.Classify. Otherwise what these headers and a status to be retried say counts. It
//     proves nothing by itself: the request did nothing if the response says so, if the error
//     is marked by [retry.Undone], or if it is Unprocessed to Policy.Classify.
//
// The wait is what the server asks for ([ParseRetryAfter]) and a little more: see [retry.After].
// If the server asks for more than Policy.MaxRetryAfter, there is no retry.
//
// # What the caller gets
//
// The caller gets the last attempt's response unchanged, with its body unread and no
// error, whatever its status, as from net/http alone. The response's Request is the one
// that was sent, with what Prepare and Base have set, and with the caller's context.
// [retry.AttemptNumber] of that context returns the number of the attempt, and [GaveUp]
// why there was no further one. The caller gets a *[retry.Error] if the last attempt had
// no response, or if the request's context or a guard has ended the run. Responses that are not returned are
// closed before the wait. So that the connection can be used again, up to 64 KiB of such a body
// are read, in at most 50 ms. After a longer body an HTTP/1 connection is closed.
//
// The first attempt sends the request itself, or a shallow copy if its context or body
// has to differ. Later attempts send a deep copy, which they share unless Prepare,
// AttemptHeader or TimeoutHeader is set.
//
// # Servers that are clients
//
// When several services call each other and each retries, retries multiply: three
// layers of three attempts send 27 requests. In a handler, [Relay] tells the caller
// not to retry once this service has retried. [DeadlineHandler] ends the handler
// before its caller gives up, so that the caller gets that answer.
//
// # Beside other layers
//
// Timeouts, redirects and cookies of http.Client work as usual. Each hop of a redirect
// is a run of its own. Client.Timeout covers all of them. The deprecated
// Request.Cancel ends an attempt and with it the run, but not a wait.
//
// If a reused connection turns out to be dead before any of the response came,
// [http.Transport] itself sends the request again: a GET, HEAD, OPTIONS or TRACE, a
// request with a key, and any other request if not a single byte of it was written; its
// DisableKeepAlives prevents that. Over HTTP/2 it sends a request again up to seven times
// if the server refused the stream or is shutting down. A policy does not see these
// attempts. If net/http cannot repeat a request, its error arrives here.
//
// Put an otelhttp.Transport below the Transport, as its Base, so that each attempt has
// a span of its own.
//
// # Connections that have gone silent
//
// A host that dies, or a NAT that forgets a connection, does not tell the client. net/http
// keeps such a connection in its pool, with HTTP/2 for a quarter of an hour unless
// [http.HTTP2Config] has a SendPingTimeout. So after an attempt that ended by AttemptTimeout,
// the retry does not use a connection of the pool on which nothing has come since that
// attempt began: before anything is written it is closed, and Base takes another one, or
// dials, within the same attempt. [Transport.Dropped] reports it. A Base that wraps another
// RoundTripper has to pass on the request's context, which holds an [httptrace.ClientTrace].
//
// While other requests are under way on a connection, it is closed only if the peer's system
// acknowledges nothing either, so that a slow server loses no stream. Only Linux tells that.
// On other systems, and with connections that are not TCP, such an HTTP/2 connection is
// kept, and so is an idle one without TLS. HTTP/3's connections are never closed: set
// MaxIdleTimeout and KeepAlivePeriod in quic.Config.
package retryhttp
