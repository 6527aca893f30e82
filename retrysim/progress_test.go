package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Nothing but a terminal gets progress.
func TestNoProgressWithoutATerminal(t *testing.T) {
	beat = time.Microsecond
	t.Cleanup(func() { beat = time.Second })
	file, err := os.Create(filepath.Join(t.TempDir(), "errors"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var out, buffer bytes.Buffer
	args := []string{"try", "-seeds", "1", "-duration", "23s"}
	if code := run(t.Context(), args, &out, file); code != 0 {
		t.Fatal(code)
	}
	if code := run(t.Context(), args, &out, &buffer); code != 0 || buffer.Len() > 0 {
		t.Errorf("code %d: %q", code, buffer.String())
	}
	if info, err := file.Stat(); err != nil || info.Size() > 0 {
		t.Errorf("a file gets %d bytes, %v", info.Size(), err)
	}
}

// What is to be done is what is counted: a command ends with all of it.
func TestProgressCounts(t *testing.T) {
	notUnderRace(t)
	for args, least := range map[string]int64{
		"-seeds 2 -duration 23s":                                        2 * (5 + 5*5),
		"-seeds 1 -duration 23s -limit 1,100 -policy attempts=2":        8,
		"-seeds 1 -outage 5s -policy attempts=4 -rate 190 -failure .05": 10, // which doubles the duration
	} {
		o := &options{FlagSet: flag.NewFlagSet("try", flag.ContinueOnError)}
		x := newScenario(o)
		if err := o.Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		if err := x.check(o); err != nil {
			t.Fatal(err)
		}
		if _, _, err := x.try(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if done, all := o.done.Load(), o.all.Load(); done != all || done < least {
			t.Errorf("try %s: %d of %d runs are counted", args, done, all)
		}
	}
}

func TestProgressLine(t *testing.T) {
	var p progress
	if got := p.line("run herd", 2*time.Second); got != "run herd, 2 s" {
		t.Error(got)
	}
	p.left(5)
	p.step()
	p.more(3)
	if got := p.line("try", 90*time.Second); got != "try: 1 of about 8 done, 90 s" {
		t.Error(got)
	}
	p.left(2)
	if got := p.line("find", 0); got != "find: 1 of about 3 done, 0 s" {
		t.Error(got)
	}
}

// seen is what a screen shows of a line of output, and whether all else was removed.
func seen(line string) (shown []string, removed bool) {
	parts := strings.Split(line, "\r")
	for _, part := range parts {
		if part = strings.TrimRight(part, " "); part != "" {
			shown = append(shown, part)
		}
	}
	last := parts[len(parts)-1]
	return shown, last == ""
}

var aLine = regexp.MustCompile(`^try: \d+ of about \d+ done, \d+ s$`)
