package retryhttp

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/goretry/retry"
)

// Once sends req through c once, and makes no retry: for an op inside failover.Do, where each target
// has its own URL and key.
//
//	answer, err := failover.Do(ctx, policy, &models, func(ctx context.Context, m *failover.Target[Model]) (Answer, error) {
//		return retryhttp.Once[Answer](ctx, policy, http.DefaultClient, m.Value.request(prompt))
//	})
//
// The T is decoded from a 2xx, as [JSON] does. If T is *http.Response, Once returns the
// response as soon as its headers have come, and the first event if Check of a [Transport] in c waits for it
// ([FirstEvent]). Its body is unread. Then ctx ends the attempt only: the body lasts as long as the context of
// req, so make req in the context of the caller of Do. The caller closes the body. A 101 is a success too, whose
// body is an io.Writer.
//
// Any other status is a *[StatusError]. The error of Once tells failover.Do all that is known:
// whether the request may run twice, did nothing, or was refused, and how long the server asks to
// wait. Other runs see its class, its wait, and the marks of [retry.Undone], [retry.Refuse] and [retry.Stop], but
// not that a POST must not run twice: set Policy.NonIdempotent. A status that is not retried, such as 401, is
// a permanent error, and not an answer.
//
// Of p only Classify, Clock and NonIdempotent count: give Once the policy of the run. Make a new req for each
// attempt. A Transport in c makes one attempt, and its Guards are not asked: give them to the target, which
// leaves them when Once returns. A nil c means http.DefaultClient. Once panics if ctx
// or req is nil.
func Once[T any](ctx context.Context, p retry.Policy, c *http.Client, req *http.Request) (value T, err error) {
	demand(ctx, req)
	call := newClientCall(c, p, req)
	s := settingsOf(ctx).or(settingsOf(req.Context())).with(ctx, func(s *settings) { s.edits = append(slices.Clip(s.edits), alone) })
	call.plan(settingsOf(s))
	var v retry.Verdict
	if resp, ok := any(&value).(**http.Response); ok {
		*resp, v = call.open(ctx)
	} else {
		defer call.end(false)
		v = call.receive(ctx, &value)
	}
	if v.Err == nil {
		return value, nil
	}
	if _, status := v.Err.(*StatusError); status && v.IsAnswer() {
		v.Answered, v.Marked = false, false
	}
	v.Once = call.prove
	err = &attemptError{v}
	switch {
	case v.Refused:
		return value, retry.Refuse(err)
	case v.IsAnswer():
		return value, retry.Answer(err)
	case v.Marked && v.Class == retry.Permanent:
		return value, retry.Stop(err)
	case v.Undone:
		return value, retry.Undone(err)
	}
	return value, err
}

// alone returns the policy of an attempt that is a run's of somebody else.
func alone(p retry.Policy) retry.Policy {
	return retry.Policy{Classify: p.Classify, Clock: p.Clock, NonIdempotent: p.NonIdempotent, MaxAttempts: 1}
}

// attemptError is the error of an attempt or of a copy, with what is known about it.
type attemptError struct{ verdict retry.Verdict }

func (e *attemptError) Error() string             { return e.verdict.Err.Error() }
func (e *attemptError) Unwrap() error             { return e.verdict.Err }
func (e *attemptError) Verdict() retry.Verdict    { return e.verdict } // for failover.Do and hedge.Race
func (e *attemptError) RetryAfter() time.Duration { return e.verdict.Hint }
func (e *attemptError) RetryNow() bool            { return e.verdict.Now }

// open makes one attempt, up to its headers and Check.
func (c *call) open(ctx context.Context) (resp *http.Response, v retry.Verdict) {
	c.lasts = c.req.Context()
	defer func() { c.end(resp != nil) }()
	got := c.send(ctx, &v)
	if got == nil {
		return nil, v
	}
	status := c.unwanted(got, &v, http.StatusSwitchingProtocols)
	if v.Err != nil {
		c.discardResponse(got, status)
		return nil, v
	}
	c.ctx = c.lasts
	c.label(got, nil)
	return got, v
}
