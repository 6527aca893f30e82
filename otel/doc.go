// Package otelretry shows retried calls in OpenTelemetry: traces in which the
// attempts and the waits between them can be seen, and metrics that tell which
// operations live on retries. Put [Hooks] into the policies of a program:
//
//	policy.Hooks = otelretry.Hooks()
//
// # Spans
//
// Every run has a span "retry {name}" and, below it, one span "attempt {name}"
// per attempt, unless [WithAttempts] says otherwise. The operation gets its
// attempt's context: what it traces itself hangs below. Before a wait the run's span has an event retry.wait, and
// retry.gave_up when the run ends without a success. An operation that succeeded
// in the end has no error status, whatever its attempts had; neither has one that
// its caller canceled. Attempts have spans only if their run's span is recorded.
// Where a policy has a clock of its own, all times are that clock's. Errors are told
// with up to 4 KiB of their text, as valid UTF-8.
//
// # Metrics
//
//	retry.operation.duration  histogram, s           retry.name, retry.outcome; error.type of a failure
//	retry.operation.attempts  histogram, {attempt}   retry.name, retry.outcome
//	retry.attempt.duration    histogram, s           retry.name; retry.class of a failure
//	retry.delay               histogram, s           retry.name; of runs that waited
//	retry.gave_up             counter, {operation}   retry.name, retry.reason
//	retry.budget.balance      gauge, 1               retry.budget (see ObserveBudget)
//
// retry.outcome is success_first_try, success_after_retry, failure_first_try,
// failure_after_retry or canceled. A run whose caller canceled it has not failed,
// though its end counts in retry.gave_up; one that ran into its caller's deadline
// has. A run that made no attempt counts with 0 of them. No text of an error is ever an attribute of a
// metric. A process tells at most 256 values of retry.name and of error.type
// apart; later ones count as "other". Only the attribute retry.name of spans
// always has the name itself.
//
// What may live here: what hooks learn, in OpenTelemetry's words. It imports the
// OpenTelemetry API and never its SDK.
package otelretry
