package retry

// May call: run.go, end.go, loop.go, verdict.go.

import (
	"context"
	"time"
)

// Attempts is a run whose attempts its caller makes:
//
//	a := policy.Attempts(ctx)
//	defer a.Close()
//	for a.Next() {
//		a.Done(try(a.Context()))
//	}
//	return a.Err()
//
// In all else it is a run of [Do]. Use it for an operation that is not one func, for work between
// an attempt and its retry, such as to drain a response, or if an error says less than you know:
// see Judged.
//
// The run begins with the first Next, which Untimed and Resumed must precede. It is over when Next
// or Done has returned false, after a panic in a func of the policy, and at the latest with Close,
// which also makes the calls of hooks and budget that are owed after a panic of the caller. Done,
// Judged and Hold panic if no attempt is underway, and all if a func of the policy calls them. An
// Attempts is not safe for concurrent use.
type Attempts struct {
	policy Policy
	run    run
	due    bool // an attempt is to follow, and Next has not waited for it
	busy   bool // a method that calls funcs of the policy is underway
}

// Attempts returns a run that has not begun. It panics if ctx is nil.
func (p Policy) Attempts(ctx context.Context) *Attempts {
	if ctx == nil {
		panic("retry: nil context")
	}
	return &Attempts{policy: p, run: run{caller: ctx, ctx: ctx}}
}

// Untimed leaves Policy.AttemptTimeout to the caller: the contexts of attempts do not end with it,
// nor with Done. Use it for attempts that others go on using, such as a stream. The caller gives a
// timeout by a Verdict with the class TimedOut.
func (a *Attempts) Untimed() { a.run.untimed = true }

// Resumed says that the first attempt was made before the run, and that its guards know how it has
// ended. So Next asks no guard for it, and the caller says by Done how it has failed, such as by a
// body that broke off.
func (a *Attempts) Resumed() { a.run.resumed = true }

// Next waits until the next attempt is due, counted from Done, and reports whether to make it. If
// not, the run is over, and Err says why. Next panics if the attempt before has not come to Done.
func (a *Attempts) Next() bool {
	switch a.run.phase {
	case attempting:
		panic("retry: Next without Done")
	case over:
		return false
	}
	a.enter()
	defer a.exit()
	announced := a.next()
	a.busy = false
	return announced
}

func (a *Attempts) next() bool {
	r, p := &a.run, &a.policy
	var slept error
	if a.due {
		a.due = false
		slept = a.sleep()
	}
	for !r.startAttempt(p, slept) {
		if r.phase == over {
			return false
		}
		slept = a.sleep()
	}
	return true
}

// sleep sleeps for what is left of the wait.
func (a *Attempts) sleep() error { return a.run.sleepFor(&a.policy, a.run.left(&a.policy)) }

// enter begins a method that calls funcs of the policy. None of these may call such a method.
func (a *Attempts) enter() {
	if a.busy {
		panic("retry: Attempts called by a func of its policy")
	}
	a.busy = true
}

// exit ends such a method. If a panic or Goexit passes through it, the run is over too, whoever
// recovers that.
func (a *Attempts) exit() {
	if a.busy {
		a.busy = false
		a.Close()
	}
}

// Context returns the context of the attempt that Next has announced: what Do would
// hand to op. Before the first attempt it is the caller's.
func (a *Attempts) Context() context.Context {
	if a.run.opCtx == nil {
		return a.run.ctx
	}
	return a.run.opCtx
}

// RunContext returns the context of the run: the caller's, or that of Hooks.Start.
func (a *Attempts) RunContext() context.Context { return a.run.ctx }

// Number returns the number of the latest attempt, 0 before the first.
func (a *Attempts) Number() int { return a.run.number }

// Done says that the attempt has ended with err, nil for a success, and reports whether another
// one is to follow. The wait before that one begins now, but Done does not sleep: the caller can
// first free what the attempt holds. Done(err) is Judged(policy.Judge(err)), but nobody judges err
// once the caller's context has ended.
func (a *Attempts) Done(err error) (again bool) { return a.settle(err, nil) }

// Judged is Done for a caller that knows what the error means: Policy.Classify is not called, and
// no mark in v.Err counts. The limits of the policy and its budget decide as always. If the
// caller's context has ended, v only says what the last error was, and what the attempt did. A
// Transient verdict becomes TimedOut if the attempt's own deadline has passed. Judged panics if v
// is not zero but has no Err.
func (a *Attempts) Judged(v Verdict) (again bool) {
	if v == (Verdict{}) {
		return a.settle(nil, nil)
	}
	given := v.checked() // on the heap: v is not, so that a success allocates nothing
	return a.settle(given.Err, &given)
}

func (a *Attempts) settle(err error, given *Verdict) bool {
	if a.run.phase != attempting {
		panic("retry: Done without Next")
	}
	a.enter()
	defer a.exit()
	a.due = a.run.settle(&a.policy, err, given)
	a.busy = false
	return a.due
}

// Hold keeps what the policy's guards have admitted beyond Done, for an attempt that goes on: a
// response with a body, a stream. Call leave when it has ended, with its Ending and Verdict: the
// Exit's times are those up to Hold. A second call does nothing. leave is safe for concurrent use.
func (a *Attempts) Hold() (leave func(Exit)) {
	if a.run.phase != attempting {
		panic("retry: Hold without Next")
	}
	return a.run.takePasses(&a.policy)
}

// Delay returns the wait before the attempt that Done has announced, counted from Done. If only
// the budget refused that attempt, it is the wait that would have come. Else it is 0.
func (a *Attempts) Delay() time.Duration {
	if a.due || a.run.refusedByBudget() {
		return a.run.wait
	}
	return 0
}

// Cancel ends the run between two attempts, or before the first, with [ReasonCanceled] and the
// cause. A nil cause is [context.Canceled]. Cancel does nothing at any other time: an attempt
// underway has its context. A run that has not begun ends without a call of hooks or budget.
func (a *Attempts) Cancel(cause error) {
	if a.busy || a.run.phase == over {
		return
	}
	if cause == nil {
		cause = context.Canceled
	}
	a.enter()
	defer a.exit()
	a.cancel(cause)
	a.busy = false
}

func (a *Attempts) cancel(cause error) {
	switch {
	case a.due:
		a.due = false
		a.run.cancel(&a.policy, cause)
	case a.run.phase == unbegun:
		a.run.phase = over
		a.run.err = &Error{Name: a.policy.Name, Reason: ReasonCanceled, InWait: true, Undone: true, Cause: cause}
	}
}

// Close ends the run if it is not over: by Cancel(nil), or, with an attempt underway, with
// [ReasonPanic], since a panic is what usually keeps it from Done. It may be called more than
// once.
func (a *Attempts) Close() {
	if a.run.phase == over {
		return
	}
	a.enter()
	defer a.run.close(&a.policy) // also if the clock panics in cancel
	a.cancel(context.Canceled)
}

// Err returns the *[Error] of a run that has given up, else nil.
func (a *Attempts) Err() error { return a.run.result() }
