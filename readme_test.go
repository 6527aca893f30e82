package retry_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The README's code stands, line after line, in examples that are compiled and
// run, and the tests that it names exist.
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
	named := regexp.MustCompile(`\[((?:Test|Fuzz)\w+)\]\(([\w/.]+)\)`).FindAllStringSubmatch(readme, -1)
	if len(named) < 10 {
		t.Errorf("the README names %d tests, want more", len(named))
	}
	for _, m := range named {
		if !strings.Contains(read(m[2]), "func "+m[1]+"(") {
			t.Errorf("%s has no %s", m[2], m[1])
		}
	}
	for _, command := range []string{"    go run ./examples/quickstart\n", "    go test ./...\n"} {
		if !strings.Contains(readme, command) {
			t.Errorf("the README does not say %q", strings.TrimSpace(command))
		}
	}
}
