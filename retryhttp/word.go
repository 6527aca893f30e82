package retryhttp

import (
	"net/http"
	"strings"
)

// word is what a server says about a retry of a request that has failed.
type word uint8

const (
	unsaid word = iota
	yes
	no
)

// shouldRetry returns what the headers of a failed response say. A no goes before a
// yes, whichever header it is in: it is the more careful of the two.
//
// X-Should-Retry is OpenAI's and Anthropic's (both SDKs for Go heed it), and what
// [Relay] sets; Stripe-Should-Retry is Stripe's. X-Envoy-Overloaded is what Envoy sets
// when it sheds load: its own retries heed it. X-Envoy-Ratelimited says no to Envoy's
// retries too, but a rate limit passes, and such a response has a Retry-After.
func shouldRetry(h http.Header) (w word) {
	if len(h["X-Envoy-Overloaded"]) > 0 {
		return no
	}
	for _, name := range [...]string{"X-Should-Retry", "Stripe-Should-Retry"} {
		for _, value := range h[name] {
			switch value = strings.TrimSpace(value); {
			case strings.EqualFold(value, "false"):
				return no
			case strings.EqualFold(value, "true"):
				w = yes
			}
		}
	}
	return w
}
