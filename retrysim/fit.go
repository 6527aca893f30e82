package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry/retrysim/internal/storm"
)

// entry is a request in an access log.
type entry struct {
	at     time.Time
	took   time.Duration
	status int
}

func fit(o *options) job {
	var file string
	o.add(param{"log", &file, 0, 0, "", "`file`: an access log, of JSON lines with time, duration and status, " +
		"or in the common or combined format with the request's seconds behind"})
	return func(context.Context) (*report, error) {
		if file == "" {
			return nil, wrong("-log: want a file")
		}
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		var entries []entry
		unread, lines := 0, bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if e, ok := readLine(lines.Bytes()); ok {
				entries = append(entries, e)
			} else if len(lines.Bytes()) > 0 {
				unread++
			}
		}
		if err := lines.Err(); err != nil {
			return nil, err
		}
		slices.SortStableFunc(entries, func(a, b entry) int { return a.at.Compare(b.at) })
		if len(entries) == 0 {
			return nil, fmt.Errorf("-log: no line of %d is JSON with time, duration and status, or a common or combined one with the seconds behind", unread)
		}
		span := entries[len(entries)-1].at.Sub(entries[0].at)
		if span < sustained {
			return nil, fmt.Errorf("-log: the log spans %v, want %v or more", span, sustained)
		}
		if span > readable {
			return nil, fmt.Errorf("-log: the log spans more than %d days, from %s to %s: is one of these times broken?",
				readable/(24*time.Hour), entries[0].at.Format(time.RFC3339), entries[len(entries)-1].at.Format(time.RFC3339))
		}
		var took []time.Duration
		var done []time.Time // of requests that the server did not refuse: that takes no capacity
		points := make([]point, span/time.Second+1)
		failed, most, first := 0, 0, 0
		for _, e := range entries {
			took = append(took, e.took)
			points[e.at.Sub(entries[0].at)/time.Second].y++
			if e.status >= 500 {
				failed++
			}
			if e.status != 429 && e.status != 503 {
				done = append(done, e.at)
				for e.at.Sub(done[first]) >= sustained {
					first++ // is out of the window that ends here
				}
				most = max(most, len(done)-first)
			}
		}
		for i := range points {
			points[i].x = float64(i) + .5
		}
		// Times are in whole seconds, mostly: from the first to the last is one less than there are.
		rate := float64(len(entries)) / (span + time.Second).Seconds()
		capacity := float64(most) / sustained.Seconds()
		failure := float64(failed) / float64(len(entries))
		p50, p99 := storm.Quantile(took, .5), storm.Quantile(took, .99)
		if capacity == 0 {
			return nil, errors.New("-log: every answer is 429 or 503: the log shows no capacity")
		}
		flags := fmt.Sprintf("-rate %.4g -capacity %.4g -latency %v -failure %.4g", rate, capacity, p50.Round(time.Microsecond), failure)
		if err := usable(flags); err != nil {
			return nil, fmt.Errorf("-log: try cannot simulate what the log shows: %w", err)
		}
		r := &report{
			title:  fmt.Sprintf("%d requests in %v", len(entries), span.Round(time.Second)),
			header: []string{"rate", "capacity, at least", "latency p50", "p99", "failure"},
			notes: []string{
				"The capacity is a lower bound: the highest rate of answers, other than 429 and 503, that the log shows for ten seconds. A load test may show more.",
				"retrysim try " + flags,
			},
			doc: map[string]any{
				"rate": rate, "capacity": capacity, "latency_p50_ms": p50.Seconds() * 1000, "latency_p99_ms": p99.Seconds() * 1000, "failure": failure, "flags": flags,
			},
			figure: figure{height: 200, panels: []panel{{
				title: "answers per second", x: "seconds", rule: capacity, ruleName: "capacity, at least",
				lines: []series{{color: 2, points: points}},
			}}},
		}
		r.add(fmt.Sprintf("%.4g/s", rate), fmt.Sprintf("%.4g/s", capacity), p50, p99, fmt.Sprintf("%.4g", failure))
		if unread > 0 {
			r.notes = append(r.notes, fmt.Sprintf("%d lines could not be read, and count nowhere.", unread))
		}
		return r, nil
	}
}

// sustained is how long a rate must last to count as one that the server can do, and
// readable how much time a log may span.
const sustained, readable = 10 * time.Second, 31 * 24 * time.Hour

// usable returns an error if try does not take flags.
func usable(flags string) error {
	o := &options{FlagSet: flag.NewFlagSet("try", flag.ContinueOnError)}
	o.SetOutput(io.Discard)
	x := newScenario(o)
	if err := o.Parse(strings.Fields(flags)); err != nil {
		return err
	}
	return x.check(o)
}

// common is the common log format, or the combined one, with a time behind: what
// comes before the date may be anything, and quoted fields may hold escaped quotes.
var common = regexp.MustCompile(`\[(\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\] "(?:[^"\\]|\\.)*" (\d{3}) (?:\d+|-)(?: "(?:[^"\\]|\\.)*" "(?:[^"\\]|\\.)*")? "?([0-9.]+)"?\s*$`)

func readLine(line []byte) (e entry, ok bool) {
	var fields struct {
		Time     time.Time
		Duration any
		Status   int
	}
	var err error
	if len(line) > 0 && line[0] == '{' {
		err = json.Unmarshal(line, &fields)
	} else if m := common.FindSubmatch(line); m != nil {
		fields.Time, err = time.Parse("02/Jan/2006:15:04:05 -0700", string(m[1]))
		fields.Status, _ = strconv.Atoi(string(m[2]))
		fields.Duration = string(m[3])
	}
	text := fmt.Sprint(fields.Duration)
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		text = strconv.FormatFloat(f, 'f', -1, 64) + "s"
	}
	took, bad := time.ParseDuration(text)
	return entry{fields.Time, took, fields.Status}, err == nil && bad == nil && took >= 0 && !fields.Time.IsZero()
}
