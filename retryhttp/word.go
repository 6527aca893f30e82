package retryhttp

import (
	"net/http"
	"strings"
)

// word is what a server's headers say about a retry of a failed request.
type word uint8

const (
	unsaid word = iota
	yes
	no
)

// shouldRetry returns what the headers of a failed response say. If one says no and
// another yes, no wins, because it is safer.
//
// OpenAI and Anthropic send X-Should-Retry, which their SDKs for Go obey, and [Relay]
// sets it. Stripe sends Stripe-Should-Retry. Envoy sets X-Envoy-Overloaded when it
// sheds load, and its own retries obey it. X-Envoy-Ratelimited is ignored, although it
// stops Envoy's retries: a rate limit passes, and such a response has a Retry-After.
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
