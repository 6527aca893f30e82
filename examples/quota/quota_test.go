package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"
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
	for _, want := range []string{"attempts in a second", "calls that fail", "answered 429"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in the output", want)
		}
	}
	if t.Failed() {
		t.Logf("output:\n%s", out.String())
	}
}

func TestCompare(t *testing.T) {
	without, with := figures{failed: 149, throttled: 154}, figures{throttled: 60}
	if err := compare(without, with); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		name          string
		without, with figures
	}{
		{"no pace", without, without},
		{"calls fail with a pace too", without, figures{failed: 11, throttled: 60}},
		{"as many 429s", without, figures{throttled: 154}},
		{"a server that limits nothing", figures{}, figures{}},
	} {
		if compare(c.without, c.with) == nil {
			t.Errorf("%s: no error", c.name)
		}
	}
}

// The test binary is the workers too.
func TestMain(m *testing.M) {
	if !asked() {
		os.Exit(m.Run())
	}
}

func TestFleet(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of real time")
	}
	for _, f := range []fleet{
		{processes: 3, lasts: 3 * time.Second, every: time.Second},
		{processes: 3, shared: true, kills: time.Second, dies: 2 * time.Second, back: 3 * time.Second, lasts: 6 * time.Second, every: time.Second},
	} {
		var out bytes.Buffer
		if err := f.run(t.Context(), &out); err != nil {
			t.Errorf("run: %v", err)
		}
		want := []string{"were answered 429"}
		if f.shared && !strings.Contains(out.String(), "not installed") {
			want = append(want, "is killed", "back", " shared", " alone")
		}
		for _, want := range want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %q in\n%s", want, out.String())
			}
		}
	}
}
