package retrydebug_test

import (
	"os"
	"regexp"
	"testing"
)

// The package documentation has each field of the JSON.
func TestFieldsAreDocumented(t *testing.T) {
	source, err := os.ReadFile("report.go")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	fields := regexp.MustCompile("`json:\"(\\w+)(,omitempty)?\"`").FindAllSubmatch(source, -1)
	if len(fields) < 50 {
		t.Fatalf("report.go has %d fields, want more", len(fields))
	}
	for _, m := range fields {
		name := string(m[1])
		if m[2] != nil {
			name += `\?`
		}
		if !regexp.MustCompile(`(?m)^//\t.*\b` + name + `(\W|$)`).Match(doc) {
			t.Errorf("doc.go does not describe %q", m[0])
		}
	}
}
