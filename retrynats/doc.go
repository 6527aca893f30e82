// Package retrynats retries messages of NATS JetStream by a [retry.Policy], so that
// retries survive a restart of the consumer and of a server:
//
//	handler := &retrynats.Handler{
//		Policy: retry.Policy{Name: "send-invoice", MaxAttempts: 8, Backoff: retry.Exponential{Base: time.Second, Max: time.Hour}},
//		Handle: func(ctx context.Context, msg jetstream.Msg) error { return send(ctx, msg.Data()) },
//		Dead:   func(ctx context.Context, msg jetstream.Msg, e *retry.Error) error { return store(ctx, msg, e) },
//	}
//	consuming, err := handler.Consume(ctx, js, consumer, jetstream.ConsumeErrHandler(
//		func(_ jetstream.ConsumeContext, err error) { slog.Warn("consume", "error", err) }))
//
// The server waits, counts deliveries and fails over. Package retryqueue decides. This
// package keeps no state: a message may go to another process each time.
//
// # The rules of a delivery
//
//  1. [retryqueue.Before] is asked. A message that was delivered too often, or is too
//     old, is dead, and Handle does not run.
//  2. Handle runs on a goroutine of its own. While Handle or Dead runs, the server is
//     told every third of AckWait that the message is in progress.
//  3. If Handle fails after ctx has ended, the message is handed back: another consumer
//     gets it at once. So is one that was not begun. The subscription is drained
//     first.
//  4. [retryqueue.After] decides about everything else. A message that is done is
//     acknowledged, and the server confirms it. One that is to be retried is handed
//     back with the delay.
//  5. A dead message is given to Dead first. If Dead fails it is asked again every
//     second, until it works or ctx ends, which hands the message back. Then the server
//     is told not to deliver the message again, with the reason.
//  6. A panic in Handle ends the process, as in any goroutine. The message comes back
//     after AckWait.
//
// # What a handler must know
//
// A message may run again although it was done: its acknowledgement can be lost with a
// connection or a server. So Handle and Dead must be idempotent. [retry.AttemptNumber]
// tells Handle the number of the delivery.
//
// Shutdowns, crashes and refusals of the budget cost a delivery each: MaxAttempts counts
// them. Budgets refill by the deliveries that succeed in the same process. If all may
// fail for long, leave Policy.Budget nil and let the waits be long.
//
// # What a consumer must be
//
// [Handler.Check] tells. It cannot know the following. Messages that wait count
// against MaxAckPending, which also bounds the goroutines: set it above the number of
// messages that may wait at once. A message whose delayed return is lost, with a
// connection or a server, comes back after AckWait instead; with an AckWait that is
// shorter than the waits it comes back early. A server that was restarted knows pending
// waits in whole seconds only: a message comes back up to a second early if that server
// is alone, or leads the consumer after a graceful change of leader. The message's age
// is the difference of two clocks, the server's and this machine's.
//
// # Telemetry
//
// Policy.Hooks see each delivery as a run of one attempt, whose number is the
// delivery's: Start, Attempt, AttemptDone, Wait if the message is to be delivered again
// after a wait, and Done, once the server has been told. Times are those of the
// delivery, on Policy.Clock. Done has ReasonNone and no error for a message that will be
// delivered again, and the reason for a dead one, once its dead letter is stored. So
// one gave_up stands for one dead message. For a message that [retryqueue.Before]
// refuses there are only Start and Done. After a panic Done has ReasonPanic.
package retrynats
