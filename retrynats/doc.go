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
// package keeps no state, so each delivery of a message may go to another process.
//
// # The rules of a delivery
//
//  1. If [retryqueue.Delivery.Before] refuses the message, it is dead, and Handle does not run.
//  2. Handle runs on a goroutine of its own. While Handle or Dead runs, this package
//     tells the server every third of AckWait that the message is in progress.
//  3. If Handle fails after ctx has ended, or has not started, the message is handed back once the
//     subscription is drained. Another consumer gets it at once.
//  4. [retryqueue.Delivery.After] decides about everything else. A message that is done is
//     acknowledged, and the server confirms that. A message that is to be retried is
//     handed back with the delay.
//  5. For a dead message Dead is called, until it succeeds. Then the message is terminated on the
//     server, with the reason.
//  6. A panic in Handle ends the process, as in any goroutine. Before that, for at most
//     AckWait, the message is handed back with the policy's delay, or is dead. A policy
//     without MaxAttempts delivers such a message five times at most.
//
// # What a handler must know
//
// A message may run again although it was done: its acknowledgement can be lost with a
// connection or a server. So Handle and Dead must be idempotent. The number of the
// delivery is NumDelivered of the message's metadata. [retry.AttemptNumber] counts the
// attempts of this process, and is 1 in Handle.
//
// Each shutdown, crash or refusal of the budget costs a delivery, which MaxAttempts
// counts. Budgets refill by deliveries that succeed in the same process. If all
// deliveries may fail for long, leave Policy.Budget nil and use long waits.
//
// # What a consumer must be
//
// [Handler.Check] returns what is wrong. It does not know the following.
//
//   - Messages that wait count against MaxAckPending, 1000 unless set. When that many wait,
//     nothing new is delivered. MaxAckPending also limits the goroutines.
//   - A stream with MaxMsgs or MaxBytes and DiscardOld deletes messages that wait.
//   - A Nak with a delay is not confirmed. If it is lost, the message comes back after
//     AckWait, which is early if AckWait is shorter than the wait.
//   - A restarted server reads from its disk how long messages wait, in whole seconds. A
//     message comes back up to a second early if that server is alone, or if it becomes the
//     leader gracefully, as in a rolling upgrade. Otherwise, with three replicas, delays
//     stay exact when the leader is killed, steps down or is shut down.
//   - A leader that is killed may not have replicated its last deliveries. These are not
//     counted.
//   - The age of a message is the difference of two clocks, the server's and this machine's.
//   - The request for messages that the client repeats when it reconnects gets lost if
//     there is no leader yet, as after a restart of all servers. It makes the next one after
//     two missed heartbeats: up to 30 s later with the default PullExpiry. If that is too
//     long, pass jetstream.PullExpiry(4 * time.Second) to Consume, for a request every four
//     seconds while there is nothing to do.
//   - A delay is capped at 100 years, because the server's nanoseconds overflow in 2262.
//
// # Telemetry
//
// To Policy.Hooks each delivery is a run of one attempt, whose number is the
// delivery's: see [retryqueue.Delivery.Handle]. Done is called after the server has been
// told, and has a reason for a dead message alone. So one gave_up is one dead message.
package retrynats
