package pages_test

import (
	"go/ast"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// CONTRIBUTING.md lists the files of the root package. Each calls funcs and methods only of
// those further down, and says at its top of which.
func TestFilesOfTheRootCallThoseBelow(t *testing.T) {
	text, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(string(text), "\n    retry.go")
	list, _, _ = strings.Cut("    retry.go"+list, "\n\n")
	var order []string
	for line := range strings.Lines(list) {
		names, _, _ := strings.Cut(strings.TrimSpace(line), "  ")
		order = append(order, strings.Fields(names)...)
	}
	ps, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax}, ".")
	if err != nil || packages.PrintErrors(ps) > 0 {
		t.Fatal("the root package does not compile: ", err)
	}
	p := ps[0]
	fileOf := func(o types.Object) string { return filepath.Base(p.Fset.Position(o.Pos()).Filename) }
	var names []string
	for _, file := range p.Syntax {
		from := filepath.Base(p.Fset.Position(file.Pos()).Filename)
		if from == "doc.go" {
			continue
		}
		names = append(names, from)
		calls := map[string]string{} // of another file: one func that is called
		ast.Inspect(file, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			if f, ok := p.TypesInfo.Uses[id].(*types.Func); ok && f.Pkg() == p.Types && fileOf(f) != from {
				calls[fileOf(f)] = f.Name()
			}
			return true
		})
		for to, f := range calls {
			if slices.Index(order, to) < slices.Index(order, from) {
				t.Errorf("%s calls %s of %s, which stands above it in CONTRIBUTING.md", from, f, to)
			}
		}
		want := slices.SortedFunc(maps.Keys(calls), func(a, b string) int { return slices.Index(order, a) - slices.Index(order, b) })
		source, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		top := "// May call: " + strings.Join(want, ", ") + "."
		if len(want) == 0 {
			top = "// May call: none of its neighbours."
		}
		if got := regexp.MustCompile(`(?m)^// May call: .*$`).FindString(string(source)); got != top {
			t.Errorf("%s says at its top %q, want %q", from, got, top)
		}
	}
	if slices.Sort(names); !found || !slices.Equal(names, slices.Sorted(slices.Values(order))) {
		t.Errorf("the root package has the files %q, and CONTRIBUTING.md lists %q", names, order)
	}
}

// Below them it lists the folders. What internal has is listed one by one, and a star stands
// behind each module, but not behind those within one that is listed.
func TestMapHasAllFolders(t *testing.T) {
	text, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "\n    errors.go")
	_, list, _ = strings.Cut(list, "\n\n")
	list, _, _ = strings.Cut(list, "\n\n")
	listed := map[string]bool{} // whether it is a module
	name := regexp.MustCompile(`^    [a-z/{},*]*[a-z}*](, [a-z/{},*]*[a-z}*])*`)
	for line := range strings.Lines(list) {
		for folder := range strings.SplitSeq(name.FindString(line), ", ") {
			folder, module := strings.CutSuffix(strings.TrimSpace(folder), "*")
			before, rest, _ := strings.Cut(folder, "{")
			for part := range strings.SplitSeq(strings.TrimSuffix(rest, "}"), ",") {
				listed[before+part] = module
			}
		}
	}
	for folder, module := range listed {
		if _, err := os.Stat(folder); err != nil {
			t.Errorf("CONTRIBUTING.md lists %q: %v", folder, err)
		}
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); (err == nil) != module {
			t.Errorf("CONTRIBUTING.md says of %s that it is a module: %v", folder, module)
		}
	}
	files, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	inside, err := filepath.Glob("internal/*/*.go")
	if err != nil || len(files) == 0 || len(inside) == 0 {
		t.Fatal(len(files), len(inside), err)
	}
	missing := map[string]bool{}
	for _, file := range append(files, inside...) {
		folder := filepath.ToSlash(filepath.Dir(file))
		if _, ok := listed[folder]; !ok && !missing[folder] {
			missing[folder] = true
			t.Errorf("CONTRIBUTING.md does not list %s", folder)
		}
	}
}
