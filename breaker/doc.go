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
// If attempts fail at random and a third of them does, it opens less than once in a million
// windows of ten seconds. If more than nine tenths fail, it takes the rest too: callers that would
// have succeeded at their eleventh attempt do not.
package breaker
