// Package retry repeats calls that fail temporarily.
//
// [Do] calls an operation until it succeeds or a [Policy] says to stop, and
// returns the operation's own type:
//
//	user, err := retry.Do(ctx, retry.Policy{
//		Name:           "fetch-user",
//		MaxAttempts:    4,
//		AttemptTimeout: 2 * time.Second,
//		Budget:         budget,
//	}, func(ctx context.Context) (User, error) {
//		return client.FetchUser(ctx, id)
//	})
//
// A [Policy] is a plain struct whose zero value is safe: three attempts, waits
// with full jitter. It holds no state and is shared freely.
//
// # The rules of a run
//
//  1. If the context is already done, the operation is not called at all.
//  2. The operation is called with a context derived from the caller's, and with
//     the attempt's own deadline if Policy.AttemptTimeout is set.
//  3. If it returns no error, its value is returned, even if the context has
//     ended meanwhile: a success is never thrown away.
//  4. If the context is done now, the run stops. It is the context that is asked,
//     not the error: an attempt's own timeout is no reason to stop. Otherwise the
//     error gets a [Class]: from a mark of [Stop] or [After] anywhere in its tree,
//     from Policy.Classify, or from [DefaultClassifier]. What none of them knows
//     is [Transient].
//  5. A [Permanent] error stops the run. With Policy.NonIdempotent, so does every
//     error that does not prove that the operation never ran.
//  6. Then the limits are asked, in this order: the attempts; the wait the server
//     wants; the time elapsed; the caller's deadline, since a wait that would end
//     past it is not begun; and the [Budget] last, so that a retry that is not
//     made costs nothing.
//  7. The run waits: what the server asked for, plus the [Backoff]. The context is
//     looked at again after hooks and after the wait: the operation is never
//     called once it is done.
//
// A run that gives up returns the last value the operation gave and an [*Error],
// whose [Reason] tells which of these rules ended it and which holds what the
// attempts returned.
//
// # One engine
//
// [Loop] decides and never waits. [Do], [Run], [Ticks] and [Ticker] are Loops
// that wait on a [github.com/goretry/retry/clockx.Clock]; queues and simulators
// drive one their own way. [Hooks] are told what happens and change nothing.
// Tests run on a virtual clock: see package
// [github.com/goretry/retry/retrytest].
//
// What may live here: deciding, waiting and telling, on the standard library
// alone. What knows a protocol, a clock or a telemetry system of someone else
// has a package of its own.
package retry
