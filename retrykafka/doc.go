// Package retrykafka retries records of Kafka by a [retry.Policy], with the client
// github.com/twmb/franz-go, so that retries survive a restart of the consumer and of a broker:
//
//	handler := &retrykafka.Handler{
//		Policy: retry.Policy{Name: "send", MaxAttempts: 12, Backoff: retry.Exponential{Base: time.Second, Max: time.Hour}},
//		Handle: func(ctx context.Context, r *kgo.Record) error { return send(ctx, r.Value) },
//		Waits:  []retrykafka.Wait{{Topic: "send-10s", Delay: 10 * time.Second}, {Topic: "send-1m", Delay: time.Minute}, {Topic: "send-10m", Delay: 10 * time.Minute}},
//		Dead:   "send-dead",
//		Report: func(err error) { slog.Warn("kafka", "error", err) },
//	}
//	client, err := kgo.NewClient(append(handler.Options("orders"), kgo.ConsumerGroup("send"), kgo.SeedBrokers("kafka:9092"))...)
//	...
//	err = handler.Run(ctx, client) // until ctx ends
//	client.CloseAllowingRebalance()
//
// Kafka neither counts deliveries nor delays records. This package does, in topics and offsets alone,
// so a record may go to another process each time. Package retryqueue decides.
//
// # The rules of a delivery
//
//  1. Each partition has a worker, which handles its records one by one.
//  2. A record that failed and is to be retried goes to a wait topic, and its offset is committed. It
//     blocks no other. Records with the same key may overtake it. Without Waits it waits in its
//     place, and all behind it in its partition wait too. That keeps the order.
//  3. A record waits in the last topic of Waits that is not longer than its wait, and goes on
//     when that is over, by as many copies as that takes. So a wait may have any length.
//  4. A record that is dead goes to the topic Dead, with the reason, and its offset is committed.
//  5. What cannot be written or committed is tried again until ctx ends, and holds up its partition
//     only. Report gets the errors.
//  6. Offsets are committed at once after 2 and 4, and otherwise after 100 records or five seconds, and
//     in an orderly end, which is a rebalance or the end of ctx. A crash repeats what was not.
//  7. A crash counts as a delivery. The first record after an assignment, the first 100 after a
//     crash, and each that has waited in its place are noted, in the metadata of the offset,
//     before Handle runs. So a record that ends its process is dead after MaxAttempts starts, one
//     more at most, with [retryqueue.ErrCrashed]. An orderly end does not count.
//  8. A panic in Handle ends the process, as in any goroutine. Before that, for at most five seconds,
//     the record is passed on with the policy's delay, or is dead. A policy without MaxAttempts
//     delivers such a record five times at most.
//  9. "Not yet", an error that is or wraps [retry.ErrRejected], is not counted.
//
// # What a handler must know
//
// A record may run again although it was done. When a process is killed, nothing is lost, and doubled is:
//
//   - of each partition what has succeeded since its last commit, at most 100 records: they run again;
//   - a record that failed, if the kill comes between its copy and the commit: it has two copies from
//     there on, and maybe two dead letters, with the same retry-origin;
//   - a dead letter, if the kill comes between it and the commit.
//
// So Handle must be idempotent. Topic, partition and offset of the record that it gets make a key,
// because it gets each as it was published. The number of the delivery is that of the attempt in Hooks;
// [retry.AttemptNumber] counts the attempts of this process, and is 1 in Handle.
//
// A handler that hangs holds up its partition: set Policy.AttemptTimeout. One that ignores the end of
// its context delays a rebalance, up to the group's rebalance timeout. After that its records run
// elsewhere too.
//
// # What topics and clients must be
//
// [Handler.Check], which Run calls first, returns what is wrong. It does not know the following.
//
//   - The wait topics belong to one consumer group. Before you remove one from Waits, let it run empty.
//   - Their retention, also by size, must exceed the delay and the time for which no consumer runs.
//     The lag of a wait topic is what waits there: no trouble.
//   - Copies have headers, of 1.5 KiB at most. Let max.message.bytes of the wait and
//     dead-letter topics, and [kgo.ProducerBatchMaxBytes], exceed the largest record by that. A dead
//     letter that is too large is written without its error. A copy that is too large is tried until
//     there is space for it.
//   - Replication must keep what is acknowledged: min.insync.replicas of two or more.
//   - An option after those of Options that sets OnPartitionsRevoked or OnPartitionsLost replaces what
//     ends handlers and commits offsets. To see these events use [kgo.WithHooks] or a kgo.Logger.
//   - The age of a record is the difference of two clocks, its producer's and this machine's.
//
// # Headers
//
// Copies have the record's key, value and headers, and retry-number, retry-first, retry-due and
// retry-origin. Dead letters have retry-reason and retry-error too. These six are read from
// wait topics only, and dropped elsewhere. So a dead letter that is published once more starts anew.
//
// # Telemetry
//
// To Policy.Hooks each delivery is a run of one attempt, whose number is the delivery's: see
// [retryqueue.Delivery.Handle]. Done is called after the copy is stored and the offset committed. For
// a record that will be delivered again, it has ReasonNone and no error. For a dead record it has the
// reason. So one gave_up is one dead record.
//
// While a copy or a commit cannot be written its run goes on: the gauge of active runs shows it, as it
// shows a handler that hangs. Requests and lag are the client's: see its plugins kotel and kprom.
//
// # What it does not do
//
// Transactions, share groups, batches of records for one call of Handle, and the retry topics of
// others. Exactly-once would take a transactional producer for each partition.
package retrykafka
