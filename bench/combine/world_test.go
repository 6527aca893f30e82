package combine

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/pace"
)

// world is one run of the test, in a bubble of its own: what its seed has chosen, and
// the books that must balance at the end.
type world struct {
	seed    uint64
	way     way
	faults  []fault
	callers []*caller
	virtual *clockx.Virtual // nil: time is the bubble's
	clock   clockx.Clock    // of the policies
	budget  *tally          // of the retries
	hedges  *tally          // of the hedges, nil for the Hedge's own
	hedge   *hedge.Hedge
	limit   *limit.Limit
	pace    *pace.Pace // nil: none
	guards  []retry.Guard

	mu       sync.Mutex
	drawn    map[string]int // by what
	seen     map[string]int // by site
	thrown   []string       // the sites of faults that were panics or exits
	canceled bool           // a fault has canceled
	over     bool           // nothing goes wrong any more
	fired    []fault        // the faults that have happened
	problems []string
	runs     []*runRecord
	timeouts []*timeout
	bodies   []*trackedBody
	txs      []*transaction
	spans    spanCounter
}

// deed is what a fault does.
type deed int

const (
	panics deed = iota
	exits
	cancels
)

func (d deed) String() string { return [...]string{"panics", "exits", "cancels"}[d] }

// fault is what goes wrong when a site is passed for the nth time.
type fault struct {
	site string
	nth  int
	deed deed
}

func (f fault) String() string { return fmt.Sprintf("%s %d %v", f.site, f.nth, f.deed) }

// boom is what a fault panics with. It is an error, since a hedge's panic comes inside one.
type boom struct{ fault }

func (b boom) Error() string { return b.String() }

// draw returns a number in [0,n), which depends on the seed, on what it is for, and on
// how many were drawn for that. So goroutines do not change each other's numbers.
func (w *world) draw(what string, n int) int {
	w.mu.Lock()
	nth := w.drawn[what]
	w.drawn[what]++
	w.mu.Unlock()
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s %d", w.seed, what, nth)
	x := h.Sum64() // mixed as in SplitMix64
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return int((x ^ x>>31) >> 1 % uint64(n))
}

// one returns one of the choices.
func one[T any](w *world, what string, choices ...T) T { return choices[w.draw(what, len(choices))] }

// at is called wherever the library calls code of others. It does what the seed wants to
// go wrong there.
func (w *world) at(site string) {
	w.mu.Lock()
	w.seen[site]++
	i := slices.IndexFunc(w.faults, func(f fault) bool { return !w.over && f.site == site && f.nth == w.seen[site] })
	var f fault
	if i >= 0 {
		f = w.faults[i]
		w.fired = append(w.fired, f)
		if f.deed == cancels {
			w.canceled = true
		} else {
			w.thrown = append(w.thrown, site)
		}
	}
	w.mu.Unlock()
	if i < 0 {
		return
	}
	switch f.deed {
	case panics:
		panic(boom{f})
	case exits:
		runtime.Goexit()
	case cancels:
		for _, c := range w.callers {
			c.ctx.cancel(errLeft)
		}
	}
}

// report writes down what is wrong.
func (w *world) report(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

// loses reports whether a panic or exit has kept a call from returning the value of its
// last operation.
func (w *world) loses() bool {
	return slices.ContainsFunc(w.thrown, func(site string) bool {
		return site == "attemptDone" || site == "done" || site == "end" || site == "now"
	})
}

// sleep passes time in an operation, at most until ctx ends.
func (w *world) sleep(ctx interface{ Done() <-chan struct{} }, d time.Duration) {
	if w.virtual != nil {
		w.virtual.Advance(d)
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// odd returns a duration that hardly two events have in common, so that few happen at
// the same instant, in an order that the seed does not determine.
func (w *world) odd(what string, most time.Duration) time.Duration {
	return time.Duration(w.draw(what, int(most))) | 1
}

// How a caller's goroutine has ended.
type ending int

const (
	returned ending = iota
	panicked
	exited
)

// guard runs f as a goroutine of its own, and returns how it has ended. A panic must be
// one of the faults.
func (w *world) guard(f func()) (end ending) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		end = exited
		defer func() {
			r := recover()
			if r == nil {
				return
			}
			end = panicked
			err, _ := r.(error)
			if _, ok := errors.AsType[boom](err); !ok {
				buf := make([]byte, 8<<10)
				w.report("panic: %v\n%s", r, buf[:runtime.Stack(buf, false)])
			}
		}()
		f()
		end = returned
	}()
	<-done
	return end
}

// caller is one call of the way in, and what is known of its operation.
type caller struct {
	*world
	name    string
	ctx     *callerContext
	policy  retry.Policy
	vouches bool // what DefaultClassifier finds is proof to the policy

	opMu  sync.Mutex
	calls int
	last  outcome
	err   error // what the call returned
	live  int   // operations underway
	most  int
}

// enter is called when the operation is.
func (c *caller) enter(ctx context.Context) {
	now := time.Now()
	c.opMu.Lock()
	c.calls++
	last := c.last
	c.last = outcome{err: errRunning}
	c.live++
	c.most = max(c.most, c.live)
	calls := c.calls
	c.opMu.Unlock()

	copies := 1
	if c.way.hedged {
		copies = max(c.hedge.MaxInFlight, 2)
	}
	if most := c.way.limit(&c.policy); calls > most*copies && most*copies > 0 {
		c.report("%s: call %d, want at most %d", c.name, calls, most*copies)
	}
	if ended, at := c.ctx.ended(); ended {
		switch {
		case ctx.Err() != nil && c.way.solo && (c.virtual != nil || c.syncCanceled()):
			c.report("%s: called though its context has ended", c.name)
		case now.After(at) && !c.way.grpc:
			c.report("%s: called %v after its context has ended", c.name, now.Sub(at))
		}
	}
	if calls == 1 || c.way.many {
		return
	}
	switch {
	case last.final && !c.way.hedged && !c.leaves() && !(last.long && c.way.name == "Supervise"):
		c.report("%s: called again after %v", c.name, last)
	case c.policy.NonIdempotent && !last.undone && !(last.unprocessed && c.vouches):
		c.report("%s: NonIdempotent, and called again after %v", c.name, last)
	}
}

// leaves reports whether a call may leave an operation that goes on: that of a server.
func (c *caller) leaves() bool { return c.way.grpc && c.policy.AttemptTimeout > 0 }

// syncCanceled reports whether the context was canceled by a fault, and not by a timer,
// whose goroutine may run at the same instant.
func (c *caller) syncCanceled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.canceled && c.ctx.by == errLeft && len(c.callers) == 1
}

// leave is called when the operation returns, with what it returns.
func (c *caller) leave(o outcome) {
	c.opMu.Lock()
	c.live--
	c.opMu.Unlock()
	c.becomes(o)
}

// becomes says what the end of the last operation means, if it is not what it returned.
func (c *caller) becomes(o outcome) {
	c.opMu.Lock()
	defer c.opMu.Unlock()
	c.last = o
}

// finish checks the books. All goroutines of the bubble wait or have ended.
func (w *world) finish() {
	synctest.Wait()
	w.mu.Lock()
	w.over = true // nothing goes wrong while the books are read
	w.mu.Unlock()
	for _, c := range w.callers {
		if n := c.ctx.children(); n > 0 {
			w.report("%s: %d contexts below the caller's were not ended", c.name, n)
		}
		if c.live != 0 {
			w.report("%s: %d operations still run", c.name, c.live)
		}
		if want := w.inFlight(c); c.most > want && !c.leaves() {
			w.report("%s: %d operations at a time, want at most %d", c.name, c.most, want)
		}
		c.ctx.stop()
	}
	w.budget.check()
	if w.hedges != nil {
		w.hedges.check()
	}
	for _, r := range w.runs {
		r.check()
	}
	for _, t := range w.timeouts {
		if !t.freed() {
			w.report("a timeout of %v was not ended", t.d)
		}
	}
	for _, b := range w.bodies {
		if !b.isClosed() && !(b.value && w.loses()) {
			w.report("%s was not closed", b.name)
		}
	}
	for _, t := range w.txs {
		t.check()
	}
	if n := w.limit.InFlight(); n != 0 {
		w.report("the limit has lost %d places", n)
	}
	w.checkPace()
	if w.virtual != nil && w.virtual.Pending() != 0 {
		w.report("%d timers of the virtual clock are left", w.virtual.Pending())
	}
	w.spans.check(w)
}

// checkPace reports turns that were never given back: then the pace does not open again.
func (w *world) checkPace() {
	if w.pace == nil {
		return
	}
	for range 3 { // it looks at the time only when it is used
		if w.virtual != nil {
			w.virtual.Advance(time.Hour)
		} else {
			time.Sleep(time.Hour)
		}
		_ = w.pace.Wait()
	}
	if r := w.pace.Rate(); !math.IsInf(r, 1) {
		w.report("the pace has not opened again: %v a second, a wait of %v", r, w.pace.Wait())
	}
}

func (w *world) inFlight(c *caller) int {
	if w.way.hedged {
		return max(w.hedge.MaxInFlight, 2)
	}
	return 1
}
