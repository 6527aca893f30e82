package retrydebug

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/errtext"

	"github.com/goretry/retry/internal/readings"
)

// run is a run's value in its context, and an entry of its shard's list. It is the one
// allocation that a successful first try costs. The shard's mutex guards the fields
// below shard. Times are since the Recorder's first use.
type run struct {
	context.Context
	op    *operation
	limit int  // on attempts, 0 for none
	timed bool // the policy has a clock of its own: its times are not times of day
	shard *shard

	state      state
	listed     bool          // in its shard's list
	retried    bool          // an attempt has failed, maybe where the run was before this process took it over
	number     int           // of the attempt underway or to come
	began      time.Duration // when the run did
	since      time.Duration // when its state began
	story      *story        // nil as long as there is nothing to tell
	prev, next *run
}

// state is what a run does now.
type state uint8

const (
	unbegun state = iota
	attempting
	waiting // for a retry
	guarded // waiting for a guard
	over
)

// runOf returns the run that ctx belongs to, nil if there is none.
func (r *Recorder) runOf(ctx context.Context) *run {
	if n, ok := ctx.(*run); ok && n.shard.recorder == r {
		return n // mostly, because there are no other hooks
	}
	n, _ := ctx.Value(r).(*run)
	return n
}

// Value makes n the value of its context for the Recorder that it belongs to, and
// for no other one.
func (n *run) Value(key any) any {
	if r, ok := key.(*Recorder); ok && r == n.shard.recorder {
		return n
	}
	return n.Context.Value(key)
}

func (r *Recorder) start(ctx context.Context, p retry.Policy) context.Context {
	limit := p.AttemptLimit()
	if limit == math.MaxInt {
		limit = 0
	}
	return &run{
		Context: ctx,
		op:      r.operations.find(p.Name),
		limit:   limit,
		timed:   !readings.System(p.Clock),
		shard:   r.shards[int(rand.Uint32())&(len(r.shards)-1)],
	}
}

func (r *Recorder) attempt(ctx context.Context, a retry.Attempt) context.Context {
	if n := r.runOf(ctx); n != nil {
		n.attempt(a)
	}
	return ctx
}

func (n *run) attempt(a retry.Attempt) {
	now := n.now(a)
	n.shard.mu.Lock()
	defer n.shard.mu.Unlock()
	if n.enter(attempting, now, a) {
		n.number = a.Number
	}
}

// enter makes n attempting, waiting or guarded, and reports whether it can be: not if it
// is over.
func (n *run) enter(next state, now time.Duration, a retry.Attempt) bool {
	if n.state == over {
		return false
	}
	if n.state == unbegun {
		n.began, n.retried = now-max(a.Elapsed, 0), a.Number > 1
	}
	n.shard.enter(n, next)
	n.since = now
	return true
}

// now returns the time of day in a. It reads the clock only if a has no such time.
func (n *run) now(a retry.Attempt) time.Duration {
	if !n.timed {
		if now := a.Start.Sub(n.shard.recorder.since) + a.Duration; now >= 0 {
			return now
		}
	}
	return time.Since(n.shard.recorder.since)
}

func (r *Recorder) attemptDone(ctx context.Context, a retry.Attempt) {
	if a.Err == nil {
		return
	}
	if n := r.runOf(ctx); n != nil {
		n.attemptFailed(a, errtext.Of(a.Err), errtext.Code(a.Err), errtext.Failed(ctx, a))
	}
}

func (n *run) attemptFailed(a retry.Attempt, text, code string, failed bool) {
	now := n.now(a)
	n.shard.mu.Lock()
	defer n.shard.mu.Unlock()
	if n.state == over {
		return
	}
	key := keyOf(a.Class, "", code, text)
	if !n.listed {
		text = line(text, texts)
	} else {
		text = n.tell(text)
		n.story.add(step{number: a.Number, start: max(a.Elapsed-a.Duration, 0), took: a.Duration, wait: a.Delay, hint: a.Hint, text: text, class: a.Class})
		n.story.key, n.story.refusal = key, 0
	}
	if failed {
		n.retried = true
		n.shard.failed(n.op, lastError{now, a.Number, a.Class, text}, failure{key: key, class: a.Class, code: code, text: text})
	}
}

// tell makes text the latest error text of n, and returns it as it is shown.
func (n *run) tell(text string) string {
	if n.story == nil {
		n.story = new(story)
	}
	if text != n.story.latest { // in an outage they are all the same
		n.story.latest = line(text, texts)
	}
	return n.story.latest
}

func (r *Recorder) wait(ctx context.Context, a retry.Attempt) {
	n := r.runOf(ctx)
	if n == nil {
		return
	}
	var text string
	if a.Number == 0 { // the pause of Supervise, after an attempt of the run before
		text = errtext.Of(a.Err)
	}
	n.wait(a, text)
}

func (n *run) wait(a retry.Attempt, text string) {
	now := n.now(a)
	n.shard.mu.Lock()
	defer n.shard.mu.Unlock()
	if !n.enter(waiting, now, a) {
		return
	}
	n.number = a.Number + min(1, math.MaxInt-a.Number)
	if !n.listed {
		return
	}
	if n.story == nil {
		n.tell(text)
	}
	n.story.delay, n.story.hint = a.Delay, a.Hint
}

func (r *Recorder) guard(ctx context.Context, h retry.Held) {
	if n := r.runOf(ctx); n != nil {
		n.guard(h, line(h.Guard, longest), errtext.Of(h.Err), errtext.Code(h.Err))
	}
}

// guard notes that a guard has told the next attempt to wait, or has refused it. An attempt
// that is refused has not failed.
func (n *run) guard(h retry.Held, guard, text, code string) {
	a := retry.Attempt{Number: h.Number, Start: h.Start, Elapsed: h.Elapsed}
	now := n.now(a)
	n.shard.mu.Lock()
	defer n.shard.mu.Unlock()
	if !n.enter(guarded, now, a) {
		return
	}
	n.number = h.Number
	key := keyOf(h.Class, guard, code, text)
	if n.listed {
		if n.story == nil {
			n.story = new(story)
		}
		s := step{number: h.Number, start: max(h.Elapsed, 0), wait: h.Delay, guard: guard}
		if h.Err != nil {
			text = n.tell(text)
			s.text, s.class, s.refused = text, h.Class, 1
			n.story.refusal = key
		}
		n.story.add(s)
		n.story.delay, n.story.hint, n.story.guard = h.Delay, 0, guard
	} else {
		text = line(text, texts)
	}
	if h.Err != nil {
		n.shard.caused(n.op, now, failure{key: key, class: h.Class, guard: guard, code: code, text: text})
	}
}

func (r *Recorder) done(ctx context.Context, s retry.Summary) {
	n := r.runOf(ctx)
	if n == nil {
		return
	}
	if s.Answered {
		s.Reason, s.Err = retry.ReasonNone, nil // a success
	}
	if st := n.done(&s); st != nil {
		st.ending = r.endingOf(ctx, n, s)
		r.failures.add(st)
	}
}

// done ends n, and returns its story if it is one to keep.
func (n *run) done(s *retry.Summary) *story {
	n.shard.mu.Lock()
	defer n.shard.mu.Unlock()
	if n.state == over {
		return nil
	}
	now := n.began + s.Elapsed
	if n.timed || n.state == unbegun || s.Elapsed > time.Second { // compared with a second, reading the clock costs little
		now = time.Since(n.shard.recorder.since)
	}
	st, told := n.story, n.listed || n.state == unbegun
	n.story = nil
	o := outcomeOf(s.Reason, n.retried)
	n.shard.end(n, now, o, s)
	if key := st.last(); key != 0 && (o == failed || o == permanent) {
		n.shard.lost(n.op, now, key)
	}
	switch {
	case !told, o != failed && !(o == permanent && s.Attempts > 1):
		return nil
	case st == nil:
		st = new(story)
	}
	st.at = now
	return st
}
