package retrynats

import (
	"context"
	"errors"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/internal/engine"
	"github.com/goretry/retry/retryqueue"
	"github.com/nats-io/nats.go/jetstream"
)

var errPanic = errors.New("retrynats: panic or runtime.Goexit during the delivery")

// run is a delivery as hooks see it: a run of one attempt, whose number is the
// delivery's.
type run struct {
	policy  retry.Policy
	clock   clockx.Clock
	ctx     context.Context // Consume's, or what Hooks.Start returned
	attempt context.Context // Handle's
	told    retry.Attempt   // so far
	start   time.Time
	open    bool // Hooks.Done is still to be called
	running bool // Hooks.AttemptDone is still to be called
}

func start(ctx context.Context, p retry.Policy, number int) *run {
	r := &run{policy: p, clock: p.Clock, ctx: ctx, told: retry.Attempt{Name: p.Name, Number: number}}
	if r.clock == nil {
		r.clock = clockx.System()
	}
	r.start = r.clock.Now()
	if p.Hooks.Start != nil {
		r.ctx = either(p.Hooks.Start(ctx, p), ctx)
	}
	r.open = true
	return r
}

// handle makes the attempt.
func (r *run) handle(handle func(context.Context, jetstream.Msg) error, msg jetstream.Msg) error {
	r.told.Start = r.clock.Now()
	r.told.Elapsed = r.told.Start.Sub(r.start)
	r.attempt = retry.WithAttemptNumber(r.ctx, r.told.Number)
	if r.policy.Hooks.Attempt != nil {
		r.attempt = either(r.policy.Hooks.Attempt(r.attempt, r.told), r.attempt)
	}
	r.running = true
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	if r.policy.AttemptTimeout <= 0 {
		return handle(r.attempt, msg)
	}
	ctx, cancel := r.clock.WithTimeoutCause(r.attempt, r.policy.AttemptTimeout, retry.ErrAttemptTimeout)
	defer cancel()
	err := handle(ctx, msg)
	if cause := context.Cause(ctx); cause == retry.ErrAttemptTimeout || cause == nil && engine.Left(ctx, r.clock) <= 0 {
		r.policy.Classify = orTimedOut(r.policy)
	}
	return err
}

// orTimedOut returns p's classifier for an attempt whose own deadline has passed: as
// in a run, Transient becomes TimedOut.
func orTimedOut(p retry.Policy) retry.Classifier {
	return func(err error) retry.Class {
		class := p.Judge(err).Class
		if class == retry.Transient {
			return retry.TimedOut
		}
		return class
	}
}

// handled reports Handle's error and the decision to the hooks. back says that the
// message is handed back because the context has ended, whatever the error means.
func (r *run) handled(err error, d retryqueue.Decision, back bool) {
	r.told.Err = bare(err)
	if err != nil && !back {
		v := r.policy.Judge(err)
		r.told.Class, r.told.Hint = v.Class, v.Hint
		r.told.Delay = d.Delay
	}
	r.attemptDone()
	if d.Action == retryqueue.Retry && r.policy.Hooks.Wait != nil {
		r.policy.Hooks.Wait(r.ctx, r.told)
	}
}

func (r *run) attemptDone() {
	r.running = false
	now := r.clock.Now()
	r.told.Duration, r.told.Elapsed = now.Sub(r.told.Start), now.Sub(r.start)
	if r.policy.Hooks.AttemptDone != nil {
		r.policy.Hooks.AttemptDone(r.attempt, r.told)
	}
}

// done ends the run: with nil if the message is done or will be delivered again.
func (r *run) done(e *retry.Error) {
	r.open = false
	if r.policy.Hooks.Done == nil {
		return
	}
	s := retry.Summary{Name: r.policy.Name, Attempts: r.told.Number, Elapsed: r.clock.Now().Sub(r.start)}
	if e != nil {
		s.Attempts, s.Reason, s.Err = e.Attempts, e.Reason, e
	}
	r.policy.Hooks.Done(r.ctx, s)
}

// close makes the calls that a panic or Goexit has skipped.
func (r *run) close() {
	if !r.open {
		return
	}
	e := &retry.Error{Name: r.policy.Name, Reason: retry.ReasonPanic, Attempts: r.told.Number, Elapsed: r.clock.Now().Sub(r.start), Errs: []error{errPanic}}
	defer r.done(e)
	if r.running {
		r.told.Err = errPanic
		r.attemptDone()
	}
}

// bare returns err without an outermost mark of Stop or After, as a run reports it.
func bare(err error) error {
	if err == nil {
		return nil
	}
	loop := retry.Policy{}.Start(time.Time{})
	loop.Next(time.Time{}, retry.Stop(err))
	e, _ := errors.AsType[*retry.Error](loop.Err())
	return e.Last()
}

// either returns what a hook returned, or the context it was given.
func either(returned, given context.Context) context.Context {
	if returned == nil {
		return given
	}
	return returned
}
