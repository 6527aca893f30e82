package pages_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/limit"
)

func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil { // the paths below are those of the repository
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// The README's code stands, whole, in a program that examples' tests run.
func TestREADME(t *testing.T) {
	read := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	readme := read("README.md")
	program := read("examples/readme/main.go")
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(readme, -1)
	if len(blocks) != 2 {
		t.Fatalf("the README has %d pieces of code, want 2", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(program, "\n"+block[1]) {
			t.Errorf("examples/readme has not this code of the README:\n%s", block[1])
		}
	}
	for page, most := range map[string]int{"README.md": 800, "CONTRIBUTING.md": 900, "docs/tasks.md": 1800} {
		if n := len(strings.Fields(read(page))); n > most {
			t.Errorf("%s has %d words, want at most %d", page, n, most)
		}
	}
	guides, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	words := 0
	for _, page := range append(guides, "README.md") {
		if page == "docs/tasks.md" { // nearly all of it is code
			continue
		}
		text := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(read(page), "")
		words += len(regexp.MustCompile(`\S*[\pL\pN]\S*`).FindAllString(text, -1)) // lines of tables are none
	}
	if words > 20_000 {
		t.Errorf("the README and the guides have %d words beside their code, want at most 20000", words)
	}
	for _, command := range []string{"    go run ./examples/quickstart\n", "    go test ./...\n"} {
		if !strings.Contains(readme, command) {
			t.Errorf("the README does not say %q", strings.TrimSpace(command))
		}
	}
}

// Each of the twenty tasks has one piece of code that fits on a screen, and one link.
func TestTasks(t *testing.T) {
	page, err := os.ReadFile("docs/tasks.md")
	if err != nil {
		t.Fatal(err)
	}
	tasks := strings.Split(string(page), "\n## ")[1:]
	if len(tasks) != 20 {
		t.Errorf("docs/tasks.md has %d tasks, want 20", len(tasks))
	}
	for _, task := range tasks {
		name, _, _ := strings.Cut(task, "\n")
		if code := goCode(task); len(code) != 1 || strings.Count(code[0], "\n") > 15 {
			t.Errorf("%s: %d pieces of code, want one of at most 15 lines", name, len(code))
		}
		if n := len(regexp.MustCompile(`(?m)^\[.*\]\(.*\)$`).FindAllString(task, -1)); n != 1 {
			t.Errorf("%s: %d links, want 1", name, n)
		}
	}
}

// Each piece of code in a guide stands, whole and but for the indentation around it, in
// a file that tests compile.
func TestGuides(t *testing.T) {
	sources := exampleFiles(t)
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	for _, page := range pages {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range goCode(string(b)) {
			blocks++
			if !stands(code, sources) {
				t.Errorf("%s has code that no example has:\n%s", page, code)
			}
		}
	}
	if blocks < 30 {
		t.Errorf("the guides have %d pieces of code, want more", blocks)
	}
}

// The programs on these pages are whole: a reader can copy them as they are.
func TestWholePrograms(t *testing.T) {
	files, err := filepath.Glob("examples/start/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var programs []string
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, regexp.MustCompile(`^(//.*\n)*`).ReplaceAllString(string(b), ""))
	}
	for page, want := range map[string]int{"docs/start.md": 1, "docs/testing.md": 2} {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		code := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(b), -1)
		if len(code) != want {
			t.Errorf("%s has %d programs, want %d", page, len(code), want)
		}
		for _, m := range code {
			if !slices.Contains(programs, m[1]) {
				t.Errorf("%s has a program that is no file of examples/start:\n%s", page, m[1])
			}
		}
	}
}

// exampleFiles returns what examples are made of: files below examples, what the tests
// with real clients compile, what retryvet's tests fix, and example tests elsewhere.
func exampleFiles(t *testing.T) (sources []string) {
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".go" && filepath.Ext(name) != ".golden" {
			return err
		}
		folder, _, _ := strings.Cut(name, "/")
		if folder == "examples" || folder == "clienttest" || strings.HasPrefix(name, "retryvet/cmd/retryvet/testdata/") ||
			regexp.MustCompile(`^example.*_test\.go$`).MatchString(d.Name()) {
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			sources = append(sources, "\n"+string(b))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sources
}

// goCode returns the pieces of Go code on a page: the blocks marked as Go, and indented
// ones that parse as Go.
func goCode(page string) (code []string) {
	fenced := regexp.MustCompile("(?sm)^```(\\w*)\n(.*?)^```$")
	for _, m := range fenced.FindAllStringSubmatch(page, -1) {
		if m[1] == "go" {
			code = append(code, m[2])
		}
	}
	for _, block := range regexp.MustCompile(`(?m)(^(    .*)?\n)+`).FindAllString(fenced.ReplaceAllString(page, ""), -1) {
		text := strings.Trim(regexp.MustCompile(`(?m)^    `).ReplaceAllString(block, ""), "\n") + "\n"
		if text == "\n" {
			continue
		}
		for _, file := range []string{"package p\n" + text, "package p\nfunc _() {\n" + text + "}", "package p\nvar _ = []any{" + text + "}"} {
			if _, err := parser.ParseFile(token.NewFileSet(), "", file, 0); err == nil {
				code = append(code, text)
				break
			}
		}
	}
	return code
}

// stands reports whether code is a run of whole lines of a source.
func stands(code string, sources []string) bool {
	for range 6 {
		if slices.ContainsFunc(sources, func(source string) bool { return strings.Contains(source, "\n"+code) }) {
			return true
		}
		code = regexp.MustCompile(`(?m)^(.)`).ReplaceAllString(code, "\t$1")
	}
	return false
}

// The table of defaults has the defaults.
func TestTermsHaveTheDefaults(t *testing.T) {
	page, err := os.ReadFile("docs/terms.md")
	if err != nil {
		t.Fatal(err)
	}
	longest := retry.Exponential{Jitter: retry.NoJitter}
	full := &retry.EarnedBudget{}
	retries := 0
	for full.Withdraw(retry.Withdrawal{Class: retry.Transient}) {
		retries++
	}
	timedOut := new(retry.EarnedBudget).Withdraw(retry.Withdrawal{Class: retry.TimedOut})
	for _, row := range []string{
		fmt.Sprintf("| `Policy.MaxAttempts` | %d; with `MaxElapsed`, one per millisecond of it |", retry.Policy{}.AttemptLimit()),
		fmt.Sprintf("from %v to at most %v, doubling, full jitter", longest.Delay(retry.Step{Retry: 1}), longest.Delay(retry.Step{Retry: 99})),
		fmt.Sprintf("| `Policy.MaxRetryAfter` | %v |", 5*time.Minute),
		map[bool]string{true: "| `limit.Limit` | no limit |\n| `limit.Adaptive` | no limit until there is an overload |"}[new(limit.Limit).Places() == math.MaxInt && new(limit.Adaptive).Places() == math.MaxInt],
		map[bool]string{true: "| `EarnedBudget` | 9 tokens; a retry costs 2, after a timeout 10 |"}[retries == 4 && !timedOut],
	} {
		if row == "" || !strings.Contains(string(page), row) {
			t.Errorf("docs/terms.md has not %q", row)
		}
	}
}

// The page explains each class and each reason.
func TestTermsHaveAllClassesAndReasons(t *testing.T) {
	page, err := os.ReadFile("docs/terms.md")
	if err != nil {
		t.Fatal(err)
	}
	has := func(heading, word string) bool {
		_, section, _ := strings.Cut(string(page), "\n## "+heading+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		return regexp.MustCompile("(?m)^\\| (`\\w+`, )*`" + word + "`[, ]").MatchString(section)
	}
	for c := retry.Unknown; c <= retry.Unprocessed; c++ {
		if !has("Classes", c.String()) {
			t.Errorf("docs/terms.md has no class %s", c)
		}
	}
	for r := retry.ReasonPermanent; r.String() != "unknown"; r++ {
		if !has("Reasons", r.String()) {
			t.Errorf("docs/terms.md has no reason %s", r)
		}
	}
}

// Each test that the README and the promises name exists, and so does each file and
// heading that a page links to.
func TestLinks(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatal(pages, err)
	}
	named := 0
	for _, page := range append(pages, "README.md", "CONTRIBUTING.md", "DESIGN.md", "PROMISES.md", "bench/EXPERIMENTS.md", "dashboards/README.md", "retryvet/CORPUS.md", "clienttest/CLIENTS.md", "examples/migrate/README.md", "examples/queues/README.md") {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text := regexp.MustCompile("(?s)```.*?```|`[^`\n]*`").ReplaceAllString(string(b), "")
		for _, m := range regexp.MustCompile(`\[([^\]]*)\]\(([^)#\s]*)(?:#([^)]*))?\)`).FindAllStringSubmatch(text, -1) {
			text, link, anchor := m[1], m[2], m[3]
			if strings.Contains(link, "://") {
				continue
			}
			target := filepath.Join(filepath.Dir(page), link)
			if link == "" {
				target = page
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", page, link, err)
				continue
			}
			if anchor != "" && !anchors(t, target)[anchor] {
				t.Errorf("%s: %s has no heading #%s", page, target, anchor)
			}
			if regexp.MustCompile(`^(Test|Fuzz)\w+$`).MatchString(text) {
				named++
				if b, err := os.ReadFile(target); err != nil || !strings.Contains(string(b), "func "+text+"(") {
					t.Errorf("%s: %s has no %s", page, target, text)
				}
			}
		}
	}
	if named < 40 {
		t.Errorf("the pages name %d tests, want more", named)
	}
}

// anchors returns the links that GitHub makes of a page's headings.
func anchors(t *testing.T, page string) map[string]bool {
	t.Helper()
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(b), -1) {
		text := regexp.MustCompile(`[^\pL\pN _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		all[strings.ReplaceAll(text, " ", "-")] = true
	}
	return all
}

// Each picture is on a page, with a text that says what it shows, and loads quickly.
func TestPictures(t *testing.T) {
	pages, _ := filepath.Glob("docs/*.md")
	var text strings.Builder
	for _, page := range append(pages, "README.md", "bench/EXPERIMENTS.md", "dashboards/README.md") {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(b)
	}
	var pictures []string
	for _, folder := range []string{"docs", "bench", "dashboards"} {
		found, _ := filepath.Glob(folder + "/*.[ps][nv]g")
		pictures = append(pictures, found...)
	}
	if len(pictures) < 8 {
		t.Fatal(pictures)
	}
	for _, picture := range pictures {
		if info, err := os.Stat(picture); err != nil || info.Size() > 120_000 {
			t.Errorf("%s: %v, or more than 120 kB", picture, err)
		}
		shown := regexp.MustCompile(`!\[([^\]]*)\]\((\.\./)?(docs/)?`+regexp.QuoteMeta(filepath.Base(picture))+`\)`).FindAllStringSubmatch(text.String(), -1)
		if len(shown) == 0 {
			t.Errorf("no page shows %s", picture)
		}
		for _, m := range shown {
			if len(strings.Fields(m[1])) < 6 {
				t.Errorf("%s: the text %q does not say what it shows", picture, m[1])
			}
		}
	}
}
