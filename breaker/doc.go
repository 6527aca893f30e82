// Package breaker stops calling a dependency that is down, and tries it now and then:
//
//	var users breaker.Breaker // one for all calls to one dependency
//
//	policy.Guards = []retry.Guard{&users}
//	user, err := retry.Do(ctx, policy, fetchUser)
//
// A [Breaker] is closed at first, and admits all attempts. It opens when nine tenths of those that
// have ended in the last ten seconds have failed, and that is at least twenty. Then it refuses
// attempts, with [ErrOpen], for a second. After that it is half-open: it admits one attempt at a
// time. The first that succeeds closes it. One that fails opens it again, for twice as long, up to
// a minute.
//
// It is for a dependency that fails as a whole: callers need not wait for its timeouts, and while
// it recovers it gets one call of each process instead of all of them. Where one of several
// replicas or tenants can fail alone, have a Breaker for each ([retry.PerKey]), or none. If calls
// can be made elsewhere, see [github.com/goretry/retry/failover].
//
// # Whom it can harm
//
// Callers whose attempts fail at random, if most do. Of 33, 50 and 67 % it takes nothing. If 80 %
// fail, 78 % of two calls per second are lost, and 51 % without it; if 90 % fail, 99 and 73 %
// (RETRY_LONG=1 go test -v -run TestPrice ./breaker). If a third fails, less than one attempt in a
// million opens it, at any rate (-run TestThirdFails).
//
// It also prolongs an outage: the last wait ends later. In a minute in which all attempts time out
// after 5 s, and in those next to it, 1401 of 3600 calls are lost, and 987 without it. The
// dependency gets 300 attempts in that minute, and 3263 without it.
package breaker
