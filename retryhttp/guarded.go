package retryhttp

import (
	"context"
	"io"
	"net/http"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/ending"
)

// held is what the guards have admitted an attempt with, once it was taken from the run, which tells
// them nothing then. It goes on from the call to the copies of a race (take), from there to the call
// again (Keep), and to the body that the caller gets (bindGuards). Who has it last gives them exit.
type held struct {
	leave func(retry.Exit) // nil: the run has it, or they have got exit
	exit  retry.Exit
}

// guarding is what a call needs for the guards of its policy.
type guarding struct {
	run      *retry.Attempts // set if there may be hedges that pass guards
	held     held            // of the latest attempt
	refusals int             // of attempts
	started  []uint64        // attempts under each pace, when the latest began; empty without PaceByHeaders
}

// runs says which run the call makes, for hedges that pass guards.
func (c *call) runs(run *retry.Attempts) {
	if c.guarding != nil {
		c.guarding.run = run
	}
}

// take is [retry.Attempts.Hold] for the copies of an attempt. Before the last of a client's
// redirects the call has it already.
func (c *call) take() func(retry.Exit) {
	if leave := c.guarding.held.leave; leave != nil {
		c.guarding.held = held{}
		return leave
	}
	return c.guarding.run.Hold()
}

// hold takes it from the run, unless a race has.
func (g *guarding) hold(run *retry.Attempts) {
	if g.held.leave == nil {
		g.held = held{run.Hold(), retry.Exit{Ending: retry.Returned}}
	}
}

// holds reports whether the call has taken what the guards have admitted the latest attempt with.
func (c *call) holds() bool { return c.guarding != nil && c.guarding.held.leave != nil }

// tell tells the guards what the attempt has come to, if the run does not.
func (c *call) tell() {
	if c.holds() {
		h := c.guarding.held
		c.guarding.held = held{}
		h.leave(h.exit)
	}
}

// holdFailure keeps the passes of an attempt that has failed with a response: nobody knows
// yet whether a retry follows, or whether the caller gets the response and reads its body. For
// other attempts it tells the guards what v says, if a race has taken the passes.
func (c *call) holdFailure(run *retry.Attempts, v *retry.Verdict) {
	g, goesOn := c.guarding, v.Err != nil && c.resp != nil && goesOnAfter(c.resp)
	if g == nil || g.held.leave == nil && !goesOn {
		return
	}
	g.hold(run)
	if x := &g.held.exit; v.Err != nil && x.Verdict.Err == nil { // else a race knows what its copy has come to
		x.Verdict = *v
		if how := ending.Of(c.ctx); c.late {
			x.Ending = retry.Expired // the headers of the chosen copy came at the last moment, or a moment later
		} else if how != retry.Returned {
			x.Ending = how
			if context.Cause(c.ctx) != retry.ErrAttemptTimeout {
				x.Verdict = retry.Verdict{Err: v.Err}
			} else if v.Class == retry.Transient {
				x.Verdict.Class = retry.TimedOut
			}
		}
	}
	if !goesOn {
		c.tell()
	}
}

// goesOnAfter reports whether resp has a body that is not over yet.
func goesOnAfter(resp *http.Response) bool { return resp.Body != nil && resp.Body != http.NoBody }

// guardBody makes an attempt last as long as the body of its response, for the guards of the
// policy: until the body has been read to the end or is closed, or until the attempt's context
// ends. After 101 Switching Protocols only closing the body ends it.
func (c *call) guardBody(run *retry.Attempts, resp *http.Response) {
	g := c.guarding
	if g == nil || !goesOnAfter(resp) {
		return
	}
	g.hold(run)
	c.bindGuards(resp, g.held, c.ctx)
	g.held = held{}
}

// bindGuards has the body of resp end the attempt for those that have admitted it.
func (c *call) bindGuards(resp *http.Response, h held, ctx context.Context) {
	b := &guardedBody{ReadCloser: resp.Body, call: c, ctx: ctx, held: h}
	if conn := bindConn(resp); conn != nil {
		conn.end = b.end
		return
	}
	if resp.Body = b; ctx.Done() != nil {
		b.unwatch = context.AfterFunc(ctx, b.cut)
	}
}

// guardedBody is a body that ends its attempt for the guards.
type guardedBody struct {
	io.ReadCloser
	call    *call
	ctx     context.Context     // the attempt's
	held    held                // exit is what the attempt has come to so far
	unwatch func() bool         // nil if ctx never ends
	fault   atomic.Pointer[any] // what a guard has panicked with when ctx ended
}

func (b *guardedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.finish(err)
	}
	return n, err
}

func (b *guardedBody) Close() error {
	defer func() { b.finish(b.ctx.Err()) }()
	return b.ReadCloser.Close()
}

// finish ends the attempt on the caller's goroutine.
func (b *guardedBody) finish(err error) {
	if b.unwatch != nil {
		b.unwatch()
	}
	b.end(err)
	if f := b.fault.Swap(nil); f != nil {
		panic(*f)
	}
}

// cut ends the attempt because ctx has ended, on a goroutine on which nobody could recover from a
// panic of a guard: the caller's next Read or Close repeats it.
func (b *guardedBody) cut() {
	defer func() {
		if r := recover(); r != nil {
			b.fault.Store(&r)
		}
	}()
	b.end(b.ctx.Err())
}

// end tells the guards how the attempt has ended: by err, or as it was to if that is nil or
// [io.EOF]. Policy.Classify is not called if the context has ended.
func (b *guardedBody) end(err error) {
	x := b.held.exit
	x.Ending, x.Verdict = retry.Panicked, retry.Verdict{Err: err} // if Classify does
	defer func() { b.held.leave(x) }()
	x = b.exit(err)
}

// exit returns what the guards get.
func (b *guardedBody) exit(err error) retry.Exit {
	x := b.held.exit
	if err == nil || err == io.EOF || x.Verdict.Err != nil { // the last, because the response was a failure
		return x
	}
	if how := ending.Of(b.ctx); how != retry.Returned {
		x.Ending, x.Verdict = how, retry.Verdict{Err: err}
	} else {
		x.Verdict = b.call.judge(err, retry.Unknown)
	}
	return x
}

// hop sends a request of JSON or Download. If a redirect has named it, the guards of its host
// that have not admitted the attempt admit it too, without a wait, and until its body ends.
func (c *call) hop(t *Transport, req *http.Request, expires time.Time) (resp *http.Response, err error) {
	p := *c.policy
	if p.Guards = c.guardsOfHop(req); len(p.Guards) == 0 {
		return c.dispatch(t, req, expires)
	}
	ctx := req.Context()
	leave, err := p.Admit(ctx, retry.Entry{Number: c.attempts})
	if err != nil {
		if req.Body != nil {
			req.Body.Close() // as a RoundTripper must
		}
		return nil, &refusedHop{err}
	}
	began, goesOn := c.now(), false
	x := retry.Exit{Ending: retry.Panicked}
	if deadline, ok := ctx.Deadline(); ok {
		x.Allowed = max(deadline.Sub(began), 1)
	}
	defer func() {
		if !goesOn {
			leave(x)
		}
	}()
	resp, err = c.dispatch(t, req, expires)
	x.Took = max(c.now().Sub(began), 0)
	switch how := ending.Of(ctx); {
	case err == nil:
		x.Ending = retry.Returned
		if resp != nil {
			x.Verdict = c.objection(resp)
		}
	case how != retry.Returned:
		x.Ending, x.Verdict.Err = how, err
	default:
		x.Ending, x.Verdict = retry.Returned, c.judge(err, retry.Unknown)
	}
	if goesOn = resp != nil && goesOnAfter(resp); goesOn {
		c.bindGuards(resp, held{leave, x}, ctx)
	}
	return resp, err
}

// refusedHop is the error of a guard that has refused a redirect: Policy.Classify does not get
// the errors of guards.
type refusedHop struct{ error }

func (e *refusedHop) Unwrap() error { return e.error }

// guardsOfHop returns the guards that are to admit req, in addition to those that have admitted
// the attempt.
func (c *call) guardsOfHop(req *http.Request) []retry.Guard {
	if c.Guards == nil || !c.redirected.Load() || c.unguarded {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(c.Guards(req)), func(g retry.Guard) bool {
		return g == nil || slices.ContainsFunc(c.policy.Guards, func(has retry.Guard) bool { return equal(g, has) })
	})
}

// equal reports whether two guards are one. Those that cannot be compared are not: better one admits twice than none.
func equal(a, b retry.Guard) bool { return reflect.ValueOf(a).Comparable() && a == b }
