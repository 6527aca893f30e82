package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/doc"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/goretry/retry/tools/internal/modules"
)

// rehearse releases version in a clone of repo, and uses the modules.
func rehearse(repo, version, temp string) error {
	clone := filepath.Join(temp, "clone")
	if err := do(repo, nil, "git", "clone", "--quiet", ".", clone); err != nil {
		return err
	}
	for _, setting := range [][]string{{"user.name", "rehearsal"}, {"user.email", "rehearsal@localhost"}} {
		if err := do(clone, nil, "git", "config", setting[0], setting[1]); err != nil {
			return err
		}
	}
	if err := release(clone, version, temp); err != nil {
		return err
	}
	env := environment(temp)
	for _, folder := range modules.Public {
		if err := examples(filepath.Join(clone, folder), modules.Path(folder), version, temp, env); err != nil {
			return err
		}
	}

	dir, err := emptyModule(temp, "commands", env)
	if err != nil {
		return err
	}
	const program = `package main

import "time"

func main() { time.Sleep(0) }
`
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o644); err != nil {
		return err
	}
	retryvet := modules.Path("retryvet") + "/cmd/retryvet@" + version
	for _, args := range [][]string{
		{"run", modules.Root + "/cmd/retrysim@" + version, "try", "-rate", "20", "-seeds", "1"},
		{"run", retryvet, "./..."},
		{"install", retryvet},
		{"vet", "-vettool=" + filepath.Join(temp, "bin", "retryvet"), "./..."},
	} {
		if err := do(dir, append(env, "GOBIN="+filepath.Join(temp, "bin")), "go", args...); err != nil {
			return err
		}
		fmt.Println("go", strings.Join(args, " "))
	}
	return nil
}

// emptyModule makes a module that requires nothing.
func emptyModule(temp, name string, env []string) (dir string, err error) {
	dir = filepath.Join(temp, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return dir, do(dir, env, "go", "mod", "init", "example.com/"+name)
}

// examples takes the module from the proxy, and runs the first example of each of
// its packages that says what it prints. One that says nothing is built.
func examples(dir, path, version, temp string, env []string) error {
	user, err := emptyModule(temp, "user/"+strings.ReplaceAll(path, "/", "-"), env)
	if err != nil {
		return err
	}
	if err := do(user, env, "go", "get", path+"@"+version); err != nil {
		return err
	}
	found := 0
	err = filepath.WalkDir(dir, func(folder string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil && folder != dir {
			return fs.SkipDir // another module
		}
		if name := d.Name(); name == "internal" || name == "testdata" || strings.HasPrefix(name, ".") && folder != dir {
			return fs.SkipDir
		}
		example, err := firstExample(folder)
		if example == nil || err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, folder)
		if err != nil {
			return err
		}
		name := strings.ReplaceAll(filepath.ToSlash(rel), "/", "-")
		if name == "." {
			name = "root"
		}
		if err := runExample(user, name, example, env); err != nil {
			return fmt.Errorf("the example %s of %s: %w", example.Name, folder, err)
		}
		found++
		return nil
	})
	if err == nil && found == 0 && path != modules.Path("retryvet") {
		err = errors.New(path + " has no example that runs alone")
	}
	fmt.Printf("%s@%s: %d examples\n", path, version, found)
	return err
}

// firstExample returns the first example in folder that is a program of its own, of
// those that say what they print if there are any; nil if there is none.
func firstExample(folder string) (first *doc.Example, err error) {
	names, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	for _, name := range names {
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, e := range doc.Examples([]*ast.File{file}...) {
			if e.Play != nil && e.Output != "" && !e.Unordered {
				return e, nil
			}
			if e.Play != nil && first == nil {
				first = e
			}
		}
	}
	return first, nil
}

func runExample(module, name string, example *doc.Example, env []string) error {
	dir := filepath.Join(module, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var source bytes.Buffer
	if err := format.Node(&source, token.NewFileSet(), example.Play); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), source.Bytes(), 0o644); err != nil {
		return err
	}
	if err := do(module, env, "go", "mod", "tidy"); err != nil {
		return err
	}
	if example.Output == "" || example.Unordered {
		return do(dir, env, "go", "build", "-o", os.DevNull, ".")
	}
	got, err := output(dir, env, "go", "run", ".")
	if err != nil {
		return fmt.Errorf("%w\n%s", err, got)
	}
	if strings.TrimSpace(got) != strings.TrimSpace(example.Output) {
		return fmt.Errorf("it prints\n%s\nwant\n%s", got, example.Output)
	}
	return nil
}
