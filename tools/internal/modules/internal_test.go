package modules_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goretry/retry/tools/internal/modules"
)

// Users have an old nested module with a new root. So a nested module imports only what
// the root promises, on every system. So do its tests: the author of another adapter
// needs what they need.
func TestNestedModulesImportNothingInternal(t *testing.T) {
	for _, module := range modules.Nested {
		if module == modules.Program {
			continue
		}
		imports := importsOf(t, module)
		if len(imports) == 0 {
			t.Errorf("%s imports nothing: is it there?", module)
		}
		for _, path := range slices.Sorted(maps.Keys(imports)) {
			name, ours := strings.CutPrefix(path, modules.Root+"/")
			own := strings.HasPrefix(path, modules.Path(module)+"/")
			if ours && !own && slices.Contains(strings.Split(name, "/"), "internal") {
				t.Errorf("%s imports %s: make it public and small, or copy it", imports[path], name)
			}
		}
	}
}

// importsOf returns what the files of a module import, and one of the files that do.
func importsOf(t *testing.T, module string) map[string]string {
	imports := map[string]string{}
	dir := filepath.Join(repo, module)
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != dir && (d.Name() == "testdata" || isModule(name)):
			return filepath.SkipDir
		case filepath.Ext(name) != ".go":
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			imports[path] = name
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return imports
}

func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}
