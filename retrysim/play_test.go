package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/retryconf"
)

// played returns the scenes of a link.
func played(t *testing.T, link string) (scenes []scene) {
	t.Helper()
	err := play(t.Context(), link, func(s any) error {
		line, err := json.Marshal(s)
		if err != nil {
			return err
		}
		var told scene
		scenes = append(scenes, told)
		return json.Unmarshal(line, &scenes[len(scenes)-1])
	})
	if err != nil {
		t.Fatalf("play(%q): %v", link, err)
	}
	return scenes
}

// patient lets links take as long as they need.
func patient(t *testing.T) {
	limit := linkTime
	linkTime = time.Hour
	t.Cleanup(func() { linkTime = limit })
}

// The package comment says what a link may ask for.
func TestLimitsOfALink(t *testing.T) {
	want := fmt.Sprintf("at most %d KiB, %d seeds, %d policies, %s processes, %s calls in a run, %.0f simulated minutes and %.0f s of simulation",
		linkBytes>>10, linkSeeds, linkPolicies, thousands(linkProcesses), thousands(linkCalls), longest.Minutes(), linkTime.Seconds())
	comment := strings.ReplaceAll(readPage(t, "main.go"), "//", "")
	if text := strings.Join(strings.Fields(comment), " "); !strings.Contains(text, want) {
		t.Errorf("the package comment does not say %q", want)
	}
}

// thousands writes a number of at least a thousand as the pages do.
func thousands(n int) string { return fmt.Sprintf("%d %03d", n/1000, n%1000) }

func TestPlayTellsWhatTrySays(t *testing.T) {
	long(t)
	patient(t)
	for link, flags := range map[string][]string{
		"rate=20&seeds=6&outage=2s":                                      {"-rate", "20", "-outage", "2s"},
		"rate=5&seeds=1&policy=name%3Dmine+attempts%3D4+budget%3Dearned": {"-rate", "5", "-policy", "name=mine attempts=4 budget=earned", "-policy", `name="no budget" attempts=4`},
		"rate=5&seeds=2&outage=0&failure=0&seed=0&shared=true&policy=attempts%3D2&policy=budget%3Dtoken": {
			"-rate", "5", "-outage", "0", "-failure", "0", "-seed", "0", "-shared", "-policy", "attempts=2", "-policy", "budget=token"},
	} {
		scenes := played(t, link)
		var seeds []int
		for i, s := range scenes {
			seeds = append(seeds, s.Seeds)
			args := slices.Concat([]string{"try"}, flags, []string{"-seeds", fmt.Sprint(s.Seeds)})
			var got, want map[string]any
			if err := errors.Join(json.Unmarshal(s.Answer, &got), json.Unmarshal([]byte(output(t, append(args, "-format", "json")...)), &want)); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s: with %d seeds the answer is %v, and try says %v", link, s.Seeds, got, want)
			}
			text := output(t, args...)
			if !strings.HasPrefix(text, s.Title+"\n") || !strings.Contains(text, strings.Join(s.Notes, "\n\n")+"\n\nchoose ") || len(s.Notes) == 0 {
				t.Errorf("%s: title %q and notes %q are not those of %s", link, s.Title, s.Notes, text)
			}
			if rows := got["rows"].([]any); len(s.Pictures) != len(rows) || !strings.HasPrefix(s.Pictures[0], "<svg ") {
				t.Errorf("%s: %d pictures of %d rows", link, len(s.Pictures), len(rows))
			}
			if s.Done != (i == len(scenes)-1) || s.Of != scenes[len(scenes)-1].Seeds || s.Error != "" {
				t.Errorf("%s: done %v, of %d, error %q", link, s.Done, s.Of, s.Error)
			}
		}
		last := scenes[len(scenes)-1]
		if want := steps(last.Of); !slices.Equal(seeds, want) {
			t.Errorf("%s: seeds %v, want %v", link, seeds, want)
		}
		// The command repeats the figures.
		var got, want map[string]any
		again := output(t, append(split(strings.TrimPrefix(last.Command, "retrysim ")), "-format", "json")...)
		if err := errors.Join(json.Unmarshal(last.Answer, &want), json.Unmarshal([]byte(again), &got)); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %s does not give the same", link, last.Command)
		}
	}
	if s := steps(20); !slices.Equal(s, []int{1, 5, 20}) || !slices.Equal(steps(5), []int{1, 5}) || !slices.Equal(steps(1), []int{1}) {
		t.Errorf("steps(20) = %v, steps(5) = %v, steps(1) = %v", s, steps(5), steps(1))
	}
	policy := played(t, "rate=20&seeds=1&policy=attempts%3D4+backoff%3Dexponential(100ms,10s)")[0].Policy
	const code = "retry.Policy{\n\tMaxAttempts: 4,\n\tBackoff:     retry.Exponential{Base: 100 * time.Millisecond, Max: 10 * time.Second},\n}"
	if policy["text"] != "attempts=4 backoff=exponential(100ms,10s)" || policy["go"] != code {
		t.Errorf("policy %q", policy)
	}
}

// A link that asks for too much, or for what try does not have, is told so before
// anything is simulated.
func TestLinksThatAreRefused(t *testing.T) {
	for link, want := range map[string]string{
		"rate=5000":                 "-rate: want at most 150000 calls in a run here, not",
		"spike=100000":              "-spike: want at most 150000 calls in a run here, not 2.",
		"rate=20&duration=601s":     "-duration: want at most 600 seconds here, not 601; the command try has no such limit",
		"processes=10001":           "-processes: want at most 10000 processes here, not 1e+04; the command try has no such limit",
		"closed=true&clients=10001": "-clients: want at most 10000 clients",
		"seeds=21":                  "-seeds: want at most 20 seeds",
		strings.Repeat("policy=attempts%3D2&", 7): "-policy: want at most 6 policies here, not 7",
		"policy=" + strings.Repeat("x", 16<<10):   "the link has 16391 bytes, want at most 16384",
		"speed=5":                                 "-speed: no such flag",
		"format=json":                             "-format: no such flag",
		"o=%2Ftmp%2Fx":                            "-o: no such flag",
		"rate=fast":                               "-rate: want a number from",
		"rate=%zz":                                "invalid URL escape",
		"policy=attempts%3D0":                     `-policy: retry policy "attempts=0", column 10`,
		"outage=20m&rate=1":                       "-outage: it is over after 20m10s",
		"clients=5":                               "-clients: wants -closed",
		"rate=1e9":                                "-rate: a run would have",
		"policy=budget%3Dearned&policy=attempts%3": "invalid URL escape",
	} {
		scenes := played(t, link)
		if len(scenes) != 1 || !strings.Contains(scenes[0].Error, want) || !reflect.DeepEqual(scenes[0], scene{Error: scenes[0].Error}) {
			t.Errorf("%.60s: %+v, want the error %s alone", link, scenes, want)
		}
	}
}

// A link has a time. What is done by then is its last scene.
func TestPlayStopsAfterItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []scene
		err := play(t.Context(), "rate=20&seeds=20", func(s any) error {
			told = append(told, *s.(*scene))
			time.Sleep(linkTime)
			return nil
		})
		if err != nil || len(told) != 2 || told[0].Done || !told[1].Done || told[1].Seeds != 1 || told[1].Of != 20 || told[1].Title != told[0].Title {
			t.Fatalf("%v, %d scenes", err, len(told))
		}
		if notes := told[1].Notes; notes[len(notes)-1] != "Stopped after 30s: the command try has no such limit." {
			t.Errorf("notes %q", notes)
		}
	})
	var told []any
	if err := playFor(t.Context(), 0, "rate=20", func(s any) error { told = append(told, s); return nil }); err != nil ||
		len(told) != 1 || told[0].(scene).Error != "nothing is done after 0s: the command try has no such limit" {
		t.Errorf("%v, %+v", err, told)
	}
}

func TestPlayEndsWithItsRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	scenes := 0
	err := play(ctx, "rate=20&seeds=20", func(any) error { scenes++; cancel(); return nil })
	if !errors.Is(err, context.Canceled) || scenes != 1 {
		t.Errorf("%v after %d scenes, want one", err, scenes)
	}
	gone := errors.New("gone")
	if err := play(t.Context(), "rate=20&seeds=20", func(any) error { return gone }); err != gone {
		t.Errorf("%v, want the error of tell", err)
	}
}

func TestAtMostFourLinksArePlayedAtOnce(t *testing.T) {
	var all, told sync.WaitGroup
	release := make(chan struct{})
	told.Add(4)
	for range 4 {
		all.Go(func() {
			_ = play(t.Context(), "rate=20&seeds=1", func(any) error { told.Done(); <-release; return nil })
		})
	}
	told.Wait()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // a place would be taken half of the time
		err := play(gone, "rate=20&seeds=1", func(any) error { t.Error("a fifth link is played"); return nil })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("waiting for a place: %v", err)
		}
	}
	close(release)
	all.Wait()
	if n := len(played(t, "rate=20&seeds=1")); n != 1 {
		t.Errorf("%d scenes when others are done, want 1", n)
	}
}

// A link gives no panic, and what is accepted is within what a link may ask for.
func FuzzReadLink(f *testing.F) {
	for _, link := range []string{"", "rate=20&policy=attempts%3D4", "spike=300&closed=true&clients=5", "duration=10m&seeds=20&limit=1,10&hedge=adaptive", "queue=-1&outage=9m20s&at=10s", "quota=150&spike=300&pace=true"} {
		f.Add(link)
	}
	f.Fuzz(func(t *testing.T, link string) {
		_, x, err := readLink(link)
		if err != nil {
			return
		}
		_, calls := x.calls(x.Duration)
		if calls > linkCalls || x.Duration > longest || x.Processes > linkProcesses || x.Clients > linkProcesses || x.seeds > linkSeeds || len(x.texts) > linkPolicies+1 {
			t.Errorf("%q: %g calls, %v, %d processes, %d clients, %d seeds, %d policies", link, calls, x.Duration, x.Processes, x.Clients, x.seeds, len(x.texts))
		}
		for _, y := range x.others() {
			if _, calls := y.calls(y.Duration); calls > linkCalls || y.Duration > longest {
				t.Errorf("%q: %s has %g calls in %v", link, y.what, calls, y.Duration)
			}
		}
	})
}

// policies are texts with each field, backoff, budget and jitter.
var policies = []string{
	"", "name=fetch-user", `name="two words \"and\" quotes"`, "attempts=1", "attempts=unlimited", "max_elapsed=1m30s", "attempt_timeout=1500ms non_idempotent",
	"max_retry_after=1h", "backoff=exponential(100ms,10s,1.5) jitter=full", "backoff=exponential jitter=equal", "backoff=linear(1s,2m) jitter=none",
	"backoff=linear(7ns,9us) jitter=plusminus(0.2)", "backoff=decorrelated(3ms,5m)", "backoff=constant(0)", "backoff=constant(2s) throttle=constant(1m)",
	"backoff=schedule(1s,2s,3h)", "throttle=exponential(1s,1m) throttle_jitter=plusminus(0.5)", "jitter=range(0.25,0.75)", "backoff=exponential jitter=plus(100ms)", "backoff=exponential jitter=between(0.5,1,100ms)", "budget=earned", "budget=token", "budget=token(100,-1,5,2)",
	"budget=ratio", "budget=ratio(0.2,-1,30s)", "budget=ratio(0.1,+Inf)",
	"name=all attempts=4 max_elapsed=2h attempt_timeout=1s backoff=exponential(100ms,10s) jitter=full throttle=linear(1s,9s) max_retry_after=30s non_idempotent budget=earned",
}

// Go code for a policy compiles, is formatted, and is the same policy.
func TestGoCode(t *testing.T) {
	notUnderRace(t)
	var texts []string
	program := "package main\n\nimport (\n\t\"fmt\"\n\t\"math\"\n\t\"time\"\n\n\t\"github.com/goretry/retry\"\n\t\"github.com/goretry/retry/budget\"\n\t\"github.com/goretry/retry/retryconf\"\n)\n\n" +
		"var _, _ = math.Pi, time.Second\n\nfunc main() {\n"
	for _, text := range policies {
		p, err := parse(text)
		if err != nil {
			if strings.HasPrefix(text, "jitter=range") {
				continue // not a text of this version
			}
			t.Fatalf("%s: %v", text, err)
		}
		texts = append(texts, retryconf.Policy{Policy: p}.String())
		program += "fmt.Println(retryconf.Policy{Policy: " + goCode(p) + "})\n"
	}
	program += "}\n"
	if got, want := goCode(retry.Policy{}), "retry.Policy{}"; got != want {
		t.Errorf("the zero policy is %s, want %s", got, want)
	}
	if got := goCode(retry.Policy{MaxAttempts: retry.Unlimited, Budget: &budget.Token{Cost: -1}}); !strings.Contains(got, "MaxAttempts: retry.Unlimited,") || !strings.Contains(got, "Cost: -1") {
		t.Errorf("%s: want Unlimited for the attempts only", got)
	}
	if got := goCode(retry.Policy{Backoff: retry.Exponential{Factor: math.NaN()}, Budget: &budget.Ratio{Ratio: math.Inf(-1)}}); !strings.Contains(got, "math.NaN()") || !strings.Contains(got, "math.Inf(-1)") {
		t.Errorf("%s", got)
	}
	long(t)
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "run", file).CombinedOutput()
	if want := strings.Join(texts, "\n") + "\n"; err != nil || string(out) != want {
		t.Errorf("%v\n%s\nwant\n%s\nof\n%s", err, out, want, program)
	}
}

// The program of a page writes the same lines as the native one.
func TestWebAssemblyWritesTheSameLines(t *testing.T) {
	notUnderRace(t)
	long(t)
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("needs node")
	}
	program := filepath.Join(t.TempDir(), "retrysim.wasm")
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", program, ".")
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if info, err := os.Stat(program); err != nil || info.Size() > 8<<20 {
		t.Errorf("%v, %d bytes, want at most 8 MiB", err, info.Size())
	}
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range []string{"rate=20&seeds=2", "seeds=1&rate=50&spike=300&policy=" + url.QueryEscape("attempts=4 budget=earned"), "rate=nothing"} {
		out, err := exec.CommandContext(t.Context(), node, filepath.Join(strings.TrimSpace(string(root)), "lib/wasm/wasm_exec_node.js"), program, link).Output()
		if err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		if err := play(t.Context(), link, e.Encode); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(out, want.Bytes()) {
			t.Errorf("%s: %d bytes, and %d natively", link, len(out), want.Len())
		}
	}
}
