package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// timeline prints runs while they happen, by its hooks. It follows one run at a time;
// hooks of a policy whose runs overlap would keep what belongs to a run in the context
// that Start and Attempt return.
type timeline struct {
	w     io.Writer
	style style

	policy  retry.Policy  // of the run underway
	spans   []span        // of the run underway, so far
	waiting retry.Attempt // what the wait underway follows
	done    []record
}

// record is what the summary keeps of a run.
type record struct {
	retry.Summary
	spans []span
}

// span is a stretch of a run: an attempt, or a part of a wait.
type span struct {
	kind kind
	took time.Duration
}

type kind uint8

const (
	failed kind = iota
	succeeded
	asked // the part of a wait that the server asked for
	backoff
)

func (t *timeline) hooks() retry.Hooks {
	return retry.Hooks{
		Start: func(ctx context.Context, p retry.Policy) context.Context {
			t.policy, t.spans, t.waiting = p, nil, retry.Attempt{}
			return ctx
		},
		// Half a line, so that a reader sees what the program waits for.
		Attempt: func(ctx context.Context, a retry.Attempt) context.Context {
			t.waited(a.Elapsed)
			t.begin(a.Elapsed, fmt.Sprintf("attempt %-2d", a.Number))
			return ctx
		},
		AttemptDone: func(_ context.Context, a retry.Attempt) { t.attempt(a) },
		Wait:        func(_ context.Context, a retry.Attempt) { t.wait(a) },
		Done:        func(_ context.Context, s retry.Summary) { t.end(s) },
	}
}

// begin starts a line: when it was, counted from the run's start, and what.
func (t *timeline) begin(at time.Duration, what string) {
	fmt.Fprintf(t.w, "%s  %s", t.style.paint(dim, fmt.Sprintf("%7s", short(at))), what)
}

func (t *timeline) attempt(a retry.Attempt) {
	fmt.Fprintf(t.w, "%6s  ", short(a.Duration))
	if a.Err == nil {
		t.spans = append(t.spans, span{succeeded, a.Duration})
		fmt.Fprintln(t.w, t.style.paint(green, "ok"))
		return
	}
	t.spans = append(t.spans, span{failed, a.Duration})
	class := a.Class.String()
	if a.Class == retry.Unknown {
		class = "" // the caller's context has ended, so the error was not classified
	}
	fmt.Fprintf(t.w, "%s  %s\n", t.style.paint(red, fmt.Sprintf("%-40s", clip(plain(a.Err), 40))), class)
}

func (t *timeline) wait(a retry.Attempt) {
	t.waiting = a
	// A Backoff is pure, so it can be called for the two ends of its jitter.
	low := t.policy.Backoff.Delay(retry.Step{Retry: a.Number, Rand: 0})
	high := t.policy.Backoff.Delay(retry.Step{Retry: a.Number, Rand: 1})
	why := fmt.Sprintf("backoff, random in %d-%s", low.Milliseconds(), short(high))
	switch {
	case a.Hint > 0:
		why = fmt.Sprintf("%s the server asked for + %s backoff", short(a.Hint), short(a.Delay-a.Hint))
	case low == high:
		why = "backoff, constant"
	}
	t.begin(a.Elapsed, t.style.paint(cyan, fmt.Sprintf("wait      %6s  %s", short(a.Delay), why)))
	fmt.Fprintln(t.w)
}

// waited notes what became of the wait underway, if there is one: until when it
// lasted, which is not always what was planned.
func (t *timeline) waited(until time.Duration) {
	if t.waiting.Number == 0 {
		return
	}
	took := until - t.waiting.Elapsed
	if first := min(t.waiting.Hint, took); first > 0 {
		t.spans = append(t.spans, span{asked, first})
	}
	if rest := took - t.waiting.Hint; rest > 0 {
		t.spans = append(t.spans, span{backoff, rest})
	}
	t.waiting = retry.Attempt{}
}

func (t *timeline) end(s retry.Summary) {
	t.waited(s.Elapsed)
	t.done = append(t.done, record{s, t.spans})

	colour := green
	if s.Err != nil {
		colour = yellow
	}
	for i, line := range wrap(ending(s.Reason)+t.why(s), columns-19) {
		if i == 0 {
			t.begin(s.Elapsed, t.style.paint(colour, "ended by  "+line))
		} else {
			fmt.Fprintf(t.w, "%19s%s", "", t.style.paint(colour, line))
		}
		fmt.Fprintln(t.w)
	}
}

// ending says in the timeline and in the summary how a run ended.
func ending(r retry.Reason) string {
	if r == retry.ReasonNone {
		return "success"
	}
	return r.String()
}

// why says in words what the run's reason means for this run.
func (t *timeline) why(s retry.Summary) string {
	p := t.policy
	switch s.Reason {
	case retry.ReasonNone:
		return fmt.Sprintf(" on attempt %d", s.Attempts)
	case retry.ReasonPermanent:
		return ": to ask again would change nothing"
	case retry.ReasonRefused:
		return ": the server asked for no retry"
	case retry.ReasonNotIdempotent:
		return ": the server may have done it, and must not do it twice"
	case retry.ReasonMaxAttempts:
		return fmt.Sprintf(": Policy.MaxAttempts is %d", p.MaxAttempts)
	case retry.ReasonMaxElapsed:
		return ": the next wait would pass Policy.MaxElapsed, " + short(p.MaxElapsed)
	case retry.ReasonDeadline:
		return ": the wait would pass the caller's deadline, so it is not begun"
	case retry.ReasonRetryAfter:
		return ": the wait asked for is above Policy.MaxRetryAfter, " + short(p.MaxRetryAfter)
	case retry.ReasonBudget:
		return fmt.Sprintf(": %v", s.Err.(*retry.Error).Cause) // an EarnedBudget says what the retry costs
	case retry.ReasonCanceled:
		return ": the caller has left"
	}
	return ""
}

// returned prints what the caller got.
func (t *timeline) returned(v any, err error) {
	text := strings.TrimPrefix(fmt.Sprintf("%#v", v), "main.")
	if err != nil {
		text = err.Error()
	}
	what := "returns"
	for _, line := range wrap(text, columns-9) {
		fmt.Fprintln(t.w, t.style.paint(dim, fmt.Sprintf("%7s  %s", what, line)))
		what = ""
	}
}

// summary prints a table of all runs, on a terminal with a bar for each.
func (t *timeline) summary() {
	const cells = 24 // and one more for each part that is shorter
	longest := time.Duration(1)
	for _, r := range t.done {
		longest = max(longest, r.Elapsed)
	}
	scale := max(longest/cells, 1)

	attempts := 0
	fmt.Fprintln(t.w, t.style.paint(bold, "call        attempts    waited   ended by"))
	for _, r := range t.done {
		line := fmt.Sprintf("%-12s%8d%10s   %-16s", r.Name, r.Attempts, short(r.Waited), ending(r.Reason))
		fmt.Fprintln(t.w, strings.TrimRight(line+t.bar(r.spans, scale), " "))
		attempts += r.Attempts
	}
	if t.style {
		fmt.Fprintf(t.w, "%31s%s%s attempt  %s backoff  %s asked for by the server\n", "",
			t.cells(failed, 1), t.cells(succeeded, 1), t.cells(backoff, 1), t.cells(asked, 1))
	}
	fmt.Fprintf(t.w, "\n%d calls, %d attempts.", len(t.done), attempts)
}

// bar draws a run, scale to a cell. What is shorter still gets one.
func (t *timeline) bar(spans []span, scale time.Duration) string {
	if !t.style {
		return ""
	}
	var b strings.Builder
	for _, s := range spans {
		b.WriteString(t.cells(s.kind, max(int((s.took+scale/2)/scale), 1)))
	}
	return b.String()
}

func (t *timeline) cells(k kind, n int) string {
	look := [...]struct{ colour, cell string }{
		failed:    {red, "█"},
		succeeded: {green, "█"},
		asked:     {yellow, "▒"},
		backoff:   {cyan, "░"},
	}[k]
	return t.style.paint(look.colour, strings.Repeat(look.cell, n))
}

// style says whether the reader is a terminal that wants colours and bars.
type style bool

const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

func styleOf(w io.Writer) style {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return style(err == nil && info.Mode()&os.ModeCharDevice != 0)
}

func (s style) paint(colour, text string) string {
	if !s {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// plain returns what went wrong without the addresses, which tell little and are
// others each time.
func plain(err error) string {
	if e, ok := errors.AsType[*retryhttp.StatusError](err); ok {
		s := fmt.Sprintf("%d %s", e.Code, http.StatusText(e.Code))
		if e.Hint > 0 {
			s += fmt.Sprintf(", Retry-After %v", e.Hint)
		}
		return s
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		err = e.Err
	}
	return err.Error()
}

// clip shortens what is longer than a line has room for.
func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-3]) + "..."
	}
	return s
}

// columns is how wide a terminal is.
const columns = 80

// wrap breaks s into lines of at most n runes, at spaces where there are any.
func wrap(s string, n int) []string {
	var lines []string
	for r := []rune(s); ; {
		if len(r) <= n {
			return append(lines, string(r))
		}
		end := n
		for end > 0 && r[end] != ' ' {
			end--
		}
		if end == 0 {
			end = n
		}
		lines = append(lines, string(r[:end]))
		r = []rune(strings.TrimLeft(string(r[end:]), " "))
	}
}

// short prints a duration as people say it.
func short(d time.Duration) string {
	switch {
	case d > 0 && d < time.Millisecond:
		return "<1 ms"
	case d < 999500*time.Microsecond:
		return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
	case d < time.Minute && d%time.Second != 0:
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return fmt.Sprintf("%d s", d/time.Second)
}
