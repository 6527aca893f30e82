// Package hedge starts a second attempt beside one that takes too long, and takes the first
// success. A retry is for failures, a hedge for slow responses:
//
//	var users hedge.Hedge // one for all calls of one kind to one dependency
//
//	user, err := hedge.Do(ctx, policy, &users, func(ctx context.Context) (User, error) {
//		return fetchUser(ctx, id)
//	})
//
// The zero [Hedge] measures how long calls take, and gives the slowest twentieth of them a second
// attempt, for about a twentieth more load. Use it only for an op that may run twice at the same
// time.
//
// A call goes like this:
//
//   - The first attempt runs on the caller's goroutine. If it ends before the delay,
//     the call ends with its success or failure, which the retry policy judges.
//   - After the delay the second attempt starts, unless the caller's context has
//     ended, a server has asked for a pause, one of Policy.Guards refuses it or tells it to
//     wait, or a budget refuses it. See [Summary].Refused.
//   - The first success is the call's result, and so is the first error that is
//     Permanent to the policy, unless a server refuses a retry by it ([retry.Refuse]).
//     The contexts of the other attempts end with the cause [ErrLost], and their values
//     are closed.
//   - After any other failure no further attempt starts, and the call waits for those
//     that run. If all fail, it returns one error that holds all of theirs. So a
//     refusal of any of them ends the run.
//   - The call returns when all its attempts have. No goroutine is left.
//
// To [retry.Do] a race of attempts is one attempt. So hooks and the retry policy see one attempt
// after the other, as without hedges. Guards are told what each copy came to.
package hedge
