package alone

import (
	"go/ast"
	"go/doc"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goretry/retry/tools/internal/modules"
)

// Each Example, with what its file declares, compiles in a module that requires this
// one and what this one requires. It uses nothing internal and no other file.
func TestEachExampleIsAProgram(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range modules.Public {
		t.Run(module, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if n := write(t, dir, filepath.Join(root, module)); n == 0 {
				t.Skip("no examples")
			}
			goMod(t, dir, root, module)
			run(t, dir, "go", "vet", "-buildtag", "./...") // the cheapest check that looks at types
		})
	}
}

// write writes the programs of the examples of the module in src into folders of
// dir, and returns how many there are.
func write(t *testing.T, dir, src string) (n int) {
	fset := token.NewFileSet()
	err := filepath.WalkDir(src, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != src && (exists(filepath.Join(path, "go.mod")) || skipped(d.Name())):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(src, filepath.Dir(path))
		if err != nil {
			return err
		}
		for _, example := range doc.Examples(file) {
			n++
			if example.Play == nil {
				t.Errorf("%s: Example%s uses what its file does not declare", path, example.Name)
				continue
			}
			save(t, fset, example.Play, filepath.Join(dir, "of_"+strings.ReplaceAll(folder, "/", "_")+"_"+example.Name, "main.go"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// skipped reports whether a folder holds nothing that users import.
func skipped(folder string) bool {
	switch folder {
	case "internal", "testdata", "cmd":
		return true
	}
	return strings.HasPrefix(folder, ".")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func save(t *testing.T, fset *token.FileSet, file *ast.File, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := format.Node(out, fset, file); err != nil {
		t.Errorf("%s: %v", path, err)
	}
}

// goMod makes dir a module that requires the module in the given folder below root,
// as it is there, and nothing that this one does not.
func goMod(t *testing.T, dir, root, module string) {
	t.Helper()
	path := modules.Path(module)
	text, err := os.ReadFile(filepath.Join(root, module, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if sums, err := os.ReadFile(filepath.Join(root, module, "go.sum")); err == nil {
		if err := os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, edit := range []string{"-module=example.com/play", "-replace=" + modules.Root + "=" + root, "-require=" + path + "@v0.0.0", "-replace=" + path + "=" + filepath.Join(root, module)} {
		run(t, dir, "go", "mod", "edit", edit)
	}
}

func run(t *testing.T, dir string, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", cmd, err, out)
	}
}
