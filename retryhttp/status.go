package retryhttp

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/clienterr"
	"github.com/goretry/retry/internal/hint"
)

// StatusError is a response with an unwanted status. [retry.DefaultClassifier] knows
// it: 429 is Throttled, 503 Transient, 404 Permanent.
type StatusError struct {
	Code   int
	Method string
	URL    string        // without userinfo and fragment, and REDACTED for each query value
	Body   []byte        // its first bytes, at most 4 KiB, only from [JSON]: with a [Transport], read the response. Policy.Classify does not see it: use Check
	Hint   time.Duration // how long the server asked to wait, as a Transport reads it (see ParseRetryAfter); 0 if it did not

	now   bool            // the server asked for a retry at once
	facts clienterr.Facts // what the response means, if that is more than Code and Hint say; 0: it is not
}

// Error returns one line, without the body.
func (e *StatusError) Error() string {
	s := strings.TrimSpace(fmt.Sprintf("%d %s", e.Code, http.StatusText(e.Code)))
	if request := strings.TrimSpace(e.Method + " " + e.URL); request != "" {
		s = request + ": " + s
	}
	if e.Hint > 0 {
		s += fmt.Sprintf(", retry after %v", e.Hint)
	}
	if e.now {
		s += ", retry at once"
	}
	if e.facts.Is(clienterr.Refuses) {
		s += ", do not retry"
	}
	return s
}

// StatusCode returns Code.
func (e *StatusError) StatusCode() int { return e.Code }

// RetryAfter returns Hint.
func (e *StatusError) RetryAfter() time.Duration { return e.Hint }

// RetryNow reports whether the server asked for a retry at once, by a wait of 0 or a time that
// has passed. It is false for a StatusError that was not made by this package.
func (e *StatusError) RetryNow() bool { return e.now }

// ErrorType returns the code as the error.type of spans and metrics: "503".
func (e *StatusError) ErrorType() string { return strconv.Itoa(e.Code) }

// limited reports whether a status is that of a rate limit, if the response names a retry time:
// then the request did nothing.
func limited(code int) bool {
	return code == http.StatusTooManyRequests || code == http.StatusForbidden
}

// Failure returns the error of an attempt that has got a response which it does not want. To a run
// it says all that a [Transport] reads: the status, how long the server asks to wait, or that it wants
// the retry at once, and whether it refuses a retry. It holds a *[StatusError]. Use it where a
// client hands out responses, as [http.Client.Do] does, or a client of WebSockets whose handshake
// has failed:
//
//	resp, err := client.Do(req)
//	if err != nil {
//		return err
//	}
//	if resp.StatusCode != http.StatusOK {
//		return retryhttp.Failure(resp)
//	}
//
// Failure reads the first 4 KiB of the body into StatusError.Body, and closes the body. It does not
// wait for a slow one. Call [BodyHint] before it if the server names the wait in the body. A status
// below 400 is Permanent: the answer is complete, and of no use. A 409 is repeated if resp.Request
// has an idempotency key.
//
// The error is never nil. It proves nothing, since Failure does not know what else op has
// done: see [retry.Undone]. Failure panics if resp is nil.
func Failure(resp *http.Response) error {
	if resp == nil {
		panic("retryhttp: nil response")
	}
	var c call
	var method, url string
	keyed := false
	if req := resp.Request; req != nil {
		c.sending.req = req
		method, url, keyed = c.method(), c.url(), c.keyed(resp.StatusCode)
	}
	r := read(resp, method, url, keyed, time.Now)
	c.drain(resp.Body, (*beginning)(&r.status.Body))
	if resp.StatusCode < 400 {
		return &unusable{r.status}
	}
	return r.status
}

// reading is what a response says that is not a success.
type reading struct {
	status *StatusError
	class  retry.Class // by the status and the word
	word   hint.Word   // of the server
	undone bool        // the request was not processed
}

// read reads a response, for all that send requests. keyed says that a 409 means that the first
// attempt is underway.
func read(resp *http.Response, method, url string, keyed bool, now func() time.Time) (r reading) {
	e := &StatusError{Code: resp.StatusCode, Method: method, URL: url}
	header := canonical(resp.Header)
	wait, timed := hint.Parse(header, now, limited(e.Code))
	e.Hint, e.now = max(wait, 0), wait == hint.Now
	r = reading{status: e, class: statusClass(e.Code, timed, keyed), word: hint.ShouldRetry(header)}
	r.undone = r.class == retry.Unprocessed || limited(e.Code) && timed
	if e.Code < 400 {
		return r
	}
	if r.word == hint.Yes && r.class == retry.Permanent {
		r.class = retry.Transient
	}
	switch alone := retry.Class(clienterr.Status(e.Code, wait != 0).Class()); {
	case r.word == hint.No && r.class != retry.Permanent:
		e.facts = clienterr.Facts(retry.Permanent) | clienterr.Refuses
	case r.class != cmp.Or(alone, retry.Transient):
		e.facts = clienterr.Facts(r.class)
	}
	return r
}

// refused reports whether the server asks for no retry of what would be repeated.
func (r *reading) refused() bool { return r.status.facts.Is(clienterr.Refuses) }

// failure returns the verdict on a response whose status is not a success, and reports
// whether it is an answer, which is not a failure of the server. Policy.Classify goes
// before the server's headers about retries, and these go before the status.
func (c *call) failure(resp *http.Response) (v retry.Verdict, answer bool) {
	r := read(resp, c.method(), c.url(), c.keyed(resp.StatusCode), c.now)
	v = retry.Verdict{Err: r.status, Hint: r.status.Hint, Now: r.status.now, Undone: r.undone && !c.redirected.Load()} // a later request proves nothing about the first
	said := c.said(v.Err)
	if r.refused() && said == retry.Permanent {
		plain := *r.status
		if plain.facts = 0; c.said(&plain) != said { // it is that of DefaultClassifier, which has read the header
			said = retry.Unknown
		}
	}
	v.Class = cmp.Or(said, r.class)
	v.Undone = v.Undone || said == retry.Unprocessed
	if said == retry.Unknown && r.refused() {
		v.Class, v.Refused = retry.Permanent, true
		return v, false
	}
	return v, v.Class == retry.Permanent
}

// objected returns the verdict on a response with which the attempt has failed, because Check
// returned err: see [Transport.Check].
func (c *call) objected(resp *http.Response, err error) retry.Verdict {
	r := read(resp, c.method(), c.url(), c.keyed(resp.StatusCode), c.now)
	class := r.class
	if r.status.Code < 400 || class == retry.Permanent {
		class = retry.Unknown
	}
	v := c.judge(err, class)
	if v.Marked && v.Class == retry.Permanent {
		return v
	}
	own := v.Marked || v.Hint > 0 || v.Now // err speaks for itself
	if v.Hint == 0 && !v.Now {
		v.Hint, v.Now = r.status.Hint, r.status.now
	}
	if v.Answered && class != retry.Unknown && !v.Marked { // the status says that it is a failure
		v.Class, v.Answered = class, false
	}
	rejected := r.undone || limited(r.status.Code) && (v.Hint > 0 || v.Now)
	v.Undone = v.Undone || rejected && !c.redirected.Load()
	if r.word == hint.No && !own && c.said(err) == retry.Unknown {
		v.Class, v.Refused = retry.Permanent, true
	}
	return v
}

// keyed reports whether a status of a request with a key says that the first attempt with that
// key is underway.
func (c *call) keyed(code int) bool {
	return code == http.StatusConflict && (c.key != "" || hasKey(c.req.Header))
}

// statusClass judges a status that is not a success.
func statusClass(code int, timed, keyed bool) retry.Class {
	if code == http.StatusConflict && keyed { // the first attempt with this key is underway
		return retry.Transient
	}
	if c := retry.Class(clienterr.Status(code, timed).Class()); c != retry.Unknown {
		return c
	}
	if code >= 500 && code <= 599 {
		return retry.Transient
	}
	return retry.Permanent
}

// redact returns u without what may be secret.
func redact(u *url.URL) string {
	r := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	if u.RawQuery == "" {
		return r.String()
	}
	pairs := strings.Split(u.RawQuery, "&")
	for i, pair := range pairs {
		name, _, found := strings.Cut(pair, "=")
		if !found { // it may be a value as well
			name = ""
		} else {
			name += "="
		}
		pairs[i] = name + "REDACTED"
	}
	r.RawQuery = strings.Join(pairs, "&")
	return r.String()
}
