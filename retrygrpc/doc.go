// Package retrygrpc retries gRPC calls, for any client of grpc-go:
//
//	c := &retrygrpc.Client{Policy: policy}
//	cc, err := grpc.NewClient(target, append(c.DialOptions(), opts...)...)
//
// # Which calls are retried
//
// A run of package retry decides, with what is known about gRPC. A method is
// idempotent if its proto file says so by idempotency_level, or [Client].Idempotent or
// the call option [Idempotent] does. What an attempt's end means is told by its code
// and by grpc's evidence, its headers, trailers and peer, never by a text:
//
//   - UNAVAILABLE and DEADLINE_EXCEEDED are retried if the method is idempotent. So
//     is RESOURCE_EXHAUSTED if the answer was nothing else: after headers it may be
//     grpc's own word for a message that is too large.
//   - INTERNAL, UNKNOWN and CANCELLED are retried if the method is idempotent and they
//     are not the server's: a broken stream, a proxy's page.
//   - UNAVAILABLE, RESOURCE_EXHAUSTED and ABORTED are retried whatever the method if the
//     server asks for it, by RetryInfo in the details of the status or by the trailer
//     grpc-retry-pushback-ms.
//   - Whatever never reached a server is retried whatever the method: no connection.
//   - All others are answers. So is everything with a pushback that is negative or no
//     number.
//
// The wait is what the server asks for plus the policy's backoff. If the server asks
// for more than Policy.MaxRetryAfter, there is no retry. A retry sets
// grpc-previous-rpc-attempts in its metadata.
//
// # What the caller sees
//
// An answer is the server's status error, as it would be without this package; it is
// no failure to hooks and budgets, unless a pushback made it final. A run that gave up
// returns an error that is a *[retry.Error] to [errors.As] and has the status of the last
// attempt, so that status.Code is what it would be; or CANCELLED or DEADLINE_EXCEEDED if
// the caller's context has ended. Each attempt gets the caller's call options: what
// they collect is the last one's, and a grpc.OnFinish is called for each.
//
// # Streams
//
// A server stream begins anew while its caller has seen nothing of it: no message, no
// result of Header, no Context. Its first attempt begins when it is opened, and its run
// ends with the first message; from then on it is grpc's own. If its context ends before
// anyone has received, the run ends then, and its hooks may be called on another
// goroutine than the caller's, though never two at once. The request is kept by pointer,
// as grpc keeps it: do not change it before the first message.
//
// Of client and bidirectional streams only the opening is retried, while nothing has
// been sent.
//
// # Servers that are clients
//
// When several services call each other and each retries, retries multiply: three
// layers of four attempts make 64 calls. [UnaryServer] and [StreamServer] are
// interceptors for servers: once a handler's own retries have failed, its caller is told
// not to ask again, and 4 calls remain.
//
// # Beside other layers
//
// DialOptions turns off the retries that a service config asks for. Transparent retries
// stay: each attempt may be sent once more by grpc itself, if the server has provably not
// processed it. With otelgrpc as stats handler each attempt has a client span.
//
// # Known limits
//
// An HTTP/2 stream that is reset with ENHANCE_YOUR_CALM cannot be told from a message that
// is too large, and is not retried. A request that cannot be marshalled cannot be told from
// a broken stream, and is tried again in vain if the method is idempotent. So is a
// request above the server's receive limit: it is answered with RESOURCE_EXHAUSTED and
// nothing else, as a server's refusal is.
package retrygrpc
