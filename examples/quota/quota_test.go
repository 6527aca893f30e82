package main

import (
	"bytes"
	"io"
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
	without, with := figures{failed: 149, throttled: 154}, figures{throttled: 10}
	if err := compare(without, with); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		name          string
		without, with figures
	}{
		{"no pace", without, without},
		{"calls fail with a pace too", without, figures{failed: 11}},
		{"429s with a pace too", without, figures{throttled: 11}},
		{"a server that limits nothing", figures{}, figures{}},
	} {
		if compare(c.without, c.with) == nil {
			t.Errorf("%s: no error", c.name)
		}
	}
}

// The test binary is the workers too.
func TestMain(m *testing.M) {
	if !employed() {
		os.Exit(m.Run())
	}
}

func TestFleet(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of real time")
	}
	for name, c := range map[string]struct {
		fleet
		want []string
	}{
		"alone":   {fleet{client: "pace of its share", processes: 3, lasts: 3 * time.Second}, []string{"3 apart"}},
		"killed":  {fleet{client: "shared pace", processes: 3, redis: true, kills: time.Second, dies: 2 * time.Second, back: 3 * time.Second, lasts: 6 * time.Second}, []string{"Redis is killed", "process with a thousand calls is killed", "back", "shared", "alone"}},
		"emptied": {fleet{client: "shared pace", processes: 3, redis: true, emptied: 500 * time.Millisecond, lasts: 2 * time.Second}, []string{"FLUSHALL", "3 shared"}},
		"failover": {fleet{client: "shared pace", processes: 3, redis: true, sentinel: true, dies: time.Second, back: 20 * time.Second, lasts: 25 * time.Second},
			[]string{"master is killed", "have a new master", "all share again", "back", "3 shared"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.load, c.every = 1.5, time.Second
			var out bytes.Buffer
			if _, err := c.run(t.Context(), &out); err == errNoRedis {
				t.Skip(err)
			} else if err != nil {
				t.Errorf("run: %v", err)
			}
			for _, want := range append(c.want, "were answered 429") {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in\n%s", want, out.String())
				}
			}
		})
	}
}

// Each client makes calls that succeed.
func TestCompareClients(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of real time")
	}
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := fleet{client: c.name, processes: 2, load: .8, redis: true, lasts: 3 * time.Second, every: time.Second}
			o, err := f.run(t.Context(), io.Discard)
			if err == errNoRedis {
				t.Skip(err)
			}
			if err != nil || len(o.waits) < 5 || len(o.waits) != o.calls-o.failed || len(o.each) != 2 || o.throttled > o.requests/2 {
				t.Errorf("%+v, %v", o, err)
			}
			if asks := strings.Contains(c.name, "redis_rate") || strings.Contains(c.name, "shared"); asks != (o.scripts > 0) {
				t.Errorf("%d calls of the Redis", o.scripts)
			}
		})
	}
}

func TestJain(t *testing.T) {
	for want, xs := range map[float64][]float64{1: {3, 3, 3}, .25: {0, 5, 0, 0}, .9: {1, 2}} {
		if got := jain(xs); got != want {
			t.Errorf("jain(%v) = %v, want %v", xs, got, want)
		}
	}
}
