// Package retry repeats calls that fail temporarily.
//
// [Do] calls an operation until it succeeds or a [Policy] says to stop, and returns the
// operation's own type:
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
// A [Policy] is a plain struct whose zero value is safe: three attempts, and waits with full
// jitter. Only its Budget and its Guards hold state. Share it freely.
//
// Packages for HTTP, gRPC, transactions, batches and queues know what may be repeated in their
// protocols: [github.com/goretry/retry/retryhttp] is the one to begin with. The guides, one for
// each task, are at https://github.com/goretry/retry/tree/main/docs.
//
// # To call
//
// [Do], [Run] and [Until]; [Supervise] for what is to run for good; [Attempts], a run whose caller
// makes the attempts, and [Ticker] for loops that select. A [Policy] has limits, a [Backoff], a
// [Classifier], a [Budget], guards and [Hooks]. [PerKey] has one of these for each host or shard.
// An operation marks its errors by [Stop], [Answer], [Refuse], [After] and [Undone], and a run
// that gives up returns an [*Error] with its [Reason]. Tests run on a virtual clock: see package
// [github.com/goretry/retry/retrytest].
//
// # To implement
//
// Few programs need these. A [Guard] gets an [Entry] before an attempt, returns a [Pass], and gets
// an [Exit] with an [Ending] after it. A [Budget] gets a [Withdrawal] before a retry, and an
// [Outcome] at the end of a run. A [Backoff] gets a [Step]. Hooks get an [Attempt], a [Held] and a
// [Summary]. Packages for protocols give a [Verdict] to [Attempts] (docs/adapters.md). Queues and
// simulators drive a [Loop], the engine of all runs, which decides and never waits.
//
// # The rules of a run
//
// A run is one call of Do: its attempts and the waits between them. An attempt is one call of the
// operation. A retry is an attempt after the first. A mark is the operation's own word on its
// error, and a hint is how long a server asks to wait.
//
//  1. If the context is already done, the operation is not called at all.
//  2. The operation is called with a context derived from the caller's, and with the attempt's own
//     deadline if Policy.AttemptTimeout is set.
//  3. If the operation returns no error, its value is returned, even if the context has ended
//     meanwhile: a success is never thrown away.
//  4. If the caller's context is done, the run stops. The run checks the context, not the error, so
//     an attempt's own timeout does not stop the run. Otherwise the error gets a
//     [Class]: from a mark anywhere in its tree, from Policy.Classify, or from [DefaultClassifier].
//     An error that none of these recognizes is [Transient]. A Transient error is [TimedOut] if the
//     attempt's own deadline has passed.
//  5. A [Permanent] error stops the run, and so does a server that refuses a retry ([Refuse]). With
//     Policy.NonIdempotent, so does every error without proof that the operation did nothing: see
//     [Policy].
//  6. Then the limits are checked, in this order: the attempts; the wait the server wants; the time
//     elapsed; the caller's deadline; and the [Budget]. Do never starts a wait that would outlast
//     the caller's deadline. The Budget is checked last, so a retry that another limit refuses
//     costs nothing. It is not checked after [ErrRejected], since the server has answered, nor
//     after a [Throttled] error under a guard that paces. [Supervise] ends neither because of the
//     Budget nor, without Policy.MaxRetryAfter, because of the server's wait: it waits longer.
//  7. The run waits for the [Backoff]. If the server asked for a wait, the run waits for that plus
//     the Backoff, or plus a random part of a tenth of it if that is longer.
//     If it asked for a retry at once (a Retry-After of 0), the run does not wait. It checks the
//     context again after hooks and after the wait: the operation is never called once the context
//     is done.
//  8. Before each attempt, first ones too, the run asks each [Guard] of Policy.Guards in turn. It
//     waits as long as a guard says. If that would outlast the caller's deadline or
//     Policy.MaxElapsed, the run stops: see [ErrPaced].
//  9. If a guard refuses, the attempt is not made, and those that have admitted it are left. Rules
//     4 to 7 apply to the guard's error, except that Policy.Classify does not get it. It is proof
//     that nothing was done. The refusal counts as one of the attempts of rule 6, and costs the
//     Budget nothing. After the wait the run calls all guards again. A run that stops by rules 5
//     and 6 after a refusal stops with [ReasonGuard].
package retry
