package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/goretry/retry/retryconf"
)

// scene is what try says of a link with so many seeds, as a line of JSON. The last
// one is done.
type scene struct {
	Error    string            `json:"error,omitempty"` // alone, and then no line follows
	Seeds    int               `json:"seeds,omitempty"` // of "of"
	Of       int               `json:"of,omitempty"`
	Done     bool              `json:"done,omitempty"`
	Title    string            `json:"title,omitempty"`
	Answer   json.RawMessage   `json:"answer,omitempty"` // what try -format json writes
	Notes    []string          `json:"notes,omitempty"`
	Pictures []string          `json:"pictures,omitempty"` // an SVG for each row
	Command  string            `json:"command,omitempty"`  // that repeats it in a shell
	Policy   map[string]string `json:"policy,omitempty"`   // the first one, as "text" and as "go"
}

// What a link may ask of the machine that plays it.
const (
	linkBytes     = 16 << 10
	linkCalls     = 150_000
	linkProcesses = 10_000
	linkSeeds     = 20
	linkPolicies  = 6
	linkRuns      = 2 // at once: what they hold does not depend on the number of processors
)

// linkTime is for how long it may. Tests change it: emulators and the race detector are slow.
var linkTime = 30 * time.Second

// playing has a place for each link that may be played at once; others wait.
var playing = make(chan struct{}, 4)

// play does what try does with the flags of a link, first with one seed, then with
// more, and tells a scene each time. A link is a query string whose names are the
// flags of try. The error is the one of ctx, or of tell; what is wrong with the link is
// a scene.
func play(ctx context.Context, link string, tell func(any) error) error {
	return playFor(ctx, linkTime, link, tell)
}

// playFor is play that stops after a time, with what is done by then.
func playFor(ctx context.Context, limit time.Duration, link string, tell func(any) error) error {
	_, x, err := readLink(link)
	if err != nil {
		return tell(scene{Error: err.Error()})
	}
	select {
	case playing <- struct{}{}:
		defer func() { <-playing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var last *scene
	for _, seeds := range steps(x.seeds) {
		s, err := playOnce(limited, link, seeds)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case limited.Err() != nil && last == nil:
			return tell(scene{Error: fmt.Sprintf("nothing is done after %v: the command try has no such limit", limit)})
		case limited.Err() != nil:
			last.Done = true
			last.Notes = append(last.Notes, fmt.Sprintf("Stopped after %v: the command try has no such limit.", limit))
			return tell(last)
		case err != nil:
			return tell(scene{Error: err.Error()})
		}
		last = s
		if err := tell(s); err != nil {
			return err
		}
	}
	return nil
}

// steps are the numbers of seeds to play, up to all of them.
func steps(seeds int) []int {
	few := slices.DeleteFunc([]int{1, fewSeeds}, func(n int) bool { return n >= seeds })
	return append(few, seeds)
}

// playOnce does what try does with the flags of a link, and so many seeds.
func playOnce(ctx context.Context, link string, seeds int) (*scene, error) {
	o, x, err := readLink(link)
	if err != nil {
		return nil, err
	}
	s := &scene{Seeds: seeds, Of: x.seeds, Done: seeds == x.seeds, Command: "retrysim try " + o.line(false)}
	x.seeds = seeds
	r, rows, err := x.try(ctx, o)
	if err != nil {
		return nil, err
	}
	var answer, compact bytes.Buffer
	if err := r.write(&answer, "json", 0); err != nil {
		return nil, err
	}
	if err := json.Compact(&compact, answer.Bytes()); err != nil {
		return nil, err
	}
	s.Title, s.Notes, s.Answer = r.title, r.remarks, compact.Bytes()
	for i, work := range x.work(rows) { // the page has the legend
		f := figure{title: rows[i].Policy, height: r.figure.height, width: across / 2, panels: []panel{work, x.waits(&rows[i])}}
		var svg bytes.Buffer
		f.svg(&svg)
		s.Pictures = append(s.Pictures, svg.String())
	}
	p := x.policies[0]
	s.Policy = map[string]string{"text": retryconf.Policy{Policy: p}.String(), "go": goCode(p)}
	return s, nil
}

// readLink reads the flags of a link, and refuses what would take this machine too
// long. A single policy with a budget gets the same one without it as its company.
func readLink(link string) (*options, *scenario, error) {
	if len(link) > linkBytes {
		return nil, nil, fmt.Errorf("the link has %d bytes, want at most %d", len(link), linkBytes)
	}
	values, err := url.ParseQuery(link)
	if err != nil {
		return nil, nil, err
	}
	o := &options{FlagSet: flag.NewFlagSet("try", flag.ContinueOnError)}
	o.SetOutput(io.Discard)
	x := newScenario(o)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if o.Lookup(name) == nil {
			return nil, nil, o.noFlag(name)
		}
		for _, text := range values[name] {
			if err := o.Set(name, text); err != nil {
				return nil, nil, fmt.Errorf("-%s: %w", name, err)
			}
		}
	}
	if err := x.small(); err != nil {
		return nil, nil, err
	}
	if len(x.texts) == 1 {
		if p, err := parse(x.texts[0]); err == nil && p.Budget != nil {
			p.Name, p.Budget = "no budget", nil
			x.texts = append(x.texts, retryconf.Policy{Policy: p}.String())
		}
	}
	if err := x.check(o); err != nil {
		return nil, nil, err
	}
	flag, calls := x.calls(x.Duration)
	if err := tooMany(flag, "calls in a run", calls, linkCalls); err != nil {
		return nil, nil, err
	}
	x.most, x.Parallel = linkCalls, linkRuns
	return o, x, nil
}

// small returns an error if a scenario is more than a link may ask for.
func (x *scenario) small() error {
	return cmp.Or(
		tooMany("processes", "processes", float64(x.Processes), linkProcesses),
		tooMany("clients", "clients", float64(x.Clients), linkProcesses),
		tooMany("seeds", "seeds", float64(x.seeds), linkSeeds),
		tooMany("policy", "policies", float64(len(x.texts)), linkPolicies),
		tooMany("duration", "seconds", x.Duration.Seconds(), longest.Seconds()),
	)
}

func tooMany(flag, what string, n, most float64) error {
	if n > most {
		return fmt.Errorf("-%s: want at most %.10g %s here, not %.4g; the command try has no such limit", flag, most, what, n)
	}
	return nil
}
