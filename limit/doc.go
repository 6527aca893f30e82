// Package limit bounds the attempts in flight to one dependency, and finds the
// bound itself:
//
//	var users limit.Limit // one for all calls to one dependency
//
//	user, err := retry.Do(ctx, policy, limit.Op(&users, policy, fetchUser))
//
// It ends outages that a retry budget cannot: those in which the server's queue
// is longer than the clients' timeout, so that every answer comes too late, also
// the answers to first attempts. Fewer calls in flight make the queue shorter. An
// attempt over the bound fails at once with [ErrLimited], which the policy may
// retry.
//
// The bound grows with successes while it is in use, and falls by a tenth with each
// sign of an overload: a Throttled error or a timeout. Errors of other kinds say
// nothing about the load and do not change it.
package limit
