package main

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// TestRun is the smoke test: the program as it is, for a few seconds. On a busy machine
// its times mean little: they count with RETRY_LONG=1 alone.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of real time")
	}
	var out bytes.Buffer
	err := run(&out, 3*time.Second)
	if errors.Is(err, errNoGain) && os.Getenv("RETRY_LONG") != "1" {
		t.Logf("run: %v", err)
	} else if err != nil {
		t.Errorf("run: %v", err)
	}
	for _, want := range []string{"without hedges", "with hedges", "load", "second", "Load while slow"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in the output", want)
		}
	}
	if t.Failed() {
		t.Logf("output:\n%s", out.String())
	}
}

func TestBarsCountCalls(t *testing.T) {
	f := figures{times: []time.Duration{1, 2, 3, 4, 5}, requests: 6}
	for _, tt := range []struct {
		low, high time.Duration
		want      string
	}{{0, 1, "██ 1"}, {1, 4, "████ 3"}, {5, 9, ""}} {
		if got := bar(f, tt.low, tt.high); got != tt.want {
			t.Errorf("bar(%v, %v) = %q, want %q", tt.low, tt.high, got, tt.want)
		}
	}
	if got := f.load(); got < .19 || got > .21 {
		t.Errorf("load() = %v, want .2", got)
	}
}
