// Package retryqueue decides what becomes of a message that a queue has delivered, so
// that retries survive a restart. The queue waits and counts, and a [retry.Policy]
// decides. This package keeps no state:
//
//	m := retryqueue.Delivery{Number: delivered, Stored: first}
//	if d, run := m.Before(policy); !run {
//		return deadLetter(message, d.Err)
//	}
//	switch d := m.After(policy, handle(ctx, message)); d.Action {
//	case retryqueue.Ack:
//		return acknowledge(message)
//	case retryqueue.Retry:
//		return deliverAgainIn(message, d.Delay)
//	case retryqueue.Dead:
//		return deadLetter(message, d.Err)
//	}
//
// [Delivery.Handle] does all of this, calls the policy's Hooks, and heeds its AttemptTimeout.
//
// Two facts come from the queue with each delivery: how often it has delivered the
// message, including this delivery, and when the message was first stored. They are
// the run's attempts and its start. Every delivery counts as an attempt, even if its
// process died.
//
// # What the policy means here
//
//   - MaxAttempts limits the deliveries, MaxElapsed the age of the message.
//   - Backoff, ThrottleBackoff, MaxRetryAfter and Classify mean what they mean in [retry.Do], but a
//     Backoff never gets the wait before. What Classify has no opinion on [Patient] judges.
//   - NonIdempotent looks at errors only, and wants a proof, as in Do. A message whose
//     handler crashed, or whose acknowledgement was lost, is delivered again all the
//     same. So a handler must be idempotent.
//   - Each failed delivery is a run of its own to the Budget, and withdraws its first
//     retry. It holds no place while the message waits.
//   - Guards are ignored: a handler's calls have a quota, and its deliveries have none.
//     Give those calls a policy with Guards, and MaxAttempts 1 if the queue is to wait.
//   - AttemptTimeout, Hooks and Clock are for the code that runs the handler: only Handle uses them.
//
// Packages retrykafka and retrynats do all of this on Kafka and on NATS JetStream. The
// repository's docs/queues.md and examples/queues have other queues.
package retryqueue
