package hedge

import (
	"context"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/internal/hedging"
)

// Never as [Hedge].Delay starts no hedges.
const Never time.Duration = -1

// Hedge says when a slow attempt gets a second one beside it, called a hedge. It measures the calls
// that share it: use one Hedge, by pointer, for all calls of one kind to one dependency. The zero
// value is ready. Set the fields before the first use, and do not copy it after. It is safe for
// concurrent use.
type Hedge struct {
	// Delay is how long an attempt runs alone. Zero means that it is measured. A negative Delay,
	// such as Never, means no hedges.
	Delay time.Duration

	// Quantile is the quantile of the calls' times that is measured as the delay. Zero, or a value
	// that is not in (0,1), means .95: every twentieth call is slower. Only calls that succeed, end
	// with [retry.ErrRejected] or a [retry.Answer], or are slower than the delay, are counted.
	Quantile float64

	// MinDelay and MaxDelay limit the measured delay. Until a first call has succeeded, the delay
	// is MaxDelay. If they are zero or negative, they mean 1 ms and 10 s. A MaxDelay below MinDelay
	// counts as MinDelay.
	MinDelay, MaxDelay time.Duration

	// MaxInFlight is how many attempts one call has at a time, including the first. Zero means 2.
	// One, or a negative number, means no hedges. With 3 or more, another hedge may start each time
	// that the delay has passed again.
	MaxInFlight int

	// Budget limits the hedges of all calls that share it. Nil means a budget of this Hedge's own:
	// budget.Ratio{Ratio: .05}. It grants nothing with time, so hedges add at most about a
	// twentieth to the load, whatever the number of processes. A process with few calls gets a
	// hedge at once, and then one for each 20 calls that succeed without a hedge, or end with
	// retry.ErrRejected.
	//
	// Here a hedge never earns its cost back. A retry.EarnedBudget grants a hedge for twenty calls
	// that succeed without one, a budget.Token{} for 14. But in each process these start with four
	// and 35 hedges, which in a thousand processes is enough to overload a server.
	Budget retry.Budget

	// Hedged is called for each call that was still running at its delay, after all attempts have
	// ended. It runs on the caller's goroutine, with the caller's context. Nil is skipped.
	Hedged func(ctx context.Context, s Summary)

	shared hedging.Shared
}

// Summary is what [Hedge].Hedged gets about a call.
type Summary struct {
	Name    string // the policy's
	Started int    // attempts, including the first
	Winner  int    // the number of the attempt that succeeded first, from 1; 0 if none did, or after a Permanent error or a panic

	// Refused is the first reason why a hedge was not started, nil if there was none. It holds the
	// guard's error if one of Policy.Guards refused the hedge, or told it to wait. Its method
	// ErrorType returns hedge.guard then; hedge.pushback if a server's hint asked for a pause, of
	// which at most an hour counts, and it is not over; hedge.budget if Hedge.Budget refused;
	// hedge.policy_budget if Policy.Budget did; or hedge.failed if an attempt failed after the
	// delay, while another ran.
	Refused error

	Delay time.Duration // after which the call was hedged
}

// Wait returns how long a call that starts now runs alone: Delay, or the measured delay. For a nil
// Hedge it returns Never.
func (h *Hedge) Wait() time.Duration {
	if h == nil {
		return Never
	}
	rules := h.rules()
	return rules.Wait()
}

// rules returns h with a meaning for each zero.
func (h *Hedge) rules() hedging.Rules {
	return hedging.Rules{
		Delay:       h.Delay,
		Quantile:    h.Quantile,
		MinDelay:    h.MinDelay,
		MaxDelay:    h.MaxDelay,
		MaxInFlight: h.MaxInFlight,
		Budget:      h.Budget,
		Shared:      &h.shared,
	}.Resolve()
}

// Number returns the number of the attempt of a hedged call that ctx belongs to: 1 for the first, 2
// for the first hedge, and 1 outside of any. If hedged calls are nested, the innermost counts. With
// it op can send a hedge to another replica.
func Number(ctx context.Context) int {
	if a, ok := ctx.Value(numberKey{}).(interface{ attemptNumber() int }); ok {
		return a.attemptNumber()
	}
	return 1
}

type numberKey struct{}

// Do must not return an *http.Response or *sql.Rows, which are dead by then: use [DoValue] with
// Value.Hold and no Policy.AttemptTimeout, or retryhttp.Transport.Hedge. The contexts that op gets
// end before Do returns, unless h starts no hedges: then op gets the run's.
//
// Do is [retry.Do] with hedged attempts: each attempt of the run is a race, see [Race]. All values
// but the one that Do returns are closed as Value.Discard says: those that lose, one beside an
// error that a retry follows, and the one that wins if a hook or another func of the policy panics
// after that. Do panics if ctx or op is nil, or if Race does.
func Do[T any](ctx context.Context, p retry.Policy, h *Hedge, op func(context.Context) (T, error)) (T, error) {
	return DoValue(ctx, p, h, op, Value[T]{})
}

// DoValue is [Do] for values that are treated as v says.
func DoValue[T any](ctx context.Context, p retry.Policy, h *Hedge, op func(context.Context) (T, error), v Value[T]) (T, error) {
	if op == nil {
		panic("hedge: nil op")
	}
	hedged := h.hedges(&p)
	var latest owned[T]
	defer latest.drop(&v)
	attempt := func(ctx context.Context) (T, error) {
		latest.drop(&v)
		if hedged {
			latest.value, latest.err = newRace(ctx, &p, h, op, v).result()
		} else {
			latest.value, latest.err = op(ctx)
		}
		latest.has = true
		return latest.value, latest.err
	}
	if !hedged || len(p.Guards) == 0 { // without an Attempts, which costs an allocation
		value, err := retry.Do(ctx, p, attempt)
		latest.has = false
		return value, err
	}
	a := p.Attempts(ctx)
	defer a.Close()
	v.Take = a.Hold
	for a.Next() {
		_, err := attempt(a.Context())
		a.Done(err)
	}
	latest.has = false
	return latest.value, a.Err()
}

// owned is what an attempt has come to. Its value has to be discarded unless the call returns it.
type owned[T any] struct {
	value T
	err   error
	has   bool
}

// drop discards the value.
func (o *owned[T]) drop(v *Value[T]) {
	if o.has {
		o.has = false
		v.discard(o.value, o.err)
	}
}

// Race makes one attempt of a run as a race of copies. It is for code that makes the attempts of
// others, such as package retryhttp: everybody else calls [Do]. p is the run's policy, whose guards
// have admitted the attempt: each hedge enters them too, and does not wait. With Value.Take the
// guards get what each copy has come to, when it has ended. Without it they get that of the hedges,
// and the run tells them what the race has come to as if that was the first copy. If an error of op
// has a method Verdict() retry.Verdict, they get that; the zero Verdict says that the copy has come
// to an answer.
//
// Race just calls op if the policy is NonIdempotent, or if h starts no hedges: it is nil, its Delay
// is negative, or its MaxInFlight is 1 or negative.
//
// If the caller's deadline is not after the delay, the call needs no timer. A panic or
// runtime.Goexit in the first attempt passes through when the others have ended. A panic or Goexit
// in a hedge is repeated on the caller's goroutine, a panic as an error with its text and the
// hedge's stack, which wraps the value if that is an error. If a budget, a guard, Hedged, Discard
// or Hold panics when the attempts have ended, every value is discarded and every context ended.
//
// Race panics if ctx or op is nil. It also panics if the policy's Clock is a *clockx.Virtual, whose
// time does not move while a goroutine waits for op: test with testing/synctest, or with Never.
func Race[T any](ctx context.Context, p retry.Policy, h *Hedge, op func(context.Context) (T, error), v Value[T]) (T, error) {
	if ctx == nil {
		panic("hedge: nil context")
	}
	if op == nil {
		panic("hedge: nil op")
	}
	if !h.hedges(&p) {
		return op(ctx)
	}
	return newRace(ctx, &p, h, op, v).result()
}

// hedges reports whether an op may get a hedge.
func (h *Hedge) hedges(p *retry.Policy) bool {
	if p.NonIdempotent || h == nil || h.Delay < 0 || h.MaxInFlight == 1 || h.MaxInFlight < 0 {
		return false
	}
	if _, ok := p.Clock.(*clockx.Virtual); ok {
		panic("hedge: Policy.Clock is a *clockx.Virtual, on which no delay passes while op runs: use the system's clock in testing/synctest, or Delay: hedge.Never")
	}
	return true
}
