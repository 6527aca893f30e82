package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/goretry/retry"
)

// TestRun is the smoke test: the program as it is, sockets and waits included.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of real time")
	}
	var out bytes.Buffer
	if err := run(&out); err != nil {
		t.Errorf("run: %v", err)
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
		if strings.ContainsAny(line, "\x1b█░▒") {
			t.Errorf("colours or bars, but no terminal: %q", line)
		}
	}
	_, rest, _ := strings.Cut(out.String(), "\n\n")
	timelines, table, _ := strings.Cut(rest, "\ncall ")
	blocks := strings.Split(timelines, "\n\n")
	why := map[string]string{ // what the endings say of the policy
		"get-feed":  ": the wait asked for is above Policy.MaxRetryAfter, 5 s",
		"get-stock": ": Policy.MaxAttempts is 4",
		"get-price": ": a retry after a timeout costs 10 tokens, 3 are left",
		"get-log":   ": the next wait would pass Policy.MaxElapsed, 400 ms",
	}
	for i, s := range scenarios() {
		if i >= len(blocks) || !strings.HasPrefix(blocks[i], s.name+" ") {
			t.Errorf("no timeline of %s in its place", s.name)
			continue
		}
		if want := "ended by  " + ending(s.ends) + why[s.name]; !strings.Contains(strings.Join(strings.Fields(blocks[i]), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("timeline of %s lacks %q:\n%s", s.name, want, blocks[i])
		}
		if !strings.Contains(table, "\n"+s.name+" ") {
			t.Errorf("no row of %s in the summary:\n%s", s.name, table)
		}
	}
	if t.Failed() {
		t.Logf("output:\n%s", out.String())
	}
}

func TestUnintendedEnd(t *testing.T) {
	err := play(io.Discard, []scenario{{
		name:  "get-page",
		fails: []step{status(404)},
		ends:  retry.ReasonMaxAttempts,
		call:  getWith[Page](nil),
	}})
	const want = "get-page ended by permanent, want max_attempts"
	if err == nil || err.Error() != want {
		t.Errorf("play = %v, want %s", err, want)
	}
}
