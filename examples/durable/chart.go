package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// told is an event and who told it.
type told struct {
	event
	by string
}

// consumerCalled returns who dies when the consumer of that name does.
func consumerCalled(name string) string { return "the " + name + " consumer" }

// delivery is one delivery of a job.
type delivery struct {
	number   int
	by       string // which consumer
	from, to time.Time
	end      byte // how it ended: see marks; 0 while it runs
}

// What the chart has where a delivery ends. It has the delivery's number where it begins.
const (
	markDone   = '*'
	markFailed = 'x'
	markKilled = '!'
)

// history is what became of a job.
type history struct {
	deliveries []delivery
	ending     string // "done", or the reason of its dead letter; "" while it has none
	why        string
	at         time.Time // of the ending
}

// chart collects what happens, tells it, and draws it in the end.
type chart struct {
	w      io.Writer
	events chan told
	start  time.Time
	jobs   map[string]*history
	deaths []death
}

type death struct {
	who string
	at  time.Time
}

func newChart(w io.Writer) *chart {
	c := &chart{w: w, events: make(chan told, 100), jobs: map[string]*history{}}
	for _, j := range jobs {
		c.jobs[j.name] = &history{}
	}
	return c
}

// begin starts the time axis.
func (c *chart) begin() { c.start = time.Now() }

// until takes events until what it waits for holds.
func (c *chart) until(ctx context.Context, holds func() bool) error {
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for !holds() {
		select {
		case e := <-c.events:
			c.take(e)
		case <-look.C:
		case <-ctx.Done():
			return errors.New("nothing happens any more")
		}
	}
	return nil
}

// takeAll takes the events that are there.
func (c *chart) takeAll() {
	for {
		select {
		case e := <-c.events:
			c.take(e)
		default:
			return
		}
	}
}

func (c *chart) say(at time.Time, format string, args ...any) {
	fmt.Fprintf(c.w, "%6.2f s  %s\n", at.Sub(c.start).Seconds(), fmt.Sprintf(format, args...))
}

func (c *chart) take(e told) {
	h := c.jobs[e.Job]
	if h == nil {
		return
	}
	switch e.What {
	case began:
		d := delivery{number: e.Delivery, by: e.by, from: e.At}
		for _, death := range c.deaths { // it may be heard of late
			if death.who == consumerCalled(e.by) {
				d.to, d.end = death.at, markKilled
			}
		}
		h.deliveries = append(h.deliveries, d)
		return
	case dead:
		h.ending, h.why, h.at = e.Reason, e.Why, e.At
		c.say(e.At, "%-13s dead: %s", e.Job, e.Why)
		return
	case done:
		h.ending, h.at = string(done), e.At
		h.close(e, markDone)
		c.say(e.At, "%-13s delivery %d worked", e.Job, e.Delivery)
	case failed:
		h.close(e, markFailed)
		c.say(e.At, "%-13s delivery %d failed: %s", e.Job, e.Delivery, e.Why)
	}
}

// close ends the delivery that e tells of.
func (h *history) close(e told, mark byte) {
	for i := range h.deliveries {
		if d := &h.deliveries[i]; (d.end == 0 || d.end == markKilled) && d.number == e.Delivery && d.by == e.by {
			d.to, d.end = e.At, mark
		}
	}
}

// running returns how long the job's latest delivery has been running: 0 if it has ended.
func (c *chart) running(name string) time.Duration {
	ds := c.jobs[name].deliveries
	if len(ds) == 0 || ds[len(ds)-1].end != 0 {
		return 0
	}
	return time.Since(ds[len(ds)-1].from)
}

// died notes a death. What ran in a consumer has ended with it.
func (c *chart) died(who string) {
	now := time.Now()
	c.deaths = append(c.deaths, death{who, now})
	c.say(now, "---- %s is killed ----", who)
	for _, j := range jobs {
		ds := c.jobs[j.name].deliveries
		for i := range ds {
			if ds[i].end == 0 && who == consumerCalled(ds[i].by) {
				ds[i].to, ds[i].end = now, markKilled
				c.say(now, "%-13s delivery %d was running", j.name, ds[i].number)
			}
		}
	}
}

func (c *chart) finished() bool {
	for _, h := range c.jobs {
		if h.ending == "" {
			return false
		}
	}
	return true
}

// draw prints a row for each job, all on one time axis.
func (c *chart) draw() {
	const cells, margin = 43, 15 // with the longest ending 80 columns
	var last time.Time
	for _, h := range c.jobs {
		if h.at.After(last) {
			last = h.at
		}
	}
	scale := max(last.Sub(c.start)/cells, time.Millisecond)
	cell := func(at time.Time) int { return min(max(int(at.Sub(c.start)/scale), 0), cells) }
	row := func() []byte { return []byte(strings.Repeat(" ", cells+2)) }

	axis, ticks := row(), time.Duration(0)
	for ; ticks <= last.Sub(c.start); ticks += 2 * time.Second {
		copy(axis[cell(c.start.Add(ticks)):], fmt.Sprintf("%d s", ticks/time.Second))
	}
	fmt.Fprintf(c.w, "\n%*s%s\n", margin, "", strings.TrimRight(string(axis), " "))
	for _, j := range jobs {
		h, line := c.jobs[j.name], row()
		for i := cell(c.start); i < cell(h.at); i++ {
			line[i] = '.'
		}
		for _, d := range h.deliveries {
			if d.end != 0 {
				for i := cell(d.from); i < cell(d.to); i++ {
					line[i] = '='
				}
				line[max(cell(d.to), cell(d.from)+1)] = d.end
			}
			line[cell(d.from)] = byte('0' + d.number%10)
		}
		ending := h.ending
		if ending != string(done) {
			ending = "dead: " + ending
		}
		fmt.Fprintf(c.w, "%-*s%s  %s\n", margin, j.name, line, ending)
	}
	for _, d := range c.deaths {
		fmt.Fprintf(c.w, "%*s%s^ %s is killed\n", margin, "", strings.Repeat(" ", cell(d.at)), d.who)
	}
	fmt.Fprintf(c.w, "\nA number is where that delivery begins, = runs, %c worked, %c failed,\n%c was killed; dots wait in the queue.\n", markDone, markFailed, markKilled)
}

// check returns what did not end as it should.
func (c *chart) check() error {
	var wrong []error
	for _, j := range jobs {
		h := c.jobs[j.name]
		if h.ending != j.ends {
			wrong = append(wrong, fmt.Errorf("%s ended with %s, want %s", j.name, h.ending, j.ends))
		}
	}
	return errors.Join(wrong...)
}
