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
// unless [WithAttempts] or [WithWaits] turns them off. Without a name they are
// "retry", "attempt {n}" and "wait". The first 32 attempts and waits of a run have
// spans; later ones are only counted. Above 16 the number is only an attribute. The
// operation gets its attempt's context, so its own spans are children of the
// attempt's. The run's span has an event retry.gave_up when the run ends without a
// success, and, without spans of waits, an event retry.wait for each wait. Attempts
// and waits have spans only if their run's span is recorded. If a policy has a clock
// of its own, all times are that clock's.
//
// Failed attempts and failed runs have the status Error. A run that succeeded in the
// end has no status, whatever the status of its attempts. A run that its caller
// canceled has none either, nor has the attempt that the cancel ended, nor an attempt
// whose value [retry.Until] did not accept. Descriptions are stable, so that they can
// be grouped: they contain no times and no counts. They have at most 4 KiB, and are
// valid UTF-8. They show the URL of a [net/url.Error] without userinfo, query and
// fragment. The rest of an error's text is shown unchanged.
//
// # Metrics
//
//	retry.operation.duration  histogram, s              retry.name, retry.outcome; error.type of a failure
//	retry.operation.attempts  histogram, {attempt}      retry.name, retry.outcome
//	retry.operation.waited    histogram, s              retry.name; of runs that waited
//	retry.operation.active    up-down counter, {operation}  retry.name, retry.state
//	retry.attempt.duration    histogram, s              retry.name; retry.class and error.type of a failure
//	retry.gave_up             counter, {operation}      retry.name, retry.reason; error.type of the last attempt
//	retry.hedges              counter, {call}           retry.name, retry.hedge.result (see HedgeHook)
//	retry.hedge.delay         gauge, s                  retry.hedge.name (see ObserveHedge)
//	retry.limit.places        gauge, {attempt}          retry.limit (see ObserveLimit)
//	retry.limit.in_flight     gauge, {attempt}          retry.limit
//	retry.pace.rate           gauge, {attempt}/s        retry.pace (see ObservePace)
//	retry.pace.wait           gauge, s                  retry.pace
//	retry.budget.balance      gauge, 1                  retry.budget (see ObserveBudget)
//
// retry.outcome is success_first_try, success_after_retry, failure_first_try,
// failure_after_retry or canceled. A run that its caller canceled has not failed,
// though retry.gave_up counts it. A run that ran into its caller's deadline has
// failed. A run that made no attempt counts with 0 attempts. retry.gave_up has no
// error.type if the run made no attempt, if its caller canceled the last one, or if
// Until did not accept its value. A failed attempt without error.type was canceled, or
// its value was not accepted. retry.state is attempting, or waiting when no attempt is
// underway. retry.operation.active is read when metrics are collected: a call that
// hangs is counted while it hangs.
//
// No text of an error is ever an attribute of a metric. A process distinguishes at
// most 256 values of retry.name and of error.type, by their first 128 bytes; later
// ones are "other", in spans too.
package otelretry
