// Command corpus runs the checks over modules of other people and prints a table of
// what they find, and the findings to read.
//
//	go run ./retryvet/cmd/corpus > findings.md
//	go run ./retryvet/cmd/corpus DIR... > findings.md
//
// The modules are those in the given directories, or else those that the workspace
// depends on and that the module cache holds; nothing is downloaded. A package is
// loaded only if its text has something that a check could report: a wait, or an
// import of a retry library. Test files are looked at in given directories only.
//
// Of calls of other retry libraries there are two more tables: how many -fix
// rewrites, and why the others stay.
//
// What may live here: the program, and nothing about any one module.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"

	"github.com/goretry/retry/retryvet"
	"github.com/goretry/retry/retryvet/internal/migrate"
)

// A module as go list describes it.
type module struct {
	Path, Version, Dir string
	Main               bool
	given              bool // as a directory: it is a module of its own, with tests
}

// A result is what became of one module.
type result struct {
	module
	candidates, looked int // packages
	partly             int // of those looked at: an import is missing
	findings           map[string]int
	lines              []string
	rewritten, byHand  int
	refused            map[string]int // calls that stay, by reason
}

// candidate matches the text of files that a check could report something in.
var candidate = func() *regexp.Regexp {
	text := `time\.Sleep\(|time\.After\(|"github.com/goretry/retry`
	for _, path := range migrate.Libraries() {
		text += `|"` + regexp.QuoteMeta(path)
	}
	return regexp.MustCompile(text)
}()

func main() {
	log.SetFlags(0)
	modules, err := list(os.Args[1:])
	if err != nil {
		log.Fatal(err)
	}
	var all []result
	for _, m := range modules {
		if m.Main || m.Dir == "" {
			continue
		}
		r, err := look(m)
		if err != nil {
			log.Printf("%s: %v", m.Path, err)
		}
		if r.candidates > 0 {
			all = append(all, r)
			log.Printf("%s: %d of %d packages, %v", m.Path, r.looked, r.candidates, r.findings)
		}
	}
	write(os.Stdout, all)
}

// list returns the modules in dirs, or those of the workspace's build list.
func list(dirs []string) ([]module, error) {
	if len(dirs) > 0 {
		var all []module
		for _, dir := range dirs {
			mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
			if err != nil {
				return nil, err
			}
			if dir, err = filepath.Abs(dir); err != nil {
				return nil, err
			}
			all = append(all, module{Path: modfile.ModulePath(mod), Dir: dir, given: true})
		}
		return all, nil
	}
	out, err := exec.Command("go", "list", "-m", "-e", "-json=Path,Version,Dir,Main", "all").Output()
	if err != nil {
		return nil, err
	}
	var all []module
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var m module
		if err := d.Decode(&m); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
}

// look runs the checks over one module.
func look(m module) (result, error) {
	r := result{module: m, findings: map[string]int{}, refused: map[string]int{}}
	patterns, err := candidates(m)
	if r.candidates = len(patterns); err != nil || len(patterns) == 0 {
		return r, err
	}
	load := &packages.Config{Mode: packages.LoadSyntax | packages.NeedModule, Env: append(os.Environ(), "GOPROXY=off")}
	if m.given {
		load.Dir, load.Tests = m.Dir, true
		load.Env = append(load.Env, "GOWORK=off", "GOFLAGS=-mod=mod")
	}
	pkgs, err := packages.Load(load, patterns...)
	if err != nil {
		return r, err
	}
	pkgs = slices.DeleteFunc(pkgs, func(p *packages.Package) bool { return p.Types == nil || len(p.Syntax) == 0 })
	r.looked = len(pkgs)
	for _, p := range pkgs {
		if len(p.Errors) > 0 {
			r.partly++
		}
	}
	var despite []*analysis.Analyzer
	for _, a := range []*analysis.Analyzer{retryvet.Analyzer, migrate.Analyzer} {
		copied := *a
		copied.RunDespiteErrors = true // an import that is missing leaves most types known
		despite = append(despite, &copied)
	}
	graph, err := checker.Analyze(despite, pkgs, nil)
	if err != nil {
		return r, err
	}
	seen := map[string]bool{} // a package and its test variant have the same findings
	for _, action := range graph.Roots {
		for _, d := range action.Diagnostics {
			at := action.Package.Fset.Position(d.Pos)
			name, err := filepath.Rel(m.Dir, at.Filename)
			if err != nil {
				name = at.Filename
			}
			line := fmt.Sprintf("%s@%s/%s:%d: %s: %s", m.Path, m.Version, name, at.Line, d.Category, strings.Join(strings.Fields(d.Message), " "))
			if place := at.String() + d.Category; seen[place] {
				continue
			}
			seen[at.String()+d.Category] = true
			r.lines = append(r.lines, line)
			r.findings[d.Category]++
			if d.Category == migrate.Analyzer.Name {
				if _, reason, ok := strings.Cut(d.Message, ": not rewritten: "); ok {
					reason, _, written := strings.Cut(reason, ". By hand:\n")
					if written {
						r.byHand++
					}
					r.refused[reason]++
				} else {
					r.rewritten++
				}
			}
		}
	}
	slices.Sort(r.lines)
	return r, nil
}

// candidates returns the paths of the packages of m that are worth loading.
func candidates(m module) ([]string, error) {
	found := map[string]bool{}
	err := filepath.WalkDir(m.Dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			base := d.Name()
			_, nested := os.Stat(filepath.Join(name, "go.mod"))
			if name != m.Dir && (base == "testdata" || base == "vendor" || base[0] == '.' || base[0] == '_' || nested == nil) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") && !m.given {
			return nil
		}
		text, err := os.ReadFile(name)
		if err == nil && candidate.Match(text) {
			rel, err := filepath.Rel(m.Dir, filepath.Dir(name))
			if err != nil {
				return err
			}
			found[strings.TrimSuffix(m.Path+"/"+filepath.ToSlash(rel), "/.")] = true
		}
		return err
	})
	var all []string
	for path := range found {
		all = append(all, path)
	}
	slices.Sort(all)
	return all, err
}

// write prints the table, and after it every finding.
func write(w io.Writer, all []result) {
	columns := map[string]bool{}
	var candidates, looked, partly int
	for _, r := range all {
		candidates += r.candidates
		looked += r.looked
		partly += r.partly
		for check := range r.findings {
			columns[check] = true
		}
	}
	fmt.Fprintf(w, "%d modules have packages that a check could report something in: %d. %d were looked at, %d of them with imports missing.\n\n", len(all), candidates, looked, partly)
	var checks []string
	for check := range columns {
		checks = append(checks, check)
	}
	slices.Sort(checks)
	fmt.Fprintf(w, "| module | version | packages | %s |\n|---|---|--:|%s\n", strings.Join(checks, " | "), strings.Repeat("--:|", len(checks)))
	slices.SortStableFunc(all, func(a, b result) int { return cmp.Compare(a.Path, b.Path) })
	for _, r := range all {
		if len(r.lines) == 0 {
			continue
		}
		fmt.Fprintf(w, "| %s | %s | %d |", r.Path, r.Version, r.looked)
		for _, check := range checks {
			fmt.Fprintf(w, " %d |", r.findings[check])
		}
		fmt.Fprintln(w)
	}
	writeCalls(w, all)
	fmt.Fprintln(w)
	for _, r := range all {
		for _, line := range r.lines {
			fmt.Fprintln(w, line)
		}
	}
}

// writeCalls prints what became of the calls of other retry libraries.
func writeCalls(w io.Writer, all []result) {
	reasons := map[string]int{}
	calls, rewritten, byHand := 0, 0, 0
	var rows strings.Builder
	for _, r := range all {
		if n := r.findings[migrate.Analyzer.Name]; n > 0 {
			fmt.Fprintf(&rows, "| %s | %d | %d | %d |\n", r.Path, n, r.rewritten, r.byHand)
			calls += n
			rewritten += r.rewritten
			byHand += r.byHand
		}
		for reason, n := range r.refused {
			reasons[reason] += n
		}
	}
	if calls == 0 {
		return
	}
	fmt.Fprintf(w, "\n| module | calls | rewritten | by hand |\n|---|--:|--:|--:|\n%s| all | %d | %d | %d |\n", &rows, calls, rewritten, byHand)
	fmt.Fprint(w, "\n| calls | why they stay |\n|--:|---|\n")
	sorted := slices.SortedFunc(maps.Keys(reasons), func(a, b string) int {
		return cmp.Or(cmp.Compare(reasons[b], reasons[a]), cmp.Compare(a, b))
	})
	for _, reason := range sorted {
		fmt.Fprintf(w, "| %d | %s |\n", reasons[reason], reason)
	}
}
