package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goretry/retry/retryvet/internal/samples"
)

// The fixed samples of package migrate, with what the command says of two of them.
func TestFixSpeaks(t *testing.T) {
	dir := t.TempDir()
	command := filepath.Join(dir, "retryvet")
	if out, err := exec.Command("go", "build", "-o", command, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	module := samples.Module(t, "../../internal/migrate/testdata/src")
	c := exec.Command(command, "-fix", "./foreign/marks", "./foreign/mixed")
	c.Dir, c.Env = module, samples.Env()
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got := strings.ReplaceAll(string(out), module+string(filepath.Separator), "")
	want := `foreign/marks/marks.go:9:6: cenkalti/backoff v4: now a retry.Run; waits at the cap may be shorter: theirs exceed it; Classify repeats every error that Permanent has not marked, as before
foreign/mixed/mixed.go:14:9: cenkalti/backoff v4: not rewritten: PermanentError, which has no exact counterpart, is used where its error may come
foreign/mixed/mixed.go:20:9: avast/retry-go v4: now a retry.Run
2 calls rewritten, 1 left as they are
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for name, want := range map[string]bool{"marks": true, "mixed": true} {
		source, err := os.ReadFile(filepath.Join(module, "foreign", name, name+".go"))
		if err != nil || strings.Contains(string(source), "retry.Policy{") != want {
			t.Errorf("%s.go is not rewritten: %v\n%s", name, err, source)
		}
	}
}

func TestSpeaks(t *testing.T) {
	for args, want := range map[string]bool{
		"./...": false, "-fix ./...": true, "--fix=true ./...": true, "-fix=false ./...": false,
		"-fix -diff ./...": false, "-json -fix ./...": false, "unit.cfg": false,
	} {
		if got := speaks(strings.Fields(args)); got != want {
			t.Errorf("speaks(%s) = %v, want %v", args, got, want)
		}
	}
}
