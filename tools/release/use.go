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

	"golang.org/x/mod/semver"

	"github.com/goretry/retry/tools/internal/modules"
)

// use uses the modules of version, and those of the branch after it, as strangers do.
func (r clone) use(version string) error {
	for _, folder := range modules.Public {
		if folder == modules.Program {
			continue // commands runs it
		}
		if err := r.examples(folder, version); err != nil {
			return err
		}
	}
	if err := r.commands(version); err != nil {
		return err
	}
	return r.useBranch(version)
}

// commands runs the commands of version.
func (r clone) commands(version string) error {
	dir, err := r.emptyModule("commands")
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
	bin := filepath.Join(r.temp, "bin")
	retryvet := modules.Path("retryvet") + "/cmd/retryvet@" + version
	for _, args := range [][]string{
		{"run", modules.Path(modules.Program) + "@" + version, "try", "-rate", "20", "-seeds", "1"},
		{"run", retryvet, "./..."},
		{"install", retryvet},
		{"vet", "-vettool=" + filepath.Join(bin, "retryvet"), "./..."},
	} {
		if err := do(dir, append(r.env, "GOBIN="+bin), "go", args...); err != nil {
			return err
		}
		fmt.Println("go", strings.Join(args, " "))
	}
	return nil
}

// useBranch checks that the branch is above version, and builds its modules.
func (r clone) useBranch(version string) error {
	dir, err := r.emptyModule("branch")
	if err != nil {
		return err
	}
	for _, folder := range modules.Public {
		path := modules.Path(folder)
		if err := do(dir, r.env, "go", "get", path+"/...@"+branch); err != nil {
			return err
		}
		got, err := output(dir, r.env, "go", "list", "-m", "-f", "{{.Version}}", path)
		if err != nil {
			return fmt.Errorf("%w\n%s", err, got)
		}
		got = strings.TrimSpace(got)
		if semver.Compare(got, version) <= 0 {
			return fmt.Errorf("%s@%s is %s, which is not above %s", path, branch, got, version)
		}
		if err := do(dir, r.env, "go", "build", path+"/..."); err != nil {
			return err
		}
		fmt.Printf("%s@%s is %s\n", path, branch, got)
	}
	return nil
}

// emptyModule makes a module that requires nothing.
func (r clone) emptyModule(name string) (dir string, err error) {
	dir = filepath.Join(r.temp, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return dir, do(dir, r.env, "go", "mod", "init", "example.com/"+name)
}

// examples gets version of the module in folder, and runs the first example of each of
// its packages that says what it prints. One that says nothing is built.
func (r clone) examples(folder, version string) error {
	dir, path := filepath.Join(r.dir, folder), modules.Path(folder)
	user, err := r.emptyModule("user/" + strings.ReplaceAll(path, "/", "-"))
	if err != nil {
		return err
	}
	if err := do(user, r.env, "go", "get", path+"@"+version); err != nil {
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
		if err := r.runExample(user, name, example); err != nil {
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

func (r clone) runExample(module, name string, example *doc.Example) error {
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
	if err := do(module, r.env, "go", "mod", "tidy"); err != nil {
		return err
	}
	if example.Output == "" || example.Unordered {
		return do(dir, r.env, "go", "build", "-o", os.DevNull, ".")
	}
	got, err := output(dir, r.env, "go", "run", ".")
	if err != nil {
		return fmt.Errorf("%w\n%s", err, got)
	}
	if strings.TrimSpace(got) != strings.TrimSpace(example.Output) {
		return fmt.Errorf("it prints\n%s\nwant\n%s", got, example.Output)
	}
	return nil
}
