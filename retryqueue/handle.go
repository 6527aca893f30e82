package retryqueue

import (
	"context"
	"errors"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/part"
)

// runPart has the type that package retry gave it. Another one panics as the program starts.
var runPart = part.Run.(func(context.Context, retry.Policy, part.Part[retry.Verdict, *retry.Error]))

// errNoNews says nothing to a Gate.
var errNoNews = retry.Stop(errors.New("retryqueue: no handler has ended"))

// Handle handles one delivery: it calls [Delivery.Before], then Context and handle if that may run,
// and [Delivery.After]. At last it calls settle, which tells the queue what was decided,
// and returns settle's error. It reads the time itself, and ignores Now.
//
// To the policy's Hooks the delivery is a run of one attempt, whose number is the
// delivery's: Start, Attempt, AttemptDone, Wait if the message is to be delivered again,
// and Done after settle. Times are those of the delivery, on Policy.Clock. Done gets an
// error only for a message that is Dead and was settled, so that one run that gave up is
// one dead message. If Before refuses, there are only Start and Done. handle's context
// is that of the attempt, and ends with ctx and with Policy.AttemptTimeout. settle's has the
// values of the run's, and never ends: a shutdown must not lose what was decided.
//
// If ctx ends and handle fails, or does not run, that says nothing about the message.
// Then the Action is Undecided: hand the message back, or leave it to the queue. A [retry.Answer] is no
// failure.
//
// A panic or runtime.Goexit in handle, Policy.Classify, Done or settle passes through, and Hooks get
// [retry.ReasonPanic]. One in Done says nothing of the message: settle is called as without. One in
// Classify counts as one in handle. After one in handle the message is delivered again, or it is Dead at
// the policy's limit, with [ErrPanicked]. A policy without MaxAttempts delivers such
// a message five times at most, however the earlier deliveries ended: else it would end process
// after process. settle is called then, after Hooks.Done and while the panic goes
// on. Its error is lost. Handle panics if ctx is nil.
func (m Delivery) Handle(ctx context.Context, p retry.Policy, handle func(context.Context) error, settle func(context.Context, Decision) error) (err error) {
	m.Now = time.Time{}
	news := errNoNews // for Done
	tell := func() {
		if done := m.Done; done != nil {
			m.Done = nil
			done(news)
		}
	}
	defer tell()
	d, run := m.Before(p)
	if run && m.Context != nil {
		if own := m.Context(ctx); own != nil {
			ctx = own
		}
	}
	x := part.Part[retry.Verdict, *retry.Error]{
		Earlier: max(m.Number, 1) - 1,
		Decide: func(v retry.Verdict) (time.Duration, bool) {
			d = m.judged(p, v)
			return d.Delay, d.Action == Retry
		},
		Why: func() *retry.Error { return d.Err },
		Settle: func(ctx context.Context) (dead *retry.Error) {
			defer func() { // also if Done panics
				if err = settle(context.WithoutCancel(ctx), d); err == nil && d.Action == Dead {
					dead = d.Err
				}
			}()
			tell() // first: settle may take long
			return nil
		},
	}
	if run {
		handling := false
		x.Op = func(ctx context.Context) retry.Verdict {
			handling = true
			err := handle(ctx)
			v := judge(p, err)
			handling = false
			if err == nil || v.IsAnswer() || !errors.Is(ctx.Err(), context.Canceled) { // by its caller, not by what it depends on
				news = err
			}
			if v.IsAnswer() && ctx.Err() != nil { // to a run its caller has left, which says nothing
				return retry.Verdict{}
			}
			return v
		}
		defer func() {
			if handling {
				_ = settle(context.WithoutCancel(ctx), m.panicked(p))
			}
		}()
	}
	runPart(ctx, p, x)
	return err
}
