// Package otelretry reports retried calls to OpenTelemetry: traces that show the
// attempts and the waits between them, and metrics that show which operations depend
// on retries. Set [Hooks] in the policies of a program:
//
//	policy.Hooks = otelretry.Hooks()
//
// # Spans
//
// Every run has a span with the policy's name. Below it are a span
// "attempt {n} {name}" for each attempt and a span "wait {name}" for each wait,
// unless [WithAttempts] or [WithWaits] turns them off. A wait that one of Policy.Guards has
// caused is no wait for a retry: its span is "guard {name}". Without a name they are
// "retry", "attempt {n}", "wait" and "guard". The first 32 attempts, waits and waits for
// guards of a run have spans; later ones are only counted. Above 16 the number is only an attribute. The
// operation gets its attempt's context, so its own spans are children of the
// attempt's. Attempts and waits have spans only if their run's span is recorded. If a
// policy has a clock of its own, all times are that clock's. Times in attributes are in
// seconds.
//
//	{name}              retry.name, retry.attempts, retry.outcome; retry.max_attempts if there is a
//	                    limit, retry.waited if it waited, retry.reason and error.type of a failure,
//	                    retry.guard if the reason is guard
//	attempt {n} {name}  retry.name, retry.attempt from 1; of a failure retry.class, error.type, and
//	                    retry.hint if the server asked for a wait; 0: for none
//	wait {name}         retry.name, retry.attempt before it (0: the pause of retry.Supervise between
//	                    two runs), the planned retry.delay, retry.hint, retry.class, error.type
//	guard {name}        retry.name, retry.attempt after it, the planned retry.delay, retry.guard;
//	                    retry.class and error.type if the guard has refused the attempt
//
// A wait's span lasts to the wait's actual end. Spans have these events:
//
//	retry.gave_up       of a run without a success: retry.reason, retry.attempts, the last retry.hint,
//	                    retry.guard if the reason is guard
//	retry.wait          of a run without spans of waits: what the wait's span would have but the name
//	retry.guard         of a refusal that ended the run, and of a run without spans of waits: what the
//	                    guard's span would have but the name
//	retry.hedge         of an attempt that still ran at the hedge delay, with HedgeHook:
//	                    retry.hedge.started (attempts), retry.hedge.winner (0: none),
//	                    retry.hedge.delay, retry.hedge.refused if a hedge was refused
//	retry.connection_dropped  of an attempt that has closed a connection that had gone silent, with
//	                    DropHook: network.peer.address
//
// retry.guard is the type of the guard, such as limit.Limit or breaker.Breaker. An attempt that
// it refuses is no attempt: it has no number and no span of its own, and does not count as one.
//
// retry.class is permanent, transient, timed_out, throttled or unprocessed, and unknown if
// the caller's context had ended. error.type is a code where the error has one: an HTTP
// status, an SQLSTATE such as 40001, no_such_host, or what its method ErrorType returns.
// Otherwise it is the name of a Go type.
//
// Failed attempts and failed runs have the status Error. A run that succeeded in the
// end has no status, whatever the status of its attempts. Three things are not errors,
// and have no error.type: a run that its caller canceled, the attempt that the cancel
// ended, and an attempt whose value [retry.Until] did not accept. Descriptions are
// stable, so that they can be grouped: they contain no times and no counts. They have at
// most 4 KiB, and are valid UTF-8. They show the URL of a [net/url.Error] without
// userinfo, query and fragment. The rest of an error's text is shown unchanged.
//
// # Metrics
//
//	retry.operation.duration  histogram, s              retry.name, retry.outcome; error.type of a failure
//	retry.operation.attempts  histogram, {attempt}      retry.name, retry.outcome
//	retry.operation.waited    histogram, s              retry.name; of runs that waited
//	retry.operation.active    up-down counter, {operation}  retry.name, retry.state
//	retry.operation.failing   gauge, s                  retry.name; for how long all attempts have failed
//	retry.attempt.duration    histogram, s              retry.name; retry.class and error.type of a failure
//	retry.gave_up             counter, {operation}      retry.name, retry.reason; error.type of the last attempt, or of
//	                                                    the refusal and retry.guard if the reason is guard
//	retry.guards              counter, {attempt}        retry.name, retry.guard, retry.guard.result: waited, refused
//	retry.hedges              counter, {call}           retry.name, retry.hedge.result (see HedgeHook)
//	retry.connections_dropped  counter, {connection}    (see DropHook)
//	retry.breaker.open        gauge, s                  retry.breaker (see ObserveBreaker)
//	retry.hedge.delay         gauge, s                  retry.hedge.name (see ObserveHedge)
//	retry.limit.places        gauge, {attempt}          retry.limit (see ObserveLimit); not while nothing limits
//	retry.limit.in_flight     gauge, {attempt}          retry.limit
//	retry.pace.rate           gauge, {attempt}/s        retry.pace (see ObservePace)
//	retry.pace.wait           gauge, s                  retry.pace
//	retry.pace.quota          gauge, {attempt}/s        retry.pace; of a pace with a quota
//	retry.pace.throttled      gauge, 1                  retry.pace; as well
//	retry.pace.shared         gauge, 1                  retry.pace; with Share, error.type of the store's error
//	retry.gate.closed         gauge, {gate}                retry.gate (see ObserveGate); error.type of what has closed it
//	retry.target.resting      gauge, s                  retry.target (see ObserveTarget)
//	retry.budget.balance      gauge, 1                  retry.budget (see ObserveBudget)
//	retry.….parts             gauge, {part}             as the gauges of what a retry.PerKey has (see ObservePerKey),
//	                                                    which have retry.….rank too: budget, limit, breaker, hedge or pace
//
// retry.outcome is success_first_try, success_after_retry, failure_first_try,
// failure_after_retry or canceled. A run that its caller canceled has not failed,
// though retry.gave_up counts it. A run that ran into its caller's deadline has
// failed. A run that made no attempt counts with 0 attempts. retry.gave_up has no
// error.type if the run made no attempt and no guard refused one, if its caller canceled
// the last one, or if Until did not accept its value. retry.state is attempting, or waiting
// when no attempt is underway, whether for a retry or for a guard. retry.operation.active is read when metrics are collected: a call that
// hangs is counted while it hangs. retry.operation.failing is 0 while the operation is not underway, after a success, and
// once an attempt is up for a minute: it is for sessions of [retry.Supervise], which never end. The bounds of histograms in seconds are .005, .01,
// .025, .05, .075, .1, .25, .5, .75, 1, 1.5, 2, 2.5, 3, 4, 5, 7.5, 10, 15, 30, 60, 120 and
// 300.
//
// No text of an error is ever an attribute of a metric. A process distinguishes at
// most 256 values of retry.name, of error.type and of retry.guard, by their first 128 bytes; later
// ones are "other", in spans too.
package otelretry
