// Package retrybatch calls an API that takes many items at once, such as SQS,
// DynamoDB, Kinesis or Elasticsearch's bulk API. Such an API answers without an error
// although some of the items failed. [Do] and [Run] send only the failed items again,
// and report the outcome of each item.
//
//	err := retrybatch.Run(ctx, policy, orders, func(ctx context.Context, open []Order) error {
//		answer, err := client.Send(ctx, open)
//		if err != nil {
//			return err // none was sent
//		}
//		failed := map[int]error{}
//		for _, f := range answer.Failed {
//			failed[f.Position] = f.Err
//		}
//		return retrybatch.Partial(failed) // nil if none failed
//	})
//	if e, ok := errors.AsType[*retrybatch.Error](err); ok {
//		for _, f := range e.Failed {
//			deadLetter(orders[f.Index], f.Err)
//		}
//	}
//
// One Do is one run of [retry.Do], and one call of send is one attempt of it: with
// its policy, hooks, budget, clock and timeouts. Items have no runs of their own.
//
//   - Each item's error is judged as a run judges an error: by marks, hints,
//     Policy.Classify and [retry.DefaultClassifier]. A [retry.Permanent] error, one
//     that Policy.NonIdempotent forbids to repeat, and a wait above
//     Policy.MaxRetryAfter end the item. Its reason says so, and the others go on.
//   - All other items that failed are sent again, in the order of the input. The
//     policy decides for all of them together how long to wait, how often to call, and
//     when to stop. MaxAttempts counts calls. An item that is still open was in all of
//     them.
//   - An error that is not a [Partial] is the error of every item in the call. If only
//     Partials are joined, as by a hedge around send, an item is done if one of them says so.
//   - A Partial with a position that the call does not have, or another number of
//     values than items, can't be trusted, so every item in that call fails: as
//     Permanent, unless ctx has ended. No item is wrongly taken for done, and none is
//     sent twice.
//   - Marks around a Partial apply to each item in it: [retry.Stop], [retry.Answer] and
//     [retry.Refuse] end them all, [retry.After] makes those that are not Permanent
//     Throttled, and [retry.Undone] says that none of those that failed was processed.
//
// An API limits how many items a call takes. Call Do for each chunk:
//
//	for chunk := range slices.Chunk(records, 500) {
//		_, err := retrybatch.Do(ctx, policy, chunk, put)
//
// An item that is sent again arrives after the others. If the order matters, send one
// item per call.
package retrybatch
