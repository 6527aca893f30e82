package retryhttp

import (
	"cmp"
	"crypto/tls"
	"net/http"
	"net/url"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/errtree"
)

// What came of an attempt means this to the run.

// judge returns the verdict on an error: by its marks, by Policy.Classify, or else by
// own, the class that HTTP knows. Unknown leaves the class to [retry.DefaultClassifier],
// which proves nothing.
func (c *call) judge(err error, own retry.Class) retry.Verdict {
	p := retry.Policy{Classify: func(err error) retry.Class { return cmp.Or(c.said(err), own) }}
	v := p.Judge(err)
	if c.late && v.Class == retry.Transient {
		v.Class = retry.TimedOut // the run does not know the limit of the headers
	}
	return v
}

// said returns what Policy.Classify says, Unknown if it has no opinion.
func (c *call) said(err error) retry.Class {
	if classify := c.policy.Classify; classify != nil {
		if c.redirected.Load() {
			if _, guards := errtree.Find[*refusedHop](err); guards {
				return retry.Unknown
			}
		}
		if class := classify(err); class <= retry.Unprocessed {
			return class
		}
	}
	return retry.Unknown
}

// permanent is the verdict on an error that HTTP knows to be permanent.
func permanent(err error) retry.Verdict { return retry.Verdict{Err: err, Class: retry.Permanent} }

// objection returns the verdict on a response that is worth a retry, or the zero
// Verdict if the response is an answer.
func (c *call) objection(resp *http.Response) retry.Verdict {
	if resp.StatusCode >= 400 {
		if v, answer := c.failure(resp); !answer {
			return v
		}
	}
	return retry.Verdict{}
}

// explain returns the verdict on an attempt without a response.
func (c *call) explain(err error) retry.Verdict {
	select {
	//lint:ignore SA1019 a caller may still use it
	case <-c.req.Cancel:
		c.awaitDeadline()
		return permanent(err)
	default:
	}
	if c.unsent() {
		return c.unprocessed(err)
	}
	if e, ok := err.(tls.RecordHeaderError); ok && string(e.RecordHeader[:]) == "HTTP/" {
		err = schemeMismatch{err} // http.Client would say so, but sees a *retry.Error
	}
	cause := err
	if e, ok := err.(*url.Error); ok && c.client {
		cause = e.Err
	}
	v := c.judge(err, c.class(err, cause))
	if c.client && !c.redirected.Load() { // a mark inside a *url.Error proves nothing to others
		v.Undone = v.Undone || retry.Policy{}.Judge(cause).Undone
	}
	return v
}

// schemeMismatch is an [http.ErrSchemeMismatch], which holds the error that shows it.
type schemeMismatch struct{ error }

func (schemeMismatch) Error() string     { return http.ErrSchemeMismatch.Error() }
func (e schemeMismatch) Unwrap() []error { return []error{http.ErrSchemeMismatch, e.error} }

// unprocessed returns the verdict on a request that was not sent. Unless it is permanent, a
// retry may follow, whatever else Policy.Classify says.
func (c *call) unprocessed(err error) retry.Verdict {
	v := c.judge(err, retry.Unknown)
	if v.Class != retry.Permanent {
		v.Undone = true
		if !v.Marked {
			v.Class = retry.Unprocessed
		}
	}
	return v
}

// awaitDeadline waits for the context to end if its deadline has passed. The Timeout
// of http.Client closes Request.Cancel a moment before it ends the context, which
// is what the run should see.
func (c *call) awaitDeadline() {
	if deadline, ok := c.ctx.Deadline(); !ok || time.Until(deadline) > 0 {
		return
	}
	timer := time.NewTimer(patience) // a deadline of a virtual clock may be long past
	defer timer.Stop()
	select {
	case <-c.ctx.Done():
	case <-timer.C:
	}
}

// mayFollow reports whether a retry may follow v. It uses a [retry.Loop] with this
// call's policy, but without its limits of time and its budget. A refusal of a guard has used
// up an attempt.
func (c *call) mayFollow(v retry.Verdict) bool {
	p := retry.Policy{MaxAttempts: c.policy.AttemptLimit(), MaxRetryAfter: c.policy.MaxRetryAfter, NonIdempotent: c.prove, Backoff: retry.Constant(0)}
	made := c.attempts - 1
	if c.guarding != nil {
		made += c.guarding.refusals
	}
	loop := p.Resume(time.Time{}, made, 0)
	_, ok := loop.Judged(time.Time{}, v)
	return ok
}
