package retry

// May call: stopwatch.go, policy.go, errors.go.

import (
	"cmp"
	"context"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/internal/paced"
)

// Guard admits attempts: a limit on those in flight, a pace, a circuit breaker, a rate limiter, a
// quota of a fleet. Share one among all runs that it is to guard together. It must be safe for
// concurrent use. It judges nothing: Leave gets what the attempt has come to. This one opens no
// more than ten connections at a time:
//
//	type places chan struct{} // make(places, 10)
//
//	func (p places) Enter(ctx context.Context, e retry.Entry) (retry.Pass, error) {
//		select {
//		case p <- struct{}{}:
//			return retry.Pass{}, nil
//		default:
//			return retry.Pass{}, errors.New("too many connections")
//		}
//	}
//
//	func (p places) Leave(retry.Pass, retry.Exit) { <-p }
type Guard interface {
	// Enter admits the attempt, tells it to wait, or refuses it by an error: see rule 9 of the
	// package documentation. The run sleeps, not Enter. Enter may talk to others while ctx lasts,
	// for at most Entry.Patience, but not for a hedge; hooks do not see such a wait.
	// The error is judged by its marks and its hint, and else by [DefaultClassifier]. It is Undone,
	// and Unprocessed where it would be Transient. [Stop] ends the run, [After] says how long to
	// wait, and an error that says nothing, as one of errors.New, means the backoff.
	Enter(ctx context.Context, e Entry) (Pass, error)

	// Leave takes a Pass back: once for each that Enter has returned without an error, whatever
	// panics. Enter with Entry.Earlier replaces that Pass, or by an error ends it.
	Leave(p Pass, x Exit)
}

// Entry is what a [Guard] gets before an attempt.
type Entry struct {
	Name     string         // the policy's
	Number   int            // of the attempt: 1 for the first
	Class    Class          // of the latest error; Unknown if there is none
	Hedge    bool           // a copy beside an attempt underway: a wait refuses it
	Patience time.Duration  // until the caller's deadline or the end of MaxElapsed; math.MaxInt64: no limit
	Clock    clockx.Clock   // the policy's, never nil
	Rand     func() float64 // Policy.Rand; nil means math/rand/v2
	Earlier  Pass           // with Again: what Enter has returned for this attempt, whose wait is over
}

// Pass says when an attempt may start. The zero Pass: now. With Wait, Wake or Again the attempt
// waits first; with Again and no Wake for a millisecond at least. The run ends with [ErrPaced]
// instead if Wait is not shorter than Entry.Patience, and if nothing but a Wake ends the wait and
// none comes until the end of MaxElapsed. At the caller's deadline it ends with [ReasonDeadline].
type Pass struct {
	Wait  time.Duration   // the run sleeps for so long; with Wake it is what to expect, 0 if that is not known
	Wake  <-chan struct{} // if not nil, the run waits until it receives from it
	Timed bool            // with Wake: the run waits for Wait at most
	Again bool            // after the wait the run calls Enter again, with Entry.Earlier; otherwise the attempt starts
	Paces bool            // the guard limits the retries that follow a Throttled attempt: they take nothing from Policy.Budget
	Held  any             // the guard's own; a pointer or a func allocates nothing
	Round uint64          // the guard's own
}

// waits reports whether an attempt with the pass p waits.
func (p *Pass) waits() bool { return p.Wait > 0 || p.Wake != nil || p.Again }

// untimed reports whether nothing but its Wake ends the wait of p.
func (p *Pass) untimed() bool { return p.Wake != nil && !p.Timed }

// checked returns p with a Wait that is not negative, and long enough for a run that calls
// Enter after it: without a Wake no guard can make a run spin.
func (p Pass) checked() Pass {
	p.Wait = max(p.Wait, 0)
	if p.Again && !p.untimed() {
		p.Wait = max(p.Wait, time.Millisecond)
	}
	return p
}

// Ending says how an attempt that guards have admitted has ended.
type Ending uint8

const (
	NotMade  Ending = iota // nothing was sent: a later guard has refused it, or the run has ended
	Returned               // it has come to the Verdict
	Expired                // it has failed, and its deadline has passed
	Canceled               // the caller has ended it, or another copy was faster
	Panicked               // it has panicked or called runtime.Goexit
)

// Exit is what a [Guard] gets when an attempt has ended: facts, and no judgement. If the caller's
// context has ended, nobody has judged Verdict.Err, but for an Answer.
type Exit struct {
	Ending  Ending
	Verdict Verdict       // zero after a success; with NotMade only Err, the later guard's
	Took    time.Duration // op, from its call until it returned: no hook's time and none of Policy.Classify
	Allowed time.Duration // how long op had until its deadline; 0 if it had none
	Clock   clockx.Clock  // the policy's, never nil
}

// Held is what Hooks.Guard gets about a guard's wait or refusal.
type Held struct {
	Name    string        // the policy's
	Number  int           // of the attempt that is not made yet: 1 for the first
	Guard   string        // the type of the guard, such as "limit.Limit"
	Start   time.Time     // of the wait, on the policy's clock
	Elapsed time.Duration // since the run began
	Delay   time.Duration // the wait that follows; 0: it is not known, or with Err the run ends
	Err     error         // why the guard has refused; nil if it has told the attempt to wait
	Class   Class         // what Err means: Permanent if it ends the run, as an ErrPaced does
}

// Admit asks the guards of p for an attempt that no run makes: a copy beside one that is underway,
// with Entry.Hedge, or the call of a handler. Only Number, Class and Hedge of e count; for a hedge
// ctx says the first two, if they are zero: those of the attempt, or below it. Admit does not
// wait: if a guard says so, the error is an [ErrPaced], otherwise the guard's. Entry.Patience is 0
// for a hedge, else what is left until ctx's deadline. Without an error call leave when the
// attempt has ended. A second call does nothing. leave is safe for concurrent use.
func (p Policy) Admit(ctx context.Context, e Entry) (leave func(Exit), err error) {
	if len(p.Guards) == 0 {
		return func(Exit) {}, nil
	}
	if c, ok := ctx.Value(attemptKey{}).(*attemptContext); ok && e.Hedge {
		e.Number, e.Class = cmp.Or(e.Number, int(c.number)), cmp.Or(e.Class, c.class)
	}
	e.Name, e.Number, e.Patience, e.Clock, e.Rand, e.Earlier = p.Name, max(e.Number, 1), 0, p.clock(), p.Rand, Pass{}
	if !e.Hedge {
		e.Patience = untilDeadline(ctx, p.Clock)
	}
	passes := make([]admission, 0, len(p.Guards))
	admitted := false
	defer func() {
		if !admitted { // refused, or a guard has panicked
			giveBack(&passes, p.clock(), Exit{Verdict: Verdict{Err: unmarked(err)}})
		}
	}()
	for _, g := range p.Guards {
		if g == nil {
			continue
		}
		pass, err := g.Enter(ctx, e)
		if err != nil {
			return nil, err
		}
		if passes = append(passes, admission{g, pass}); pass.waits() {
			return nil, paced.Late(pass.checked().Wait)
		}
	}
	admitted = true
	return (&holding{clock: e.Clock, passes: passes, hedge: e.Hedge}).leave, nil
}

// nameOf returns what hooks call a guard.
func nameOf(g Guard) string { return strings.TrimPrefix(reflect.TypeOf(g).String(), "*") }

// admission is a pass and the guard that gave it, whatever becomes of Policy.Guards meanwhile.
type admission struct {
	guard Guard // nil admits all
	pass  Pass
}

// giveBack calls Leave for passes, the last one first, whatever panics.
func giveBack(passes *[]admission, clock clockx.Clock, x Exit) {
	x.Clock = clock
	defer func() {
		if len(*passes) > 0 { // a guard has panicked
			giveBack(passes, clock, x)
		}
	}()
	for n := len(*passes); n > 0; n-- {
		a := (*passes)[n-1]
		(*passes)[n-1] = admission{}
		*passes = (*passes)[:n-1]
		if a.guard != nil {
			a.guard.Leave(a.pass, x)
		}
	}
}

// holding is what guards have admitted an attempt with that no run gives back.
type holding struct {
	left          atomic.Bool
	hedge         bool
	fixed         bool // the Exit's times are these
	took, allowed time.Duration
	clock         clockx.Clock
	passes        []admission
	room          [2]admission // for passes, mostly
}

// leave gives the passes back when it is first called.
func (h *holding) leave(x Exit) {
	if h.left.Swap(true) {
		return
	}
	if h.fixed {
		x.Took, x.Allowed = h.took, h.allowed
	}
	if h.hedge && x.Ending == Panicked && x.Verdict.Err == nil {
		x.Verdict.Err = errPanic // as the run says of its own copy
	}
	giveBack(&h.passes, h.clock, x)
}
