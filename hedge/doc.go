// Package hedge starts a second attempt beside one that takes too long, and takes
// the first success. A retry cures failures; a hedge cures slowness:
//
//	var users hedge.Hedge // one for all calls of one kind to one dependency
//
//	user, err := hedge.Do(ctx, policy, &users, func(ctx context.Context) (User, error) {
//		return fetchUser(ctx, id)
//	})
//
// The zero [Hedge] measures how long calls take and gives every twentieth of them,
// the slow ones, a second attempt, for at most a twentieth more load. Use it only
// for an op that may run twice at the same time.
//
// A call goes like this:
//
//   - The first attempt runs on the caller's goroutine. If it ends before the
//     delay, that is all: success or failure, which is the retry policy's business.
//   - After the delay the second attempt starts, unless the caller's context has
//     ended, a server has asked for a pause, or a budget refuses it. See
//     [Summary].Refused.
//   - The first success is the call's result, and so is the first error that is
//     Permanent to the policy. The contexts of the other attempts end with the
//     cause [ErrLost], and their values are closed.
//   - After any other failure no further attempt starts; those that run are waited
//     for. If all fail the call returns one error that holds all of theirs.
//   - The call returns when all its attempts have. No goroutine is left.
//
// It is a decorator of op: to [retry.Do] a race of attempts is one attempt. So
// hooks and the retry policy see one attempt after the other, as always.
package hedge
