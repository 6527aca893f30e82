package retryhttp

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/clienterr"
	"github.com/goretry/retry/internal/engine"
	"github.com/goretry/retry/internal/hint"
)

// StatusError is a response with an unwanted status. [retry.DefaultClassifier] knows
// it: 429 is Throttled, 503 Transient, 404 Permanent.
type StatusError struct {
	Code   int
	Method string
	URL    string        // without userinfo and fragment, and REDACTED for each query value
	Body   []byte        // its first bytes, at most 4 KiB; only from [JSON]: with a [Transport], read the response
	Hint   time.Duration // how long the server asked to wait, as a Transport reads it (see ParseRetryAfter); 0 if it did not

	class   retry.Class // Unknown if made by others
	refused bool        // the server asked for no retry, and that decided
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
	if e.refused {
		s += ", do not retry"
	}
	return s
}

// StatusCode returns Code.
func (e *StatusError) StatusCode() int { return e.Code }

// RetryAfter returns Hint.
func (e *StatusError) RetryAfter() time.Duration { return e.Hint }

// ErrorType returns the code as the error.type of spans and metrics: "503".
func (e *StatusError) ErrorType() string { return strconv.Itoa(e.Code) }

// failure returns the error for a response whose status is not a success, and reports
// whether it is an answer, which is not a failure of the server. Policy.Classify goes
// before the server's headers about retries, and these go before the status.
func (c *call) failure(resp *http.Response) (err error, answer bool) {
	e := &StatusError{Code: resp.StatusCode, Method: c.method(), URL: c.url()}
	limited := e.Code == http.StatusTooManyRequests || e.Code == http.StatusForbidden
	timed := false
	e.Hint, timed = hint.Parse(resp.Header, c.now, limited)
	keyed := e.Code == http.StatusConflict && (c.key != "" || hasKey(c.req.Header))
	e.class = statusClass(e.Code, timed, keyed)
	word := shouldRetry(resp.Header)
	asked := word == yes && e.class == retry.Permanent
	if asked {
		e.class = retry.Transient
	}
	turnedAway := e.class == retry.Throttled && timed
	// The error is wrapped if HTTP knows more than DefaultClassifier, which sees a status
	// and maybe a hint.
	err = e
	if asked || keyed || turnedAway && e.Hint == 0 {
		err = &judged{error: e, class: e.class, turnedAway: turnedAway}
	}
	if classify := c.policy.Classify; classify != nil {
		if class := classify(err); class != retry.Unknown && class <= retry.Unprocessed {
			return err, class == retry.Permanent
		}
	}
	if word == no && e.class != retry.Permanent {
		e.refused = true
		return retry.Refuse(err), false
	}
	return err, e.class == retry.Permanent
}

// statusClass judges a status that is not a success. Only 421, 429 and the 403 of a
// rate limit say that the request did nothing. A 503 does not, even with a retry time:
// a gateway may give it for a request that ran.
func statusClass(code int, timed, keyed bool) retry.Class {
	if code == http.StatusConflict && keyed { // the first attempt with this key is underway
		return retry.Transient
	}
	if c := retry.Class(clienterr.Status(code, timed)); c != retry.Unknown {
		return c
	}
	if code >= 500 && code <= 599 {
		return retry.Transient
	}
	return retry.Permanent
}

// judged is an error about which HTTP knows more than its type says.
type judged struct {
	error
	class      retry.Class
	unsent     bool // nothing was sent, whatever Policy.Classify returns, unless that is Permanent
	turnedAway bool // the server has done nothing, and named a retry time, which may be now
}

func (e *judged) Unwrap() error     { return e.error }
func (e *judged) SafeToRetry() bool { return e.class == retry.Unprocessed }
func (e *judged) Retryable() bool   { return e.class != retry.Permanent }

// TurnedAway tells package retry.
func (e *judged) TurnedAway() engine.Proof { return engine.Proof(e.turnedAway) }

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
