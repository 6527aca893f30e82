// Package retrygrpc retries gRPC calls, for any client of grpc-go:
//
//	c := &retrygrpc.Client{Policy: policy}
//	cc, err := grpc.NewClient(target, append(c.DialOptions(), opts...)...)
//
// # Which calls are retried
//
// A run of package retry decides, by these rules for gRPC. A method is idempotent if
// its proto file says so by idempotency_level, or if [Client].Idempotent or the call
// option [Idempotent] says so, unless Policy.NonIdempotent is set. An attempt is judged by its code, headers, trailers and
// peer, never by a text:
//
//   - UNAVAILABLE, DEADLINE_EXCEEDED and an AttemptTimeout are retried if the method is
//     idempotent. So is RESOURCE_EXHAUSTED without headers: after headers it may be grpc's own
//     code for a message that is too large.
//   - INTERNAL, UNKNOWN and CANCELLED are retried if the method is idempotent and the
//     code is not the server's: a broken stream, a proxy's HTML page. So are INTERNAL
//     and UNKNOWN of a server that asks to wait.
//   - UNAVAILABLE, RESOURCE_EXHAUSTED and ABORTED are retried for any method if the
//     server asks for it, by a RetryInfo above 0 in the details of the status or by the trailer
//     grpc-retry-pushback-ms.
//   - An attempt that never reached a server, for lack of a connection or because its
//     credentials failed, is retried for any method.
//   - An attempt that a load balancing policy has dropped is not repeated, whatever the policy
//     says: a control plane sheds load so. grpc tells nobody but by leaving the attempt unsent
//     while the connection is ready. Credentials that fail with a status error of their own look
//     the same. With grpc before 1.78 drops are repeated.
//   - A request that grpc cannot encode or send is not repeated.
//   - An error without a status, from another interceptor, means what it means to [retry.Do].
//   - Everything else is an answer, and not repeated.
//   - With a pushback that is negative or not a number there is no retry.
//
// The wait is what the server asks for and a little more: see [retry.After]. If the server asks
// for more than Policy.MaxRetryAfter, there is no retry. A retry sets
// grpc-previous-rpc-attempts in its metadata.
//
// # What the caller sees
//
// An answer is the server's status error, unchanged but for a method Final, which
// [retry.Final] knows. It is not a failure to hooks and budgets, whatever the server says
// about retries. A run that gave up returns an error in which [errors.As] finds a
// *[retry.Error]. Its status, and so status.Code, is that of the last attempt. It is
// CANCELLED or DEADLINE_EXCEEDED if the caller's context has ended. If a guard has ended the
// run before its first attempt, it is that of the guard's error, or else RESOURCE_EXHAUSTED.
// A run ends when the program closes the connection, or if a guard has it wait, when that
// wait is over.
// Each attempt gets the caller's call options. grpc.Header, Trailer and Peer collect what the
// last attempt has got, which is nothing if it reached no server. A grpc.OnFinish is called
// once, when the call or its stream is over, with the error that the caller gets.
//
// # Streams
//
// A server stream is restarted only while its caller has seen nothing of it: no
// message, no result of Header, no Context. Its first attempt starts when the stream
// is opened, and its run ends with the first message. After that the stream is grpc's
// own. If its context ends before a call of RecvMsg, the run ends then. So its hooks may
// be called on another goroutine than the caller's, but never two at once. The request
// is kept by pointer, as grpc keeps it: do not change it before the first message.
//
// For client and bidirectional streams only the opening is retried, before anything
// has been sent.
//
// The guards of the policy hold a stream that goes on until it ends, and get what its status
// means then: an answer is a success, and RESOURCE_EXHAUSTED is Throttled even after headers.
// See [Client].Guards.
//
// # Servers that are clients
//
// When several services call each other and each retries, retries multiply: three
// layers of four attempts make 64 calls. [ServerOptions] are
// for servers. Once a handler's own retries have failed, they tell its caller not to
// retry, and 4 calls remain. [Status] makes a status error that says the
// same.
//
// # Beside other layers
//
// DialOptions turns off the retries that a service config asks for. Transparent
// retries stay: grpc may send each attempt once more if the server has provably not
// processed it. With otelgrpc as stats handler each attempt has a client span.
//
// # Known limits
//
// An HTTP/2 stream that is reset with ENHANCE_YOUR_CALM looks like a message that is
// too large, and is not retried. A request above the server's receive limit is retried,
// though that cannot help: the server answers it with RESOURCE_EXHAUSTED without headers,
// like a refusal. From the second attempt on a codec other than protobuf's decodes into a
// new value, so that a reply never mixes two attempts: what the caller had put into the
// reply is then lost.
package retrygrpc
