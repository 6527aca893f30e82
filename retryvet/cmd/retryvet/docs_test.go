package main

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goretry/retry/retryvet/internal/samples"
)

const (
	pages  = "../../../docs/"
	sleeps = "shop.go:29:3: this wait goes on after ctx has ended"
	calls4 = "shop.go:13:9: cenkalti/backoff v4: -fix makes this a retry.Run"
	diff   = "+\treturn retry.Run(ctx, retry.Policy{\n"
	fixed  = "shop.go:13:9: cenkalti/backoff v4: now a retry.Run"
	counts = "1 call rewritten, 0 left as they are\n"
)

// Each command of vet.md and migrating.md does what the page says, in a module that
// calls another library and has a loop that sleeps. The command is built from this
// repository, and runs on one package of the module.
func TestCommandsInTheGuides(t *testing.T) {
	bin := t.TempDir()
	want := map[string]struct {
		status   int
		has, not []string
		writes   bool
	}{
		"retryvet ./...":            {status: 3, has: []string{sleeps, calls4}},
		"retryvet -json ./...":      {has: []string{`"category": "loopctx"`, `"category": "foreign"`}},
		"retryvet -fix -diff ./...": {has: []string{diff}},
		"retryvet -fix ./...":       {has: []string{fixed, counts}, not: []string{"next: go get"}, writes: true},

		"go vet -vettool=$(which retryvet) ./...":                {status: 1, has: []string{sleeps, calls4}},
		"go vet -vettool=$(which retryvet) -loopctx=false ./...": {status: 1, has: []string{calls4}, not: []string{sleeps}},
	}
	install := exec.Command("go", "install", ".") // the other commands run what this one makes
	install.Env = append(os.Environ(), "GOBIN="+bin)
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	seen := map[string]bool{}
	for _, page := range []string{"vet.md", "migrating.md"} {
		for _, line := range commandLines(t, page) {
			if line == "go get github.com/goretry/retry" { // done: the module has it
				continue
			}
			w, ok := want[line]
			if !ok {
				t.Errorf("%s has %q, and this test does not know what it should do", page, line)
				continue
			}
			seen[line] = true
			module := samples.Module(t, "../../internal/migrate/testdata/src")
			if err := os.CopyFS(filepath.Join(module, "shop"), os.DirFS("testdata/shop")); err != nil {
				t.Fatal(err)
			}
			c := exec.Command("sh", "-c", strings.Replace(line, "./...", "./shop", 1))
			c.Dir = module
			c.Env = append(samples.Env(), "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
			out, err := c.CombinedOutput()
			status := 0
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				status = exit.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
			if status != w.status {
				t.Errorf("%s: status %d, want %d\n%s", line, status, w.status, out)
			}
			for _, text := range w.has {
				if !strings.Contains(string(out), text) {
					t.Errorf("%s does not print %q:\n%s", line, text, out)
				}
			}
			for _, text := range w.not {
				if strings.Contains(string(out), text) {
					t.Errorf("%s prints %q:\n%s", line, text, out)
				}
			}
			same := "testdata/shop/shop.go"
			if w.writes {
				same += ".golden"
			}
			if got := readFile(t, filepath.Join(module, "shop", "shop.go")); got != readFile(t, same) {
				t.Errorf("%s leaves\n%s\nwant %s", line, got, same)
			}
		}
	}
	for line := range want {
		if !seen[line] {
			t.Errorf("no page has %q any more", line)
		}
	}
}

// commandLines returns the commands on a page, without comments.
func commandLines(t *testing.T, page string) (lines []string) {
	for _, m := range regexp.MustCompile(`(?m)^    ((?:go|retryvet) .*)$`).FindAllStringSubmatch(readFile(t, pages+page), -1) {
		line, _, _ := strings.Cut(m[1], "    # ")
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// Each check that vet.md names has a flag, and there is no other: -flags is what go vet
// asks for.
func TestFlagsInTheGuide(t *testing.T) {
	command := filepath.Join(t.TempDir(), "retryvet")
	if out, err := exec.Command("go", "build", "-o", command, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(command, "-flags").Output()
	if err != nil {
		t.Fatal(err)
	}
	var flags []struct{ Name, Usage string }
	if err := json.Unmarshal(out, &flags); err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, f := range flags {
		if strings.HasPrefix(f.Usage, "find ") { // as those of the checks begin
			have[f.Name] = true
		}
	}
	names := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| |^## .*: `(\\w+)`$").FindAllStringSubmatch(readFile(t, pages+"vet.md"), -1) {
		names[m[1]+m[2]] = true
	}
	if !maps.Equal(have, names) {
		t.Errorf("the flags are of\n%q, vet.md has\n%q", slices.Sorted(maps.Keys(have)), slices.Sorted(maps.Keys(names)))
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
