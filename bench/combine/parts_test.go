package combine

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
)

var errLeft = errors.New("the caller left")

// callerContext is the context of a caller. It counts what hangs on it: a context that
// is derived from it and never ended stays registered, or keeps a goroutine.
type callerContext struct {
	context.Context
	cancelInner context.CancelCauseFunc
	deadline    time.Time
	done        chan struct{}
	timers      []*time.Timer

	mu    sync.Mutex
	err   error
	by    error
	at    time.Time
	funcs map[*func()]bool
}

func newCallerContext() *callerContext {
	c := &callerContext{done: make(chan struct{}), funcs: map[*func()]bool{}}
	c.Context, c.cancelInner = context.WithCancelCause(context.Background())
	return c
}

func (c *callerContext) Done() <-chan struct{}       { return c.done }
func (c *callerContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

func (c *callerContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *callerContext) ended() (bool, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err != nil, c.at
}

// AfterFunc is what package context calls for a context that is derived from c.
func (c *callerContext) AfterFunc(f func()) (stop func() bool) {
	key := &f
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		go f()
		return func() bool { return false }
	}
	c.funcs[key] = true
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		had := c.funcs[key]
		delete(c.funcs, key)
		return had
	}
}

func (c *callerContext) children() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.funcs)
}

func (c *callerContext) cancel(cause error) { c.end(context.Canceled, cause) }

func (c *callerContext) end(err, cause error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.cancelInner(cause)
	c.err, c.by, c.at = err, cause, time.Now()
	funcs := c.funcs
	c.funcs = nil
	close(c.done)
	c.mu.Unlock()
	for f := range funcs {
		(*f)() // which ends the derived context, as a parent of package context does: at once
	}
}

// after has the context end by itself.
func (c *callerContext) after(d time.Duration, err, cause error) {
	if err == context.DeadlineExceeded {
		c.deadline = time.Now().Add(d)
	}
	c.timers = append(c.timers, time.AfterFunc(d, func() { c.end(err, cause) }))
}

func (c *callerContext) stop() {
	for _, t := range c.timers {
		t.Stop()
	}
}

// clock passes on to another clock, and keeps a list of its timeouts.
type clock struct {
	*world
	clockx.Clock
}

type timeout struct {
	context.Context
	d        time.Duration
	canceled atomic.Bool
}

func (t *timeout) freed() bool { return t.canceled.Load() || t.Err() != nil }

func (c *clock) Now() time.Time {
	c.at("now")
	return c.Clock.Now()
}

func (c *clock) Sleep(ctx context.Context, d time.Duration) error {
	c.at("sleep")
	return c.Clock.Sleep(ctx, d)
}

func (c *clock) WithTimeoutCause(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	c.at("timeout")
	ctx, cancel := c.Clock.WithTimeoutCause(ctx, d, cause)
	t := &timeout{Context: ctx, d: d}
	c.mu.Lock()
	c.timeouts = append(c.timeouts, t)
	c.mu.Unlock()
	return ctx, func() {
		t.canceled.Store(true)
		cancel()
	}
}

// tally is a budget that keeps the books of another one.
type tally struct {
	*world
	retry.Budget
	what string

	mu    sync.Mutex
	lines map[line]*account
}

// line is a line of the books. Each run has a name of its own.
type line struct {
	name  string
	hedge bool
}

type account struct{ granted int } // retries of the run underway

func newTally(w *world, what string, b retry.Budget) *tally {
	return &tally{world: w, Budget: b, what: what, lines: map[line]*account{}}
}

func (t *tally) account(name string, hedge bool) *account {
	l := line{name, hedge}
	if t.lines[l] == nil {
		t.lines[l] = new(account)
	}
	return t.lines[l]
}

func (t *tally) Withdraw(v retry.Withdrawal) bool {
	t.at("withdraw")
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.account(v.Name, v.Hedge)
	if !v.Hedge && v.Retry != a.granted+1 {
		t.report("%s: Withdraw of %s for retry %d after %d were granted", t.what, v.Name, v.Retry, a.granted)
	}
	if v.Class == retry.Unknown || v.Class == retry.Permanent || v.Class > retry.Unprocessed {
		t.report("%s: Withdraw of %s after class %v", t.what, v.Name, v.Class)
	}
	ok := t.Budget.Withdraw(v)
	if ok {
		a.granted++
	}
	return ok
}

func (t *tally) End(o retry.Outcome) {
	t.end(o)
	t.at("end")
}

func (t *tally) end(o retry.Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock() // a budget reads a clock, which may fail
	a := t.account(o.Name, o.Hedge)
	if o.Sent > o.Retries || o.Sent < o.Retries-1 && !o.Hedge {
		t.report("%s: End of %s says that %d of %d retries were sent", t.what, o.Name, o.Sent, o.Retries)
	}
	if !o.Hedge && (o.Retries != a.granted || (o.Retried == retry.Unknown) != (a.granted == 0)) {
		t.report("%s: End of %s says %d retries and %v, %d were granted", t.what, o.Name, o.Retries, o.Retried, a.granted)
	}
	if !o.Hedge {
		a.granted = 0
	}
	t.Budget.End(o)
}

// check is called when all runs have ended.
func (t *tally) check() {
	for l, a := range t.lines {
		if !l.hedge && a.granted > 0 {
			t.report("%s: %v has %d retries and no End", t.what, l, a.granted)
		}
	}
	if b, ok := t.Budget.(interface{ Balance() float64 }); ok {
		if x := b.Balance(); !(x >= 0 && x <= 1) {
			t.report("%s: Balance %v", t.what, x)
		}
	}
}

// watch is hooks that record. Several are joined, with hooks in between that fail.
type watch struct {
	*world
	label string
}

type runRecord struct {
	*world
	label, name string
	over        bool
	attempt     *attemptRecord
	number      int
	waiting     bool
}

type attemptRecord struct {
	run  *runRecord
	over bool
}

type (
	runKey     struct{ label string }
	attemptKey struct{ label string }
)

func (h watch) hooks(p *retry.Policy) retry.Hooks {
	return retry.Hooks{
		Start: func(ctx context.Context, got retry.Policy) context.Context {
			r := &runRecord{world: h.world, label: h.label, name: got.Name}
			h.mu.Lock()
			h.runs = append(h.runs, r)
			h.mu.Unlock()
			if got.Budget != p.Budget || got.Clock != p.Clock || got.NonIdempotent != p.NonIdempotent || got.AttemptTimeout != p.AttemptTimeout || got.MaxElapsed != p.MaxElapsed {
				r.wrong("Start did not get the policy that the user wrote")
			}
			return context.WithValue(ctx, runKey{h.label}, r)
		},
		Attempt: func(ctx context.Context, a retry.Attempt) context.Context {
			r := h.runOf(ctx, "Attempt")
			switch {
			case r.attempt != nil && !r.attempt.over:
				r.wrong("Attempt %d during an attempt", a.Number)
			case r.number > 0 && a.Number != r.number+1, a.Number < 1:
				r.wrong("Attempt %d after %d", a.Number, r.number)
			}
			r.number, r.waiting = a.Number, false
			r.attempt = &attemptRecord{run: r}
			return context.WithValue(ctx, attemptKey{h.label}, r.attempt)
		},
		AttemptDone: func(ctx context.Context, a retry.Attempt) {
			r := h.runOf(ctx, "AttemptDone")
			switch got, _ := ctx.Value(attemptKey{h.label}).(*attemptRecord); {
			case r.attempt == nil || r.attempt.over:
				r.wrong("AttemptDone %d without Attempt", a.Number)
			case got != r.attempt:
				r.wrong("AttemptDone %d got another context", a.Number)
			default:
				r.attempt.over = true
			}
			if a.Number != r.number {
				r.wrong("AttemptDone %d after Attempt %d", a.Number, r.number)
			}
			if (a.Err == nil) != (a.Class == retry.Unknown) && ctx.Err() == nil && a.Err == nil {
				r.wrong("AttemptDone %d: class %v without an error", a.Number, a.Class)
			}
		},
		Wait: func(ctx context.Context, a retry.Attempt) {
			r := h.runOf(ctx, "Wait")
			if r.attempt != nil && !r.attempt.over || r.waiting {
				r.wrong("Wait %d during an attempt or a wait", a.Number)
			}
			if h.label != "last" && ctx.Err() != nil && h.way.solo && !h.way.queue && h.callers[0].syncCanceled() {
				r.wrong("Wait %d though the context has ended", a.Number)
			}
			r.waiting = true
		},
		Guard: func(ctx context.Context, g retry.Held) {
			r := h.runOf(ctx, "Guard")
			if r.attempt != nil && !r.attempt.over {
				r.wrong("Guard %d during an attempt", g.Number)
			}
			if g.Number != r.number+1 || (g.Err == nil) != (g.Class == retry.Unknown) || g.Err == nil && g.Delay <= 0 {
				r.wrong("Guard after attempt %d with %+v", r.number, g)
			}
		},
		Done: func(ctx context.Context, s retry.Summary) {
			r := h.runOf(ctx, "Done")
			r.over = true
			if (s.Err == nil) != (s.Reason == retry.ReasonNone) {
				r.wrong("Done with %v and %v", s.Reason, s.Err)
			}
			if e, ok := s.Err.(*retry.Error); s.Err != nil && (!ok || e.Reason != s.Reason || e.Attempts != s.Attempts) {
				r.wrong("Done with %+v", s)
			}
		},
	}
}

// runOf returns the record of the run that ctx belongs to.
func (h watch) runOf(ctx context.Context, hook string) *runRecord {
	r, _ := ctx.Value(runKey{h.label}).(*runRecord)
	switch {
	case r == nil:
		h.report("%s without the context of Start", hook)
		return &runRecord{world: h.world}
	case r.over:
		r.wrong("%s after Done", hook)
	}
	return r
}

func (r *runRecord) wrong(format string, args ...any) {
	r.report("run "+r.name+", hooks "+r.label+": "+format, args...)
}

func (r *runRecord) check() {
	if !r.over {
		r.wrong("no Done")
	}
	if r.attempt != nil && !r.attempt.over {
		r.wrong("no AttemptDone")
	}
}

// failing is hooks in which faults happen.
func failing(w *world) retry.Hooks {
	return retry.Hooks{
		Start:       func(ctx context.Context, _ retry.Policy) context.Context { w.at("start"); return nil },
		Attempt:     func(ctx context.Context, _ retry.Attempt) context.Context { w.at("attempt"); return ctx },
		AttemptDone: func(context.Context, retry.Attempt) { w.at("attemptDone") },
		Wait:        func(context.Context, retry.Attempt) { w.at("wait") },
		Done:        func(context.Context, retry.Summary) { w.at("done") },
	}
}

// spanCounter counts the spans that have begun and not ended.
type spanCounter struct {
	mu   sync.Mutex
	open map[string]int
}

func (s *spanCounter) add(name string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[string]int{}
	}
	s.open[name] += n
}

func (s *spanCounter) OnStart(_ context.Context, span sdktrace.ReadWriteSpan) { s.add(span.Name(), 1) }
func (s *spanCounter) OnEnd(span sdktrace.ReadOnlySpan)                       { s.add(span.Name(), -1) }
func (s *spanCounter) Shutdown(context.Context) error                         { return nil }
func (s *spanCounter) ForceFlush(context.Context) error                       { return nil }

func (s *spanCounter) check(w *world) {
	sum := 0
	for _, n := range s.open { // a span may change its name
		sum += n
	}
	if sum != 0 {
		w.report("spans that have not ended: %v", s.open)
	}
}

// trackedBody is the body of a request or a response.
type trackedBody struct {
	io.Reader
	name   string
	value  bool // of an operation, and no body at all
	closed atomic.Bool
}

func (w *world) body(name string, r io.Reader) *trackedBody {
	b := &trackedBody{Reader: r, name: name}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bodies = append(w.bodies, b)
	return b
}

func (b *trackedBody) Close() error {
	b.closed.Store(true)
	return nil
}

func (b *trackedBody) isClosed() bool { return b.closed.Load() }

// transaction is one that TxOf has begun.
type transaction struct {
	*caller
	committed, rolledBack bool
}

func (t *transaction) Commit(context.Context) error {
	t.at("commit")
	if t.draw("commit", 4) == 0 {
		return errors.New("COMMIT: connection lost")
	}
	t.committed = true
	return nil
}

func (t *transaction) Rollback(context.Context) error {
	t.rolledBack = true
	t.at("rollback")
	return nil
}

func (t *transaction) check() {
	if !t.committed && !t.rolledBack {
		t.report("%s: a transaction was left open", t.name)
	}
}
