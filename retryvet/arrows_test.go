package retryvet_test

import (
	"go/ast"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"github.com/goretry/retry/retryvet/internal/migrate"
)

// DESIGN.md draws these arrows: which packages of this module may import which.
func TestPackagesImportDownwards(t *testing.T) {
	const module = "github.com/goretry/retry/retryvet"
	allowed := map[string][]string{
		"":                  {"/internal/code"},
		"/internal/migrate": {"/internal/code"},
		"/internal/code":    {},
		"/internal/samples": {},
		"/internal/both":    {"", "/internal/migrate"},
		"/golangci":         {"/internal/both"},
		"/cmd/retryvet":     {"/internal/both", "/internal/migrate"},
		"/cmd/corpus":       {"", "/internal/migrate"},
	}
	pkgs := load(t, packages.NeedName|packages.NeedImports, "./...")
	for _, p := range pkgs {
		folder := strings.TrimPrefix(p.PkgPath, module)
		may, ok := allowed[folder]
		if !ok {
			t.Errorf("%s: say here and in DESIGN.md what it may import", p.PkgPath)
		}
		for path := range p.Imports {
			if imported, ours := strings.CutPrefix(path, module); ours && !slices.Contains(may, imported) {
				t.Errorf("%s imports %s", p.PkgPath, path)
			}
		}
	}
	if len(pkgs) != len(allowed) {
		t.Errorf("%d packages, want %d", len(pkgs), len(allowed))
	}
}

// The documentation of package migrate lists its files: each uses only what those before
// it declare, and the libraries' do not know each other.
func TestFilesOfMigrateUseThoseBefore(t *testing.T) {
	text, err := os.ReadFile("internal/migrate/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(string(text), "\n// # The files\n")
	if !found {
		t.Fatal("internal/migrate/doc.go does not list the files")
	}
	file := regexp.MustCompile(`[a-z]+\.go`)
	order := append([]string{"doc.go"}, file.FindAllString(list, -1)...)
	_, libraries, _ := strings.Cut(list, "- the libraries,")
	libraries, _, _ = strings.Cut(libraries, "//   - ")
	p := load(t, packages.LoadSyntax, "./internal/migrate")[0]
	var names []string
	for _, file := range p.Syntax {
		names = append(names, fileOf(p, file))
	}
	if want := slices.Sorted(slices.Values(order)); !slices.Equal(slices.Sorted(slices.Values(names)), want) {
		t.Fatalf("the files are %q, and migrate/doc.go lists %q", names, want)
	}
	for _, file := range p.Syntax {
		from := fileOf(p, file)
		told := map[string]bool{}
		ast.Inspect(file, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			obj := p.TypesInfo.Uses[id]
			if obj == nil || !declares(p.Types, obj) {
				return true
			}
			to := fileOf(p, obj)
			amongLibraries := from != to && strings.Contains(libraries, from) && strings.Contains(libraries, to)
			if (slices.Index(order, to) > slices.Index(order, from) || amongLibraries) && !told[to+id.Name] {
				told[to+id.Name] = true
				t.Errorf("%s uses %s of %s", from, id.Name, to)
			}
			return true
		})
	}
}

// declares reports whether obj is a function, type, variable or constant of the package,
// or a method or a field.
func declares(pkg *types.Package, obj types.Object) bool {
	if obj.Pkg() != pkg {
		return false
	}
	switch obj := obj.(type) {
	case *types.Func:
		return true
	case *types.Var:
		return obj.IsField() || obj.Parent() == pkg.Scope()
	}
	return obj.Parent() == pkg.Scope()
}

// fileOf returns the name of the file that n stands in.
func fileOf(p *packages.Package, n interface{ Pos() token.Pos }) string {
	return filepath.Base(p.Fset.Position(n.Pos()).Filename)
}

// What is known of a library stands in one file, so that another library is one file more.
func TestOneFileNamesALibrary(t *testing.T) {
	files := map[string][]string{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "behaviour"):
			return filepath.SkipDir
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(name)
		for _, path := range migrate.Libraries() {
			if strings.Contains(string(text), path) {
				files[path] = append(files[path], filepath.ToSlash(name))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	owners := map[string]bool{}
	for _, path := range migrate.Libraries() {
		if len(files[path]) != 1 || filepath.Dir(files[path][0]) != filepath.FromSlash("internal/migrate") {
			t.Errorf("%s is named in %q, want one file of package migrate", path, files[path])
			continue
		}
		owners[files[path][0]] = true
	}
	if len(owners) != len(migrate.Libraries()) {
		t.Errorf("%d libraries have only the files %q", len(migrate.Libraries()), slices.Sorted(maps.Keys(owners)))
	}
}

// load returns packages of this module.
func load(t *testing.T, mode packages.LoadMode, pattern string) []*packages.Package {
	t.Helper()
	pkgs, err := packages.Load(&packages.Config{Mode: mode}, pattern)
	if err != nil {
		t.Fatal(err)
	}
	if packages.PrintErrors(pkgs) > 0 {
		t.Fatal("it does not compile")
	}
	return pkgs
}
