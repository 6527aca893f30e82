package retrybatch_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/retrybatch"
)

// This file holds the rules of a batch a second time: written from the package
// documentation, as plainly as they can be, and sharing nothing with the package.
// TestRandomBatches compares the two.

// fault is what becomes of an item in one call.
type fault int

const (
	none fault = iota
	permanent
	transient
	unprocessed
	timedOut
	stopped     // a Stop mark
	refused     // a Refuse mark
	throttled   // an After mark without a wait
	hintOfTwo   // an After mark of 2 s
	hintOfHour  // an After mark of an hour, longer than any policy here allows
	askingThree // a method RetryAfter of 3 s
	undone      // an Undone mark
	rejected    // ErrRejected
	faults
)

// errFault is the error of an item.
type errFault struct {
	fault      fault
	call, item int
}

func (e *errFault) Error() string {
	return fmt.Sprintf("fault %d of item %d in call %d", e.fault, e.item, e.call)
}

type errAsking struct{ *errFault }

func (errAsking) RetryAfter() time.Duration { return 3 * time.Second }
func (e errAsking) Unwrap() error           { return e.errFault }

// err returns the error, and the one that is kept.
func (f fault) err(call, item int) (err, kept error) {
	e := &errFault{f, call, item}
	switch f {
	case none:
		return nil, nil
	case stopped:
		return retry.Stop(e), e
	case refused:
		return retry.Refuse(e), e
	case throttled:
		return retry.After(e, 0), e
	case hintOfTwo:
		return retry.After(retry.After(e, 2*time.Second), 2*time.Second), e
	case hintOfHour:
		return retry.After(e, time.Hour), e
	case askingThree:
		return errAsking{e}, errAsking{e}
	case undone:
		return retry.Undone(e), e
	case rejected:
		return retry.ErrRejected, retry.ErrRejected
	}
	return e, e
}

func classifyFault(err error) retry.Class {
	if e, ok := errors.AsType[*errFault](err); ok {
		switch e.fault {
		case permanent:
			return retry.Permanent
		case unprocessed:
			return retry.Unprocessed
		case timedOut:
			return retry.TimedOut
		}
		return retry.Transient
	}
	if name := fmt.Sprintf("%T", err); strings.HasPrefix(name, "*retrybatch.") {
		panic("Classify got a " + name)
	}
	return retry.Transient
}

// meaning is what one error means, by its kind and the marks around its Partial.
type meaning struct {
	class    retry.Class
	hint     time.Duration
	end      retry.Reason // which a mark has given
	undone   bool
	answered bool
}

func (f fault) meaning(a answer) meaning {
	var m meaning
	switch f {
	case permanent, stopped:
		m = meaning{class: retry.Permanent, end: retry.ReasonPermanent}
	case refused:
		m = meaning{class: retry.Permanent, end: retry.ReasonRefused}
	case transient:
		m = meaning{class: retry.Transient}
	case unprocessed:
		m = meaning{class: retry.Unprocessed, undone: true} // the policy vouches for it
	case timedOut:
		m = meaning{class: retry.TimedOut}
	case throttled:
		m = meaning{class: retry.Throttled}
	case hintOfTwo:
		m = meaning{class: retry.Throttled, hint: 2 * time.Second}
	case hintOfHour:
		m = meaning{class: retry.Throttled, hint: time.Hour}
	case askingThree:
		m = meaning{class: retry.Transient, hint: 3 * time.Second}
	case undone:
		m = meaning{class: retry.Transient, undone: a != hedged} // not what the other copy met
	case rejected:
		m = meaning{class: retry.Transient, answered: true}
	}
	switch {
	case m.class == retry.Permanent:
	case a == stopAround:
		m = meaning{class: retry.Permanent, end: retry.ReasonPermanent}
	case a == refuseAround:
		m = meaning{class: retry.Permanent, hint: m.hint, end: retry.ReasonRefused}
	case a == afterAround, a == askingAround:
		if m.hint = max(m.hint, time.Second); !m.answered { // a poll whose next time the server knows is not throttled
			m.class = retry.Throttled
		}
	case a == undoneAround:
		m.undone = true
	}
	return m
}

// answer is how send answers one call.
type answer int

const (
	plain answer = iota // nil or a Partial
	wrapped
	joinedAlone
	stopAround
	refuseAround
	afterAround
	askingAround
	undoneAround
	hedged // two Partials, the second of the items that alsoNames reports
	wholeTransient
	wholeStopped
	wholeRefused
	wholeHint
	joinedWithAnother // a Partial beside an error
	innerRun          // a Partial inside an *Error of package retry
	tooFew            // values
	tooMany
	below // a position of -1
	above // a position beyond the call
	cancels
	answers
)

// alsoNames reports whether the other of two Partials names an item.
func alsoNames(call, item int) bool { return (call+item)%3 != 0 }

type errWhole struct{ call int }

func (e *errWhole) Error() string { return fmt.Sprintf("call %d failed", e.call) }

type wrapAsking struct{ error }

func (wrapAsking) RetryAfter() time.Duration { return time.Second }
func (w wrapAsking) Unwrap() error           { return w.error }

// script is one batch and what it meets.
type script struct {
	items         int
	answers       []answer
	faults        [][]fault // by call and item
	values        []bool    // by call: whether a call that fails as a whole returns values
	maxAttempts   int
	maxElapsed    time.Duration
	deadline      time.Duration
	nonIdempotent bool
	grants        int // of the budget; -1: there is none
}

func (s script) fault(call, item int) fault { return s.faults[call-1][item] }

// tale is all that is seen of a batch.
type tale struct {
	calls   [][]int
	values  []int
	failed  []string // index, reason, attempts, errors, cause
	reason  retry.Reason
	waits   []time.Duration
	seen    []string // by AttemptDone: class, hint and text
	asked   []retry.Class
	elapsed time.Duration
}

const (
	pause = 100 * time.Millisecond // of the backoff
	takes = 300 * time.Millisecond // a call
)

type ledger struct {
	grants int
	asked  []retry.Class
}

func (l *ledger) Withdraw(w retry.Withdrawal) bool {
	l.asked = append(l.asked, w.Class)
	return len(l.asked) <= l.grants
}
func (l *ledger) End(retry.Outcome) {}

// play runs the script with package retrybatch.
func play(t *testing.T, s script) tale {
	var got tale
	clock := clockx.NewVirtual(time.Unix(0, 0))
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	if s.deadline > 0 {
		var end context.CancelFunc
		ctx, end = clock.WithTimeoutCause(ctx, s.deadline, nil)
		defer end()
	}
	budget := &ledger{grants: s.grants}
	p := retry.Policy{
		MaxAttempts: s.maxAttempts, MaxElapsed: s.maxElapsed, NonIdempotent: s.nonIdempotent, Clock: clock,
		Backoff: retry.Constant(pause), Classify: classifyFault, Rand: func() float64 { return 0 },
		Hooks: retry.Hooks{
			AttemptDone: func(_ context.Context, a retry.Attempt) {
				if a.Err != nil {
					got.seen = append(got.seen, fmt.Sprint(a.Class, " ", a.Hint, " ", a.Err))
				}
			},
			Wait: func(_ context.Context, a retry.Attempt) { got.waits = append(got.waits, a.Delay) },
			Done: func(_ context.Context, sum retry.Summary) { got.reason, got.elapsed = sum.Reason, sum.Elapsed },
		},
	}
	if s.grants >= 0 {
		p.Budget = budget
	}
	items := make([]int, s.items)
	for i := range items {
		items[i] = i
	}
	call := 0
	values, err := retrybatch.Do(ctx, p, items, func(ctx context.Context, open []int) ([]int, error) {
		call++
		if len(open) != cap(open) && call > 1 {
			t.Errorf("call %d has %d items in a slice of capacity %d", call, len(open), cap(open))
		}
		got.calls = append(got.calls, slices.Clone(open))
		clock.Advance(takes)
		failed := map[int]error{}
		values := make([]int, len(open))
		for i, item := range open {
			values[i] = 1000*call + item
			if err, _ := s.fault(call, item).err(call, item); err != nil || item%2 == 0 {
				failed[i] = err // a nil error names no item
			}
		}
		partial, whole := retrybatch.Partial(failed), error(&errWhole{call})
		if !s.values[call-1] {
			switch s.answers[call-1] {
			case wholeTransient, wholeStopped, wholeRefused, wholeHint, joinedWithAnother, innerRun:
				values = nil
			}
		}
		switch s.answers[call-1] {
		case wrapped:
			if partial != nil {
				return values, fmt.Errorf("send: %w", partial)
			}
		case joinedAlone:
			return values, errors.Join(partial, nil)
		case stopAround:
			return values, retry.Stop(partial)
		case refuseAround:
			return values, retry.Refuse(partial)
		case afterAround:
			return values, retry.After(partial, time.Second)
		case askingAround:
			if partial != nil {
				return values, wrapAsking{partial}
			}
		case undoneAround:
			return values, retry.Undone(partial)
		case hedged:
			other := map[int]error{}
			for i, item := range open {
				if alsoNames(call, item) {
					other[i] = whole
				}
			}
			if second := retrybatch.Partial(other); partial != nil && second != nil {
				return values, fmt.Errorf("send: %w", errors.Join(partial, nil, second))
			}
			return values, nil // of one copy, which has done all
		case wholeTransient:
			return values, whole
		case wholeStopped:
			return values, retry.Stop(whole)
		case wholeRefused:
			return values, retry.Refuse(whole)
		case wholeHint:
			return values, retry.After(whole, 2*time.Second)
		case joinedWithAnother:
			return values, errors.Join(retrybatch.Partial(map[int]error{0: &errWhole{call}}), whole)
		case innerRun:
			return values, &retry.Error{Reason: retry.ReasonBudget, Attempts: 1, Errs: []error{retrybatch.Partial(map[int]error{0: whole})}}
		case tooFew:
			return values[1:], partial
		case tooMany:
			return append(values, 7), partial
		case below:
			failed[-1] = whole
			return values, retrybatch.Partial(failed)
		case above:
			failed[len(open)] = whole
			return values, retrybatch.Partial(failed)
		case cancels:
			cancel(errLeft)
		}
		return values, partial
	})
	got.values, got.asked = values, budget.asked
	if err == nil {
		return got
	}
	e, ok := errors.AsType[*retrybatch.Error](err)
	if !ok || e.Items != s.items || e.Err.Reason != got.reason || len(e.Failed) == 0 {
		t.Fatalf("err = %#v beside reason %v", err, got.reason)
	}
	for _, f := range e.Failed {
		got.failed = append(got.failed, describe(f.Index, f.Err.Reason, f.Err.Attempts, f.Err.Errs, f.Err.Cause))
		if f.Err.Elapsed != e.Err.Elapsed || f.Err.Waited != e.Err.Waited {
			t.Errorf("item %d: Elapsed and Waited are not the run's", f.Index)
		}
	}
	return got
}

var errLeft = errors.New("the caller left")

func describe(index int, reason retry.Reason, attempts int, errs []error, cause error) string {
	return fmt.Sprintf("%d %v %d %v %v", index, reason, attempts, errs, cause)
}

// foretell is play by the rules alone.
func foretell(s script) tale {
	var want tale
	type end struct {
		reason   retry.Reason
		attempts int
		errs     []error
		cause    error
	}
	type failure struct {
		item    int
		meaning meaning
		reason  retry.Reason
		err     error
	}
	ends := map[int]end{}
	var lost []failure // for good, in order
	open := make([]int, s.items)
	for i := range open {
		open[i] = i
	}
	want.values = make([]int, s.items)
	now := time.Duration(0)
	granted := 0

	ended := func(m meaning) retry.Reason {
		switch {
		case m.end != retry.ReasonNone:
			return m.end
		case s.nonIdempotent && !m.undone:
			return retry.ReasonNotIdempotent
		case m.hint > 5*time.Minute:
			return retry.ReasonRetryAfter
		}
		return retry.ReasonNone
	}

	for call := 1; ; call++ {
		want.calls = append(want.calls, slices.Clone(open))
		now += takes
		a := s.answers[call-1]

		var whole error // kept for each item of the call
		var m meaning   // of the call
		var text string
		takeValues := true
		named := 0
		for _, item := range open {
			if s.fault(call, item) != none {
				named++
			}
		}
		misfit := func(format string, args ...any) {
			whole, m = fmt.Errorf("retrybatch: send returned "+format, args...), meaning{class: retry.Permanent, end: retry.ReasonPermanent}
			takeValues = false
		}
		switch n := len(open); a {
		case wholeTransient:
			whole, m = &errWhole{call}, meaning{class: retry.Transient}
		case wholeStopped:
			whole, m = &errWhole{call}, meaning{class: retry.Permanent, end: retry.ReasonPermanent}
		case wholeRefused:
			whole, m = &errWhole{call}, meaning{class: retry.Permanent, end: retry.ReasonRefused}
		case wholeHint:
			whole, m = &errWhole{call}, meaning{class: retry.Throttled, hint: 2 * time.Second}
		case joinedWithAnother:
			whole = fmt.Errorf("1 item failed: item 0: call %d failed\ncall %d failed", call, call)
			m = meaning{class: retry.Transient}
		case innerRun:
			whole = fmt.Errorf("retry: gave up after 1 attempt in 0s (budget): 1 item failed: item 0: call %d failed", call)
			m = meaning{class: retry.Transient}
		case tooFew:
			misfit("%s for %s", plural(n-1, "value"), plural(n, "item"))
		case tooMany:
			misfit("%s for %s", plural(n+1, "value"), plural(n, "item"))
		case below:
			misfit("an error for item -1 of %d", n)
		case above:
			misfit("an error for item %d of %d", n, n)
		}
		if whole != nil {
			text = whole.Error()
			takeValues = takeValues && s.values[call-1]
		}
		if takeValues {
			for _, item := range open {
				want.values[item] = 1000*call + item
			}
		}
		last := map[int]error{}
		if whole != nil {
			for _, item := range open {
				last[item] = whole
			}
		} else {
			var still []int
			for _, item := range open {
				f := s.fault(call, item)
				if f == none || a == hedged && !alsoNames(call, item) {
					continue
				}
				_, err := f.err(call, item)
				if a == hedged {
					marked, _ := f.err(call, item)
					err = errors.Join(marked, &errWhole{call})
				}
				m := f.meaning(a)
				if reason := ended(m); reason != retry.ReasonNone {
					ends[item] = end{reason, call, []error{err}, nil}
					lost = append(lost, failure{item, m, reason, err})
					continue
				}
				still, last[item] = append(still, item), err
			}
			shown := failure{}
			var all []retry.Class
			open = still
			switch {
			case len(still) == 0 && len(lost) == 0:
				want.elapsed = now
				return want
			case len(still) == 0:
				shown = lost[0]
				for _, l := range slices.Backward(lost) {
					if l.reason != retry.ReasonPermanent {
						shown = l
					}
				}
				m = shown.meaning
			default:
				shown = failure{item: still[0], err: last[still[0]]}
				m.undone, m.answered = true, true
				for _, item := range still {
					one := s.fault(call, item).meaning(a)
					all = append(all, one.class)
					m.hint = max(m.hint, one.hint)
					m.undone, m.answered = m.undone && one.undone, m.answered && one.answered
				}
				switch {
				case slices.Contains(all, retry.Throttled):
					m.class = retry.Throttled
				case slices.Contains(all, retry.TimedOut):
					m.class = retry.TimedOut
				case slices.Contains(all, retry.Transient):
					m.class = retry.Transient
				default:
					m.class = retry.Unprocessed
				}
			}
			text = fmt.Sprintf("%d of %s failed: item %d: %v", len(still)+len(lost), plural(s.items, "item"), shown.item, shown.err)
		}

		// The run's decision.
		wait := m.hint + pause
		var cause error
		switch {
		case s.deadline > 0 && now >= s.deadline:
			want.reason, cause, m = retry.ReasonDeadline, context.DeadlineExceeded, meaning{}
		case a == cancels:
			want.reason, cause, m = retry.ReasonCanceled, errLeft, meaning{}
		case ended(m) == retry.ReasonPermanent, ended(m) == retry.ReasonRefused, ended(m) == retry.ReasonNotIdempotent:
			want.reason = ended(m)
		case call >= s.maxAttempts:
			want.reason = retry.ReasonMaxAttempts
		case ended(m) == retry.ReasonRetryAfter:
			want.reason = retry.ReasonRetryAfter
		case s.maxElapsed > 0 && now+wait > s.maxElapsed:
			want.reason = retry.ReasonMaxElapsed
		case s.deadline > 0 && wait >= s.deadline-now:
			want.reason, cause = retry.ReasonDeadline, context.DeadlineExceeded
		case s.grants >= 0 && !m.answered && granted == s.grants:
			want.reason = retry.ReasonBudget
			want.asked = append(want.asked, m.class)
		}
		want.seen = append(want.seen, fmt.Sprint(m.class, " ", m.hint, " ", text))
		if want.reason == retry.ReasonNone {
			if s.grants >= 0 && !m.answered {
				granted++
				want.asked = append(want.asked, m.class)
			}
			want.waits = append(want.waits, wait)
			now += wait
			continue
		}
		want.elapsed = now
		for _, item := range open {
			ends[item] = end{want.reason, call, []error{last[item]}, cause}
		}
		for item := range s.items {
			if e, ok := ends[item]; ok {
				want.failed = append(want.failed, describe(item, e.reason, e.attempts, e.errs, e.cause))
			}
		}
		return want
	}
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprint(n, " ", noun, "s")
}

func (s script) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d items, %d attempts, elapsed %v, deadline %v, nonIdempotent %v, %d grants\n",
		s.items, s.maxAttempts, s.maxElapsed, s.deadline, s.nonIdempotent, s.grants)
	for i, a := range s.answers {
		fmt.Fprintf(&b, "  call %d: answer %d, faults %d, values %v\n", i+1, a, s.faults[i], s.values[i])
	}
	return b.String()
}

func randomScript(r *rand.Rand) script {
	s := script{
		items: 1 + r.IntN(5), maxAttempts: 1 + r.IntN(4), nonIdempotent: r.IntN(4) == 0, grants: r.IntN(5) - 1,
	}
	if r.IntN(4) == 0 {
		s.maxElapsed = time.Duration(1+r.IntN(40)) * 100 * time.Millisecond
	}
	if r.IntN(4) == 0 {
		s.deadline = time.Duration(1+r.IntN(40)) * 100 * time.Millisecond
	}
	for range s.maxAttempts {
		a := plain
		if r.IntN(3) == 0 {
			a = answer(r.IntN(int(answers)))
		}
		s.answers = append(s.answers, a)
		s.values = append(s.values, r.IntN(2) == 0)
		fs := make([]fault, s.items)
		for i := range fs {
			switch r.IntN(5) {
			case 0, 1:
				fs[i] = none
			case 2:
				fs[i] = transient
			default:
				fs[i] = fault(r.IntN(int(faults)))
			}
		}
		s.faults = append(s.faults, fs)
	}
	return s
}

func TestRandomBatches(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	n, seen := 10_000, map[retry.Reason]int{}
	if os.Getenv("RETRY_LONG") != "" {
		n = 200_000
	}
	for range n {
		s := randomScript(r)
		got, want := play(t, s), foretell(s)
		seen[got.reason]++
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%vgot  %+v\nwant %+v", s, got, want)
		}
	}
	for reason := retry.ReasonNone; reason <= retry.ReasonCanceled; reason++ {
		if seen[reason] == 0 {
			t.Errorf("no batch ended with %v", reason)
		}
	}
}
