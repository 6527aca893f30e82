package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry/storm"
)

var update = flag.Bool("update", false, "write what is checked in of the command's output")

// retrysim runs the command and returns what it writes.
func retrysim(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(args, stream{Writer: &out}, stream{Writer: &errs})
	return out.String(), errs.String(), code
}

// output is the same for a command that must succeed.
func output(t *testing.T, args ...string) string {
	t.Helper()
	out, errs, code := retrysim(t, args...)
	if code != 0 {
		t.Fatalf("retrysim %q: exit code %d: %s", args, code, errs)
	}
	return out
}

// rows decodes the rows of a command's JSON.
func rows[T any](t *testing.T, args ...string) (rows []T) {
	t.Helper()
	var doc struct {
		Experiment string
		Seed       uint64
		Rows       *[]T
	}
	doc.Rows = &rows
	d := json.NewDecoder(strings.NewReader(output(t, append(args, "-format", "json", "-seed", "7")...)))
	d.DisallowUnknownFields()
	if err := d.Decode(&doc); err != nil || doc.Seed != 7 || !strings.HasSuffix("run "+doc.Experiment, args[min(len(args)-1, 1)]) && doc.Experiment != "try" {
		t.Fatalf("retrysim %q: %v, %+v", args, err, doc)
	}
	return rows
}

func TestJSONIsWhatThePackageFinds(t *testing.T) {
	if got, want := rows[storm.ContentionRow](t, "run", "contention", "-clients", "5,20", "-trials", "10"), (storm.Contention{Clients: []int{5, 20}, Trials: 10, Seed: 7}).Run(); !reflect.DeepEqual(got, want) {
		t.Errorf("contention: %v, want %v", got, want)
	}
	if got, want := rows[storm.AmplificationRow](t, "run", "amplification", "-failure", "0.1,0.5", "-clients", "50", "-rate", "10"), (storm.Amplification{Failures: []float64{.1, .5}, Clients: 50, Rate: 10, Seed: 7}).Run(); !reflect.DeepEqual(got, want) {
		t.Errorf("amplification: %v, want %v", got, want)
	}
	collapse := storm.Collapse{Trials: 3, Seed: 7}.Run()
	for i := range collapse {
		collapse[i].Result = nil
	}
	if got := rows[storm.CollapseRow](t, "run", "collapse", "-trials", "3"); !reflect.DeepEqual(got, collapse) {
		t.Errorf("collapse: %v, want %v", got, collapse)
	}
	herd := storm.Herd{Clients: 100, Trials: 2, Seed: 7}.Run()
	for i := range herd {
		herd[i].Result = nil
	}
	if got := rows[storm.HerdRow](t, "run", "herd", "-clients", "100", "-trials", "2"); !reflect.DeepEqual(got, herd) {
		t.Errorf("herd: %v, want %v", got, herd)
	}
	if got, want := rows[storm.LayersRow](t, "run", "layers", "-attempts", "2", "-depth", "5"), []storm.LayersRow{{Attempts: 2, Depth: 5, Calls: 32}, {Attempts: 2, Depth: 5, Guarded: true, Calls: 2}}; !reflect.DeepEqual(got, want) {
		t.Errorf("layers: %v, want %v", got, want)
	}
}

// The names that others rely on.
func TestJSONNames(t *testing.T) {
	for args, want := range map[string]string{
		"run contention -clients 2 -trials 1":          `{"policy":"none","clients":2,"calls":3,"time_ms":`,
		"run contention -clients 1 -delay 0 -spread 0": `{"policy":"none","clients":1,"calls":1,"time_ms":0}`,
		"run amplification -failure 1 -duration 1s":    `{"policy":"none","failure":1,"clients":100,"load":1,"success":0}`,
		"run collapse -trials 1":                       `{"policy":"none","windows":[{"from_s":5,"to_s":20,"goodput":`,
		"run herd -clients 9 -trials 1":                `{"policy":"none","retry":1,"peak":9}`,
		"run layers":                                   `{"attempts":3,"depth":1,"guarded":false,"calls":3}`,
		"try -policy attempts=1":                       `{"policy":"none","text":"attempts=1","load":1,`,
	} {
		args := strings.Fields(args)
		name := strings.TrimPrefix(args[0]+args[1], "run")
		name = strings.TrimSuffix(name, "-policy")
		var compact bytes.Buffer
		if err := json.Compact(&compact, []byte(output(t, append(args, "-format", "json")...))); err != nil {
			t.Fatal(err)
		}
		if want := `{"experiment":"` + name + `","seed":1,"rows":[` + want; !strings.HasPrefix(compact.String(), want) {
			t.Errorf("%q is %.200s, want %s", args, compact.String(), want)
		}
	}
}

// Each flag of each experiment must reach the model: it must change the result.
func TestFlagsHaveAnEffect(t *testing.T) {
	for command, flags := range map[string]string{
		"run contention -clients 6 -trials 2": "-clients 7;-trials 3;-delay 11ms;-delay 0;-spread 3ms;-spread 0s;-base 6ms;-max 12ms;-seed 2",
		"run amplification -duration 5s -failure 0.5": "-failure 0.6;-clients 90;-rate 9;-attempts 3;-ratio 0.2;-ratio 0;-duration 6s;-seed 2;" +
			"-each", // which makes windows too small for a tenth
		"run collapse -trials 1 -seed 4": "-rate 30/s;-spike 90/s;-at 19s;-for 4s;-duration 90s,-windows 5s,85s;-duration 60s;-latency 900ms;-slowdown 0;-network 0;-timeout 4s;-attempts 4;-base 5s;-windows 5s,20s;-trials 3;-seed 2",
		"run herd -trials 1":             "-clients 999;-retries 4;-base 90ms;-bucket 11ms;-trials 2;-seed 2",
		"run layers":                     "-attempts 5;-depth 4",
		"try -duration 40s -policy attempts=3": "-policy attempts=2;-policy attempts=3,budget=token;-clients 9,-closed;-rate 190/s;-closed;-capacity 240/s;-queue 20;-latency 20ms;-latency 0;-slowdown 1ms;-network 5ms;" +
			"-failure 0.01;-timeout 2s;-outage 1s;-outage 0;-refuse;-spike 400/s;-spike 400/s,-spike-for 3s;-at 9s;-duration 30s;-seed 2;-policy attempts=3,budget=concurrency,-each",
	} {
		base := strings.Fields(command)
		seen := map[string]string{}
		for _, extra := range append([]string{""}, strings.Split(flags, ";")...) {
			args := append(base, "-format", "json")
			for _, word := range strings.Split(extra, ",-") {
				if word == "" {
					continue
				}
				name, value, _ := strings.Cut("-"+strings.TrimPrefix(word, "-"), " ")
				args = append(args, name)
				if value != "" {
					args = append(args, strings.ReplaceAll(value, ",budget", " budget"))
				}
			}
			out := output(t, args...)
			out = regexp.MustCompile(`"seed": \d+`).ReplaceAllString(out, "")
			if other, twice := seen[out]; twice {
				t.Errorf("retrysim %s %s: the same as with %q", command, extra, other)
			}
			seen[out] = extra
		}
	}
}

func TestTryTellsAStory(t *testing.T) {
	for args, verdicts := range map[string]map[string]string{
		"": {
			"none":       `recovers after 3\.\d s; peak 1\.\d × normal`,
			"naive":      `would stay down for good; peak 4\.\d × normal`,
			"unbudgeted": `would stay down for good; peak 4\.\d × normal`,
			"yours":      `recovers after 1\d\.\d s; peak 2\.\d × normal`,
		},
		"-refuse": {
			"none":       `is back as soon as it is over; peak 1\.\d × normal`,
			"naive":      `is back as soon as it is over; peak 4\.\d × normal`,
			"unbudgeted": `is back as soon as it is over; peak [34]\.\d × normal`,
			"yours":      `is back as soon as it is over; peak [12]\.\d × normal`,
		},
		"-outage 20s -capacity 230/s": {"none": `is still down 60 s later; .*`},
		"-failure 0.6":                {"none": `fails most calls even before it; .*`, "naive": `.*`, "unbudgeted": `.*`, "yours": `fails most calls even before it; .*`},
		"-rate 0.01/s":                {"none": `is back as soon as it is over`},
	} {
		words := append([]string{"try", "-policy", policyExample}, strings.Fields(args)...)
		for _, row := range rows[tryRow](t, words...) {
			want, ok := verdicts[row.Policy]
			if !ok && len(verdicts) > 1 {
				t.Errorf("%s: a row for %q", args, row.Policy)
			}
			if ok && !regexp.MustCompile("^"+want+"$").MatchString(row.Verdict) {
				t.Errorf("%s: %s %s, want %s", args, row.Policy, row.Verdict, want)
			}
			sum := 0
			for _, n := range row.Ended {
				sum += n
			}
			if asked := int(float64(row.Lost)/(1-row.Success) + .5); row.Lost > 0 && sum != asked {
				t.Errorf("%s: %s: %d calls ended, of %d", args, row.Policy, sum, asked)
			}
			if back := !strings.Contains(row.Verdict, "down") && !strings.Contains(row.Verdict, "even before"); back == (row.RecoveryS == nil) {
				t.Errorf("%s: %s: recovery %v, %s", args, row.Policy, row.RecoveryS, row.Verdict)
			}
		}
		out := output(t, words...)
		if !strings.Contains(out, "yours: "+policyExample) || !strings.Contains(out, "naive: attempts=4 backoff=constant(0)") {
			t.Errorf("the policies are not there: %s", out)
		}
	}
	// A policy without a budget needs no fourth line, and naive means retries.
	got := rows[tryRow](t, "try", "-policy", "name=mine attempts=1 attempt_timeout=2s", "-duration", "22s")
	if len(got) != 3 || got[2].Policy != "yours" || got[1].Text != "attempts=3 attempt_timeout=2s backoff=constant(0)" || got[0].Text != "attempts=1 attempt_timeout=2s" {
		t.Errorf("%+v", got)
	}
}

func TestBadArgumentsGetOneLineAndAnExample(t *testing.T) {
	for args, want := range map[string]string{
		"":                                                `want run and an experiment, or try, not ""`,
		"walk":                                            `want run and an experiment, or try, not "walk"; for example: retrysim run collapse`,
		"run -clients 5":                                  `not "-clients"`,
		"run herd -clients 10000001":                      `want a whole number from 1 to 10000000, such as 100`,
		"run storms":                                      `not "storms"`,
		"run herd -clients x":                             `invalid value "x" for flag -clients: want a whole number from 1 to 10000000, such as 100; for example: retrysim run herd -clients 1000 -base 100ms`,
		"run herd -clients 0":                             `want a whole number from 1`,
		"run herd -base 0":                                `want a time longer than zero`,
		"run herd -base -5s":                              `want a time longer than zero`,
		"run herd -speed 5":                               `flag provided but not defined: -speed`,
		"run herd 1000":                                   `want flags only, not "1000"`,
		"run herd -seed -1":                               `want a whole number, such as 1`,
		"run herd -format pdf":                            `want one of text, json, svg, html`,
		"run contention -clients 10,ten":                  `want a whole number from 1 to 10000000, such as 100, or several separated by commas`,
		"run contention -delay x":                         `want a time`,
		"run amplification -failure 1.5":                  `want a number from 0 to 1, such as 0.1, or several`,
		"run amplification -failure nan":                  `want a number from 0 to 1`,
		"run amplification -rate 0":                       `want a number per second, such as 200/s`,
		"run amplification -rate 10/h":                    `want a number per second, such as 200/s`,
		"run collapse -windows 5s":                        `-windows: want two times or more`,
		"run collapse -windows 9s,5s":                     `-windows: want two times or more`,
		"run collapse -windows 5s,99s":                    `-windows: want two times or more, in order, up to -duration`,
		"run collapse -at 2m":                             `-at: want a spike that begins before the end after 1m20s`,
		"run layers -attempts 9 -depth 6,7":               `-depth: 7 layers of 9 attempts are 4.8e+06 calls, want at most 30 layers and 1e6 calls`,
		"run layers -attempts 1 -depth 31":                `-depth: 31 layers of 1 attempts are 1 calls, want at most 30 layers`,
		"try":                                             `-policy: want a policy; for example: retrysim try -policy 'attempts=4`,
		"try -policy attempts=0":                          `-policy: column 10: "0": want attempts`,
		"try -policy jitter=some":                         `-policy: column 8: unknown jitter "some"`,
		"try -policy attempts=2 -at 2m":                   `-duration: want at least 2m12s, 10s more than it takes until the outage is over`,
		"try -policy attempts=2 -spike 1e3 -spike-for 2m": `-duration: want at least 2m20s, 10s more than it takes until the spike is over`,
		"try -policy attempts=2 -duration 21s":            `-duration: want at least 22s`,
		"try -policy attempts=2 -at 1999ms":               `-at: want at least 2s, to see what is normal before it`,
		"try -policy attempts=unlimited,backoff=constant(0) -refuse":                    `-policy: unlimited attempts without waits never end`,
		"try -policy attempts=unlimited,throttle=schedule(1s,0) -queue 9 -network 10us": `-policy: unlimited attempts without waits never end`,
	} {
		words := strings.Fields(args)
		for i := range words {
			words[i] = regexp.MustCompile(`,(backoff|throttle)`).ReplaceAllString(words[i], " $1")
		}
		out, errs, code := retrysim(t, words...)
		if code != 2 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, want) || !strings.Contains(errs, "; for example: retrysim ") {
			t.Errorf("retrysim %s: code %d, %q, want 2 and %s", args, code, errs, want)
		}
	}
}

func TestExamplesWork(t *testing.T) {
	if raceEnabled {
		t.Skip("takes long, and is one goroutine")
	}
	t.Chdir(t.TempDir())
	for name, c := range experiments {
		if out := output(t, "run", name, "-help"); !strings.Contains(out, c.example) || !strings.Contains(out, "-seed number") {
			t.Errorf("the help of %s has no example: %s", name, out)
		}
		output(t, strings.Fields(c.example)...)
	}
	if _, err := os.Stat("collapse.svg"); err != nil {
		t.Error(err)
	}
	output(t, "try", "-policy", policyExample, "-clients", "1000", "-rate", "200/s", "-capacity", "250/s", "-outage", "2s")
	for _, args := range [][]string{{"help"}, {"-h"}, {"run"}, {"run", "-h"}} {
		if out := output(t, args...); out != usage {
			t.Errorf("retrysim %q: %s", args, out)
		}
	}
}

func TestOutputs(t *testing.T) {
	var text, chart, errs bytes.Buffer
	args := []string{"run", "layers", "-attempts", "3"}
	run(args, stream{Writer: &text}, stream{Writer: &errs})
	run(args, stream{&chart, true}, stream{Writer: &errs})
	const table = `Layers: every one of them retries (seed 1)

attempts   layers   guarded   calls
3          1        false     3
3          1        true      3
3          2        false     9
3          2        true      3
3          3        false     27
3          3        true      3
`
	if text.String() != table || !strings.HasPrefix(chart.String(), table) || !strings.Contains(chart.String(), "█\n") {
		t.Errorf("a table: %s\nand a chart: %s", text.String(), chart.String())
	}
	file := filepath.Join(t.TempDir(), "out")
	if out := output(t, append(args, "-o", file)...); out != "" {
		t.Errorf("with -o it writes %q to standard output", out)
	}
	if got, _ := os.ReadFile(file); string(got) != table {
		t.Errorf("the file has %q", got)
	}
	if _, errs, code := retrysim(t, append(args, "-o", filepath.Join(file, "x"))...); code != 1 || !strings.HasPrefix(errs, "retrysim: open ") {
		t.Errorf("a file that cannot be written: code %d, %q", code, errs)
	}
}

// A file that cannot be written is known before the simulation.
func TestFileIsOpenedFirst(t *testing.T) {
	_, errs, code := retrysim(t, "run", "collapse", "-windows", "9s,5s", "-o", filepath.Join(t.TempDir(), "no", "file"))
	if code != 1 || !strings.HasPrefix(errs, "retrysim: open ") {
		t.Errorf("code %d, %q, want an error of the file before that of the windows", code, errs)
	}
}

func TestCollapseWindowsEndWithTheRun(t *testing.T) {
	for duration, want := range map[string]string{"30s": "[20 25 30]", "60s": "[20 25 40 60]", "80s": "[20 25 40 60 80]", "90s": "[20 25 40 60 80 90]"} {
		var ends []float64
		for _, w := range rows[storm.CollapseRow](t, "run", "collapse", "-trials", "1", "-duration", duration)[0].Windows {
			ends = append(ends, w.ToS)
		}
		if got := fmt.Sprint(ends); got != want {
			t.Errorf("after %s windows end at %s, want %s", duration, got, want)
		}
	}
}

// A service that is down holds as many requests for good, give or take: one instant
// of it tells little.
func TestDownForGoodIsNoChance(t *testing.T) {
	if raceEnabled {
		t.Skip("takes long, and is one goroutine")
	}
	const seeds = 12
	down := 0
	for seed := range seeds {
		args := []string{"try", "-policy", "attempts=2 backoff=constant(0)", "-rate", "40/s", "-capacity", "1000000/s", "-latency", "1s", "-slowdown", "10ms",
			"-network", "100ms", "-timeout", "3s", "-spike", "120/s", "-spike-for", "8s", "-at", "20s", "-duration", "600s"}
		out := output(t, append(args, "-seed", fmt.Sprint(seed))...)
		if regexp.MustCompile(`(?m)^yours .*would stay down for good`).MatchString(out) {
			down++
		}
	}
	if down < 10 {
		t.Errorf("%d of %d services would stay down for good, want nearly all", down, seeds)
	}
}

// Few points are joined, and the picture reaches as far as the waits do.
func TestChartInATerminal(t *testing.T) {
	c := chart{x: "x", panels: []panel{{y: "y"}}}
	for _, p := range []point{{16, 1}, {32, 8}, {64, 8}} {
		c.point(0, "name", p.x, p.y)
	}
	var b strings.Builder
	c.text(&b)
	want := "name" + strings.Repeat(" ", 33) + "▁▂▂▃▃▄▄▅▅▅▆▆▇▇██" + strings.Repeat("█", 32) + "\n"
	if got := b.String(); !strings.HasSuffix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if out := output(t, "run", "herd", "-base", "2s", "-trials", "1", "-clients", "10", "-format", "svg"); !strings.Contains(out, `text-anchor="middle">15</text>`) {
		t.Error("the picture of a herd with a base of 2 s does not reach 15 s")
	}
	if out := output(t, "run", "collapse", "-base", "5s", "-trials", "1", "-format", "svg"); !strings.Contains(out, ">backoff of 5 s<") {
		t.Error("the picture does not say which backoff it is")
	}
}

// A picture is XML in which each policy has a line with its name beside its end, and
// no two names overlap; a page holds the same picture and loads nothing.
func TestPictures(t *testing.T) {
	text := regexp.MustCompile(`<text class="name c\d" x="\d+" y="([\d.]+)">([^<]*)</text>`)
	for args, names := range map[string]string{
		"run contention -trials 1":             "none exponential equal full decorrelated",
		"run contention -trials 1 -clients 5":  "none exponential equal full decorrelated",
		"run amplification -duration 1s":       "none unbudgeted ratio",
		"run collapse -trials 1":               "no retries,retries at once,backoff of 20 s,at once + budget",
		"run herd -trials 1":                   "none plusminus20 equal full decorrelated",
		"run layers -attempts 2":               "2 attempts,2 attempts, guarded",
		"try -duration 22s -policy attempts=3": "none naive yours",
	} {
		words := strings.Split(args, " ")
		words[len(words)-1] = strings.ReplaceAll(words[len(words)-1], "&", " ")
		svg := output(t, append(words, "-format", "svg")...)
		d := xml.NewDecoder(strings.NewReader(svg))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", args, err)
			}
		}
		if !strings.Contains(svg, "prefers-color-scheme: dark") || !strings.Contains(svg, `<rect class="paper" `) || !strings.Contains(svg, "\n<title>") || strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("%s: %.300s", args, svg)
		}
		labels := text.FindAllStringSubmatch(svg, -1)
		lines := strings.Count(svg, "<polyline ")
		if len(labels) != lines || lines == 0 {
			t.Errorf("%s: %d names for %d lines", args, len(labels), lines)
		}
		for i, a := range labels {
			if names != "" && !strings.Contains(names, a[2]) {
				t.Errorf("%s: a line for %q", args, a[2])
			}
			for _, b := range labels[:i] {
				var y, z float64
				fmt.Sscan(a[1]+" "+b[1], &y, &z)
				if max(y-z, z-y) < 13 {
					t.Errorf("%s: %q is at %v, %q at %v", args, a[2], y, b[2], z)
				}
			}
		}
		page := output(t, append(words, "-format", "html")...)
		if !strings.Contains(page, svg) || strings.Contains(strings.ReplaceAll(page, "http://www.w3.org/2000/svg", ""), "http") || strings.Contains(page, "<me>") {
			t.Errorf("%s: the page lacks the picture, or loads something: %.300s", args, page)
		}
	}
}

func TestProgressIsShownFromTheFirstSecondOn(t *testing.T) {
	for terminal, want := range map[bool]string{
		true:  "\rretrysim: herd  30 %\rretrysim: herd  50 %\rretrysim: herd  70 %\r" + strings.Repeat(" ", 40) + "\r",
		false: "retrysim: herd  30 %\nretrysim: herd  70 %\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			var errs bytes.Buffer
			o := &options{}
			finish := o.showProgress(stream{&errs, terminal}, "herd")
			for i := range 8 { // at 0, .4, .8, 1.2 s and so on
				o.progress(float64(i) / 10)
				time.Sleep(400 * time.Millisecond)
			}
			finish()
			if got := errs.String(); got != want {
				t.Errorf("terminal %v: it shows %q, want %q", terminal, got, want)
			}
		})
	}
	if _, errs, _ := retrysim(t, "run", "layers"); errs != "" {
		t.Errorf("a quick command writes %q", errs)
	}
}

func TestAllButLayersTellTheirProgress(t *testing.T) {
	for _, c := range []command{experiments["contention"], experiments["amplification"], experiments["collapse"], experiments["herd"], tryCommand} {
		told := 0
		o := &options{FlagSet: flag.NewFlagSet("", flag.ContinueOnError), progress: func(float64) { told++ }}
		do := c.define(o)
		args := []string{"-trials", "1"}
		switch c.example {
		case tryCommand.example:
			args = []string{"-policy", policyExample}
		case experiments["amplification"].example:
			args = []string{"-duration", "5s"}
		}
		if err := o.Parse(args); err != nil {
			t.Fatal(err)
		}
		if _, err := do(); err != nil || told < 3 {
			t.Errorf("%s: %v, told %d times", c.example, err, told)
		}
	}
}

// What is checked in is what the command writes.
func TestCheckedInOutput(t *testing.T) {
	if raceEnabled {
		t.Skip("takes long, and is one goroutine")
	}
	const picture, storms = "../../docs/collapse.svg", "../../docs/storms.md"
	svg := output(t, "run", "collapse", "-format", "svg")
	doc, err := os.ReadFile(storms)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(doc), "<!-- try -->\n")
	old, after, ok := strings.Cut(rest, "<!-- end -->")
	var table strings.Builder
	for line := range strings.Lines(output(t, "try", "-policy", policyExample, "-clients", "1000", "-rate", "200/s", "-capacity", "250/s", "-outage", "2s")) {
		table.WriteString(strings.TrimRight("    "+line, " \n") + "\n")
	}
	if *update {
		if err := errors.Join(os.WriteFile(picture, []byte(svg), 0o644), os.WriteFile(storms, []byte(before+"<!-- try -->\n"+table.String()+"<!-- end -->"+after), 0o644)); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, _ := os.ReadFile(picture); string(got) != svg {
		t.Errorf("%s is not what the command writes: run go test ./cmd/retrysim -update", picture)
	}
	if !ok || old != table.String() {
		t.Errorf("%s: the output of try is not what the command writes: run go test ./cmd/retrysim -update", storms)
	}
}
