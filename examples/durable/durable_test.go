package main

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// The processes that the program starts are this binary.
func TestMain(m *testing.M) {
	if !actAsChild() {
		os.Exit(m.Run())
	}
}

func TestEveryJobOutlivesTheDeaths(t *testing.T) {
	var out bytes.Buffer
	if err := run(&out); err != nil {
		t.Errorf("run() = %v", err)
	}
	_, drawing, _ := strings.Cut(out.String(), "\n               0 s ")
	for _, j := range jobs {
		_, row, _ := strings.Cut(drawing, "\n"+j.name+" ")
		row, _, _ = strings.Cut(row, "\n")
		if !strings.HasSuffix(row, j.ends) || !strings.Contains(row, "1") {
			t.Errorf("the row of %s is %q, want it to end with %s", j.name, row, j.ends)
		}
		if j.name == "print-report" && !strings.ContainsRune(row, markKilled) {
			t.Errorf("the row of %s is %q, want a delivery that was killed", j.name, row)
		}
	}
	if n := strings.Count(drawing, "is killed"); n != 2 {
		t.Errorf("the chart has %d deaths, want 2", n)
	}
	if t.Failed() {
		t.Logf("output:\n%s", out.String())
	}
}

func TestChart(t *testing.T) {
	var out bytes.Buffer
	c := newChart(&out)
	c.start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(seconds float64) time.Time { return c.start.Add(time.Duration(seconds * float64(time.Second))) }
	take := func(by string, seconds float64, job string, delivery int, what what, reason string) {
		c.take(told{event{Job: job, Delivery: delivery, What: what, Reason: reason, At: at(seconds)}, by})
	}
	for _, j := range jobs[1:] {
		take("first", 0, j.name, 1, began, "")
		take("first", .1, j.name, 1, done, "")
	}
	take("first", 1, "greet-ada", 1, began, "")
	take("first", 2, "greet-ada", 1, failed, "")
	c.deaths = append(c.deaths, death{"the first consumer", at(4)})
	take("first", 3, "greet-ada", 2, began, "") // heard of late
	take("second", 6, "greet-ada", 3, began, "")
	take("second", 6, "greet-ada", 3, failed, "")
	take("second", 6.4, "greet-ada", 3, dead, "permanent")
	out.Reset()
	c.draw()
	got := strings.Split(out.String(), "\n")
	want := []string{"",
		"               0 s          2 s          4 s           6 s",
		"greet-ada      ......1======x......2=====!.............3x.    dead: permanent",
		"fetch-rates    1*                                             done"}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("line %d is\n%q, want\n%q", i, got[i], want[i])
		}
	}
	if !strings.Contains(out.String(), strings.Repeat(" ", 15+26)+"^ the first consumer is killed") {
		t.Errorf("the death is not below its time:\n%s", out.String())
	}
}

// At the right edge there is no room for a delivery that has begun.
func TestChartOfDeliveryAtTheEnd(t *testing.T) {
	c := newChart(io.Discard)
	c.begin()
	for _, j := range jobs {
		c.take(told{event{Job: j.name, Delivery: 1, What: began, At: c.start}, "first"})
		c.take(told{event{Job: j.name, Delivery: 1, What: done, At: c.start.Add(time.Second)}, "first"})
		c.take(told{event{Job: j.name, Delivery: 2, What: began, At: c.start.Add(time.Second)}, "first"})
	}
	c.draw()
	if err := c.check(); err == nil || strings.Contains(err.Error(), "greet-ada") {
		t.Errorf("check() = %v, want that the jobs meant to die are missed, and no other", err)
	}
}
