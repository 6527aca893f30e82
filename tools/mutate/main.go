package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/token"
	"io"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/tools/go/packages"
)

// selector is the file that every mutant's condition asks.
const selector = `package %s

import (
	"os"
	"strconv"
	"sync"
)

var (
	mutantChosen, _ = strconv.Atoi(os.Getenv("MUTANT"))
	mutantTrace     = os.Getenv("MUTANT_TRACE")
	mutantSeen      sync.Map
)

func mutant_(id int) bool {
	if mutantTrace != "" {
		if _, seen := mutantSeen.LoadOrStore(id, true); !seen {
			f, err := os.OpenFile(mutantTrace, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
			if err != nil {
				panic(err)
			}
			f.WriteString(strconv.Itoa(id) + "\n")
			f.Close()
		}
	}
	return id == mutantChosen
}
`

// options are what the command's flags say.
type options struct {
	dir      string   // of the package that is changed
	files    []string // the names of those to change; empty: all
	tests    []string // the directories whose tests are run beside the package's own
	skip     string
	known    string
	least    float64
	parallel int
}

// suite is a test binary, and the directory where its tests run.
type suite struct{ dir, binary string }

// test is one of a suite's tests.
type test struct {
	suite
	name    string
	took    time.Duration
	reaches map[int]bool
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("mutate: ")
	files := flag.String("files", "", "the `names` of the files to change, with commas between; empty: all")
	tests := flag.String("tests", "", "the `directories`, with commas between, whose tests are run beside the package's own")
	skip := flag.String("skip", "Memory|Alloc|ChainRatio|README|Leak", "tests not to run, a regular `expression`")
	known := flag.String("known", "", "a `file` of survivors that no test can notice, as they are printed")
	least := flag.Float64("min", 0, "the least score in `percent`; below it the exit status is 1")
	parallel := flag.Int("parallel", runtime.NumCPU(), "how many mutants to try at once")
	flag.Parse()
	dir := "."
	if flag.NArg() > 0 {
		dir = flag.Arg(0)
	}
	if err := run(os.Stdout, options{dir, list(*files), list(*tests), *skip, *known, *least, *parallel}); err != nil {
		log.Fatal(err)
	}
}

// list returns what stands between the commas of a flag.
func list(s string) []string { return strings.FieldsFunc(s, func(r rune) bool { return r == ',' }) }

// run tries all mutants, and writes to out which survived.
func run(out io.Writer, o options) error {
	began := time.Now()
	expected, err := survivors(o.known)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	mutants, suites, err := build(work, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d mutants, built in %v\n", len(mutants), time.Since(began).Round(time.Second))
	var tests []*test
	for _, s := range suites {
		its, err := reach(s, regexp.MustCompile(o.skip), o.parallel)
		if err != nil {
			return err
		}
		tests = append(tests, its...)
	}
	fmt.Fprintf(out, "%d tests, each run by itself after %v\n", len(tests), time.Since(began).Round(time.Second))

	all, alive, equivalent := 0, 0, 0
	var mu sync.Mutex // guards those, expected and out
	each(o.parallel, len(mutants), func(i int) {
		m := mutants[i]
		if m.what == "" {
			return
		}
		dead := killed(i+1, tests)
		mu.Lock()
		defer mu.Unlock()
		all++
		if dead {
			return
		}
		name := m.String()
		if _, listed := expected[name]; listed {
			expected[name] = true
			equivalent++
			return
		}
		alive++
		missed := ""
		if !slices.ContainsFunc(tests, func(t *test) bool { return t.reaches[i+1] }) {
			missed = ", no test gets here"
		}
		fmt.Fprintf(out, "%s (line %d%s)\n", name, m.number, missed)
	})
	died := all - alive - equivalent
	score := 100 * float64(died) / float64(max(died+alive, 1))
	fmt.Fprintf(out, "of %d mutants %d die, %d are known to change nothing, %d survive: %.1f %% of the rest die, in %v\n",
		all, died, equivalent, alive, score, time.Since(began).Round(time.Second))
	gone := 0
	for _, name := range slices.Sorted(maps.Keys(expected)) {
		file, _, _ := strings.Cut(name, ": ")
		switch {
		case expected[name] || len(o.files) > 0 && !slices.Contains(o.files, file):
		case slices.ContainsFunc(mutants, func(m mutant) bool { return m.what != "" && m.String() == name }):
			fmt.Fprintf(out, "no survivor any more: %s\n", name)
		default:
			fmt.Fprintf(out, "no mutant any more: %s\n", name)
			gone++
		}
	}
	switch {
	case gone > 0:
		return fmt.Errorf("%d lines of %s name no mutant", gone, o.known)
	case score < o.least:
		return fmt.Errorf("the score is below %v %%", o.least)
	}
	return nil
}

// survivors reads the names of mutants, one a line. Empty lines, and those that begin
// with #, say why.
func survivors(file string) (map[string]bool, error) {
	names := map[string]bool{}
	if file == "" {
		return names, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			names[line] = false
		}
	}
	return names, nil
}

// each calls f with 0 to n-1, so many at once.
func each(parallel, n int, f func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range parallel {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// build compiles the tests of the package in o.dir, and those of o.tests, with all its
// mutants. Mutants that do not compile are dropped: their what is empty.
func build(work string, o options) ([]mutant, []suite, error) {
	fset := token.NewFileSet()
	pkgs, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo |
			packages.NeedImports | packages.NeedDeps,
		Dir: o.dir, Fset: fset,
	}, ".")
	if err != nil {
		return nil, nil, err
	}
	if len(pkgs) != 1 || len(pkgs[0].Errors) > 0 {
		return nil, nil, fmt.Errorf("cannot load the package in %s: %v", o.dir, pkgs[0].Errors)
	}
	pkg := pkgs[0]
	dropped := map[int]bool{}
	for {
		var mutants []mutant
		overlay := struct{ Replace map[string]string }{map[string]string{}}
		origin := map[string]string{} // base name → rewritten text
		write := func(path, text string) error {
			name := filepath.Base(path)
			origin[name] = text
			overlay.Replace[path] = filepath.Join(work, name)
			return os.WriteFile(overlay.Replace[path], []byte(text), 0o600)
		}
		for _, f := range pkg.Syntax {
			path := fset.Position(f.FileStart).Filename
			if len(o.files) > 0 && !slices.Contains(o.files, filepath.Base(path)) {
				continue
			}
			src, err := os.ReadFile(path)
			if err != nil {
				return nil, nil, err
			}
			w := &writer{pkg: pkg, src: string(src), base: int(f.FileStart), mutants: &mutants, dropped: dropped}
			if err := write(path, w.rewrite(f)); err != nil {
				return nil, nil, err
			}
		}
		abs, err := filepath.Abs(o.dir)
		if err != nil {
			return nil, nil, err
		}
		if err := write(filepath.Join(abs, "mutant_selector.go"), fmt.Sprintf(selector, pkg.Name)); err != nil {
			return nil, nil, err
		}
		config, err := json.Marshal(overlay)
		if err != nil {
			return nil, nil, err
		}
		if err := os.WriteFile(filepath.Join(work, "overlay.json"), config, 0o600); err != nil {
			return nil, nil, err
		}
		var suites []suite
		message := ""
		for i, dir := range append([]string{o.dir}, o.tests...) {
			s := suite{dir, filepath.Join(work, strconv.Itoa(i)+".test")}
			cmd := exec.Command("go", "test", "-c", "-vet=off", "-gcflags=-e", "-overlay", filepath.Join(work, "overlay.json"), "-o", s.binary, ".")
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				message = string(out)
				break
			}
			suites = append(suites, s)
		}
		if message == "" {
			for id := range dropped {
				mutants[id-1].what = ""
			}
			return mutants, suites, nil
		}
		before := len(dropped)
		for _, id := range culprits(message, origin) {
			dropped[id] = true
		}
		if len(dropped) == before {
			return nil, nil, fmt.Errorf("the mutants do not compile:\n%s", message)
		}
	}
}

var (
	place  = regexp.MustCompile(`(?m)([a-z0-9_]+\.go):(\d+):(\d+): `)
	number = regexp.MustCompile(`mutant_\((\d+)\)`)
)

// culprits returns the mutants that the compiler's errors are about: of each the
// nearest before the place, else after it.
func culprits(out string, origin map[string]string) (ids []int) {
	for _, m := range place.FindAllStringSubmatch(out, -1) {
		lines := strings.Split(origin[m[1]], "\n")
		line, _ := strconv.Atoi(m[2])
		column, _ := strconv.Atoi(m[3])
		if line > len(lines) {
			continue
		}
		text := lines[line-1]
		column = min(column, len(text))
		found := number.FindAllStringSubmatch(text[:column], -1)
		if len(found) > 0 {
			found = found[len(found)-1:]
		} else {
			found = number.FindAllStringSubmatch(text, 1)
		}
		for _, f := range found {
			id, _ := strconv.Atoi(f[1])
			ids = append(ids, id)
		}
	}
	return ids
}

// reach runs every test of s by itself, and returns them with the mutants they reach,
// the quickest first. Tests that fail by themselves are left out.
func reach(s suite, skip *regexp.Regexp, parallel int) ([]*test, error) {
	cmd := exec.Command(s.binary, "-test.list", ".")
	cmd.Dir = s.dir
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range strings.FieldsSeq(string(out)) {
		if !strings.HasPrefix(name, "Benchmark") && !skip.MatchString(name) {
			names = append(names, name)
		}
	}
	tests := make([]*test, len(names))
	each(parallel, len(names), func(i int) {
		trace := s.binary + "." + names[i] + ".trace"
		start := time.Now()
		if err := try(s, names[i:i+1], 5*time.Minute, "MUTANT_TRACE="+trace); err != nil {
			log.Printf("%s fails by itself and is left out: %v", names[i], err)
			return
		}
		t := &test{suite: s, name: names[i], took: time.Since(start), reaches: map[int]bool{}}
		text, _ := os.ReadFile(trace) // a test that reaches none has no trace
		for id := range bytes.FieldsSeq(text) {
			n, _ := strconv.Atoi(string(id))
			t.reaches[n] = true
		}
		tests[i] = t
	})
	tests = slices.DeleteFunc(tests, func(t *test) bool { return t == nil })
	sort.Slice(tests, func(i, j int) bool { return tests[i].took < tests[j].took })
	return tests, nil
}

// killed reports whether a test notices the mutant. The quick ones of a suite are tried
// together, then each of the others.
func killed(id int, tests []*test) bool {
	var batch []string
	var took time.Duration
	var s suite
	flush := func() bool {
		if len(batch) == 0 {
			return false
		}
		err := try(s, batch, 5*time.Second+5*took, "MUTANT="+strconv.Itoa(id))
		batch, took = nil, 0
		return err != nil
	}
	for _, t := range tests {
		if !t.reaches[id] {
			continue
		}
		if t.suite != s && flush() {
			return true
		}
		s = t.suite
		batch, took = append(batch, t.name), took+t.took
		if took > time.Second && flush() {
			return true
		}
	}
	return flush()
}

// try runs tests, and returns an error if they fail or take too long. A mutant may
// allocate without end: it gets 4 GB of addresses.
func try(s suite, names []string, limit time.Duration, env string) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", `ulimit -v 4000000; exec "$@"`, "sh",
		s.binary, "-test.failfast", "-test.run", "^("+strings.Join(names, "|")+")$")
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), env)
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return errors.New("it takes too long")
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// oneLine takes the line breaks out of a piece of code.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
