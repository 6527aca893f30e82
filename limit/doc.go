// Package limit limits the attempts in flight to one dependency: to a number, by [Limit], or to
// what it finds out that the dependency can take:
//
//	var users limit.Adaptive // one for all calls to one dependency
//
//	policy.AttemptTimeout = time.Second // or a deadline of ctx
//	policy.Guards = []retry.Guard{&users}
//	user, err := retry.Do(ctx, policy, fetchUser)
//
// It ends outages that a retry budget cannot end, in which the wait in the server's
// queue is longer than the clients' timeout. Then every answer comes too late, even
// the answers to first attempts. Fewer calls in flight make the queue shorter.
// It compares attempts with their deadline: without one, only a Throttled error, or one that says
// it timed out, makes it smaller.
//
// An [Adaptive] has a number of places, and each attempt in flight takes one. An attempt
// that finds none free is refused at once with [ErrLimited], and the run tries again after
// its backoff. Such a refusal is no attempt, and takes nothing from a budget: see
// [retry.Guard]. Set Start to what one process has in flight at its peak, its attempts per
// second times their duration in seconds, if that is more than 20. Otherwise attempts are
// refused until successes have added places.
//
// # How the number changes
//
// Successes add places while at least half of them are in use, or while there are fewer
// than at the start: about one while as many attempts succeed as there are places. Each
// sign of an overload takes some away: a Throttled error, or a timeout if more than a
// quarter of the recent attempts have timed out. A few timeouts among many answers say
// nothing about the load: answers get lost, and one of ten replicas dies. Nor do more of
// them, up to three quarters, if the answers come within half of the time that the attempts
// have, such as Policy.AttemptTimeout: one of two replicas hangs, and nothing waits in a
// queue of the other. An answer that comes in time, but takes longer than usual and a sixth
// of the attempt's time, counts as a timeout while more than half of the places are in use. So
// the queue stays short: under three times the load that a server can bear, it works all the
// time, and 99 % of the answers come within half of the timeout. If everything in flight times out at once, only half of the places
// go, because this is one event, whether it ends five attempts or five hundred. A single
// overload among n attempts takes 1/2n of the places. Permanent errors, such as a 404, are answers,
// and count like successes, except those that [retry.Refuse] marks. Other errors, such as a 503,
// say nothing about the load and do not change the number. Both rules are known from networks: TCP
// halves its window once for all packets lost in a round (RFC 5681), and DCTCP takes 1/2n
// of it for one marked packet of n (RFC 8257).
//
// Four consequences:
//
//   - If a fraction p of the attempts is throttled for reasons other than the load, the
//     number of places settles at about 2/p: 200 if one in a hundred is. The same goes
//     for timeouts if p is above a quarter, or three quarters if answers are prompt. If a
//     process needs more places than that, calls are refused, unless Min allows them.
//   - If answers become slower for another reason than the load, calls are refused until
//     the Limit has learned it, which takes some thirty answers, and then grown again. At 500
//     calls per second thirty processes lose an eighth of those in a minute in which a server
//     takes 600 ms in place of 100, with a timeout of a second.
//   - A server that takes waiting requests in random order answers some promptly even in an
//     overload, and these excuse timeouts. At 150 % load 54 of a hundred calls succeed, not 67
//     (retrysim try -discipline random -rate 300 -limit 20,1,1000 -outage 0). If it takes the oldest or the newest first, nothing is lost by this.
//   - Each process has at least Min places. N processes together may always have
//     N × Min attempts in flight, however overloaded the server is.
package limit
