package retry_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The README's code stands, line after line, in examples that are compiled and run.
func TestREADME(t *testing.T) {
	read := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	readme := read("README.md")
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(readme, -1)
	examples := []string{"example_test.go", "retryhttp/example_test.go", "retrytest/example_test.go"}
	if len(blocks) != len(examples) {
		t.Fatalf("the README has %d pieces of code, want %d", len(blocks), len(examples))
	}
	for i, name := range examples {
		rest := read(name)
		for line := range strings.Lines(blocks[i][1]) {
			line = strings.TrimSpace(line)
			_, after, ok := strings.Cut(rest, line)
			if !ok {
				t.Fatalf("the README has %q, %s has not, or not there", line, name)
			}
			rest = after
		}
	}
	for page, most := range map[string]int{"README.md": 1200, "CONTRIBUTING.md": 900} {
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

// The first piece of code in a guide stands, line after line, in an example.
func TestGuides(t *testing.T) {
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

// Each test that the README and the promises name exists, and so does each file that
// a page links to.
func TestLinks(t *testing.T) {
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
		for _, m := range regexp.MustCompile(`\[([^\]]*)\]\(([^)#\s]+)(?:#[^)]*)?\)`).FindAllStringSubmatch(text, -1) {
			text, link := m[1], m[2]
			if strings.Contains(link, "://") {
				continue
			}
			target := filepath.Join(filepath.Dir(page), link)
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", page, link, err)
				continue
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
