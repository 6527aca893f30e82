package golangci_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const page = "../../docs/vet.md"

// The files and commands of docs/vet.md, with golangci-lint as it is released: its
// custom command builds one with the linter, and that finds what the settings leave on.
// The command wants the sources from GitHub. It gets those of the module, by git's
// url.*.insteadOf.
func TestInGolangciLint(t *testing.T) {
	if os.Getenv("RETRY_LONG") == "" {
		t.Skip("compiles golangci-lint: set RETRY_LONG=1")
	}
	section := section(t)
	files := regexp.MustCompile("(?ms)^```yaml\n# (\\S+)\n(.*?)^```$").FindAllStringSubmatch(section, -1)
	commands := regexp.MustCompile(`(?m)^    (\S*(?:golangci-lint|custom-gcl) .*)$`).FindAllStringSubmatch(section, -1)
	version := regexp.MustCompile(`(?m)^version: (v2\S+)$`).FindStringSubmatch(section)
	if len(files) != 2 || len(commands) != 2 || version == nil {
		t.Fatalf("%s has %d files and %d commands, want two of each, and a version", page, len(files), len(commands))
	}

	const module = "github.com/golangci/golangci-lint/v2"
	bin, sources := t.TempDir(), t.TempDir()
	run := runner{t, append(os.Environ(), "GOWORK=off", "GOBIN="+bin, "GOLANGCI_LINT_CACHE="+t.TempDir(),
		"PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"),
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://"+sources+".insteadOf", "GIT_CONFIG_VALUE_0=https://github.com/golangci/golangci-lint.git")}
	run.ok(bin, "go install "+module+"/cmd/golangci-lint@"+version[1])
	var downloaded struct{ Dir string }
	if err := json.Unmarshal([]byte(run.ok(bin, "go mod download -json "+module+"@"+version[1])), &downloaded); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(sources, os.DirFS(downloaded.Dir)); err != nil {
		t.Fatal(err)
	}
	run.ok(sources, "git init -q && git add -A -f && git -c user.name=test -c user.email=test@localhost commit -qm sources && git tag "+version[1])

	dir := calls(t)
	repo, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(repo, filepath.Join(filepath.Dir(dir), "retry")); err != nil { // beside the module, as start.md says
		t.Fatal(err)
	}
	for _, file := range files {
		write(t, filepath.Join(dir, file[1]), file[2])
	}
	run.ok(dir, commands[0][1])
	lint := strings.Replace(commands[1][1], "./...", "./calls", 1)

	const (
		nounit  = "calls.go:16:61: Constant is 5 ns here"
		sleeps  = "calls.go:24:3: this wait goes on after ctx has ended"
		foreign = "calls.go:29:9: cenkalti/backoff v4: "
	)
	config := filepath.Join(dir, ".golangci.yml")
	asOnThePage := read(t, config)
	for _, tt := range []struct {
		name, from, to string
		status         int
		has, not       []string
	}{
		{"as on the page", "", "", 1, []string{nounit, foreign}, []string{sleeps}},
		{"another check", "loopctx", "foreign", 1, []string{nounit, sleeps}, []string{foreign}},
		{"no settings", ", settings: {loopctx: false}", "", 1, []string{nounit, sleeps, foreign}, nil},
		{"a wrong setting", "loopctx", "lopctx", 3, []string{`no check is called "lopctx"`}, []string{nounit}},
	} {
		if !strings.Contains(asOnThePage, tt.from) {
			t.Fatalf("%s has no %q in %s", page, tt.from, config)
		}
		write(t, config, strings.Replace(asOnThePage, tt.from, tt.to, 1))
		out, status := run.status(dir, lint+" --fix")
		if status != tt.status {
			t.Errorf("%s: status %d, want %d\n%s", tt.name, status, tt.status, out)
		}
		for _, text := range tt.has {
			if !strings.Contains(out, text) {
				t.Errorf("%s: it does not print %q:\n%s", tt.name, text, out)
			}
		}
		for _, text := range tt.not {
			if strings.Contains(out, text) {
				t.Errorf("%s: it prints %q:\n%s", tt.name, text, out)
			}
		}
	}
	if read(t, filepath.Join(dir, "calls/calls.go")) != read(t, "testdata/calls/calls.go") {
		t.Error("--fix has changed the calls")
	}
}

// section returns what docs/vet.md says of golangci-lint.
func section(t *testing.T) string {
	t.Helper()
	_, section, found := strings.Cut(read(t, page), "\n## In golangci-lint\n")
	if !found {
		t.Fatalf("%s has no section on golangci-lint", page)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}

// runner runs commands of a shell.
type runner struct {
	t   *testing.T
	env []string
}

// status returns what the command prints, and its exit status.
func (r runner) status(dir, command string) (string, int) {
	r.t.Helper()
	c := exec.Command("sh", "-c", command)
	c.Dir, c.Env = dir, r.env
	out, err := c.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(out), exit.ExitCode()
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return string(out), 0
}

// ok returns what the command prints, and fails the test if it fails.
func (r runner) ok(dir, command string) string {
	r.t.Helper()
	out, status := r.status(dir, command)
	if status != 0 {
		r.t.Fatalf("%s: status %d\n%s", command, status, out)
	}
	return out
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
