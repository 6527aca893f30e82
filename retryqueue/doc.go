// Package retryqueue decides what becomes of a message that a queue has delivered,
// so that retries survive a restart. The queue waits and counts, a [retry.Policy]
// decides, and nothing here keeps state:
//
//	if d, run := retryqueue.Before(policy, delivered, first, time.Now()); !run {
//		return deadLetter(message, d.Err)
//	}
//	err := handle(ctx, message)
//	switch d := retryqueue.After(policy, delivered, first, time.Now(), err); d.Action {
//	case retryqueue.Ack:
//		return acknowledge(message)
//	case retryqueue.Retry:
//		return deliverAgainIn(message, d.Delay)
//	default: // retryqueue.Dead
//		return deadLetter(message, d.Err)
//	}
//
// Two facts come from the queue with each delivery: how often it has delivered the
// message, this delivery included, and when the message was first stored. They are
// the run's attempts and its start. A delivery is an attempt, whatever became of it:
// one whose process died counts too.
//
// # What the policy means here
//
//   - MaxAttempts limits the deliveries, MaxElapsed the age of the message.
//   - Backoff, ThrottleBackoff, MaxRetryAfter and Classify mean what they mean in
//     [retry.Do]. A Backoff is told the retry's number, and never the wait before.
//   - NonIdempotent judges errors only. A message whose handler crashed, or whose
//     acknowledgement was lost, is delivered again all the same. So a handler must
//     be idempotent.
//   - Budget is asked by each delivery that failed, as a run of its own that asks for
//     its first retry. It holds no place while the message waits. A refused retry is
//     put off and not given up.
//   - AttemptTimeout, Hooks and Clock are for the code that runs the handler. The times
//     given to this package are the system's, because a queue's clock is.
//
// Package retrynats does all of this on NATS JetStream. The repository's
// docs/queues.md maps other queues.
package retryqueue
