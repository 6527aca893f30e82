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

	now     bool // the server asked for a retry at once
	refused bool // the server asked for no retry, and that decided
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
	if e.refused {
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

// readHint sets Hint by the response's headers, and reports whether they name a retry time,
// which may be now.
func (e *StatusError) readHint(h http.Header, now func() time.Time) (timed bool) {
	wait, timed := hint.Parse(canonical(h), now, limited(e.Code))
	e.Hint, e.now = max(wait, 0), wait == hint.Now
	return timed
}

// limited reports whether a status is that of a rate limit, if the response names a retry time:
// then the request did nothing.
func limited(code int) bool {
	return code == http.StatusTooManyRequests || code == http.StatusForbidden
}

// failure returns the verdict on a response whose status is not a success, and reports
// whether it is an answer, which is not a failure of the server. Policy.Classify goes
// before the server's headers about retries, and these go before the status.
func (c *call) failure(resp *http.Response) (v retry.Verdict, answer bool) {
	e := &StatusError{Code: resp.StatusCode, Method: c.method(), URL: c.url()}
	timed := e.readHint(resp.Header, c.now)
	keyed := c.keyed(e.Code)
	class := statusClass(e.Code, timed, keyed)
	rejected := class == retry.Unprocessed || limited(e.Code) && timed
	v = retry.Verdict{Err: e, Hint: e.Hint, Now: e.now, Undone: rejected && !c.redirected.Load()} // a later request proves nothing about the first
	word := shouldRetry(resp.Header)
	asked := word == yes && class == retry.Permanent
	if asked {
		class = retry.Transient
	}
	if asked || keyed {
		v.Err = &worthRetry{e}
	}
	said := c.said(v.Err)
	v.Class = cmp.Or(said, class)
	v.Undone = v.Undone || said == retry.Unprocessed
	if said == retry.Unknown && word == no && class != retry.Permanent {
		e.refused = true
		v.Class, v.Refused = retry.Permanent, true
		return v, false
	}
	return v, v.Class == retry.Permanent
}

// objected returns the verdict on a response with which the attempt has failed, because Check
// returned err. What the status and the headers say counts, unless err says otherwise by a
// mark or a wait, or Policy.Classify does. A status that is an answer, such as 200 or 404,
// says nothing about the failure: the class is that of err.
func (c *call) objected(resp *http.Response, err error) retry.Verdict {
	e := &StatusError{Code: resp.StatusCode}
	timed := e.readHint(resp.Header, c.now)
	class := retry.Unknown
	if e.Code >= 400 {
		class = statusClass(e.Code, timed, c.keyed(e.Code))
	}
	word := shouldRetry(resp.Header)
	switch {
	case class != retry.Permanent:
	case word == yes:
		class = retry.Transient
	default:
		class = retry.Unknown
	}
	v := c.judge(err, class)
	if v.Marked && v.Class == retry.Permanent {
		return v
	}
	own := v.Marked || v.Hint > 0 || v.Now // err speaks for itself
	if v.Hint == 0 && !v.Now {
		v.Hint, v.Now = e.Hint, e.now
	}
	if v.Answered && class != retry.Unknown && !v.Marked { // the status says that it is a failure
		v.Class, v.Answered = class, false
	}
	rejected := class == retry.Unprocessed || limited(e.Code) && (timed || v.Hint > 0 || v.Now)
	v.Undone = v.Undone || rejected && !c.redirected.Load()
	if word == no && !own && c.said(err) == retry.Unknown {
		v.Class, v.Refused = retry.Permanent, true
	}
	return v
}

// keyed reports whether a status of a request with a key says that the first attempt with that
// key is underway.
func (c *call) keyed(code int) bool {
	return code == http.StatusConflict && (c.key != "" || hasKey(c.req.Header))
}

// statusClass judges a status that is not a success. Only 421, 429 and the 403 of a
// rate limit say that the request did nothing. A 503 does not, even with a retry time:
// a gateway may give it for a request that ran.
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

// worthRetry is the error of a response that is worth a retry, although its status is
// permanent to others than this package: to Policy.Classify and to runs around this one.
type worthRetry struct{ status *StatusError }

func (e *worthRetry) Error() string     { return e.status.Error() }
func (e *worthRetry) Unwrap() error     { return e.status }
func (e *worthRetry) Retryable() bool   { return true }
func (e *worthRetry) ErrorType() string { return e.status.ErrorType() }

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
