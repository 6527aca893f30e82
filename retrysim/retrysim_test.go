package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write what is checked in of the command's output")

// retrysim runs the command and returns what it writes.
func retrysim(ctx context.Context, args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	code = run(ctx, args, &out, &errs)
	return out.String(), errs.String(), code
}

// output is the same for a command that must succeed.
func output(t *testing.T, args ...string) string {
	t.Helper()
	out, errs, code := retrysim(t.Context(), args...)
	if code != 0 {
		t.Fatalf("retrysim %q: exit code %d: %s", args, code, errs)
	}
	return out
}

// decode reads a command's JSON, whose fields must all be known.
func decode[T any](t *testing.T, args ...string) (doc T) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(output(t, append(args, "-format", "json")...)))
	d.DisallowUnknownFields()
	if err := d.Decode(&doc); err != nil {
		t.Fatalf("retrysim %q: %v", args, err)
	}
	return doc
}

type tried struct {
	Inputs map[string]any
	Rows   []tryRow
	Choose string
}

func (d tried) row(policy string) tryRow {
	i := slices.IndexFunc(d.Rows, func(r tryRow) bool { return r.Policy == policy })
	if i < 0 {
		return tryRow{}
	}
	return d.Rows[i]
}

// few seeds are enough where nothing is a matter of chance.
var few = []string{"-seeds", "1"}

// The case that was measured with a real server: what saves it is not the same with
// one budget and with a budget in each process.
func TestTryTellsAStory(t *testing.T) {
	notUnderRace(t)
	policy := "name=mine attempts=4 budget=token"
	each := decode[tried](t, "try", "-policy", policy, "-policy", "attempts=4", "-processes", "10", "-failure", "0", "-seeds", "3")
	shared := decode[tried](t, "try", "-policy", policy, "-processes", "10", "-shared", "-failure", "0", "-seeds", "3")
	var names []string
	for _, row := range each.Rows {
		names = append(names, row.Policy)
		if row.Seeds != 3 || row.Load < 1 || row.Peak < 1 || row.P99MS < row.P50MS || row.LostShare <= 0 || row.Verdict == "" {
			t.Errorf("%+v", row)
		}
	}
	if got, want := strings.Join(names, ","), "no retries,mine,attempts=4,earned,ratio"; got != want { // mine is the token budget already
		t.Errorf("rows %s, want %s", got, want)
	}
	if r := each.row("no retries"); r.StaysDown != 0 || r.Recovery == nil || math.Abs(r.Recovery["p50"]-5.6) > 1 {
		t.Errorf("no retries: %+v, want recovery in 5.6 s", r)
	}
	if r := each.row("mine"); r.StaysDown != 0 || r.Recovery == nil || math.Abs(r.Recovery["p50"]-12.3) > 1 || r.Text != policy {
		t.Errorf("token, a budget each: %+v, want recovery in 12.3 s", r)
	}
	if r := each.row("earned"); r.StaysDown != 0 || r.Recovery == nil || math.Abs(r.Recovery["p50"]-5.9) > 1 {
		t.Errorf("earned, a budget each: %+v, want recovery in 5.9 s", r)
	}
	if r := each.row("attempts=4"); r.StaysDown != 1 || r.LostShare < .5 {
		t.Errorf("without a budget: %+v, want it to stay down", r)
	}
	if r := shared.row("mine"); r.StaysDown != 0 || r.Recovery == nil || math.Abs(r.Recovery["p50"]-5.8) > 1 {
		t.Errorf("token, one budget: %+v, want recovery in 5.8 s", r)
	}
	if !strings.HasPrefix(each.Choose, "earned: it recovers in 24 of 24 runs") || !strings.Contains(each.Choose, "attempts=4 recovers in 15 and loses ") {
		t.Errorf("choose %s", each.Choose)
	}
	if each.Inputs["capacity"] != 200. || each.Inputs["processes"] != 10. || each.Inputs["outage"] != "3s" || each.Inputs["shared"] != false || each.Inputs["duration"] != "1m0s" {
		t.Errorf("inputs %v", each.Inputs)
	}
}

func TestEveryFlagIsAnInput(t *testing.T) {
	o := &options{FlagSet: flag.NewFlagSet("", flag.ContinueOnError)}
	try(o)
	inputs := decode[tried](t, "try", "-seeds", "1", "-duration", "23s").Inputs
	o.VisitAll(func(f *flag.Flag) {
		if _, ok := inputs[f.Name]; !ok {
			t.Errorf("-%s is not among the inputs", f.Name)
		}
	})
	// And as a command line they give the same result.
	out := output(t, "try", "-seeds", "1", "-duration", "23s", "-policy", "attempts=2 budget=token")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	args := split(strings.TrimPrefix(lines[len(lines)-1], "retrysim "))
	if again := output(t, args...); again != out {
		t.Errorf("%s\nis not what %q gives:\n%s", out, args, again)
	}
}

// Each flag of try must reach the model.
func TestFlagsHaveAnEffect(t *testing.T) {
	notUnderRace(t)
	long(t)
	for command, flags := range map[string]string{
		"run contention -clients 6 -trials 2":         "-clients 7;-trials 3;-delay 11ms;-delay 0;-spread 3ms;-spread 0s;-base 6ms;-max 12ms;-seed 2",
		"run amplification -duration 5s -failure 0.5": "-failure 0.6;-clients 90;-rate 8;-attempts 3;-ratio 0.2;-duration 6s;-seed 2",
		"run collapse -trials 1 -seed 5":              "-rate 30/s;-spike 90/s;-at 19s;-for 4s;-duration 90s;-latency 900ms;-slowdown 0;-network 0;-timeout 4s;-attempts 4;-base 5s;-trials 3;-seed 2",
		"run herd -trials 1":                          "-clients 999;-retries 4;-base 90ms;-bucket 11ms;-trials 2;-seed 2",
		"run layers":                                  "-attempts 5;-depth 4;-fails 0.5;-fails 0.5 -calls 9;-fails 0.5 -seed 2",
		"run quotas -seeds 1 -processes 2 -duration 70s": "-processes 3;-load 2;-load 2 -peaks;-load 2 -peaks -seed 2;-load 2 -requests 20;-load 2 -burst 200;-load 3 -window 1m;-tokens 10000;-load 3 -token-burst 9000;" +
			"-load 3 -counts;-load 3 -no-hints;-stray .1;-calm;-answer 2s;-duration 80s;-seeds 2;-seed 2;-backlog 500;-backlog 500 -workers 9;-load 2 -life 10s;-load 2 -each 2",
		"try -duration 23s -seeds 1 -policy attempts=3+non_idempotent": "-outage-answer 503;-outage-answer refused",
		"try -duration 40s -seeds 1 -policy attempts=3+budget=ratio": "-policy attempts=2;-closed;-closed -clients 9;-rate 140/s;-capacity 210/s;-capacity 210/s -latency 20ms;-queue 20;-queue 20 -full 429;-queue -1;-workers 11;-service 55ms;-slowdown 1ms;-network 5ms;" +
			"-failure 0.02;-timeout 2s;-outage 1s;-outage 0;-outage-answer 503;-outage-answer 429;-spike 400/s;-spike 400/s -spike-for 3s;-at 9s;-duration 30s;-seed 2;-seeds 2;-processes 2;-shared;" +
			"-spread exponential;-discipline lifo;-discipline random;-discipline sharing;-abandoned dropped;-lost 0.1;-calls-per-process 3;-gateway 500ms;" +
			"-queue 20 -refusing 20ms;-replicas 3;-replicas 3 -sick 1;-shards 3;-shards 3 -sick 1;-shards 3 -budget-per-shard",
	} {
		seen := map[string]string{}
		for _, extra := range append([]string{""}, strings.Split(flags, ";")...) {
			args := strings.Fields(command + " " + extra + " -format json")
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "+", " ")
			}
			var doc struct{ Rows json.RawMessage }
			if err := json.Unmarshal([]byte(output(t, args...)), &doc); err != nil {
				t.Fatal(err)
			}
			if other, twice := seen[string(doc.Rows)]; twice {
				t.Errorf("retrysim %s %s: the same as with %q", command, extra, other)
			}
			seen[string(doc.Rows)] = extra
		}
	}
}

// No claim where it cannot be true.
func TestVerdictsClaimNoMoreThanIsShown(t *testing.T) {
	notUnderRace(t)
	long(t)
	for args, want := range map[string]string{
		"-rate 195 -outage 5s":     `^recovers in \d+\.\d s$`, // in 195 s, which is simulated
		"-rate 199.9 -outage 20s":  `^not yet back 570 s later in 1 of 1$`,
		"-rate 250":                `^a load of 250/s is above the capacity of 200/s$`,
		"-timeout 40ms":            `^most calls fail even before it$`,
		"-outage 0":                `^nothing to recover from$`,
		"-spike 600 -spike-for 1s": `^recovers in \d+\.\d s$`,
		"-abandoned dropped -discipline lifo -rate 1": `^is back as soon as it is over$`,
	} {
		doc := decode[tried](t, append([]string{"try", "-policy", "attempts=2"}, append(few, strings.Fields(args)...)...)...)
		if got := doc.row("no retries"); !regexp.MustCompile(want).MatchString(got.Verdict) || got.StaysDown != 0 && !strings.Contains(args, "250") {
			t.Errorf("%s: no retries %s, %v stay down; want %s", args, got.Verdict, got.StaysDown, want)
		}
	}
	for args, want := range map[string]string{
		"-rate 250":     "more capacity or less load",
		"-timeout 40ms": "a longer timeout",
		"-rate 185 -outage 1s -queue 1000 -policy attempts=9": "no retries: ",
	} {
		if got := decode[tried](t, append([]string{"try"}, append(few, strings.Fields(args)...)...)...); !strings.HasPrefix(got.Choose, want) {
			t.Errorf("%s: choose %s, want %s", args, got.Choose, want)
		}
	}
	flood := decode[tried](t, "try", "-policy", "attempts=1000000000 backoff=constant(0)", "-outage-answer", "refused", "-seeds", "1")
	if row := flood.Rows[1]; !strings.Contains(row.Verdict, "given up after 100 attempts per call") || row.StaysDown != 0 || row.Recovery != nil {
		t.Errorf("a flood: %+v", row)
	}
	out := output(t, "try", "-queue", "500", "-seeds", "1", "-duration", "23s", "-policy", "name=ratio budget=ratio(0.1,10)")
	for _, want := range []string{"ratio: its floor of 10 retries per second, times 30 budgets, is 300/s, and the server has 50/s to spare", "A full queue of 500 takes 2.5 s, longer than the timeout of 1s"} {
		if !strings.Contains(out, want) {
			t.Errorf("the text does not say %q:\n%s", want, out)
		}
	}
}

type found struct {
	Inputs map[string]any
	For    string
	Unit   string
	Value  *float64
	Tried  []struct{ Value, Recovers float64 }

	Interrupted bool
	Map         []struct {
		Load     float64
		Outage   float64 `json:"outage_s"`
		Recovers float64
	}
}

func TestFind(t *testing.T) {
	notUnderRace(t)
	long(t)
	base := []string{"find", "-steps", "3", "-seeds", "2", "-failure", "0", "-loads", "0.5,0.9", "-outages", "0.1,4"}
	outage := decode[found](t, append(base, "-policy", "attempts=4")...)
	if outage.Value == nil || *outage.Value < .2 || *outage.Value > 3 || len(outage.Tried) != 5 {
		t.Errorf("the longest outage is %v s after %v, want between .2 and 3: it takes the timeout of 1 s to do harm", outage.Value, outage.Tried)
	}
	recovers := map[string]float64{}
	for _, c := range outage.Map {
		recovers[fmt.Sprint(c.Load, " ", c.Outage)] = c.Recovers
	}
	if len(recovers) != 4 || recovers["0.5 0.1"] != 1 || recovers["0.9 4"] != 0 {
		t.Errorf("the map is %v", recovers)
	}
	if spare := decode[found](t, append(base, "-for", "spare", "-policy", "attempts=1", "-outage", "1s")...); spare.Value == nil || *spare.Value > .1 {
		t.Errorf("without retries the smallest spare capacity is %v, want little", spare.Value)
	}
	if ratio := decode[found](t, append(base, "-for", "ratio", "-shared", "-policy", "attempts=4 budget=ratio(0.1)")...); ratio.Value == nil || *ratio.Value < .1 {
		t.Errorf("the largest ratio is %v, want .1 or more: only successes count", ratio.Value)
	}
	if out := output(t, append(base, "-policy", "attempts=4")...); !strings.Contains(out, "survival map") || !strings.Contains(out, "the longest outage that it survives") || !strings.Contains(out, "in 2 of 2 seeds") {
		t.Error(out)
	}
}

func TestFit(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, line func(i int) string) string {
		var b strings.Builder
		for i := range 600 { // 10 per second for half of a minute, then 20 for 15 s
			b.WriteString(line(i) + "\n")
		}
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	at := func(i int) time.Time {
		d := time.Duration(i) * 100 * time.Millisecond
		if i >= 300 {
			d = 30*time.Second + time.Duration(i-300)*50*time.Millisecond
		}
		return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(d)
	}
	status := func(i int) int { return 200 + 300*(1-min(i%50, 1)) } // one in fifty is 500
	took := func(i int) float64 { return .02 + .5*float64(1-min(i%40, 1)) }
	clf := func(format string) func(i int) string {
		return func(i int) string {
			return fmt.Sprintf(format, at(i).Format("02/Jan/2006:15:04:05 -0700"), status(i), took(i))
		}
	}
	for name, file := range map[string]string{
		"json": write("json", func(i int) string {
			return fmt.Sprintf(`{"time":%q,"duration":%v,"status":%d,"path":"/"}`, at(i).Format(time.RFC3339Nano), took(i), status(i))
		}),
		"go durations": write("go", func(i int) string {
			return fmt.Sprintf(`{"time":%q,"duration":"%.0fms","status":%d}`, at(i).Format(time.RFC3339Nano), took(i)*1000, status(i))
		}),
		"common":        write("common", clf(`10.0.0.1 - - [%s] "GET /a HTTP/1.1" %d - %.3f`)),
		"combined":      write("combined", clf(`::1 - bob [%s] "GET /\"x\" HTTP/1.1" %d 512 "https://example.com/" "agent (x; \"y\")" %.3f`)),
		"partly broken": write("broken", func(i int) string { return fmt.Sprintf("%d lines\n", i) + clf(`h - - [%s] "G" %d 1 %f`)(i) }),
	} {
		got := decode[struct {
			Rate, Capacity, Failure float64
			P50                     float64 `json:"latency_p50_ms"`
			P99                     float64 `json:"latency_p99_ms"`
			Flags                   string
			Inputs                  map[string]any
		}](t, "fit", "-log", file)
		if math.Abs(got.Rate-13.2) > .3 || got.Capacity != 20 || math.Abs(got.P50-20) > 1e-6 || math.Abs(got.P99-520) > 1e-6 || math.Abs(got.Failure-.02) > 1e-9 {
			t.Errorf("%s: %+v", name, got)
		}
		if got.Flags != fmt.Sprintf("-rate %.4g -capacity 20 -latency 20ms -failure 0.02", got.Rate) {
			t.Errorf("%s: flags %s", name, got.Flags)
		}
		output(t, append([]string{"try", "-seeds", "1", "-duration", "30s"}, strings.Fields(got.Flags)...)...)
		out := output(t, "fit", "-log", file)
		if !strings.Contains(out, "lower bound") || strings.Contains(out, "600 lines could not be read") != (name == "partly broken") {
			t.Errorf("%s: %s", name, out)
		}
	}
	for text, want := range map[string]string{
		"":               "no line of 0",
		"hello\nworld\n": "no line of 2 is JSON with time, duration and status, or a common or combined one",
		`{"time":"2026-01-02T03:04:05Z","duration":-1,"status":200}`:            "no line of 1",
		`{"time":"2026-01-02T03:04:05Z","duration":0.1,"status":200}` + "\nx\n": "spans 0s, want 10s or more",
	} {
		file := filepath.Join(dir, "bad")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, errs, code := retrysim(t.Context(), "fit", "-log", file); code != 1 || !strings.Contains(errs, want) {
			t.Errorf("%q: code %d, %s, want %s", text, code, errs, want)
		}
	}
}

// A real server in real time: so nothing is asserted that a slow machine could
// change. It hangs for a second, and each call is counted once.
func TestLive(t *testing.T) {
	long(t)
	type measured struct {
		Inputs              map[string]any
		Measured, Simulated tryRow
	}
	base := []string{"live", "-processes", "2", "-rate", "40", "-workers", "4", "-service", "10ms", "-at", "2s", "-outage", "500ms", "-duration", "12500ms", "-seeds", "3", "-timeout", "5s"}
	t.Run("group", func(t *testing.T) {
		for name, args := range map[string][]string{
			"hang":    {"-policy", "attempts=2 budget=token"},
			"dropped": {"-abandoned", "dropped", "-discipline", "lifo", "-policy", "attempts=1 attempt_timeout=100ms", "-shared", "-queue", "100"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				got := decode[measured](t, append(base, args...)...)
				m := got.Measured
				if m.Seeds != 1 || got.Simulated.Seeds != 3 || m.Load < 1 || m.P50MS < 10 || m.LostShare > .9 {
					t.Errorf("measured %+v", m)
				}
				switch name {
				case "hang": // they wait for its end
					if m.P99MS < 50 {
						t.Errorf("p99 is %v ms: no call waited for the end of the outage", m.P99MS)
					}
				case "dropped":
					if m.Lost == 0 {
						t.Error("no call was lost in an outage longer than the timeout")
					}
				}
			})
		}
	})
}

func TestLivePicturesBothOnOneAxis(t *testing.T) {
	long(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // an interrupt in the midst of it
	defer cancel()
	svg, errs, code := retrysim(ctx, "live", "-outage-answer", "429", "-processes", "2", "-rate", "40", "-workers", "4", "-service", "10ms", "-at", "2s", "-outage", "500ms", "-duration", "13s", "-seeds", "2", "-format", "svg")
	if code != 0 || strings.Count(svg, `<polyline class="wide c2"`) != 4 || strings.Count(svg, `<polyline class=" c1"`) != 4 {
		t.Errorf("code %d, %s: want 3 pairs of lines and a legend: %.2000s", code, errs, svg)
	}
}

func TestBadArgumentsGetALineAndAnExample(t *testing.T) {
	for args, want := range map[string]string{
		"":                                           "retrysim: want a command: see retrysim help\nfor example: retrysim try -policy 'attempts=4",
		"walk":                                       "retrysim: no command \"walk\": see retrysim help\n",
		"run -clients 5":                             "no experiment \"run -clients\": see retrysim help\n",
		"run storms":                                 "no experiment \"run storms\": see retrysim help\n",
		"run herd -clients 5000001":                  "want a whole number from 1 to 5000000\nfor example: retrysim run herd -clients 1000 -base 100ms",
		"run herd -clients x":                        `invalid value "x" for flag -clients: want a whole number from 1 to 5000000`,
		"run herd -clients 1.5":                      `want a whole number from 1`,
		"run herd -base 0":                           `want a time of 1µs or more, such as`,
		"run herd -base -5s":                         `want a time of`,
		"run herd -velocity 5":                       "retrysim: -velocity: no such flag\n",
		"run herd 1000":                              `want flags only, not "1000"`,
		"run herd -seed -1":                          `want a whole number, such as 1`,
		"run herd -format pdf":                       `want one of text, json, svg, html`,
		"run contention -clients 10,ten":             `want a whole number from 1 to 5000000, or several separated by commas`,
		"run amplification -failure 1.5":             `want a number from 0 to 1, or several`,
		"run amplification -failure nan":             `want a number from 0 to 1`,
		"run amplification -rate 10/h":               `want a number from`,
		"run collapse -at 2m":                        `-at: want a spike that begins before the end after 1m20s`,
		"run layers -attempts 9 -depth 6,8":          `-depth: 8 layers of 9 attempts are up to 4.3e+07 requests for 1 calls, want at most 5e+06`,
		"run layers -format svg":                     `-format: this has no picture`,
		"run layers -depth 40":                       `want a whole number from 1 to 20`,
		"run layers -attempts 1000":                  `want a whole number from 1 to 100`,
		"try -policy attempts=0":                     `-policy: retry policy "attempts=0", column 10: "0": want attempts`,
		"try -policy jitter=some":                    `-policy: retry policy "jitter=some", column 8: unknown jitter "some"`,
		"try -clients 5":                             `-clients: wants -closed: without it calls come at -rate`,
		"try -capacity 5 -workers 3":                 `-capacity: want it or -workers and -service`,
		"try -latency 5ms":                           `-latency: wants -capacity`,
		"try -duration 21s":                          `-duration: want at least 23s, 10s more than it takes until the outage is over`,
		"try -spike 1e3 -spike-for 2m -duration 2m":  `-duration: want at least 2m20s, 10s more than it takes until the spike is over`,
		"try -at 1999ms":                             `want a time of 2s or more`,
		"try -discipline best":                       `want one of fifo, lifo`,
		"try -rate 1e9":                              `-rate: a run would have 5e+10 calls, want at most 5e+06`,
		"try -spike 1e9":                             `-spike: a run would have 2e+09 calls, want at most 5e+06`,
		"run amplification -rate 1e9":                `-rate: a run would have 6e+12 calls, want at most 5e+06`,
		"run collapse -rate 1e9":                     `-rate: a run would have 8e+10 calls, want at most 5e+06`,
		"run collapse -spike 1e9":                    `-spike: a run would have 5e+09 calls, want at most 5e+06`,
		"find -capacity 1e9":                         `-rate: a run would have`,
		"try -limit 5,10,1":                          `-limit: want MIN,MAX places, with MIN ≤ MAX`,
		"try -limit 5,1":                             `-limit: want MIN,MAX places`,
		"try -limit 5":                               `-limit: want MIN,MAX places`,
		"try -limit 5,65536":                         `want a whole number from 0 to 65535`,
		"try -pace":                                  `-pace: wants -quota`,
		"try -pace -quota 5 -hedge 10ms":             `-pace: want it or -hedge`,
		"try -outage-factor 0.5":                     `want a number from 1`,
		"try -outage 20m -rate 20":                   `-outage: it is over after 20m10s, and without a -duration it must be by 9m30s`,
		"try -outage 24h -rate 1":                    `-outage: it is over after 24h0m10s`,
		"try -spike 300 -spike-for 1h -rate 1":       `-spike: it is over after 1h0m10s`,
		"try -shards 5 -replicas 5":                  `-shards: want it or -replicas`,
		"try -sick 2":                                `-sick: want at most as many as there are -shards or -replicas`,
		"try -shards 5 -sick 6":                      `-sick: want at most as many`,
		"try -budget-per-shard":                      `-budget-per-shard: wants -shards`,
		"try -budget-per-shard -replicas 5":          `-budget-per-shard: wants -shards`,
		"try -shared -calls-per-process 1":           `-shared: a budget that outlives its process`,
		"try -discipline sharing -capacity 50":       `-discipline: sharing wants -workers`,
		"live -discipline sharing":                   `-discipline, -lost: the server of live`,
		"live -replicas 3":                           `-replicas: live has an open load`,
		"find -outages 1,600":                        `-outage: it is over after 10m10s`,
		"find -duration 40s":                         `-duration: want at least 1m20s`,
		"live -outage 20m":                           `-outage: it is over after 20m10s`,
		"find -policy attempts=1 -policy attempts=2": `-policy: want one`,
		"find -workers 0":                            `-capacity: want one, or -workers`,
		"find -spike 400":                            `-spike: find searches among outages`,
		"live -capacity 100":                         `-capacity: live has an open load`,
		"live -outage-answer refused":                `live can hang, or answer 503 or 429`,
		"live -workers 0":                            `want one policy, and a worker or more`,
		"fit":                                        "-log: want a file\nfor example: retrysim fit -log access.log",
	} {
		out, errs, code := retrysim(t.Context(), strings.Fields(args)...)
		if code != 2 || out != "" || strings.Count(errs, "\n") != 2 || !strings.Contains(errs, want) || !strings.Contains(errs, "\nfor example: retrysim ") {
			t.Errorf("retrysim %s: code %d, %q, want 2 and %s", args, code, errs, want)
		}
	}
}

// A word that is none gets the nearest one, wherever it stands.
func TestDidYouMean(t *testing.T) {
	for args, want := range map[string]string{
		"tri":                              "try",
		"hepl":                             "help",
		"help finf":                        "find",
		"Serve":                            "serve",
		"herd":                             "run herd",
		"run hird":                         "run herd",
		"run ampl":                         "run amplification",
		"try -prosesses 3":                 "-processes",
		"find -polcy attempts=4":           "-policy",
		"run herd --client 5":              "-clients",
		"try -discipline lfio":             "lifo",
		"find -for outages":                "outage",
		"run herd -format SVG":             "svg",
		"try -policy atempts=4":            "attempts",
		"try -policy backoff=exponental":   "exponential",
		"try -policy attempts=4,budget=ok": "",
		"try -policy budget=earnd":         "earned",
		"live -policy jitter=equals":       "equal",
	} {
		_, errs, code := retrysim(t.Context(), strings.Fields(args)...)
		if want != "" {
			want = "; did you mean " + want + "?\n"
		}
		if code != 2 || !strings.Contains(errs, want) || want == "" && strings.Contains(errs, "did you mean") {
			t.Errorf("retrysim %s: code %d, %q, want %q", args, code, errs, want)
		}
	}
	_, _, err := readLink("rats=4")
	if err == nil || err.Error() != "-rats: no such flag; did you mean -rate?" {
		t.Errorf("a link: %v", err)
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"help"}, {"-h"}, {"run"}, {"run", "-h"}} {
		out := output(t, args...)
		for name, c := range commands {
			if !strings.HasPrefix(c.example, name+" ") || !strings.Contains(out, "retrysim "+c.example+"\n") {
				t.Errorf("retrysim %q does not show an example of %s: %s", args, name, out)
			}
			line := regexp.MustCompile(`(?m)^  ` + name + ` +` + regexp.QuoteMeta(c.does) + `$`).FindString(out)
			if c.does == "" || line == "" || len(line) > 120 {
				t.Errorf("retrysim %q does not say in a line what %s does: %s", args, name, out)
			}
		}
	}
	for _, args := range []string{"try -help", "try help", "help try", "run herd -h", "help run herd", "find -help", "live help", "help fit"} {
		words := strings.Fields(args)
		if out := output(t, words...); !strings.HasPrefix(out, "retrysim ") || !strings.Contains(out, "\nfor example: retrysim ") || !strings.Contains(out, "\n  -format kind\n") {
			t.Errorf("retrysim %s: %s", args, out)
		}
	}
}

// Help has the flags of a scenario in groups, those of the page in the same, and each once,
// with the default that it has without the other arguments.
func TestHelpGroupsFlagsAsThePage(t *testing.T) {
	page, err := os.ReadFile("page/index.html")
	if err != nil {
		t.Fatal(err)
	}
	all := &options{FlagSet: flag.NewFlagSet("", flag.ContinueOnError)}
	reported(try)(all)
	out := output(t, "try", "-rate", "7", "-h")
	sections := map[string]string{}
	for _, g := range groups {
		_, rest, _ := strings.Cut(out, "\n\n"+g.title+":\n")
		sections[g.title], _, _ = strings.Cut(rest, "\n\n")
	}
	all.VisitAll(func(f *flag.Flag) {
		if n := strings.Count(out, "\n  -"+f.Name+" ") + strings.Count(out, "\n  -"+f.Name+"\n"); n != 1 {
			t.Errorf("-%s is there %d times: %s", f.Name, n, out)
		}
	})
	if strings.Contains(out, "\nFlags:") {
		t.Errorf("some flags of try are in no group: %s", out)
	}
	if !strings.Contains(out, "(default 150)") || strings.Contains(out, "(default 7)") {
		t.Errorf("-rate has another default: %s", out)
	}
	named := 0
	for _, set := range regexp.MustCompile(`(?s)<fieldset[^>]*><legend>([^<]*)</legend>(.*?)</fieldset>`).FindAllStringSubmatch(string(page), -1) {
		for _, control := range regexp.MustCompile(` name="([^"]*)"`).FindAllStringSubmatch(set[2], -1) {
			if named++; !strings.Contains("\n"+sections[set[1]], "\n  -"+control[1]) {
				t.Errorf("-%s is under %q on the page, and not in help", control[1], set[1])
			}
		}
	}
	if named < 15 {
		t.Errorf("the page has %d controls", named)
	}
	if found := output(t, "find", "-h"); !strings.Contains(found, "\nFlags:\n  -for word\n") || !strings.Contains(found, "\nYour fleet:\n") {
		t.Errorf("find -h: %s", found)
	}
}

func TestExperimentsWork(t *testing.T) {
	notUnderRace(t)
	long(t)
	t.Chdir(t.TempDir())
	for name, c := range commands {
		if !strings.HasPrefix(name, "run ") {
			continue
		}
		output(t, strings.Fields(c.example)...)
		if name == "run collapse" {
			if _, err := os.Stat("collapse.svg"); err != nil {
				t.Error(err)
			}
		}
	}
	const table = `Layers: every one of them retries

attempts   layers   guarded   relayed   requests per call   succeed
3          1        false     false     3                   0.00 %
3          1        true      false     3                   0.00 %
3          1        false     true      3                   0.00 %
3          2        false     false     9                   0.00 %
3          2        true      false     3                   0.00 %
3          2        false     true      3                   0.00 %
3          3        false     false     27                  0.00 %
3          3        true      false     3                   0.00 %
3          3        false     true      3                   0.00 %

attempts: of each layer. guarded: a layer does not retry what the one below it has retried (retry.AlreadyRetried). relayed: a layer that gives up tells its caller not to retry (retryhttp.Relay). succeed: the share of the calls.

retrysim run layers -attempts 3 -depth 1,2,3 -fails 1 -calls 1 -seed 1
`
	if out := output(t, "run", "layers", "-attempts", "3"); out != table {
		t.Errorf("%s", out)
	}
	var ends []float64
	doc := decode[struct {
		Experiment string
		Inputs     map[string]any
		Rows       []struct {
			Policy  string
			Windows []struct {
				From, To float64
				ToS      float64 `json:"to_s"`
				FromS    float64 `json:"from_s"`
				Goodput  float64
				Retries  float64 `json:"retries_per_s"`
			}
			Down float64
		}
	}](t, "run", "collapse", "-trials", "1", "-duration", "60s")
	for _, w := range doc.Rows[0].Windows {
		ends = append(ends, w.ToS)
	}
	if !slices.Equal(ends, []float64{20, 25, 40, 60}) || doc.Experiment != "collapse" || doc.Inputs["duration"] != "1m0s" {
		t.Errorf("windows end at %v, inputs %v", ends, doc.Inputs)
	}
}

// A file appears only with what was to be written, and what stood there stays if that
// fails.
func TestOutputFile(t *testing.T) {
	dir := t.TempDir()
	file, args := filepath.Join(dir, "out"), []string{"run", "layers", "-attempts", "2"}
	want := output(t, args...)
	for range 2 {
		if out := output(t, append(args, "-o", file)...); out != "" {
			t.Errorf("with -o it writes %q to standard output", out)
		}
		if got, _ := os.ReadFile(file); string(got) != want {
			t.Errorf("the file has %q", got)
		}
		if err := os.WriteFile(file, []byte(strings.Repeat("longer ", 1000)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	before, _ := os.ReadFile(file)
	for _, bad := range [][]string{{"fit", "-log", filepath.Join(dir, "none")}, {"run", "layers", "-depth", "99"}} {
		if _, _, code := retrysim(t.Context(), append(bad, "-o", file)...); code == 0 {
			t.Errorf("%q succeeds", bad)
		}
		if after, _ := os.ReadFile(file); !bytes.Equal(before, after) {
			t.Errorf("after %q the file has %q", bad, after)
		}
		other := filepath.Join(dir, "other")
		if _, _, code := retrysim(t.Context(), append(bad, "-o", other)...); code == 0 {
			t.Errorf("%q succeeds", bad)
		}
		if _, err := os.Stat(other); err == nil {
			t.Errorf("%q leaves an empty file", bad)
		}
	}
	// One that cannot be written is known before the simulation.
	if _, errs, code := retrysim(t.Context(), "fit", "-log", filepath.Join(dir, "none"), "-o", filepath.Join(file, "x")); code != 1 || !strings.Contains(errs, filepath.Join(file, "x")) {
		t.Errorf("a file that cannot be written: code %d, %q", code, errs)
	}
}

// An interrupt ends try with what is done, and before anything is done with an error
// and without a file.
func TestInterrupt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, errs, code := retrysim(ctx, "try", "-seeds", "1000", "-o", file); code != 1 || !strings.Contains(errs, "retrysim: interrupted after 0 of ") || strings.Contains(errs, "canceled") {
		t.Errorf("code %d, %s", code, errs)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a file is left")
	}
	notUnderRace(t)
	long(t)
	ctx, cancel = context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	out, errs, code := retrysim(ctx, "try", "-seeds", "1000000", "-duration", "25s", "-format", "json")
	var doc tried
	if err := json.Unmarshal([]byte(out), &doc); err != nil || code != 0 || len(doc.Rows) == 0 || doc.Rows[0].Seeds < 1 || doc.Rows[0].Seeds >= 1e6 {
		t.Errorf("code %d, %v, %s, %d rows", code, err, errs, len(doc.Rows))
	}
}

// A picture is XML that follows the reader's colors, has all inputs and loads
// nothing; a page holds the same picture. Names beside lines do not overlap.
func TestPictures(t *testing.T) {
	notUnderRace(t)
	text := regexp.MustCompile(`<text class="name c\d" fill="#\w+" x="[\d.]+" y="([\d.]+)">([^<]*)</text>`)
	for args, want := range map[string]string{
		"run collapse -trials 1":                      "no retries retries at once backoff of 20 s at once + budget",
		"try -seeds 1 -duration 23s -policy name=<&>": ">capacity<,>useful work<,>work nobody waits for<,>&lt;&amp;&gt;<,>outage<",
		"find -seeds 1 -steps 1 -outages 1 -loads .5": "outage 1 s,>0.5<, %<",
	} {
		svg := output(t, append(strings.Fields(args), "-format", "svg")...)
		d := xml.NewDecoder(strings.NewReader(svg))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", args, err)
			}
		}
		if !strings.Contains(svg, "prefers-color-scheme: dark") || strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") || !strings.Contains(svg, ">retrysim "+strings.Join(strings.Fields(args)[:1], " ")) {
			t.Errorf("%s: %.300s", args, svg)
		}
		labels := text.FindAllStringSubmatch(svg, -1)
		for i, a := range labels {
			if !strings.Contains(want, a[2]) {
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
		if strings.HasPrefix(args, "run ") && len(labels) == 0 {
			t.Errorf("%s: no names", args)
		}
		for _, word := range strings.Split(want, ",") {
			if !strings.HasPrefix(args, "run ") && !strings.Contains(svg, word) {
				t.Errorf("%s: no %s in the picture", args, word)
			}
		}
		page := output(t, append(strings.Fields(args), "-format", "html")...)
		if !strings.Contains(page, svg) || strings.Contains(strings.ReplaceAll(page, "http://www.w3.org/2000/svg", ""), "http") || !strings.Contains(page, "All inputs: <code>retrysim ") {
			t.Errorf("%s: the page lacks the picture, or loads something: %.300s", args, page)
		}
	}
}

// split takes a command line apart, as a shell does one with single quotes.
func split(line string) (words []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}

// A link may hold any text, and the page offers its command to copy. A shell must take
// the text as it is, and run none of it.
func TestPrintedWordsMeanNothingToAShell(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no sh")
	}
	words := []string{"", "name=`id`", "name=$(id)", "x\necho\nx", "it's", "''", "~", "a b", "-", "=ls", "{a,b}", "!x", "[a]", "^x", "ä€"}
	for c := byte(1); c < 128; c++ {
		words = append(words, string(c), "x"+string(c)+"x")
	}
	script := "printf '%s\\0'"
	for _, word := range words {
		script += " " + quote(word)
	}
	got, err := exec.CommandContext(t.Context(), shell, "-c", script).Output()
	if want := strings.Join(words, "\x00") + "\x00"; err != nil || string(got) != want {
		t.Errorf("%v: the shell got %q, want %q", err, got, want)
	}
	scene := played(t, "seeds=1&rate=10&policy=name%3D%60id%60")[0]
	if !strings.Contains(scene.Command, "-policy 'name=`id`'") {
		t.Errorf("the command is %s", scene.Command)
	}
}

// What the table says and what is chosen agree where there is little to go by.
func TestChoiceAgreesWithTheTable(t *testing.T) {
	notUnderRace(t)
	for args, want := range map[string][]string{
		"try -seeds 1 -rate 0.001":                    {"0 (0.0 %)", "no calls were made", "choose a higher -rate or a longer -duration: no calls were made"},
		"try -seeds 20 -rate 1 -failure 0.3":          {"is back as soon as it is over", ": it recovers"}, // in a few seeds most calls fail before it
		"try -seeds 1 -rate 20 -failure 0.9":          {"most calls fail even before it", "choose a longer timeout or a faster server"},
		"try -seeds 1 -rate 60 -workers 1 -outage 1s": {"is above the capacity", "choose more capacity or less load"},
		"find -seeds 1 -rate 1000":                    {"-rate: 1000/s is above the capacity of 200/s"},
		"try -outage 48h":                             {"want a time of 0s or more, such as 100ms or 2s, and 24h0m0s at most"},
		"find -seeds 1 -rate 1000 -for spare -steps 1 -loads .1 -outages 1 -outage 100ms": {"the smallest spare capacity"},
	} {
		out, errs, _ := retrysim(t.Context(), strings.Fields(args)...)
		for _, want := range want {
			if !strings.Contains(out+errs, want) {
				t.Errorf("retrysim %s prints no %q:\n%s%s", args, want, out, errs)
			}
		}
	}
	// An interrupt may come before no retries have been run.
	x := new(scenario)
	x.Capacity, x.Rate = 100, 10
	rows := []tryRow{{Policy: "mine", Seeds: 1, asked: 1, danger: "it has no budget"}}
	if got, want := x.choose(rows), "none of these: without a run of no retries"; !strings.HasPrefix(got, want) {
		t.Errorf("choose %s, want %s", got, want)
	}
}

// An outage of which the run shows nothing after its end has no answer; one that is
// just visible, or that a given duration shows, has one.
func TestOutagesThatTheRunDoesNotShowAreRefused(t *testing.T) {
	long(t)
	for args, want := range map[string]string{
		"-outage 9m20s -rate 1":                  "9m30s later",
		"-outage 9m20s -rate 1 -at 11s":          "refused",
		"-outage 12m -rate 1 -duration 12m20s":   "",
		"-outage 12m -rate 1 -duration 12m19s":   "refused",
		"-outage 9m20s -rate 1 -duration 10m10s": "",
	} {
		out, errs, code := retrysim(t.Context(), append([]string{"try", "-seeds", "1", "-format", "json"}, strings.Fields(args)...)...)
		if want == "refused" {
			if code != 2 {
				t.Errorf("%s: code %d, want 2", args, code)
			}
			continue
		}
		var doc tried
		if err := json.Unmarshal([]byte(out), &doc); err != nil || code != 0 {
			t.Fatalf("%s: %v, code %d, %s", args, err, code, errs)
		}
		if row := doc.row("no retries"); row.Verdict != "is back as soon as it is over" || row.LostShare < .8 {
			t.Errorf("%s: no retries %s, and %.2f are lost", args, row.Verdict, row.LostShare)
		}
	}
}

// The last line of the output repeats the run, also where a flag is 0 and its default
// is not.
func TestPrintedCommandRepeatsTheRun(t *testing.T) {
	long(t)
	for _, args := range []string{
		"try -seeds 1 -rate 20 -outage 0", "try -seeds 1 -rate 20 -failure 0", "try -seeds 1 -rate 20 -seed 0", "try -seeds 1 -rate 20 -spike 50 -outage 0",
		"try -seeds 1 -rate 20 -workers 0 -outage 0 -failure 0 -seed 0", "try -seeds 1 -rate 20 -spike 50", "try -seeds 1 -capacity 30 -rate 20",
		"try -seeds 1 -rate 20 -service 0", "try -seeds 1 -rate 20 -shared=false -closed -clients 5", "try -seeds 1 -rate 20 -outage-answer slow -outage-factor 9",
		"run collapse -trials 1 -slowdown 0 -network 0 -seed 0", "run amplification -clients 2 -failure 0", "run contention -clients 3 -trials 1 -spread 0 -delay 0",
		"find -seeds 1 -rate 20 -steps 1 -loads .1 -outages 1 -failure 0 -seed 0 -outage 0 -for spare",
	} {
		out := output(t, strings.Fields(args)...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		command := lines[len(lines)-1]
		again, errs, code := retrysim(t.Context(), split(strings.TrimPrefix(command, "retrysim "))...)
		if again != out {
			t.Errorf("retrysim %s prints\n%s\nwhich ends with code %d and %s, and gives\n%s\nnot\n%s", args, command, code, errs, again, out)
		}
	}
}

func TestFitRefusesWhatIsNoLogOfAService(t *testing.T) {
	line := func(at string, status int) string {
		return fmt.Sprintf(`{"time":%q,"duration":0.1,"status":%d}`+"\n", at, status)
	}
	many := func(status int) (lines string) {
		for i := range 20 {
			lines += line(fmt.Sprintf("2026-01-02T03:04:%02dZ", i), status)
		}
		return lines
	}
	slow := strings.ReplaceAll(many(200), `"duration":0.1`, `"duration":7200`)
	for name, tt := range map[string]struct{ log, want string }{
		"year 1":          {many(200) + line("0001-01-02T00:00:00Z", 200), "spans more than 31 days, from 0001-01-02T00:00:00Z to 2026-01-02T03:04:19Z: is one of these times broken?"},
		"year 9999":       {many(200) + line("9999-01-01T00:00:00Z", 200), "to 9999-01-01T00:00:00Z: is one of these times broken?"},
		"nothing but 503": {many(503), "every answer is 429 or 503: the log shows no capacity"},
		"two in a month":  {line("2026-01-01T00:00:00Z", 200) + line("2026-01-30T00:00:00Z", 200), `invalid value "7.982e-07" for flag -rate: want a number from 0.001`},
		"hours":           {slow, `invalid value "2h0m0s" for flag -latency: want a time of`},
	} {
		file := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(file, []byte(tt.log), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, errs, code := retrysim(t.Context(), "fit", "-log", file); code != 1 || out != "" || !strings.Contains(errs, tt.want) {
			t.Errorf("%s: code %d, %s%s, want %s", name, code, out, errs, tt.want)
		}
	}
}

// interrupted is a context that ends after its Err has been called some times.
type interrupted struct {
	context.Context
	left *atomic.Int64
	end  func()
}

func (c interrupted) Err() error {
	if c.left.Add(-1) < 0 {
		c.end()
	}
	return c.Context.Err()
}

func TestInterruptedFindClaimsNothing(t *testing.T) {
	for _, calls := range []int64{3, 25} { // in the search, and in the map
		for _, format := range []string{"json", "text", "svg"} {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			left := new(atomic.Int64)
			left.Store(calls)
			out, errs, code := retrysim(interrupted{ctx, left, cancel}, "find", "-seeds", "1", "-rate", "20", "-workers", "2", "-steps", "5", "-policy", "attempts=1", "-format", format)
			if code != 0 {
				t.Fatalf("code %d, %s", code, errs)
			}
			var doc found
			switch format {
			case "json":
				if err := json.Unmarshal([]byte(out), &doc); err != nil {
					t.Fatal(err)
				}
				if search := calls < 20; !doc.Interrupted || len(doc.Tried) == 0 || len(doc.Map) >= 25 || search != (doc.Value == nil) || search != (len(doc.Map) == 0) {
					t.Errorf("after %d calls: interrupted %v, value %v, %d tried, %d in the map", calls, doc.Interrupted, doc.Value, len(doc.Tried), len(doc.Map))
				}
			case "text":
				if !strings.Contains(out, "Interrupted: the map has") || strings.Contains(out, "survives none") || calls < 20 && !strings.Contains(out, " of at most 7 values: the longest outage that it survives is not known") {
					t.Error(out)
				}
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for command, want := range map[string]string{
		"find":                             "interrupted after 0 of 9 values",
		"run budgets -every 1000 -seeds 1": "interrupted before all cells were run",
		"run quotas -processes 1 -duration 61s -load 1.5": "interrupted after 0 of 7 rows",
	} {
		if out, errs, code := retrysim(ctx, strings.Fields(command)...); code != 1 || out != "" || errs != "retrysim: "+want+"\n" {
			t.Errorf("%s, interrupted at once: code %d, %s%s, want %s", command, code, out, errs, want)
		}
	}
}

func TestInterruptedLiveClaimsNothing(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	out, errs, code := retrysim(ctx, "live", "-seeds", "1", "-rate", "50", "-format", "json")
	var doc struct{ Measured tryRow }
	if err := json.Unmarshal([]byte(out), &doc); err != nil || code != 0 {
		t.Fatalf("%v, code %d, %s", err, code, errs)
	}
	if m := doc.Measured; m.Verdict != "interrupted before the outage was over" || m.Recovery != nil || m.LostShare > .2 {
		t.Errorf("interrupted before the outage: %+v", m)
	}
}

// What choose recommends is nothing that a remark warns of, and budgets that do not
// protect the server are warned of.
func TestChooseDoesNotContradictItsRemarks(t *testing.T) {
	long(t)
	for args, want := range map[string]string{ // of the remarks
		"-failure 0.1 -outage 0 -rate 100 -policy|name=mine attempts=4 budget=ratio(0.1,10)": "mine: its floor of 10 retries per second, times 30 budgets, is 300/s",
		"-outage 0 -failure 0.3 -policy|name=mine attempts=4":                                "mine: it has no budget. While all attempts fail it makes 600 requests per second, and the server can do 200/s",
		"-queue 100 -policy|name=mine max_elapsed=1m":                                        "mine: it has no budget. While all attempts fail it makes requests without end, and the server can do 200/s",
		"-outage-answer refused -policy|name=mine attempts=2 budget=ratio(0.1,5,1s)":         "mine: its floor of 5 retries per second, times 30 budgets, is 150/s",
		"-spike 400 -shared -policy|name=mine attempts=3 budget=ratio(0.1,60)":               "mine: its floor of 60 retries per second, times 1 budgets, is 60/s",
		"-rate 40 -policy|name=mine attempts=4":                                              "", // 160/s in the worst case
		"-workers 0 -policy|name=mine attempts=4":                                            "", // no limit
	} {
		var all []string
		for _, word := range strings.Fields(args) {
			all = append(all, strings.Split(word, "|")...)
		}
		policy := strings.Split(args, "|")[1]
		all = append(append([]string{"try", "-seeds", "1"}, all[:slices.Index(all, "-policy")+1]...), policy)
		out := output(t, all...)
		chosen := regexp.MustCompile(`(?m)^choose ([^:]*):`).FindStringSubmatch(out)
		if chosen == nil || regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(chosen[1])+`: .* does not protect the server`).MatchString(out) {
			t.Errorf("%s: chooses what it warns of, or nothing:\n%s", args, out)
		}
		if warned := strings.Contains(out, "mine: its") || strings.Contains(out, "mine: it has"); warned != (want != "") || !strings.Contains(out, want) {
			t.Errorf("%s: want the remark %q:\n%s", args, want, out)
		}
	}
}

func TestChoosePrefersABudgetAmongEquals(t *testing.T) {
	doc := decode[tried](t, "try", "-seeds", "1", "-rate", "20", "-processes", "1", "-outage", "1s", "-policy", "name=mine attempts=4")
	if !strings.HasPrefix(doc.Choose, "earned: ") {
		t.Errorf("choose %s", doc.Choose)
	}
}

// A policy is judged by more than the one disturbance: each kind of outage as long,
// failures at random, lost answers, a gateway, a dead replica, and costly rejections.
func TestChooseLooksAtOtherDisturbances(t *testing.T) {
	long(t)
	const (
		refused = "an outage of 3s in which it refuses connections; "
		slow    = "a brown-out of 3s in which work takes 3 times as long; "
		random  = "no outage, and 10 % of the requests fail at random; "
		answers = "no outage, and 5 % of the answers get lost at random; "
		gateway = "an outage of 3s behind a gateway that answers 503 after 800ms; "
		replica = "an outage of 3s of one of 10 replicas behind a balancer; "
		rejects = "no outage, and a queue of 20 whose rejections cost as much as the work; "
	)
	lasting := func(seconds, texts string) string { return strings.ReplaceAll(texts, " 3s", " "+seconds) }
	for args, want := range map[string]string{
		"": refused + slow + random + answers + gateway + replica + rejects,
		"-outage 5s -outage-answer refused -failure 0.2":   lasting("5s", "an outage of 3s; "+slow+strings.Replace(random, "10", "20", 1)+answers+gateway+replica+rejects),
		"-outage-answer slow -outage-factor 5":             "an outage of 3s; " + refused + random + answers + gateway + replica + rejects,
		"-outage-answer 503":                               "an outage of 3s; " + refused + slow + random + answers + gateway + replica + rejects,
		"-outage 0 -failure 0.1":                           "an outage of 3s; " + refused + slow + answers + gateway + replica + rejects,
		"-outage 0 -lost 0.05 -gateway 500ms":              "an outage of 3s; " + refused + slow + random + replica + rejects,
		"-spike 60 -outage 2s -outage-factor 3":            lasting("2s", "an outage of 3s; "+refused+slow+random+answers+gateway+replica+rejects),
		"-lost 0.1 -duration 40s":                          refused + slow + random + strings.Replace(answers, "5", "10", 1) + gateway + replica + rejects,
		"-outage 0 -duration 20s -at 9s -outage-factor 10": "an outage of 3s; " + refused + strings.Replace(slow, "3 times", "10 times", 1) + random + answers + gateway + replica + rejects,
		"-workers 14 -timeout 500ms -refusing 1ms":         refused + slow + random + answers + strings.Replace(gateway, "800ms", "400ms", 1) + strings.Replace(replica, "10", "7", 1),
		"-workers 11 -queue 5":                             refused + slow + random + answers + gateway + strings.Replace(rejects, "20", "22", 1),
		"-capacity 200":                                    refused + slow + random + answers + gateway + replica,
		"-replicas 2 -slowdown 1ms":                        refused + slow + random + answers + gateway + rejects,
	} {
		doc := decode[tried](t, append([]string{"try", "-seeds", "2", "-rate", "20"}, strings.Fields(args)...)...)
		for _, row := range doc.Rows {
			var got []string
			for _, o := range row.Others {
				got = append(got, o.Disturbance)
				if o.Seeds != 2 || o.LostShare < 0 || o.LostShare > 1 {
					t.Errorf("%s: %+v", args, o)
				}
			}
			if strings.Join(got, "; ")+"; " != want {
				t.Errorf("%s: %s meets %s, want %s", args, row.Policy, strings.Join(got, "; "), want)
			}
		}
	}
	doc := decode[tried](t, "try", "-seeds", "2", "-policy", "attempts=4 backoff=constant(1s)")
	lost := func(policy string, i int) float64 { return doc.row(policy).Others[i].LostShare }
	if refused, slow, random := lost("no retries", 0), lost("no retries", 1), lost("no retries", 2); refused < .05 || refused > .1 || slow < .03 || slow > .09 || random < .09 || random > .12 {
		t.Errorf("without retries %.3f are lost where connections are refused, %.3f in a brown-out and %.3f at random; want 3 of 40 s, 1 to 3 of 40 s, and a tenth", refused, slow, random)
	}
	if random := lost("attempts=4 backoff=constant(1s)", 2); random > .001 {
		t.Errorf("with four attempts %.3f are lost at random, want 1 in 10 000", random)
	}
}

// Rows that stay down say why, in numbers of the last quarter; others do not.
func TestRowsThatStayDownSayWhy(t *testing.T) {
	long(t)
	doc := decode[tried](t, "try", "-seeds", "2", "-policy", "attempts=4")
	for _, row := range doc.Rows {
		if (row.Why != "") != (row.StaysDown > 0) {
			t.Errorf("%s: %.1f stay down, and why is %q", row.Policy, row.StaysDown, row.Why)
		}
	}
	why := regexp.MustCompile(`^the server gets (6\d\d|5[89]\d)(\.\d)? requests per second and can do 200, a call makes (4\.0|3\.9) requests, and 100 % of the work comes too late$`)
	if got := doc.row("attempts=4").Why; !why.MatchString(got) {
		t.Errorf("attempts=4: %q", got)
	}
	if out := output(t, "try", "-seeds", "2", "-policy", "attempts=4"); !strings.Contains(out, "\nattempts=4 stays down: the server gets ") {
		t.Error(out)
	}
}

// Programs that draw SVG without CSS variables show the colors too.
func TestPicturesHavePlainColors(t *testing.T) {
	notUnderRace(t)
	pictures := map[string]string{}
	if _, err := os.Stat("../bench/go.mod"); err == nil { // else only the root module is there
		recorded, err := os.ReadFile("../bench/live.svg")
		if err != nil {
			t.Fatal(err)
		}
		pictures["bench/live.svg"] = string(recorded)
	}
	for _, args := range []string{"try -seeds 1 -rate 20", "find -seeds 1 -rate 20 -steps 1 -outages 1 -loads .5", "run collapse -trials 1"} {
		pictures[args] = output(t, append(strings.Fields(args), "-format", "svg")...)
	}
	for name, picture := range pictures {
		d, drawn := xml.NewDecoder(strings.NewReader(picture)), 0
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			e, ok := token.(xml.StartElement)
			if !ok {
				continue
			}
			attributes := map[string]string{}
			for _, a := range e.Attr {
				attributes[a.Name.Local] = a.Value
			}
			wants := map[string]string{"svg": "fill", "rect": "fill", "polygon": "fill", "polyline": "stroke", "path": "stroke"}[e.Name.Local]
			if wants == "" {
				continue
			}
			drawn++
			if !strings.HasPrefix(attributes[wants], "#") || wants == "stroke" && e.Name.Local == "polyline" && attributes["fill"] != "none" {
				t.Errorf("%s: <%s> has %v, want a plain %s", name, e.Name.Local, attributes, wants)
			}
		}
		if drawn < 3 {
			t.Errorf("%s: %d elements", name, drawn)
		}
	}
}

// A long name is there in full, in lines that fit beside each other and above the axes, in
// each picture of panels: on a page, in a figure, and in the map of find.
func TestLongNamesAreWholeInPictures(t *testing.T) {
	const text = "attempts=4 max_elapsed=30s attempt_timeout=900ms backoff=exponential(100ms,10s) budget=token"
	played, err := playOnce(t.Context(), "policy="+url.QueryEscape(text)+"&rate=20&duration=23s&seeds=1", 1)
	if err != nil {
		t.Fatal(err)
	}
	for name, svg := range map[string]string{
		"try":  output(t, "try", "-seeds", "1", "-rate", "20", "-duration", "23s", "-policy", text, "-format", "svg"),
		"find": output(t, "find", "-seeds", "1", "-steps", "1", "-loads", ".1", "-outages", "1", "-policy", text, "-format", "svg"),
		"page": played.Pictures[1],
	} {
		var title []string
		wide, above := map[string]int{"page": 430}[name], 0.0
		for _, line := range regexp.MustCompile(`(?:class="head" [^>]*y="([0-9.]+)">|y="([0-9.]+)"><tspan class="head">)([^<]*)<`).FindAllStringSubmatch(svg, -1) {
			y, _ := strconv.ParseFloat(line[1]+line[2], 64)
			if y < above+between || len(line[3])*7 > cmp.Or(wide, 860) {
				t.Errorf("%s: lines at %v and %v: %s", name, above, y, line[3])
			}
			title, above = append(title, line[3]), y
		}
		all := strings.Join(title, " ")
		if !strings.Contains(all, text) || strings.Contains(svg, "…") {
			t.Errorf("%s: want all of %q in %q", name, text, title)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"", []string{""}},
		{"a b", []string{"a b"}},
		{"four four four", []string{"four", "four", "four"}},
		{"abcdefghijk lm", []string{"abcdefg", "hijk lm"}},
		{"a abcdefghijklmn o", []string{"a", "abcdefg", "hijklmn", "o"}},
		{"äöüäöüä ä", []string{"äöüäöüä", "ä"}},
	} {
		if got := wrap(tt.text, 7); !slices.Equal(got, tt.want) {
			t.Errorf("wrap(%q) = %q, want %q", tt.text, got, tt.want)
		}
	}
}

func TestABudgetWithItsDefaultsIsNoSecondRow(t *testing.T) {
	long(t)
	for _, tt := range []struct{ budget, is string }{
		{"earned", "earned"}, {"ratio", "ratio"}, {"ratio(0.1)", "ratio"}, {"ratio(0.1,-1)", "ratio"}, {"ratio(0.1,0,10s)", "ratio"}, {"ratio(0,0,0)", "ratio"}, {"ratio(0.2)", ""}, {"ratio(0.1,1)", ""}, {"ratio(0.1,0,5s)", ""},
		{"token(500)", "token"}, {"token(500,14,5,1)", "token"}, {"token(0,14)", "token"}, {"token(499)", ""}, {"token(500,14,5,2)", ""}, {"token(500,-1)", ""},
	} {
		doc := decode[tried](t, "try", "-seeds", "1", "-rate", "20", "-duration", "25s", "-policy", "attempts=3 budget="+tt.budget)
		for _, kind := range []string{"earned", "token", "ratio"} {
			if got, want := doc.row(kind).Policy == "", tt.is == kind; got != want {
				t.Errorf("budget=%s: row %s left out %v, want %v", tt.budget, kind, got, want)
			}
		}
	}
}

// Who sees a table for the first time finds what its columns mean below it.
func TestColumnsAreExplained(t *testing.T) {
	notUnderRace(t)
	for args, columns := range map[string]string{
		"try -seeds 1 -duration 23s":                     "lost load peak p99 others",
		"run contention -clients 6 -trials 1":            "policy calls time",
		"run amplification -duration 2s":                 "failure policy load success",
		"run collapse -trials 1":                         "goodput none naive backoff token",
		"run herd -trials 1":                             "policy retry peak",
		"run layers":                                     "attempts guarded relayed succeed",
		"run budgets -every 1500 -seeds 1":               "lost down worse",
		"run quotas -processes 2 -duration 61s -seeds 1": "wasted quota p99 fairness",
	} {
		for _, format := range []string{"text", "html"} {
			out := output(t, append(strings.Fields(args), "-format", format)...)
			for _, column := range strings.Fields(columns) {
				if !regexp.MustCompile(`[\s>]` + column + `: `).MatchString(out) {
					t.Errorf("retrysim %s -format %s does not explain %q", args, format, column)
				}
			}
		}
	}
}

// The title of a search is about what is searched.
func TestFindNamesWhatItSearches(t *testing.T) {
	for what, want := range map[string]string{"outage": "Which outages the", "spare": "Which spare capacities the", "ratio": "Which ratios of a budget the"} {
		if out := output(t, "find", "-for", what, "-seeds", "1", "-steps", "1", "-loads", ".1", "-outages", ".1", "-rate", "10", "-outage", "100ms"); !strings.HasPrefix(out, want+" policy “") {
			t.Errorf("find -for %s: %.100s", what, out)
		}
	}
}
