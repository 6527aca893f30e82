package failover

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
)

// Target is one of the places that can do a call. Use it by pointer, share it among all calls, and do
// not copy it after the first use: it knows how its attempts went. It may be in several Sets, in another
// order, for other kinds of calls or for a session that should stay where it began. Set its fields
// before the first use. It is safe for concurrent use.
type Target[V any] struct {
	// Name names the target in errors, logs and spans: give a key a name, and never the key. The
	// errors of an unnamed one are as op returns them.
	Name string

	// Value is for op: a model, a base URL, a client, a *sql.DB.
	Value V

	// Guards admit attempts at this target, after Policy.Guards: its pace, its limit, its
	// circuit breaker. They are left when op returns, also if it returns a stream. Nil ones admit all.
	Guards []retry.Guard

	// Timeout is the deadline of each attempt at this target, in place of Policy.AttemptTimeout.
	// Zero or less means Policy.AttemptTimeout. If that is zero too, a target that hangs takes all
	// the time that callers have, three times until it rests. If targets differ in this,
	// Policy.Guards are told the longest, and of a shorter one that it has returned a TimedOut error.
	Timeout time.Duration

	state state
}

// Hold has all runs leave the target alone for d, as if its server had asked for that: for a
// maintenance, or because a health check says so. A longer rest stays. Zero or less ends all
// rests: runs that wait for the end of one still do, and others use the target again.
//
// Time is that of the policy with which the target was used last, and before that the system's.
func (t *Target[V]) Hold(d time.Duration) { t.state.hold(d) }

// Resting returns how much longer the target rests, or its server has asked to be left alone. 0: it does
// not rest. It may be used sooner: see the package documentation.
func (t *Target[V]) Resting() time.Duration { return t.state.resting() }

// Set is the targets of one kind of calls. Make one for all calls, not one for each. To change the
// targets make a new Set of the same *Targets: what is known about them stays. Do not change a Set
// that is in use. Its funcs must be safe for concurrent use.
type Set[V any] struct {
	Targets []*Target[V] // in the order of preference, each once; nil ones are passed over

	// Failures is how many failures in a row have a target rest. An answer in between, be it a
	// success, a permanent error or one that Elsewhere knows, starts over. Zero or less means three.
	Failures int

	// Rest is how long a target rests: Delay of 1 for its first rest, of 2 for the next, and so on
	// until it is well again. It must not use the target. Nil means half of 2s, 4s, 8s, … 1m, and as
	// much again by chance.
	Rest retry.Backoff

	// Elsewhere reports whether another target may do what this one cannot: a prompt that is
	// too long for this model, or that its filter refuses. The target is not to blame. The
	// run does not ask it again. Report true only if it has done nothing: the call is made elsewhere
	// also if it must not run twice. Nil means that a permanent error ends the run. It does not get
	// what Stop, Answer or Refuse have marked.
	Elsewhere func(error) bool

	// Broken is as Elsewhere, for an error that says that the target is of no use to any call: its key
	// is revoked, its credit is used up, its model is gone. Then it rests at once. Broken is asked first.
	Broken func(error) bool
}

// Do calls op as [retry.Do] does, each time with the target that is next, and returns the last value of
// op. The error of an attempt begins with the name of its target. Without a target Do returns an error.
// It panics if ctx, s or op is nil.
func Do[V, T any](ctx context.Context, p retry.Policy, s *Set[V], op func(context.Context, *Target[V]) (T, error)) (value T, err error) {
	if s == nil || op == nil {
		panic("failover: nil Set or op")
	}
	r := &targets{rules: rules{s.Failures, s.Rest, s.Elsewhere, s.Broken}}
	r.places = r.fewPlaces[:0]
	for i, t := range s.Targets {
		if t != nil {
			r.places = append(r.places, place{index: i, name: &t.Name, guards: t.Guards, timeout: t.Timeout, state: &t.state})
		}
	}
	a := r.begin(ctx, p)
	defer r.giveBack(retry.Exit{}) // if a guard panics while r enters it
	defer a.Close()
	for a.Next() {
		value, err = attempt(r, a.Context(), s.Targets[r.here().index], op)
		if err == nil {
			a.Done(nil)
		} else {
			a.Judged(r.found)
		}
	}
	return value, a.Err()
}

// attempt makes the attempt that r has chosen, and judges its error.
func attempt[V, T any](r *targets, ctx context.Context, t *Target[V], op func(context.Context, *Target[V]) (T, error)) (value T, err error) {
	ctx, cancel := r.context(ctx)
	if cancel != nil {
		defer cancel()
	}
	if value, err = op(ctx, t); err != nil {
		r.judge(ctx, err)
	}
	return value, err
}

type nameKey struct{}

// Name returns the name of the target of an attempt, given its context, or of the latest one, given that
// of a hook. It is "" before the first attempt and outside of Do.
func Name(ctx context.Context) string {
	switch n := ctx.Value(nameKey{}).(type) {
	case *string:
		return *n
	case *atomic.Pointer[string]:
		if s := n.Load(); s != nil {
			return *s
		}
	}
	return ""
}
