package health

import "time"

// Rule says when a Health closes, for how long, and how it comes back. It needs Evidence, Wait and Hang.
type Rule struct {
	Evidence Evidence // says after which failure it closes

	// Wait returns the nth wait since it was well, given what the server has asked for, 0 if
	// nothing. If n is 0, only what was asked for counts: it lengthens a wait that has begun.
	// It is called when a wait begins, and when an attempt on probation or on the ramp starts.
	Wait func(n int, hint time.Duration) time.Duration

	// Hang returns after how long the next attempt may start if one on probation does not
	// end, given the wait before that one and the wait that is next.
	Hang func(wait, next time.Duration) time.Duration

	// Ramp is how many successes make it well again. Below one counts as one.
	Ramp int

	// Strict says that a failure on the ramp closes it at once. Otherwise it takes the
	// evidence that closes one that is well.
	Strict bool
}

// Outcome is what an attempt says of the health of what it called.
type Outcome uint8

const (
	Nothing Outcome = iota // it was not made, its caller has ended it, or its failure has other reasons
	Passed
	Failed
	Broken // it has failed, and so will all others: that needs no more evidence
)

// News is what has become of an attempt.
type News struct {
	Ticket  uint64 // from Start
	Outcome Outcome
	Hint    time.Duration // Failed, Broken: how long the server asks to wait. Nothing: how long at least until the next, if it was on probation
	ID      string        // for Evidence that tells attempts apart
}

// Health decides whether attempts at something may start: see the package documentation. The
// zero Health is well. It is not safe for concurrent use.
type Health struct {
	Rule Rule // set before the first End, and before a Start when it is not well

	left  int           // successes until it is well; 0: it is well; the whole Ramp: it is closed
	waits int           // since it was well
	wait  time.Duration // the latest of them
	next  time.Duration // and the one that follows if the latest attempt hangs
	due   time.Time     // when the wait ends
	hung  time.Time     // when those in flight no longer keep the next from starting

	started uint64 // attempts
	closed  uint64 // of them before the latest closing: their successes are late
	counted uint64 // before the latest closing, opening, or hang: so are their failures, and they do not count as in flight
	flight  int    // attempts in flight, unless it is well
}

const (
	// slack is how much older than another a reading of the clock may be because its caller
	// waited for a lock. After more the clock was set back, and what is to come has come.
	slack = time.Second

	mostWait time.Duration = 1 << 61 // so that the sum of two is one
)

// Closed reports whether no attempt has passed since h closed.
func (h *Health) Closed() bool { return h.left >= h.ramp() }

// Well reports whether any number of attempts may start.
func (h *Health) Well() bool { return h.left == 0 }

// Trying reports whether attempts on probation, or on the ramp, are in flight.
func (h *Health) Trying() bool { return h.left > 0 && h.flight > 0 }

// Ready returns how long from now the next attempt may start, 0 if it may now. It may be sooner,
// when one in flight ends.
func (h *Health) Ready(now time.Time) (wait time.Duration) {
	if h.left == 0 {
		return 0
	}
	wait = h.Left(now)
	if h.full() && Ahead(now, h.hung, h.Rule.Hang(h.wait, h.next)) {
		wait = max(wait, h.hung.Sub(now))
	}
	return wait
}

// Left returns how much of its wait is left, 0 if it does not wait.
func (h *Health) Left(now time.Time) time.Duration {
	if h.left > 0 && Ahead(now, h.due, h.wait) {
		return h.due.Sub(now)
	}
	return 0
}

// Tried reports whether an attempt has started since h closed, or ever if it never has.
func (h *Health) Tried() bool { return h.started > h.closed }

// Started returns the ticket of the latest attempt.
func (h *Health) Started() uint64 { return h.started }

// Start notes that an attempt starts, which may be one for which h is not Ready. The caller
// calls End with the ticket, or the attempt hangs. If h is well, now may be zero.
func (h *Health) Start(now time.Time) (ticket uint64) {
	if h.left > 0 {
		if h.full() && h.Ready(now) == 0 { // those in flight count as failed
			h.wait, h.counted, h.flight = h.next, h.started, 0
			h.waits++
		}
		h.flight++
		h.next = h.waitFor(h.waits+1, 0)
		h.hung = now.Add(h.Rule.Hang(h.wait, h.next))
	}
	h.started++
	return h.started
}

// End notes what has become of an attempt.
func (h *Health) End(now time.Time, n News) {
	current := n.Ticket > h.counted
	if current {
		h.flight--
	}
	switch n.Outcome {
	case Nothing:
		if current && h.Closed() && n.Hint > 0 {
			h.lengthen(now, h.waitFor(0, n.Hint))
		}
	case Passed:
		h.passed(now, n.Ticket > h.closed)
	default:
		h.failed(now, n, current)
	}
}

func (h *Health) passed(now time.Time, after bool) {
	if h.left == 0 || after && !h.Closed() {
		h.Rule.Evidence.Passed(now)
	}
	if h.left == 0 || !after {
		return
	}
	if h.Closed() { // it opens
		h.due, h.counted, h.flight = time.Time{}, h.started, 0
	}
	if h.left--; h.left == 0 {
		h.waits = 0
	}
}

func (h *Health) failed(now time.Time, n News, current bool) {
	closed := h.Closed()
	switch {
	case closed && (!current || Ahead(now, h.due, h.wait)): // that is known
		if n.Hint > 0 {
			h.lengthen(now, h.waitFor(0, n.Hint))
		}
	case !current:
	case closed, n.Outcome == Broken, h.left > 0 && h.Rule.Strict, h.Rule.Evidence.Failed(now, n.ID):
		h.waits++
		h.close(now, h.waitFor(h.waits, n.Hint))
	}
}

// Hold closes h for d, or for longer if it is closed for longer. If d is not above 0, h is well.
// No attempt that has started says anything about that.
func (h *Health) Hold(now time.Time, d time.Duration) {
	switch {
	case d <= 0:
		*h = Health{Rule: h.Rule, started: h.started, counted: h.started}
		h.Rule.Evidence.Reset()
	case h.Closed():
		h.lengthen(now, d)
		h.closed, h.counted, h.flight = h.started, h.started, 0
	default:
		h.close(now, d)
	}
}

func (h *Health) close(now time.Time, d time.Duration) {
	h.left, h.wait, h.due = h.ramp(), d, now.Add(d)
	h.closed, h.counted, h.flight = h.started, h.started, 0
	h.Rule.Evidence.Reset()
}

// lengthen lets the wait end no earlier than in d.
func (h *Health) lengthen(now time.Time, d time.Duration) {
	if at := now.Add(d); at.After(h.due) {
		h.wait, h.due = max(h.wait, d), at
	}
}

// full reports whether as many are in flight as there may be.
func (h *Health) full() bool { return h.flight > h.ramp()-h.left }

func (h *Health) ramp() int { return max(h.Rule.Ramp, 1) }

func (h *Health) waitFor(n int, hint time.Duration) time.Duration {
	return min(h.Rule.Wait(n, hint), mostWait)
}

// Hold is the Wait of a pace's hold: the server's hint, at most 75 seconds. Without a hint it
// is a second, and twice as long each time, up to a minute.
func Hold(n int, hint time.Duration) time.Duration {
	if hint > 0 {
		return min(hint, 75*time.Second)
	}
	return min(time.Second<<min(n-1, 6), time.Minute)
}

// Ahead reports whether at, which was d ahead when it was set, is to come. If it is further ahead by
// more than a second, the clock was set back, and it has come.
func Ahead(now, at time.Time, d time.Duration) bool {
	far := at.Sub(now)
	return far > 0 && far-slack <= d
}
