package retrytest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry"
)

// AssertDelays fails the test unless the run's waits for retries were exactly these. Waits for
// guards are not among them: see AssertHeld.
func (h *Harness) AssertDelays(want ...time.Duration) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if got := h.delays(); h.hasBegun() && !slices.Equal(got, want) {
		h.t.Errorf("retrytest: the waits were %v, want %v%s\n%s", got, want, h.randomness(), h.story())
	}
}

// randomness explains what the random numbers have to do with the waits.
func (h *Harness) randomness() (s string) {
	if h.unset && slices.Contains(h.delays(), 0) {
		s += "\nThe random numbers are all 0, with which full jitter does not wait: choose others with Policy.Rand, or a backoff with NoJitter."
	}
	if slices.ContainsFunc(all[wait](h.runs...), func(w wait) bool { return w.Hint > 0 }) {
		s += "\nIf the server asks for a wait, the run waits for that plus the backoff, or plus Policy.Rand times a tenth of it if that is more."
	}
	return s
}

// AssertAttempts fails the test unless the run made exactly n attempts.
func (h *Harness) AssertAttempts(n int) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if got := len(all[retry.Attempt](h.runs...)); h.hasBegun() && got != n {
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

// AssertHeld fails the test unless the policy's guards have held attempts exactly so, in this
// order: without an Err an attempt had to wait, with one it was refused. Of each Held only
// Delay and Err count, and Number and Guard if they are set. Err is compared by [errors.Is].
//
//	h.AssertHeld(
//		retry.Held{Number: 1, Guard: "pace.Pace", Delay: time.Second}, // the first attempt has waited
//		retry.Held{Number: 2, Err: limit.ErrLimited},                   // the second was refused, and the run has ended
//	)
func (h *Harness) AssertHeld(want ...retry.Held) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if got := all[retry.Held](h.runs...); h.hasBegun() && !slices.EqualFunc(got, want, matches) {
		h.t.Errorf("retrytest: guards held %s, want %s\n%s", heldText(got), heldText(want), h.story())
	}
}

// matches reports whether got is what a test wants.
func matches(got, want retry.Held) bool {
	return got.Delay == want.Delay && errors.Is(got.Err, want.Err) &&
		(want.Number == 0 || got.Number == want.Number) && (want.Guard == "" || got.Guard == want.Guard)
}

// heldText describes what guards have done, or are to do, in one line.
func heldText(all []retry.Held) string {
	texts := make([]string, len(all))
	for i, h := range all {
		attempt := "an attempt"
		if h.Number > 0 {
			attempt = fmt.Sprintf("attempt %d", h.Number)
		}
		if h.Guard != "" {
			attempt += " by " + h.Guard
		}
		texts[i] = fmt.Sprintf("%s for %v", attempt, h.Delay)
		if h.Err != nil {
			texts[i] += fmt.Sprintf(" (%v)", h.Err)
		}
	}
	return "[" + strings.Join(texts, ", ") + "]"
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
			line(h.Clock.Now().Sub(r.began), "attempt %d is running", len(all[retry.Attempt](r))+1)
		default:
			b.WriteString("\n            the run goes on")
		}
	}
	return b.String()
}

// tell describes a run up to its end.
func (r *run) tell(line func(at time.Duration, format string, args ...any)) {
	for _, event := range r.events {
		switch e := event.(type) {
		case retry.Attempt:
			what := "succeeded"
			if e.Err != nil {
				what = fmt.Sprintf("failed, %s: %v", e.Class, e.Err)
			}
			line(e.Elapsed-e.Duration, "attempt %d took %v and %s", e.Number, e.Duration, what)
		case wait:
			what, asked := "wait", ""
			if e.Number == 0 {
				what = "pause"
			}
			if e.Now {
				asked = ", since the server asked for a retry at once"
			}
			if e.Hint > 0 {
				asked = fmt.Sprintf(", of which the server asked for %v", e.Hint)
			}
			line(e.Elapsed, "%s %v%s", what, e.Delay, asked)
		case retry.Held:
			if e.Err == nil {
				line(e.Elapsed, "%s tells attempt %d to wait %v", e.Guard, e.Number, e.Delay)
				break
			}
			line(e.Elapsed, "%s refuses attempt %d, %s: %v", e.Guard, e.Number, e.Class, e.Err)
			if e.Delay > 0 {
				line(e.Elapsed, "wait %v", e.Delay)
			}
		}
	}
}
