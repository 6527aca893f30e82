package bench

import "fmt"

// goal is something that was promised before it was measured.
type goal struct {
	text, measured string
	met            bool
	why            string // it is missed
}

func (g goal) verdict() string {
	if g.met {
		return "met"
	}
	return "**missed**: " + g.why
}

func (r Report) goals() (all []goal) {
	add := func(text string, met bool, why, format string, args ...any) {
		all = append(all, goal{text, fmt.Sprintf(format, args...), met, why})
	}
	for _, item := range []string{"built in the call", "first try", "no limit"} {
		own, _ := r.find(item, ours.Name)
		least, _ := r.find(item, promises.Name)
		best := r.best(item, contextual)
		add("“"+item+"” takes at most 1.15 × the floor of its promises", own.over(least) <= 1.15, whyFirst,
			"%.1f ns, %.2f ×", own.NS, own.over(least))
		add("“"+item+"” is no slower than any library that passes a context and returns a value",
			own.over(best) <= 1, whyClock, "%.1f ns; %s %.1f ns, %.1f ×", own.NS, best.Name, best.NS, best.over(own))
	}
	own, _ := r.find("three failures", ours.Name)
	best := r.best("three failures", callers)
	iterator, _ := r.find("three failures", retryV1.Name)
	add("“three failures” is 2 × faster than the best library that calls the operation", best.over(own) >= 2, whyRetries,
		"%.0f ns; %s %.0f ns, %.1f ×", own.NS, best.Name, best.NS, best.over(own))
	add("“three failures” is 1.5 × faster than "+retryV1.Name, iterator.over(own) >= 1.5, whyRetries,
		"%.0f ns; %.0f ns, %.2f ×", own.NS, iterator.NS, iterator.over(own))
	add("“three failures” takes one allocation", own.Allocs < 1.5, whyRetries, "%.0f", own.Allocs)

	waits := func(p Peer) (bytes float64) {
		for _, w := range r.Waiting {
			if w.Name == p.Name {
				bytes = w.Bytes()
			}
		}
		return bytes
	}
	mine, bare := waits(ours), waits(hand)
	add("a waiting call takes at most 1.25 × the memory of a loop by hand on a bare timer", mine <= 1.25*bare, whyMemory,
		"%.0f B; %.0f B, %.2f ×", mine, bare, mine/bare)
	for _, p := range contextual {
		add("a waiting call takes less memory than one of "+p.Name, mine < waits(p), whyRun, "%.0f B; %.0f B", mine, waits(p))
	}
	return append(all, r.httpGoals()...)
}

// best returns the quickest of other libraries.
func (r Report) best(item string, among []Peer) (best Result) {
	for _, p := range among {
		if x, ok := r.find(item, p.Name); ok && (best.NS == 0 || x.NS < best.NS) {
			best = x
		}
	}
	return best
}

var (
	contextual = []Peer{failsafeGo, sethvargo}                                             // which hand a context on and return a value
	callers    = []Peer{cenkalti, avast, avastReused, failsafeGo, sethvargo, eapache, k8s} // retryV1 is an iterator
)

// Where a goal is missed, this is where the time or the memory goes.
const (
	whyFirst   = "beyond the floor it checks whether there are hooks, a budget or a timeout, and copies the value"
	whyClock   = "the floor itself is slower, because it reads the clock so that an error can say how long the run took"
	whyRetries = "an error is classified, its text kept and its attempt numbered; an iterator does none of this"
	whyMemory  = "a Policy passed by value and the frames that classify an error do not fit into 2 KiB together with the caller's frames"
	whyRun     = "a waiting run keeps 416 bytes besides its stack: its errors, its counts and the contexts of the first retries"
)
