package hint

// A Word is what a server's headers say about a retry of a failed request.
type Word uint8

// The words.
const (
	Unsaid Word = iota
	Yes
	No
)

// ShouldRetry returns what the headers of a failed response say. If one says no and another yes,
// No wins, because it is safer.
//
// OpenAI and Anthropic send X-Should-Retry, which their SDKs for Go obey, and retryhttp.Relay sets
// it. Stripe sends Stripe-Should-Retry. Envoy sets X-Envoy-Overloaded when it sheds load, and its own
// retries obey it. X-Envoy-Ratelimited is ignored, although it stops Envoy's retries: a rate limit
// passes, and such a response has a Retry-After.
func ShouldRetry(h Header) (w Word) {
	if len(h.Values("X-Envoy-Overloaded")) > 0 {
		return No
	}
	for _, name := range [...]string{"X-Should-Retry", "Stripe-Should-Retry"} {
		for _, value := range h.Values(name) {
			switch value = trim(value); {
			case is(value, "false"):
				return No
			case is(value, "true"):
				w = Yes
			}
		}
	}
	return w
}
