// Package limit limits the attempts in flight to one dependency, and finds that limit
// itself. It calls this number the bound:
//
//	var users limit.Limit // one for all calls to one dependency
//
//	user, err := retry.Do(ctx, policy, limit.Op(&users, policy, fetchUser))
//
// It ends outages that a retry budget cannot end, in which the wait in the server's
// queue is longer than the clients' timeout. Then every answer comes too late, even
// the answers to first attempts. Fewer calls in flight make the queue shorter. An
// attempt over the bound fails at once with [ErrLimited], which the policy may retry.
//
// The bound grows with successes while it is in use, by about one place while as many
// attempts as it allows succeed. It falls with each sign of an overload: a Throttled
// error or a timeout. If everything in flight times out at once, the bound only
// halves, because this is one event, whether it ends five attempts or five hundred.
// TCP treats the loss of many packets of one round in the same way (RFC 5681). A
// single timeout among n attempts takes 1/2n of the bound, as DCTCP does for one
// marked packet of n (RFC 8257). Errors of other kinds say nothing about the load and
// do not change the bound.
//
// Two consequences:
//
//   - If a fraction p of the attempts times out for reasons other than the load, the
//     bound settles at about 2/p places: 200 if one answer in a hundred is lost. If a
//     process needs more places than that, calls are refused, unless Min allows them.
//   - Each process has at least Min places. N processes together never have fewer
//     than N × Min attempts in flight, however overloaded the server is.
package limit
