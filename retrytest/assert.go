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
	if !slices.Equal(h.delays, want) {
		h.t.Errorf("retrytest: the waits were %v, want %v%s\n%s", h.delays, want, h.randomness(), h.story())
	}
}

// randomness explains waits of 0 that nobody has asked for.
func (h *Harness) randomness() string {
	if !h.unset || !slices.Contains(h.delays, 0) {
		return ""
	}
	return "\nThe random numbers are all 0, with which full jitter does not wait: choose others with WithRand or WithSeed, or a backoff with NoJitter."
}

// AssertAttempts fails the test unless the run made exactly n attempts.
func (h *Harness) AssertAttempts(n int) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.attempts) != n {
		h.t.Errorf("retrytest: there were %d attempts, want %d\n%s", len(h.attempts), n, h.story())
	}
}

// AssertReason fails the test unless the run has ended for this reason:
// ReasonNone for a success.
func (h *Harness) AssertReason(want retry.Reason) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.done:
		h.t.Errorf("retrytest: the run has not ended, want it ended with %s\n%s", word(want), h.story())
	case h.summary.Reason != want:
		h.t.Errorf("retrytest: the run ended with %s, want %s\n%s", word(h.summary.Reason), word(want), h.story())
	}
}

func word(r retry.Reason) string {
	if r == retry.ReasonNone {
		return "success"
	}
	return r.String()
}

// story tells the run line by line, each at its virtual time.
func (h *Harness) story() string {
	if !h.begun {
		return "no run has begun: was h.Policy given to Do?"
	}
	var b strings.Builder
	name := h.Policy.Name
	if name == "" {
		name = "the run"
	}
	fmt.Fprintf(&b, "%s, in virtual time:", name)
	line := func(at time.Duration, format string, args ...any) {
		fmt.Fprintf(&b, "\n%10v  %s", at, fmt.Sprintf(format, args...))
	}
	waits := h.delays
	for _, a := range h.attempts {
		what := "succeeded"
		if a.Err != nil {
			what = fmt.Sprintf("failed, %s: %v", a.Class, a.Err)
		}
		line(a.Elapsed-a.Duration, "attempt %d took %v and %s", a.Number, a.Duration, what)
		if len(waits) > 0 {
			asked := ""
			if a.Hint > 0 {
				asked = fmt.Sprintf(", of which the server asked for %v", a.Hint)
			}
			line(a.Elapsed, "wait %v%s", waits[0], asked)
			waits = waits[1:]
		}
	}
	switch {
	case !h.done && h.watchdog != nil:
		line(h.Clock.Now().Sub(h.began), "attempt %d is running", len(h.attempts)+1)
	case !h.done:
		b.WriteString("\n            the run goes on")
	case h.summary.Err != nil:
		line(h.summary.Elapsed, "gave up: %v", h.summary.Err)
	default:
		line(h.summary.Elapsed, "done")
	}
	return b.String()
}
