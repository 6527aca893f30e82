// Package otelretry shows retried calls in OpenTelemetry: traces in which the
// attempts and the waits between them can be seen, and metrics that tell which
// operations depend on retries. Put [Hooks] into the policies of a program:
//
//	policy.Hooks = otelretry.Hooks()
//
// # Spans
//
// Every run has a span with the policy's name. Below it are a span
// "{name} attempt {n}" for each attempt and a span "{name} wait" for each wait,
// unless [WithAttempts] or [WithWaits] says otherwise. Without a name they are
// "retry", "attempt {n}" and "wait". The first 32 attempts and waits of a run have
// spans, later ones are only counted; above 16 the number is only an attribute. The
// operation gets its attempt's context: what it traces itself hangs below. When a
// wait begins the run's span has an event retry.wait, and retry.gave_up when the
// run ends without a success. Attempts and waits have spans only if their run's
// span is recorded. Where a policy has a clock of its own, all times are that
// clock's.
//
// The status Error is for attempts that failed and for runs that did. An operation
// that succeeded in the end has none, whatever its attempts had. Neither has a run
// that its caller canceled, nor the attempt that the cancel ended, nor an attempt
// whose value [retry.Until] did not accept. Descriptions group: they hold no times
// and no counts, at most 4 KiB, and as valid UTF-8. Of a [net/url.Error]'s URL they
// show neither userinfo nor query nor fragment. The rest of an error's text they
// show as it is.
//
// # Metrics
//
//	retry.operation.duration  histogram, s              retry.name, retry.outcome; error.type of a failure
//	retry.operation.attempts  histogram, {attempt}      retry.name, retry.outcome
//	retry.operation.waited    histogram, s              retry.name; of runs that waited
//	retry.operation.active    up-down counter, {operation}  retry.name, retry.state
//	retry.attempt.duration    histogram, s              retry.name; retry.class and error.type of a failure
//	retry.gave_up             counter, {operation}      retry.name, retry.reason
//	retry.budget.balance      gauge, 1                  retry.budget (see ObserveBudget)
//
// retry.outcome is success_first_try, success_after_retry, failure_first_try,
// failure_after_retry or canceled. A run whose caller canceled it has not failed,
// though its end counts in retry.gave_up; one that ran into its caller's deadline
// has. A run that made no attempt counts with 0 of them. A failed attempt without
// error.type is a poll that was not accepted, or was canceled. retry.state is
// attempting, or waiting when no attempt is underway. retry.operation.active is
// read when metrics are collected: a call that hangs is seen while it hangs.
//
// No text of an error is ever an attribute of a metric. A process tells at most 256
// values of retry.name and of error.type apart, by their first 128 bytes; later
// ones are "other", in spans too.
package otelretry
