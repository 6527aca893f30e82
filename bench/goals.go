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
	for _, item := range []string{"first try", "first try, policy built in the call", "first try, no limit on attempts"} {
		own, _ := r.find(item, ours.Name)
		best, name := r.best(item, contextual)
		add("“"+item+"” is no slower than any library that hands on a context and returns a value",
			own.NS <= best, whyClock, "%.1f ns; %s %.1f ns", own.NS, name, best)
		add("“"+item+"” takes at most 2 × the time of the loop by hand", own.Ratio <= 2, whyClock, "%.2f ×", own.Ratio)
	}
	own, _ := r.find("three failures", ours.Name)
	best, name := r.best("three failures", libraries)
	next, nextName := r.best("three failures", contextual)
	add("“three failures” is 3 × faster than the best library", 3*own.NS <= best, whyRetries,
		"%.0f ns; %s %.0f ns, %s %.0f ns", own.NS, name, best, nextName, next)
	least := r.Waiting[library]
	for i, w := range r.Waiting {
		if Peers[i].Module != "" && w.Bytes() < least.Bytes() {
			least = w
		}
	}
	add("a waiting call takes the least memory of all libraries", least.Name == ours.Name, whyMemory,
		"%.0f B; %s %.0f B", r.Waiting[library].Bytes(), least.Name, least.Bytes())
	return all
}

// best returns the shortest time among other libraries.
func (r Report) best(item string, among []Peer) (ns float64, name string) {
	for _, p := range among {
		if x, ok := r.find(item, p.Name); ok && (ns == 0 || x.NS < ns) {
			ns, name = x.NS, x.Name
		}
	}
	return ns, name
}

var (
	libraries  = Peers[library+2:]
	contextual = []Peer{failsafeGo, sethvargo} // which hand a context on and return a value
)

// Where a goal is missed, this is where the time or the memory goes.
const (
	whyClock = "most of the difference is one reading of the clock, without which Error.Elapsed would leave out the first attempt; " +
		"the loop “by hand, timed” reads it too"
	whyRetries = "the clock is read after each attempt and each wait, and the errors and the state of a run take an allocation; " +
		"an iterator keeps neither"
	whyMemory = "a Policy passed by value and the frames that judge an error do not fit into 2 KiB with a caller's above them, " +
		"and the errors that are kept lie on the heap; those that take less keep none"
)
