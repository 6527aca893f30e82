package retry

// May call: class.go, finding.go.

import "slices"

// Class says what an error means for a retry.
type Class uint8

const (
	Unknown     Class = iota // no opinion: the next classifier decides; if none does, Transient
	Permanent                // trying again gives the same error; to mark one so, use [Stop]
	Transient                // trying again may work
	TimedOut                 // like Transient, but no answer came in time: the server may still be at work
	Throttled                // trying again later may work: the server is too busy
	Unprocessed              // trying again may work, and the call that failed provably did nothing
)

var classes = [...]string{"unknown", "permanent", "transient", "timed_out", "throttled", "unprocessed"}

// String returns the class as one lower-case word: "timed_out".
func (c Class) String() string {
	if int(c) >= len(classes) {
		return classes[Unknown]
	}
	return classes[c]
}

// Classifier returns what an error means, or Unknown if it has no opinion. It gets the
// error that op returned, and should search it with errors.As and errors.Is. It is
// never called with nil, [ErrRejected], an error marked by [Stop], [Answer], [Refuse] or
// [After], or the error of a [Guard].
type Classifier func(error) Class

// Classifiers calls one classifier after the other and returns the first class that is
// not Unknown. A number that is no Class counts as Unknown. Nil classifiers are skipped.
func Classifiers(cs ...Classifier) Classifier {
	cs = slices.Clone(cs)
	return func(err error) Class {
		for _, classify := range cs {
			if classify == nil {
				continue
			}
			if c := orUnknown(classify(err)); c != Unknown {
				return c
			}
		}
		return Unknown
	}
}

// orUnknown returns c, or Unknown if it is a number that is no Class.
func orUnknown(c Class) Class {
	if c > Unprocessed {
		return Unknown
	}
	return c
}

// AlreadyRetried is a [Classifier] for the outer of two layers that both retry: Permanent for an
// error that holds a run which was [Final], else Unknown. Thus the attempts of the layers add up
// instead of multiplying.
func AlreadyRetried(err error) Class {
	if examine(err).final {
		return Permanent
	}
	return Unknown
}

// Final reports whether a server that failed with err should tell its caller not to call again,
// since the retries of layers multiply. How it tells is a matter of the protocol: see package
// retryhttp. Final is true if err
//
//   - is marked by [Stop], [Answer] or [Refuse], outside of any *[Error];
//   - holds a run that ended because the error is permanent, because a server refused a retry, or
//     because the work may have been done;
//   - holds a run that has retried and come to a limit: not one of a single attempt, nor one whose
//     last error is [ErrRejected], which has polled;
//   - holds the response of a server that asked for no retry: see [DefaultClassifier];
//   - holds an error with a method Final() bool that returns true.
//
// A run that was canceled does not count, whatever it holds. Neither does a run that ended because
// a server asked for too long a wait: the caller gets that wait instead. Final(nil) is false.
func Final(err error) bool {
	f := examine(err)
	if f.mark != nil {
		return f.final || f.mark.class == Permanent
	}
	return f.final || f.refusal
}

// DefaultClassifier knows the errors of the standard library, and those of popular clients,
// without importing them (docs/clients.md). It decides by type, interface and code:
//
//   - by methods: ErrorCode (AWS), StatusCode and HTTPStatusCode (HTTP), SQLState (SQL drivers),
//     SafeToRetry (pgx), Retryable and RetryableError (AWS), RetryAfter, Timeout;
//   - by exported fields: StatusCode, HTTPStatusCode, HTTPStatus, HTTPCode and Status, a
//     *http.Response, a http.Header beside a status, RetryAfter, and the Code of JSON-RPC;
//   - by marker methods, such as NotFound, which are not called;
//   - by a table of types and codes: gRPC, Kafka, Redis, MongoDB, SQL Server and more.
//
// An outer status goes before an inner cause. Headers beside a status say how long to wait, and
// may overrule it: after X-Should-Retry: false, Stripe-Should-Retry: false or X-Envoy-Overloaded
// the run ends with [ReasonRefused].
//
// If no error of the tree is known, it reads what vendors have in common: a code in words, such as
// RateLimitExceeded, or a status that the text shows. Beside a status, such a code counts where
// vendors contradict the status: 400 with Throttling may be repeated, and 429 with
// insufficient_quota may not. It compares texts only where there is nothing else.
// clienttest/CLIENTS.md has the rules, and how often they are right.
//
// The most specific knowledge wins. A timeout is TimedOut, but a dial that times out is
// Unprocessed, and a failed dial is Permanent if a bad certificate was the cause. Of joined errors
// the first known one decides. An error is Unprocessed only if everything joined in it is. Inside
// a [*url.Error] it is only Transient, because http.Client may already have sent the request and
// followed a redirect. So is an error that is recognized only through its own As or Is method. An
// [*Error] of an inner run is Unprocessed only if all of its attempts were.
//
// A nil pointer in err is Unknown, and its methods are not called. A nil *[Error] is Transient. A
// panic in a method of err passes through.
func DefaultClassifier(err error) Class {
	return classOf(judged(err, 0), false)
}
