// Package retrytest tests what a [retry.Policy] does to an operation, without
// waiting: on a virtual clock, with known random numbers, and with every event
// recorded.
//
//	h := retrytest.New(t, policy)
//	op := retrytest.Script(h,
//		retrytest.Fail[User](syscall.ECONNREFUSED),
//		retrytest.Fail[User](retry.After(errBusy, time.Second)),
//		retrytest.Return(User{Name: "ada"}).Taking(30*time.Millisecond),
//	)
//	user, err := retry.Do(t.Context(), h.Policy, op)
//	h.AssertDelays(100*time.Millisecond, 1200*time.Millisecond)
//	h.AssertReason(retry.ReasonNone)
//
// What the guards of the policy do has an assertion of its own, [Harness.AssertHeld].
// A failed assertion prints the run, attempt by attempt, in virtual time. A step that
// was not reached fails the test, too.
package retrytest
