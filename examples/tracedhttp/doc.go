// Package tracedhttp shows how retryhttp and otelhttp go together:
// retryhttp.Transport outside, otelhttp.Transport inside, otelretry.ResendCount
// innermost. Then each attempt has a CLIENT span of its own, as the conventions for
// HTTP want it, with the number of resends on it.
//
//	go test ./examples/tracedhttp
package tracedhttp
