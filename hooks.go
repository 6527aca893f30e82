package retry

// May call: loop.go, classifier.go, errors.go.

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/goretry/retry/internal/hint"
)

// Hooks are called when something happens in a run, on its goroutine, with the run's context or
// with that of the attempt. They decide nothing. Nil funcs are skipped. If Start returns, the run
// will call Done, and if Attempt returns, AttemptDone, even if op panics. A panic in a hook passes
// through to the caller. Hooks that are shared must be safe for concurrent use.
type Hooks struct {
	// Start is called once, before anything else: its time is no part of the run. It returns the
	// run's context, derived from ctx, from which all other contexts derive. Nil means ctx. When it
	// ends, so does the run.
	Start func(ctx context.Context, p Policy) context.Context

	// Attempt is called before each attempt, with Name, Number, Start and Elapsed set. It returns
	// the attempt's context, derived from ctx. Nil means ctx.
	Attempt func(ctx context.Context, a Attempt) context.Context

	// AttemptDone is called after each attempt, with the attempt's context and all fields set.
	AttemptDone func(ctx context.Context, a Attempt)

	// Wait is called before the wait that precedes a retry, even if that wait is zero. Before the
	// pause of [Supervise] it gets Number 0, and Err, Class and Hint of the attempt before.
	Wait func(ctx context.Context, a Attempt)

	// Guard is called before an attempt waits for one of Policy.Guards, once for each guard, even
	// if that is asked again; and when one refuses it, before the wait that follows or the end.
	Guard func(ctx context.Context, h Held)

	Done func(ctx context.Context, s Summary) // called once, last
}

// Attempt is what hooks get about one attempt.
type Attempt struct {
	Name     string        // the policy's
	Number   int           // 1 for the first; 0 in Wait before the pause of Supervise
	Start    time.Time     // on the policy's clock
	Duration time.Duration // from Start until op returned, including hooks called in between
	Elapsed  time.Duration // since the run began
	Err      error         // what op returned, without an outermost mark, or why op was not called; nil after a success
	Class    Class         // what Err means; Unknown after a success, or if the caller's context has ended
	Delay    time.Duration // the wait that is to follow, including Hint; 0 if no retry follows
	Hint     time.Duration // the wait the server asked for; 0 if none
	Now      bool          // the server asked for a retry at once, without backoff
	Answered bool          // Err is an Answer: no failure
	Reason   Reason        // why the run ends with this attempt; ReasonNone: it succeeded, or another one follows
}

// Summary is what hooks get about a run at its end.
type Summary struct {
	Name     string // the policy's
	Attempts int
	Elapsed  time.Duration // the whole run, on the policy's clock
	Waited   time.Duration // the part of it with no attempt running
	Reason   Reason        // ReasonNone after a success
	Err      error         // the *Error, nil after a success
	Answered bool          // Err holds an Answer: all but the caller count the run as a success
}

// timed reports whether a hook gets a time.
func (h *Hooks) timed() bool {
	return h.Attempt != nil || h.AttemptDone != nil || h.Wait != nil || h.Guard != nil || h.Done != nil
}

// JoinHooks calls several hooks for each event, in order. It calls Done and AttemptDone in reverse
// order, so that the first hooks enclose the others. If a Start or an Attempt panics, it calls
// Done or AttemptDone of the hooks before it, with [ReasonPanic], so that they can end what they
// started. If another hook panics, the others for that event are still called.
func JoinHooks(hs ...Hooks) Hooks {
	var all Hooks
	for _, h := range hs {
		all = Hooks{
			Start:       chain(all.Start, undone(h.Start, all.Done)),
			Attempt:     chain(all.Attempt, unmade(h.Attempt, all.AttemptDone)),
			AttemptDone: sequence(h.AttemptDone, all.AttemptDone),
			Wait:        sequence(all.Wait, h.Wait),
			Guard:       sequence(all.Guard, h.Guard),
			Done:        sequence(h.Done, all.Done),
		}
	}
	return all
}

// undone returns a Start that calls done, the Done of hooks before it, if start does
// not return.
func undone(start func(context.Context, Policy) context.Context, done func(context.Context, Summary)) func(context.Context, Policy) context.Context {
	if start == nil || done == nil {
		return start
	}
	return unless(start, func(ctx context.Context, p Policy) {
		done(ctx, Summary{Name: p.Name, Reason: ReasonPanic, Err: &Error{Name: p.Name, Reason: ReasonPanic, Cause: errPanic}})
	})
}

// unmade returns an Attempt that calls done, the AttemptDone of hooks before it, if
// attempt does not return.
func unmade(attempt func(context.Context, Attempt) context.Context, done func(context.Context, Attempt)) func(context.Context, Attempt) context.Context {
	if attempt == nil || done == nil {
		return attempt
	}
	return unless(attempt, func(ctx context.Context, a Attempt) {
		a.Err, a.Reason = errPanic, ReasonPanic
		done(ctx, a)
	})
}

// unless returns begin, followed by end if begin does not return.
func unless[E any](begin func(context.Context, E) context.Context, end func(context.Context, E)) func(context.Context, E) context.Context {
	return func(ctx context.Context, e E) context.Context {
		returned := false
		defer func() {
			if !returned { // a panic, or runtime.Goexit
				end(ctx, e)
			}
		}()
		begun := begin(ctx, e)
		returned = true
		return begun
	}
}

// chain passes the context that first returns to second.
func chain[E any](first, second func(context.Context, E) context.Context) func(context.Context, E) context.Context {
	if first == nil {
		return second
	}
	if second == nil {
		return first
	}
	return func(ctx context.Context, e E) context.Context {
		ctx = either(first(ctx, e), ctx)
		return either(second(ctx, e), ctx)
	}
}

// sequence calls second also if first does not return.
func sequence[E any](first, second func(context.Context, E)) func(context.Context, E) {
	if first == nil {
		return second
	}
	if second == nil {
		return first
	}
	return func(ctx context.Context, e E) {
		defer second(ctx, e)
		first(ctx, e)
	}
}

// either returns what a hook returned, or the context it was given.
func either(returned, given context.Context) context.Context {
	if returned == nil {
		return given
	}
	return returned
}

//go:noinline
func (r *run) startHook(p *Policy) {
	its := *p
	its.Guards = slices.Clone(its.Guards) // else a hook would change those of all runs
	r.ctx = either(p.Hooks.Start(r.ctx, its), r.ctx)
}

//go:noinline
func (r *run) attemptHook(p *Policy) {
	a := Attempt{Name: p.Name, Number: r.number, Start: r.start.Add(r.began), Elapsed: max(r.began, 0)}
	r.opCtx = either(p.Hooks.Attempt(r.opCtx, a), r.opCtx)
}

//go:noinline
func (r *run) attemptDoneHook(p *Policy, err error) {
	p.Hooks.AttemptDone(r.opCtx, r.describe(p, err))
}

//go:noinline
func (r *run) waitHook(p *Policy, err error) {
	p.Hooks.Wait(r.ctx, r.describe(p, err))
}

// guardHook completes h, which a guard has caused at the latest reading.
//
//go:noinline
func (r *run) guardHook(p *Policy, h Held) {
	h.Name, h.Number, h.Start, h.Elapsed = p.Name, r.number+1, r.start.Add(r.idle), max(r.idle, 0)
	p.Hooks.Guard(r.ctx, h)
}

//go:noinline
func (r *run) doneHook(p *Policy) {
	s := Summary{Name: p.Name, Attempts: r.attempts, Elapsed: max(r.idle, 0), Waited: r.waited, Err: r.result()}
	if r.err != nil {
		s.Reason, s.Answered = r.err.Reason, r.err.Answered
	}
	p.Hooks.Done(r.ctx, s)
}

// describe returns what hooks get about the attempt that ended with err.
func (r *run) describe(p *Policy, err error) Attempt {
	a := Attempt{
		Name: p.Name, Number: r.number, Start: r.start.Add(r.began),
		Duration: max(r.ended-r.began, 0), Elapsed: max(r.ended, 0), Err: unmarked(err), // the clock may have been set back
	}
	if err != nil {
		a.Class, a.Hint, a.Now, a.Answered = r.class, max(r.hint, 0), r.hint == hint.Now, r.answered
	}
	switch {
	case r.err != nil:
		a.Reason = r.err.Reason
	case a.Answered: // a queue has decided that
		a.Reason = ReasonPermanent
	case r.stage != decided:
		a.Delay = r.wait
	}
	return a
}

// SlogHooks logs runs to l, or to [slog.Default] as it is at the time if l is nil: at DEBUG each
// attempt with the wait that follows it, and each wait for a guard or refusal by one. A run that
// gives up is logged at WARN; at INFO if the error is [Permanent], which is often one caller's
// mistake; at DEBUG if the caller canceled. A success and an answer are not logged.
//
// Since a run may fail for long without giving up, as in [Supervise], its attempts 16, 32, 64 and
// so on are logged at WARN, if they failed and another one follows after a wait. A value that
// [Until] did not accept is no failure. Errors are logged as they are: net/http's show the query
// of a URL.
func SlogHooks(l *slog.Logger) Hooks {
	logger := func() *slog.Logger {
		if l == nil {
			return slog.Default()
		}
		return l
	}
	return Hooks{
		AttemptDone: func(ctx context.Context, a Attempt) {
			l, level, text := logger(), slog.LevelDebug, "attempt"
			if stillFailing(&a) {
				level, text = slog.LevelWarn, "still failing"
			}
			if !l.Enabled(ctx, level) {
				return
			}
			attrs := []slog.Attr{
				slog.String("name", a.Name),
				slog.Int("attempt", a.Number),
				slog.Duration("duration", a.Duration),
			}
			if a.Err != nil {
				attrs = append(attrs, slog.String("class", a.Class.String()), slog.Any("error", a.Err))
			}
			if a.Delay > 0 {
				attrs = append(attrs, slog.Duration("delay", a.Delay))
			}
			if a.Hint > 0 || a.Now {
				attrs = append(attrs, slog.Duration("hint", a.Hint))
			}
			l.LogAttrs(ctx, level, text, attrs...)
		},
		Guard: func(ctx context.Context, h Held) {
			l, text := logger(), "waiting for a guard"
			if h.Err != nil {
				text = "refused by a guard"
			}
			if !l.Enabled(ctx, slog.LevelDebug) {
				return
			}
			attrs := []slog.Attr{
				slog.String("name", h.Name),
				slog.Int("attempt", h.Number),
				slog.String("guard", h.Guard),
			}
			if h.Err != nil {
				attrs = append(attrs, slog.Any("error", h.Err))
			}
			if h.Delay > 0 {
				attrs = append(attrs, slog.Duration("delay", h.Delay))
			}
			l.LogAttrs(ctx, slog.LevelDebug, text, attrs...)
		},
		Done: func(ctx context.Context, s Summary) {
			if s.Err == nil || s.Answered {
				return
			}
			level := slog.LevelWarn
			switch s.Reason {
			case ReasonPermanent:
				level = slog.LevelInfo
			case ReasonCanceled:
				level = slog.LevelDebug
			}
			logger().LogAttrs(ctx, level, "gave up",
				slog.String("name", s.Name),
				slog.String("reason", s.Reason.String()),
				slog.Int("attempts", s.Attempts),
				slog.Duration("elapsed", s.Elapsed),
				slog.Duration("waited", s.Waited),
				slog.Any("error", s.Err))
		},
	}
}

// stillFailing reports whether a is the 16th attempt of its run, or the 32nd and so on,
// and neither a success nor the last one nor a poll's.
func stillFailing(a *Attempt) bool {
	return a.Err != nil && a.Delay > 0 && a.Number >= 16 && a.Number&(a.Number-1) == 0 &&
		!within(a.Err, func(err error) bool { return err == ErrRejected })
}
