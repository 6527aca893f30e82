package retry_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The README's code is what Example and retrytest's Example compile and run, and
// the tests that it names exist.
func TestREADME(t *testing.T) {
	read := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	readme := read("README.md")
	_, code, _ := strings.Cut(readme, "```go\n")
	code, _, _ = strings.Cut(code, "```\n")
	example := read("example_test.go")
	for line := range strings.Lines(code) {
		if line = strings.TrimSpace(line); !strings.Contains(example, line) {
			t.Errorf("the README's example has %q, Example has not", line)
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
	for _, command := range []string{"    go run ./examples/quickstart\n", "    go test work\n"} {
		if !strings.Contains(readme, command) {
			t.Errorf("the README does not say %q", strings.TrimSpace(command))
		}
	}
}
