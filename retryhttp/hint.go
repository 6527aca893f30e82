package retryhttp

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry/internal/hint"
)

// ParseRetryAfter returns how long the server asks to wait, if it does. It reads,
// in this order:
//
//   - Retry-After-Ms, X-Ms-Retry-After-Ms (Azure) and X-Amz-Retry-After (AWS), in
//     milliseconds
//   - Retry-After, in seconds or as any of the three dates of HTTP
//   - RateLimit: the longest t of the policies that have r=0
//     (draft-ietf-httpapi-ratelimit-headers-10), or reset if remaining=0 (draft 07)
//   - RateLimit-Reset, X-RateLimit-Reset-After, X-RateLimit-Reset or
//     X-Rate-Limit-Reset, if the header Remaining beside it is 0. Reset-After is in
//     seconds. Reset is an epoch, in seconds or in milliseconds, if that is within ten
//     years of now, else seconds from now
//   - X-RateLimit-Reset-Requests and X-RateLimit-Reset-Tokens (OpenAI): "1m30s",
//     "6ms" or seconds; the longest of those whose Remaining is 0
//   - Anthropic-Ratelimit-Requests-Reset and the same for Tokens, Input-Tokens and
//     Output-Tokens, dates of RFC 3339; the longest of those whose Remaining is 0
//
// A number of seconds or milliseconds may have a fraction, and is rounded up to the
// nanosecond. Points in time are compared with the response's own Date, or with now if
// that is missing. A number or a date that overflows a [time.Duration] gives the
// longest Duration, which no policy waits for. If a value is negative or garbled, or a
// date of Retry-After has passed, the next header counts. If the reset of a limit has
// passed, the wait is 0 and ok is true.
//
// The first two items are requests to wait; the others are limits. A [Transport] reads
// limits on 429 and 403 only. Servers that limit rates send them with every response,
// so they say nothing about a 503.
func ParseRetryAfter(h http.Header, now time.Time) (wait time.Duration, ok bool) {
	return hint.Parse(canonical(h), func() time.Time { return now }, true)
}

// canonical is a header that is read by names in the canonical form only.
type canonical http.Header

func (h canonical) Values(name string) []string { return h[name] }

// BodyHint is a [Transport].Check for servers that name the wait in a JSON body:
// error.details[].retryDelay of Google's APIs ("30s"), and retry_after or retryAfter, in
// seconds, as Discord and Telegram have it. If a response is a failure and no header
// asks to wait, BodyHint reads up to 64 KiB of its body, puts them back, and sets the
// header Retry-After-Ms of the response, which then counts as if the server had sent it.
// BodyHint returns nil.
func BodyHint(resp *http.Response) error {
	if resp.StatusCode < 400 || resp.Body == nil {
		return nil
	}
	e := StatusError{Code: resp.StatusCode}
	if e.readHint(resp.Header, time.Now) {
		return nil
	}
	text, rest := peek(resp.Body, maxPeek)
	resp.Body = rest
	var doc any
	if json.Unmarshal(text, &doc) != nil {
		return nil
	}
	if wait, ok := bodyWait(doc, 0); ok {
		if resp.Header == nil {
			resp.Header = http.Header{}
		}
		resp.Header.Set("Retry-After-Ms", strconv.FormatFloat(float64(wait)/float64(time.Millisecond), 'f', -1, 64))
	}
	return nil
}

// maxPeek is how much of a body a Check reads.
const maxPeek = 64 << 10

// peek returns the first bytes of a body, and a body that begins with them.
func peek(body io.ReadCloser, most int64) (text []byte, again io.ReadCloser) {
	text, err := io.ReadAll(io.LimitReader(body, most))
	rest := io.Reader(body)
	if err != nil {
		rest = failing{err}
	}
	return text, putBack(text, rest, body)
}

// putBack returns a body that begins with text and goes on with rest.
func putBack(text []byte, rest io.Reader, body io.Closer) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), rest), body}
}

// failing is what remains of a body that could not be read.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// bodyWait returns the wait that the JSON of a failure names. It looks into the objects
// in which servers put it, and no deeper.
func bodyWait(doc any, depth int) (time.Duration, bool) {
	switch doc := doc.(type) {
	case []any:
		for _, x := range doc {
			if wait, ok := bodyWait(x, depth+1); ok && depth < 4 {
				return wait, true
			}
		}
	case map[string]any:
		for _, name := range []string{"retryDelay", "retry_after", "retryAfter"} {
			if wait, ok := jsonWait(doc[name]); ok {
				return wait, true
			}
		}
		for _, name := range []string{"error", "details", "parameters"} {
			if wait, ok := bodyWait(doc[name], depth+1); ok && depth < 4 {
				return wait, true
			}
		}
	}
	return 0, false
}

// jsonWait reads 30, 1.5, "30", "30s" and "1.5s".
func jsonWait(x any) (time.Duration, bool) {
	seconds, ok := x.(float64)
	if text, is := x.(string); is {
		var err error
		seconds, err = strconv.ParseFloat(strings.TrimSuffix(text, "s"), 64)
		ok = err == nil
	}
	if !ok || !(seconds >= 0 && seconds < float64(1<<63-1)/1e9) {
		return 0, false
	}
	return time.Duration(seconds * float64(time.Second)), true
}
