package retrytest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry"
)

// AssertDelays fails the test unless the run's waits were exactly these.
func (h *Harness) AssertDelays(want ...time.Duration) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if got := h.delays(); h.hasBegun() && !slices.Equal(got, want) {
		h.t.Errorf("retrytest: the waits were %v, want %v%s\n%s", got, want, h.randomness(), h.story())
	}
}

// randomness explains waits of 0 that come from the default random numbers.
func (h *Harness) randomness() string {
	if !h.unset || !slices.Contains(h.delays(), 0) {
		return ""
	}
	return "\nThe random numbers are all 0, with which full jitter does not wait: choose others with WithRand or WithSeed, or a backoff with NoJitter."
}

// AssertAttempts fails the test unless the run made exactly n attempts.
func (h *Harness) AssertAttempts(n int) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if got := len(h.attempts()); h.hasBegun() && got != n {
		made := fmt.Sprintf("were %d attempts", got)
		if got == 1 {
			made = "was 1 attempt"
		}
		h.t.Errorf("retrytest: there %s, want %d\n%s", made, n, h.story())
	}
}

// AssertReason fails the test unless the run has ended for this reason:
// ReasonNone for a success.
func (h *Harness) AssertReason(want retry.Reason) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.latest()
	switch {
	case !h.hasBegun():
	case !r.done:
		h.t.Errorf("retrytest: the run has not ended, want it ended with %s\n%s", word(want), h.story())
	case r.summary.Reason != want:
		h.t.Errorf("retrytest: the run ended with %s, want %s\n%s", word(r.summary.Reason), word(want), h.story())
	}
}

const notBegun = "no run has begun: was h.Policy given to Do?"

// hasBegun reports whether there was a run at all, and fails the test otherwise: if
// the policy was not used, zero attempts and waits prove nothing.
func (h *Harness) hasBegun() bool {
	h.t.Helper()
	if len(h.runs) == 0 {
		h.t.Errorf("retrytest: %s", notBegun)
	}
	return len(h.runs) > 0
}

func word(r retry.Reason) string {
	if r == retry.ReasonNone {
		return "success"
	}
	return r.String()
}

// story describes the runs line by line, with virtual times.
func (h *Harness) story() string {
	if len(h.runs) == 0 {
		return notBegun
	}
	var b strings.Builder
	name := h.Policy.Name
	if name == "" {
		name = "the run"
	}
	fmt.Fprintf(&b, "%s, in virtual time:", name)
	for _, r := range h.runs {
		line := func(at time.Duration, format string, args ...any) {
			fmt.Fprintf(&b, "\n%10v  %s", r.began.Add(at).Sub(h.runs[0].began), fmt.Sprintf(format, args...))
		}
		r.tell(line)
		switch {
		case r.done && r != h.latest():
			line(r.summary.Elapsed, "done: it was up for long enough, and a new run begins")
		case r.done && r.summary.Err != nil:
			line(r.summary.Elapsed, "gave up: %v", r.summary.Err)
		case r.done:
			line(r.summary.Elapsed, "done")
		case h.watchdog != nil:
			line(h.Clock.Now().Sub(r.began), "attempt %d is running", len(r.attempts)+1)
		default:
			b.WriteString("\n            the run goes on")
		}
	}
	return b.String()
}

// tell describes a run up to its end.
func (r *run) tell(line func(at time.Duration, format string, args ...any)) {
	waits := r.waits
	wait := func(what string) {
		a := waits[0]
		asked := ""
		if a.Hint > 0 {
			asked = fmt.Sprintf(", of which the server asked for %v", a.Hint)
		}
		line(a.Elapsed, "%s %v%s", what, a.Delay, asked)
		waits = waits[1:]
	}
	all := func(number int, what string) {
		for len(waits) > 0 && waits[0].Number == number {
			if waits[0].Paced {
				wait("wait for its turn,")
			} else {
				wait(what)
			}
		}
	}
	all(0, "pause")
	for _, a := range r.attempts {
		what := "succeeded"
		if a.Err != nil {
			what = fmt.Sprintf("failed, %s: %v", a.Class, a.Err)
		}
		line(a.Elapsed-a.Duration, "attempt %d took %v and %s", a.Number, a.Duration, what)
		all(a.Number, "wait")
	}
}
