// Package limit limits the attempts in flight to one dependency, and finds out how
// many it can take:
//
//	var users limit.Limit // one for all calls to one dependency
//
//	user, err := retry.Do(ctx, policy, limit.Op(&users, policy, fetchUser))
//
// It ends outages that a retry budget cannot end, in which the wait in the server's
// queue is longer than the clients' timeout. Then every answer comes too late, even
// the answers to first attempts. Fewer calls in flight make the queue shorter.
//
// A [Limit] has a number of places, and each attempt in flight takes one. An attempt
// that finds none free fails at once with [ErrLimited], which the policy may retry.
//
// Successes add places while at least half of them are in use, or while there are fewer
// than at the start: about one while as many attempts succeed as there are places. Each
// sign of an overload takes some away: a Throttled error, or a timeout if more than a
// quarter of the recent attempts have timed out. A few timeouts among many answers say
// nothing about the load: answers get lost, and one of ten replicas dies. If everything
// in flight times out at once, only half of the places go, because this is one event,
// whether it ends five attempts or five hundred. TCP treats the loss of many packets of
// one round in the same way (RFC 5681).
// A single overload among n attempts takes 1/2n of the places, as DCTCP does for one
// marked packet of n (RFC 8257). Errors of other kinds say nothing about the load and
// do not change the number.
//
// Two consequences:
//
//   - If a fraction p of the attempts is throttled for reasons other than the load, the
//     number of places settles at about 2/p: 200 if one in a hundred is. The same goes
//     for timeouts if p is above a quarter. If a process needs more places than that,
//     calls are refused, unless Min allows them.
//   - Each process has at least Min places. N processes together may always have
//     N × Min attempts in flight, however overloaded the server is.
package limit
