package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/goretry/retry"
)

// timeline prints runs while they happen, by its hooks. It follows one run at a time.
type timeline struct {
	w        io.Writer
	reason   retry.Reason // why the latest run ended
	attempts int          // of all runs
}

func (t *timeline) hooks() retry.Hooks {
	return retry.Hooks{
		AttemptDone: func(_ context.Context, a retry.Attempt) {
			t.attempts++
			text := "answered"
			if a.Err != nil {
				text = fmt.Sprintf("%-44s  %s", said(a.Err), a.Class)
			}
			t.line(a.Elapsed-a.Duration, "attempt %d %8s  %s", a.Number, short(a.Duration), text)
		},
		Wait: func(_ context.Context, a retry.Attempt) {
			why := "backoff"
			if a.Hint > 0 {
				why = fmt.Sprintf("%s the server asked for + %s backoff", short(a.Hint), short(a.Delay-a.Hint))
			}
			t.line(a.Elapsed, "wait      %8s  %s", short(a.Delay), why)
		},
		Done: func(_ context.Context, s retry.Summary) {
			t.reason = s.Reason
			how := "success"
			if s.Err != nil {
				how = s.Reason.String()
			}
			t.line(s.Elapsed, "ended by  %s", how)
		},
	}
}

func (t *timeline) line(at time.Duration, format string, args ...any) {
	fmt.Fprintf(t.w, "%9s  %s\n", short(at), fmt.Sprintf(format, args...))
}

// returned prints what the caller got.
func (t *timeline) returned(v any, err error) {
	what := fmt.Sprint(v)
	if err != nil {
		what = said(err)
	}
	fmt.Fprintf(t.w, "%9s  %s\n", "returns", what)
}

// said returns what an error says, without grpc's words around it and without the
// address of a connection, which is another one each time.
func said(err error) string {
	text, _, lost := strings.Cut(err.Error(), "connection error: ")
	if lost {
		text += "no connection"
	}
	return strings.NewReplacer("rpc error: code = ", "", " desc = ", ": ").Replace(text)
}

// short prints a duration as people say it.
func short(d time.Duration) string {
	if d > 0 && d < time.Millisecond {
		return "<1 ms"
	}
	return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
}
