package retrydebug

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/errtext"
)

// story is what is recorded of a run besides its state, once an attempt has failed.
// Once the run has failed, it is not written to any more.
type story struct {
	steps   []step
	room    [3]step       // for the first of them
	latest  string        // error, as it is shown
	key     uint64        // of the latest failure
	refusal uint64        // the key of a guard's since then, or 0
	delay   time.Duration // of the latest wait, as planned
	hint    time.Duration // that the server gave before it
	guard   string        // that the latest wait for a guard was for
	at      time.Duration // when the run ended, since the Recorder's first use
	ending
}

// last returns the key of what came last of a failure and a refusal, 0 if none did.
func (s *story) last() uint64 {
	if s == nil {
		return 0
	}
	return cmp.Or(s.refusal, s.key)
}

// step is an attempt that failed, or a guard that has told an attempt to wait, or has
// refused it.
type step struct {
	number  int
	start   time.Duration // since the run began
	took    time.Duration
	wait    time.Duration // that followed, as planned
	hint    time.Duration
	text    string
	class   retry.Class
	guard   string // "" for an attempt
	refused int    // how many times in a row the guard has refused the attempt
}

// kept is how many steps a story has: the first and the latest, as retry.Error has
// their errors.
const kept = 8

// repeated reports whether a guard refuses an attempt again, as it has just done.
func (s *step) repeated(n step) bool {
	return s.refused > 0 && n.refused > 0 && s.guard == n.guard && s.number == n.number && s.text == n.text
}

func (s *story) add(n step) {
	if last := len(s.steps) - 1; last >= 0 && s.steps[last].repeated(n) {
		s.steps[last].refused++
		s.steps[last].wait += n.wait
		return
	}
	switch len(s.steps) {
	case 0:
		s.steps = s.room[:0]
	case kept:
		s.steps = slices.Delete(s.steps, 1, 2)
	}
	s.steps = append(s.steps, n)
}

// ending is what a story tells of the end of a run that failed.
type ending struct {
	op       *operation
	reason   retry.Reason
	attempts int
	took     time.Duration
	waited   time.Duration
	trace    string
	cause    string // if no attempt was made, or if the budget has said why it refused one
	count    int    // runs that ended like this one, itself included, as long as one of them is kept
}

// endingOf returns how a run ended; ctx is that of its Done.
func (r *Recorder) endingOf(ctx context.Context, n *run, s retry.Summary) ending {
	e := ending{op: n.op, reason: s.Reason, attempts: s.Attempts, took: s.Elapsed, waited: s.Waited, trace: r.trace(ctx)}
	err, ok := s.Err.(*retry.Error)
	if ok && err != nil && (s.Attempts == 0 || s.Reason == retry.ReasonBudget) {
		e.cause = line(errtext.Of(err.Cause), texts)
	}
	return e
}

// trace returns the id of the trace of ctx.
func (r *Recorder) trace(ctx context.Context) (id string) {
	if r.Trace == nil {
		return ""
	}
	defer func() { _ = recover() }()
	return line(r.Trace(ctx), longest)
}

// failures are the latest runs that failed. Those without retries have places of their
// own, so that thousands of refused first attempts do not displace the others.
type failures struct {
	mu   sync.Mutex
	kept [2][32]*story // by whether there were retries
}

// add keeps s instead of one that ended like it, or else of the oldest.
func (f *failures) add(s *story) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kept := &f.kept[min(max(s.attempts-1, 0), 1)]
	s.count = 1
	oldest := 0
	for i, k := range kept {
		if k == nil {
			oldest = i // none is after it
			break
		}
		if k.like(s) {
			s.count += k.count
			kept[i] = s
			return
		}
		if k.at < kept[oldest].at {
			oldest = i
		}
	}
	kept[oldest] = s
}

// like reports whether two runs of an operation ended for one reason, after failures and
// refusals with one key. What is left of a budget differs.
func (s *story) like(o *story) bool {
	return s.op == o.op && s.reason == o.reason && s.key == o.key && s.refusal == o.refusal &&
		(s.cause == o.cause || s.reason == retry.ReasonBudget)
}

// all returns them, the latest first.
func (f *failures) all() []*story {
	f.mu.Lock()
	var all []*story
	for i := range f.kept {
		for _, s := range f.kept[i] {
			if s != nil {
				all = append(all, s)
			}
		}
	}
	f.mu.Unlock()
	slices.SortStableFunc(all, func(a, b *story) int { return cmp.Compare(b.at, a.at) })
	return all
}
