package retryhttp

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry"
)

// StatusError is a response that was not the one wanted. [retry.DefaultClassifier]
// understands it: 429 is Throttled, 503 Transient, 404 Permanent.
type StatusError struct {
	Code   int
	Method string
	URL    string        // without userinfo and fragment, and REDACTED for each query value
	Body   []byte        // the beginning, at most 4 KiB; from [JSON] only: from a [Transport] the response itself has it
	Hint   time.Duration // how long the server asked to wait, by ParseRetryAfter; 0 if it did not
}

// Error is one line, without the body.
func (e *StatusError) Error() string {
	s := strings.TrimSpace(fmt.Sprintf("%s %s: %d %s", e.Method, e.URL, e.Code, http.StatusText(e.Code)))
	if e.Hint > 0 {
		s += fmt.Sprintf(", retry after %v", e.Hint)
	}
	return s
}

// StatusCode returns Code.
func (e *StatusError) StatusCode() int { return e.Code }

// RetryAfter returns Hint.
func (e *StatusError) RetryAfter() time.Duration { return e.Hint }

// ErrorType returns the code as the error.type of spans and metrics: "503".
func (e *StatusError) ErrorType() string { return strconv.Itoa(e.Code) }

// failure returns the error for resp. Where more than its status decides, it comes
// wrapped.
func (c *call) failure(resp *http.Response) error {
	e := &StatusError{Code: resp.StatusCode, Method: c.method(), URL: c.url()}
	now := time.Now
	if c.Policy.Clock != nil {
		now = c.Policy.Clock.Now
	}
	e.Hint, _ = ParseRetryAfter(resp.Header, now())
	switch word := resp.Header.Get("Stripe-Should-Retry"); {
	case word == "false", word == "" && e.Code > 599:
		return &judged{e, retry.Permanent}
	case word == "true",
		e.Code == http.StatusConflict && c.keyed,    // the first attempt with this key is underway
		e.Code > http.StatusHTTPVersionNotSupported: // with a hint too: unlike 503 they do not turn a request away
		return &judged{e, retry.Transient}
	}
	return e
}

// judged is an error of which HTTP knows more than its type tells.
type judged struct {
	error
	class retry.Class
}

func (e *judged) Unwrap() error     { return e.error }
func (e *judged) SafeToRetry() bool { return e.class == retry.Unprocessed }
func (e *judged) Retryable() bool   { return e.class != retry.Permanent }

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
