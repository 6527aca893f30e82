package main

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// onTerminal returns what a command writes to a terminal, its errors as well.
func onTerminal(t *testing.T, args ...string) string {
	t.Helper()
	screen, tty := pseudo(t)
	read := make(chan string)
	go func() {
		all, _ := io.ReadAll(screen) // an error says that tty is closed
		read <- strings.ReplaceAll(string(all), "\r\n", "\n")
	}()
	run(t.Context(), args, tty, tty)
	tty.Close()
	return regexp.MustCompile(`\r.*\r`).ReplaceAllString(<-read, "") // the line that says how far it is
}

// On a terminal no line is longer than it is wide, the words are the same, and a command is what
// it is elsewhere to a shell.
func TestTextOnATerminal(t *testing.T) {
	continued := regexp.MustCompile(` \\\n +`)
	for _, command := range []string{"help", "help try", "help run quotas", "try -seeds 1", "find -seeds 1 -for outage", "run quotas -seeds 1 -duration 1m30s -processes 1",
		"run contention -trials 1", "", "try -polizy x"} {
		args := strings.Fields(command)
		out, errs, _ := retrysim(t.Context(), args...)
		plain := out + errs
		for _, columns := range []string{"", "60", "133"} {
			t.Setenv("COLUMNS", columns)
			most := map[string]int{"": 80, "60": 60, "133": 133}[columns]
			got := onTerminal(t, args...)
			for line := range strings.Lines(got) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > most && !strings.HasPrefix(strings.TrimSpace(line), "-policy '") { // a quoted text stays whole
					t.Errorf("%s: %d columns, want at most %d: %s", command, n, most, line)
				}
			}
			if got, want := strings.Fields(continued.ReplaceAllString(got, " ")), strings.Fields(plain); !sameWords(got, want) {
				t.Errorf("%s: with %d columns\n%q\nwithout a terminal\n%q", command, most, got, want)
			}
		}
	}
}

// sameWords compares words whatever their order: that of a table's cells changes.
func sameWords(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// What is broken can be read: below itself, with what belongs together.
func TestFitted(t *testing.T) {
	for text, want := range map[string]string{
		"short\n":                                        "short\n",
		"one two three four five six seven\n":            "one two three four\nfive six seven\n",
		"  name    what it does in words\n":              "  name    what it\n          does in\n          words\n",
		"of all calls, 31.66 % got lost\n":               "of all calls,\n31.66 % got lost\n",
		"retrysim try -policy 'a -b c' -rate 5 -seeds 1": "retrysim try \\\n    -policy 'a -b c' \\\n    -rate 5 \\\n    -seeds 1",
		"retrysim try: what it does":                     "retrysim try: what\nit does",
		"\n\nfor example: retrysim run x -a\n":           "\n\nfor example: retrysim run x \\\n    -a\n",
	} {
		if got := fitted(text, 20); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
		if got := fitted(text, 0); got != text {
			t.Errorf("without a width %q becomes %q", text, got)
		}
	}
}
