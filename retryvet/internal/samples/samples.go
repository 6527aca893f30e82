// Package samples makes a module of a folder of samples: Go code that tests look at.
//
// The folder is laid out as the src of a GOPATH: what stands in for a foreign package has
// its import path below github.com, each version its own. So none of them needs a go.mod.
//
// What may live here: what the tests of more than one package need.
package samples

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/mod/modfile"
)

// root is the module whose packages the samples import.
const root = "github.com/goretry/retry"

// Module copies a folder of samples and makes it the module samples, which compiles
// against this repository and what the folder has in github.com. It returns the copy,
// which the end of the test removes.
func Module(t testing.TB, src string) (dir string) {
	t.Helper()
	repo := repository(t, src)
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(src)); err != nil {
		t.Fatal(err)
	}
	mod := fmt.Sprintf("module samples\n\ngo 1.26.0\n\nrequire %[1]s v0.0.0\n\nreplace %[1]s => %[2]s\n", root, repo)
	if _, err := os.Stat(filepath.Join(dir, "github.com")); err == nil {
		mod += "\nrequire github.com v0.0.0\n\nreplace github.com => ./github.com\n"
		write(t, filepath.Join(dir, "github.com", "go.mod"), "module github.com\n\ngo 1.26.0\n")
	}
	write(t, filepath.Join(dir, "go.mod"), mod)
	return dir
}

// Env returns the environment of commands that are run in such a module.
func Env() []string { return append(os.Environ(), "GOWORK=off", "GOPROXY=off") }

// repository returns the folder around name that has the module root.
func repository(t testing.TB, name string) string {
	t.Helper()
	dir, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && modfile.ModulePath(mod) == root {
			return dir
		}
	}
	t.Fatalf("%s is not in a copy of this repository", name)
	return ""
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
