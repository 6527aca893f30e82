package migrate_test

import (
	"cmp"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"

	"github.com/goretry/retry/retryvet"
	"github.com/goretry/retry/retryvet/internal/migrate"
	"github.com/goretry/retry/retryvet/internal/samples"
)

const src = "testdata/src"

// The goldens are what -fix writes. TestFixedSamples compiles them.
func TestForeign(t *testing.T) {
	analysistest.RunWithSuggestedFixes(t, samples.Module(t, src), migrate.Analyzer, "./foreign/...")
}

// Version 4.7 of avast/retry-go begins its waits with Delay, earlier ones with twice
// that. The samples see one of them at a time.
func TestWaitsOfAvast47(t *testing.T) {
	dir := samples.Module(t, src)
	stub := filepath.Join(dir, "github.com/avast/retry-go/v4/retry.go")
	text, err := os.ReadFile(stub)
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, "\nfunc FullJitterBackoffDelay(uint, error, *Config) time.Duration { return 0 }\n"...)
	if err := os.WriteFile(stub, text, 0o600); err != nil {
		t.Fatal(err)
	}
	analysistest.RunWithSuggestedFixes(t, dir, migrate.Analyzer, "./avast47")
}

// What -fix has written compiles, passes go vet, has no finding of ours but calls
// that were refused, and nothing is left to fix.
func TestFixedSamples(t *testing.T) {
	dir := samples.Module(t, src)
	goldens, err := filepath.Glob(filepath.Join(dir, "foreign/*/*.golden"))
	if err != nil || len(goldens) == 0 {
		t.Fatal("no goldens", err)
	}
	for _, golden := range goldens {
		if err := os.Rename(golden, strings.TrimSuffix(golden, ".golden")); err != nil {
			t.Fatal(err)
		}
	}
	vet := exec.Command("go", "vet", "./foreign/...")
	vet.Dir, vet.Env = dir, samples.Env()
	if out, err := vet.CombinedOutput(); err != nil {
		t.Fatalf("go vet: %v\n%s", err, out)
	}

	pkgs, err := packages.Load(&packages.Config{Mode: packages.LoadAllSyntax, Dir: dir, Env: samples.Env()}, "./foreign/...")
	if err != nil {
		t.Fatal(err)
	}
	graph, err := checker.Analyze([]*analysis.Analyzer{retryvet.Analyzer, migrate.Analyzer}, pkgs, nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, action := range graph.Roots {
		for _, d := range action.Diagnostics {
			seen++
			if len(d.SuggestedFixes) > 0 || d.Category != "foreign" {
				t.Errorf("%v: %s: %s", action.Package.Fset.Position(d.Pos), d.Category, d.Message)
			}
		}
	}
	if seen == 0 {
		t.Error("not even refused calls are reported: the analyzer did not run")
	}
}

// An editor applies one fix and no other. The package compiles then: a fix has the edits
// of all files that its own need. Imports that are not used any more are the editor's to
// remove.
func TestEachFixCompiles(t *testing.T) {
	pkgs, err := packages.Load(&packages.Config{Mode: packages.LoadAllSyntax, Dir: samples.Module(t, src), Env: samples.Env(), Tests: true},
		"./foreign/...", "github.com/goretry/retry", "cmp", "context", "errors", "math", "time")
	if err != nil {
		t.Fatal(err)
	}
	byPath := map[string]*types.Package{}
	packages.Visit(pkgs, nil, func(p *packages.Package) {
		if p.ID == p.PkgPath {
			byPath[p.PkgPath] = p.Types
		}
	})
	graph, err := checker.Analyze([]*analysis.Analyzer{retryvet.Analyzer, migrate.Analyzer}, pkgs, nil)
	if err != nil {
		t.Fatal(err)
	}
	seen, several := 0, 0
	for _, action := range graph.Roots {
		for _, d := range action.Diagnostics {
			if d.Category != "foreign" {
				t.Errorf("%v: %s: %s: the samples have no finding of a check", action.Package.Fset.Position(d.Pos), d.Category, d.Message)
			}
			for _, fix := range d.SuggestedFixes {
				seen++
				files := fixedFiles(t, action.Package, fix)
				if len(files) > 1 {
					several++
				}
				if err := compiles(action.Package, files, byPath); err != nil {
					t.Errorf("%v: %v", action.Package.Fset.Position(d.Pos), err)
				}
			}
		}
	}
	if seen < 20 || several < 3 {
		t.Errorf("%d fixes, %d of them of several files: these samples show little", seen, several)
	}
}

// Each call that stays has a word about what to write. If that is a statement, it is Go, and
// formatted.
func TestWrittenByHand(t *testing.T) {
	instructs := regexp.MustCompile(`: (call|change|get|give|leave|let|make|name|pass|rename|return|set|update|use|write) `)
	pkgs, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax, Dir: samples.Module(t, src), Env: samples.Env()}, "./foreign/...")
	if err != nil {
		t.Fatal(err)
	}
	graph, err := checker.Analyze([]*analysis.Analyzer{migrate.Analyzer}, pkgs, nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, action := range graph.Roots {
		for _, d := range action.Diagnostics {
			_, stmt, ok := strings.Cut(d.Message, ". By hand:\n")
			if !ok {
				if strings.Contains(d.Message, ": not rewritten: ") && !strings.HasSuffix(d.Message, ": ignored") && !instructs.MatchString(d.Message) {
					t.Errorf("%v: what is to be written? %s", action.Package.Fset.Position(d.Pos), d.Message)
				}
				continue
			}
			seen++
			file := "package p\n\nfunc f() {\n" + stmt + "\n}\n"
			if text, err := format.Source([]byte(file)); err != nil || string(text) != file {
				t.Errorf("%v: %v\n%s", action.Package.Fset.Position(d.Pos), err, stmt)
			}
		}
	}
	if seen < 8 {
		t.Errorf("%d statements: these samples show little", seen)
	}
}

// fixedFiles returns the texts of the files that a fix changes, by name.
func fixedFiles(t *testing.T, pkg *packages.Package, fix analysis.SuggestedFix) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	edits := slices.Clone(fix.TextEdits)
	slices.SortStableFunc(edits, func(a, b analysis.TextEdit) int { return cmp.Or(cmp.Compare(a.Pos, b.Pos), cmp.Compare(a.End, b.End)) })
	for i, e := range slices.Backward(edits) {
		if i > 0 && edits[i-1].End > e.Pos {
			t.Fatalf("%v: edits overlap", pkg.Fset.Position(e.Pos))
		}
		file := pkg.Fset.File(e.Pos)
		if files[file.Name()] == nil {
			source, err := os.ReadFile(file.Name())
			if err != nil {
				t.Fatal(err)
			}
			files[file.Name()] = source
		}
		files[file.Name()] = slices.Replace(files[file.Name()], file.Offset(e.Pos), file.Offset(e.End), e.NewText...)
	}
	return files
}

// compiles checks the types of a package some of whose files are replaced.
func compiles(pkg *packages.Package, replaced map[string][]byte, byPath map[string]*types.Package) error {
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range pkg.CompiledGoFiles {
		var source any
		if text := replaced[name]; text != nil {
			source = text
		}
		file, err := parser.ParseFile(fset, name, source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	var first error
	config := types.Config{
		Importer: importer(func(path string) (*types.Package, error) { return byPath[path], nil }),
		Error: func(err error) {
			if first == nil && !strings.Contains(err.Error(), "imported and not used") {
				first = err
			}
		},
	}
	_, _ = config.Check(pkg.PkgPath, fset, files, nil)
	return first
}

type importer func(path string) (*types.Package, error)

func (i importer) Import(path string) (*types.Package, error) { return i(path) }
