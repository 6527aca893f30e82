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
	command := build(t)
	module := samples.Module(t, "../../internal/migrate/testdata/src")
	c := exec.Command(command, "-fix", "./foreign/marks", "./foreign/mixed")
	c.Dir, c.Env = module, samples.Env()
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got := strings.ReplaceAll(string(out), module+string(filepath.Separator), "")
	want := `foreign/marks/marks.go:9:6: cenkalti/backoff v4: now a retry.Run; waits at the cap may be shorter: their jitter exceeded it; Classify repeats every error that Permanent has not marked, as before; waits that errors ask for are obeyed now: to ignore them return an error without a method RetryAfter
foreign/mixed/mixed.go:14:9: cenkalti/backoff v4: not rewritten: code that its error may reach uses PermanentError: write retry.Stop(err) to mark an error. Of the run's error, e, ok := errors.AsType[*retry.Error](err), e.Marked says that a mark ended the run
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

// With nothing to rewrite, -fix says so, and -fix -diff leaves its output empty.
func TestNothingToFix(t *testing.T) {
	command := build(t)
	module := samples.Module(t, "../../internal/migrate/testdata/src")
	write(t, module, "quiet/quiet.go", "package quiet\n")
	const nothing = "nothing to rewrite: no calls of the retry libraries that -fix knows\n"
	const stays = "refusedavast/refused.go:"
	for _, c := range []struct{ args, stdout, stderr string }{
		{"-fix ./quiet", nothing, ""},
		{"-fix -diff ./quiet", "", nothing},
		{"-fix -diff ./foreign/refusedavast", "", stays},
		{"-fix -diff ./foreign/refusedavast", "", "0 calls to rewrite, "},
		{"-fix ./foreign/refusedavast", "0 calls rewritten, ", ""},
	} {
		stdout, stderr, status := run(command, module, c.args)
		if status != 0 || !has(stdout, c.stdout) || !has(stderr, c.stderr) {
			t.Errorf("%s: status %d, want 0\n%s-- stderr:\n%s-- want %q and %q", c.args, status, stdout, stderr, c.stdout, c.stderr)
		}
	}
}

// A package is rewritten although its tests do not compile, and all is said once.
func TestFixBesideBrokenTests(t *testing.T) {
	command := build(t)
	module := samples.Module(t, "../../internal/migrate/testdata/src")
	write(t, module, "foreign/marks/broken_test.go", "package marks_test\n\nimport _ \"github.com/other/thing\"\n")
	stdout, stderr, status := run(command, module, "-fix ./foreign/marks")
	const broken = "retryvet: not checked: the tests of samples/foreign/marks: "
	if status != 1 || !strings.HasPrefix(stderr, broken) || strings.Count(stderr, "\n") != 1 || !strings.Contains(stdout, "1 call rewritten, 0 left as they are\n") {
		t.Errorf("status %d, want 1\n%s-- stderr:\n%s", status, stdout, stderr)
	}
	source, err := os.ReadFile(filepath.Join(module, "foreign", "marks", "marks.go"))
	if err != nil || !strings.Contains(string(source), "retry.Policy{") {
		t.Errorf("marks.go is not rewritten: %v\n%s", err, source)
	}
}

// What is not checked is named, with the reason: one line for a missing module, and one for
// a package that does not compile.
func TestNotChecked(t *testing.T) {
	command := build(t)
	dir := t.TempDir()
	write(t, dir, "go.mod", "module shop\n\ngo 1.26.0\n")
	for _, name := range []string{"cart", "order"} {
		write(t, dir, name+"/"+name+".go", "package "+name+"\n\nimport (\n\t_ \"github.com/other/thing/"+name+"\"\n\t_ \"github.com/other/thing/sub\"\n)\n")
	}
	write(t, dir, "cart/cart_test.go", "package cart\n\nimport \"testing\"\n\nfunc Test(t *testing.T) {}\n")
	write(t, dir, "kube/kube.go", "package kube\n\nimport (\n\t_ \"k8s.io/api/apps/v1\"\n\t_ \"k8s.io/api/core/v1\"\n)\n")
	write(t, dir, "above/above.go", "package above\n\nimport _ \"shop/cart\"\n")
	write(t, dir, "bad/bad.go", "package bad\n\nfunc f() int { return nothing }\nfunc g() int { return nobody }\n")
	write(t, dir, "tested/tested.go", "package tested\n")
	write(t, dir, "tested/tested_test.go", "package tested\n\nvar _ int = \"\"\n")
	write(t, dir, "syntax/syntax.go", "package syntax\n\nfunc {\n")
	write(t, dir, "good/good.go", `package good

import (
	"context"
	"time"
)

func wait(ctx context.Context, try func() error) {
	for try() != nil {
		time.Sleep(time.Second)
	}
}
`)
	for _, flags := range []string{"", "-fix ", "-json "} {
		stdout, stderr, status := run(command, dir, flags+"./...")
		if flags == "" {
			finding := "good/good.go:10:3: this wait goes on after ctx has ended"
			if !strings.Contains(stderr, finding) {
				t.Errorf("the others are not checked:\n%s", stderr)
			}
			if i := strings.Index(stderr, dir); i >= 0 {
				stderr = stderr[:i]
			}
		}
		if status != 1 {
			t.Errorf("%s: status %d, want 1", flags, status)
		}
		lines := strings.Split(strings.TrimSpace(stderr), "\n")
		want := []string{
			"shop/above, shop/cart, shop/order: no required module provides package github.com/other/thing/cart; to add it: go get ",
			"shop/bad: bad/bad.go:3:23: undefined: nothing (and 1 more)",
			"shop/kube: no required module provides package k8s.io/api/apps/v1; ",
			"shop/syntax: syntax/syntax.go:3:6: expected 'IDENT', found '{'",
			"the tests of shop/tested: tested/tested_test.go:3:13: cannot use",
		}
		if len(lines) != len(want) {
			t.Errorf("%s: %d lines, want %d:\n%s\n%s", flags, len(lines), len(want), stderr, stdout)
			continue
		}
		for i, text := range want {
			if !strings.HasPrefix(lines[i], "retryvet: not checked: "+text) {
				t.Errorf("%sline %d is %q, want %q", flags, i+1, lines[i], text)
			}
		}
	}

	// A go.mod that is out of date is one reason for all who miss something.
	write(t, dir, "go.mod", "module shop\n\ngo 1.26.0\n\nrequire k8s.io/api v1.0.0\n")
	_, stderr, _ := run(command, dir, "./cart ./kube")
	want := "retryvet: not checked: shop/cart, shop/kube: k8s.io/api@v1.0.0: missing go.sum entry for go.mod file; to add it: go mod download k8s.io/api\n"
	if stderr != want {
		t.Errorf("got\n%swant\n%s", stderr, want)
	}
}

// build returns the path of the command, built from this repository.
func build(t *testing.T) string {
	t.Helper()
	command := filepath.Join(t.TempDir(), "retryvet")
	if out, err := exec.Command("go", "build", "-o", command, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return command
}

// run runs the command in a folder.
func run(command, dir, args string) (stdout, stderr string, status int) {
	var out, err strings.Builder
	c := exec.Command(command, strings.Fields(args)...)
	c.Dir, c.Env, c.Stdout, c.Stderr = dir, samples.Env(), &out, &err
	if c.Run() != nil {
		status = c.ProcessState.ExitCode()
	}
	return out.String(), err.String(), status
}

// has reports whether text has a part, or is empty as that is.
func has(text, part string) bool {
	return strings.Contains(text, part) && (part != "" || text == "")
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	name = filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
