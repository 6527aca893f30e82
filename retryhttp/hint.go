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
//   - X-Rate-Limit-Retry-After-Seconds, X-RateLimit-Retry-After, X-RateLimit-RetryAfter and
//     X-Contentful-RateLimit-Reset, unless it is 0
//   - RateLimit: the longest t of the policies that have r=0
//     (draft-ietf-httpapi-ratelimit-headers-10), or reset if remaining=0 (draft 07)
//   - RateLimit-Reset, X-RateLimit-Reset-After, X-RateLimit-Reset, X-Rate-Limit-Reset,
//     X-Sentry-Rate-Limit-Reset, Fitbit-Rate-Limit-Reset or X-RateLimit-Requests-Reset
//     (RapidAPI), if the header Remaining beside it is 0. Reset-After is in seconds
//   - X-RateLimit-Reset-Requests and X-RateLimit-Reset-Tokens (OpenAI), Requests-Day and
//     Tokens-Minute (Cerebras), and Anthropic-Ratelimit-Requests-Reset and the same for
//     Tokens, Input-Tokens and Output-Tokens; the longest of those whose Remaining is 0
//
// Retry-After and resets are read as a number of seconds (Docker Hub, GitHub: an epoch), as a
// duration ("1m30s", "6ms"), as any of the three dates of HTTP, as a date of RFC 3339, or as
// 2026-03-01 05:01:00 -0700. A number is an epoch, in seconds or in milliseconds, if that is
// within ten years of now. A date's zone may be GMT, UTC or an offset, and its day may have one
// digit.
//
// A number of seconds or milliseconds may have a fraction, and is rounded up to the
// nanosecond. Points in time are compared with the response's own Date, or with now if
// that is missing. A number or a date that overflows a [time.Duration] gives the longest
// Duration, which no policy waits for. If a value is negative or garbled, the next header counts.
//
// The first two items are requests to wait. If one asks for a wait of 0, or until a time that
// has passed, the server wants the retry at once: wait is 0 and ok is true. The others are limits.
// The reset of a limit that has passed is no wait, and no request: wait is 0 and ok is false.
//
// Servers that limit rates send their limits with every response, so these say nothing about a
// 503. ParseRetryAfter does not know the status. A [Transport], [JSON] and [Failure] do: they
// read limits on 429 and 403 only.
func ParseRetryAfter(h http.Header, now time.Time) (wait time.Duration, ok bool) {
	switch wait, ok = hint.Parse(canonical(h), func() time.Time { return now }, true); wait {
	case hint.Now:
		return 0, true
	case 0:
		return 0, false
	}
	return wait, ok
}

// canonical is a header that is read by names in the canonical form only.
type canonical http.Header

func (h canonical) Values(name string) []string { return h[name] }
