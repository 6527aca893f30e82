package retryhttp

import (
	"net/http"
	"time"

	"github.com/goretry/retry/internal/hint"
)

// ParseRetryAfter returns how long the server asks to wait, if it does. It reads,
// in this order:
//
//   - Retry-After-Ms, X-Ms-Retry-After-Ms (Azure) and X-Amz-Retry-After (AWS), in
//     milliseconds
//   - Retry-After
//   - X-Rate-Limit-Retry-After-Seconds and X-RateLimit-Retry-After, unless it is 0
//   - RateLimit: the longest t of the policies that have r=0
//     (draft-ietf-httpapi-ratelimit-headers-10), or reset if remaining=0 (draft 07)
//   - RateLimit-Reset, X-RateLimit-Reset-After, X-RateLimit-Reset or
//     X-Rate-Limit-Reset, if the header Remaining beside it is 0. Reset-After is in
//     seconds
//   - X-RateLimit-Reset-Requests and X-RateLimit-Reset-Tokens (OpenAI), and
//     Anthropic-Ratelimit-Requests-Reset and the same for Tokens, Input-Tokens and
//     Output-Tokens; the longest of those whose Remaining is 0
//
// Retry-After and resets are read as a number of seconds (Docker Hub, GitHub: an epoch), as a
// duration ("1m30s", "6ms"), as any of the three dates of HTTP, or as a date of RFC 3339. A
// number is an epoch, in seconds or in milliseconds, if that is within ten years of now. A
// date's zone may be GMT, UTC or an offset, and its day may have one digit.
//
// A number of seconds or milliseconds may have a fraction, and is rounded up to the
// nanosecond. Points in time are compared with the response's own Date, or with now if
// that is missing. If one has passed, the wait is 0 and ok is true. A number or a date that
// overflows a [time.Duration] gives the longest Duration, which no policy waits for. If a
// value is negative or garbled, the next header counts.
//
// The first two items are requests to wait; the others are limits. A [Transport] reads
// limits on 429 and 403 only. Servers that limit rates send them with every response,
// so they say nothing about a 503. A request to wait for 0 asks for a retry at once, without
// backoff; a limit's reset that has passed does not.
func ParseRetryAfter(h http.Header, now time.Time) (wait time.Duration, ok bool) {
	wait, ok = hint.Parse(canonical(h), func() time.Time { return now }, true)
	return max(wait, 0), ok
}

// canonical is a header that is read by names in the canonical form only.
type canonical http.Header

func (h canonical) Values(name string) []string { return h[name] }
