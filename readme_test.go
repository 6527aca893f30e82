package retry_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/limit"
)

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
	for page, most := range map[string]int{"README.md": 800, "CONTRIBUTING.md": 900} {
		if n := len(strings.Fields(read(page))); n > most {
			t.Errorf("%s has %d words, want at most %d", page, n, most)
		}
	}
	for _, command := range []string{"    go run ./examples/quickstart\n", "    go test ./...\n"} {
		if !strings.Contains(readme, command) {
			t.Errorf("the README does not say %q", strings.TrimSpace(command))
		}
	}
}

// needRepository skips the test where only the root module is, as users get it.
func needRepository(t *testing.T) {
	if _, err := os.Stat("otel/go.mod"); err != nil {
		t.Skip("without the nested modules")
	}
}

// The first piece of code in a guide stands, line after line, in an example.
func TestGuides(t *testing.T) {
	needRepository(t)
	for page, example := range map[string]string{
		"http":   "retryhttp/example_test.go",
		"llm":    "retryhttp/example_llm_test.go",
		"grpc":   "retrygrpc/example_test.go",
		"sql":    "retrysql/example_test.go",
		"queues": "retrynats/example_test.go",
		"tail":   "limit/example_test.go",

		"observability": "otel/example_test.go",
	} {
		text, err := os.ReadFile("docs/" + page + ".md")
		if err != nil {
			t.Fatal(err)
		}
		code := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(text)
		rest, err := os.ReadFile(example)
		if err != nil || code == nil {
			t.Fatalf("%s: %v, code %q", page, err, code)
		}
		for line := range bytes.Lines(code[1]) {
			line = bytes.TrimSpace(line)
			_, after, ok := bytes.Cut(rest, line)
			if !ok {
				t.Errorf("docs/%s.md has %q, %s has not, or not there", page, line, example)
				break
			}
			rest = after
		}
	}
}

// The table of defaults has the defaults.
func TestTermsHaveTheDefaults(t *testing.T) {
	page, err := os.ReadFile("docs/terms.md")
	if err != nil {
		t.Fatal(err)
	}
	places := (&limit.Limit{}).Places()
	full := &retry.EarnedBudget{}
	retries := 0
	for full.Withdraw(retry.Withdrawal{Class: retry.Transient}) {
		retries++
	}
	timedOut := new(retry.EarnedBudget).Withdraw(retry.Withdrawal{Class: retry.TimedOut})
	for _, row := range []string{
		fmt.Sprintf("| `Policy.MaxAttempts` | %d; with `MaxElapsed`, one per millisecond of it |", retry.Policy{}.AttemptLimit()),
		fmt.Sprintf("from %v to at most %v, doubling, full jitter", retry.DefaultBase, retry.DefaultMax),
		fmt.Sprintf("| `Policy.MaxRetryAfter` | %v |", retry.DefaultMaxRetryAfter),
		fmt.Sprintf("| `limit.Limit` | starts with %d places,", places),
		map[bool]string{true: "| `EarnedBudget` | 9 tokens; a retry costs 2, after a timeout 10 |"}[retries == 4 && !timedOut],
	} {
		if row == "" || !strings.Contains(string(page), row) {
			t.Errorf("docs/terms.md has not %q", row)
		}
	}
}

// Each test that the README and the promises name exists, and so does each file and
// heading that a page links to.
func TestLinks(t *testing.T) {
	needRepository(t)
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatal(pages, err)
	}
	named := 0
	for _, page := range append(pages, "README.md", "CONTRIBUTING.md") {
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
	for _, page := range append(pages, "README.md") {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(b)
	}
	pictures, _ := filepath.Glob("docs/*.[ps][nv]g")
	if len(pictures) < 6 {
		t.Fatal(pictures)
	}
	for _, picture := range pictures {
		if info, err := os.Stat(picture); err != nil || info.Size() > 120_000 {
			t.Errorf("%s: %v, or more than 120 kB", picture, err)
		}
		shown := regexp.MustCompile(`!\[([^\]]*)\]\((docs/)?`+regexp.QuoteMeta(filepath.Base(picture))+`\)`).FindAllStringSubmatch(text.String(), -1)
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
