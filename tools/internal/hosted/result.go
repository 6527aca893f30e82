package hosted

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// A Name is that of a test, or of a part of one.
type Name struct{ Package, Test string }

func (n Name) String() string {
	if n.Package == "" {
		return n.Test
	}
	return n.Package + " " + n.Test
}

// whole returns the test that n is a part of. All of grpc-go's are parts of one that is named Test.
func (n Name) whole() Name {
	first, rest, _ := strings.Cut(n.Test, "/")
	if second, _, _ := strings.Cut(rest, "/"); first == "Test" && second != "" {
		first += "/" + second
	}
	n.Test = first
	return n
}

// A Result is what became of a run of tests.
type Result struct {
	Tests map[Name]string // pass, fail or skip
	Texts map[Name]string // what they printed
	Text  string          // what belongs to no test
}

func (r Result) String() string {
	n := map[string]int{}
	for _, ended := range r.Tests {
		n[ended]++
	}
	return fmt.Sprintf("%d passed, %d failed, %d skipped", n["pass"], n["fail"], n["skip"])
}

// Test runs go test in a folder, in an environment with more. That some tests fail is no error.
// Neither is the end of ctx: what has not ended by then is not in the Result.
func Test(ctx context.Context, dir string, more []string, args ...string) (Result, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json", "-count=1", "-vet=off"}, args...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), more...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	r := Result{Tests: map[Name]string{}, Texts: map[Name]string{}}
	for line := range bytes.Lines(out) {
		var event struct{ Action, Package, Test, Output string }
		if json.Unmarshal(line, &event) != nil {
			continue
		}
		name := Name{event.Package, event.Test}
		if event.Test == "" {
			r.Text += event.Output
			continue
		}
		r.Texts[name] += event.Output
		switch event.Action {
		case "pass", "fail", "skip":
			r.Tests[name] = event.Action
		}
	}
	if len(r.Tests) == 0 {
		return r, fmt.Errorf("no test ran: %w\n%s%s", err, stderr.Bytes(), out)
	}
	return r, nil
}

// WorseThan returns the tests of which something did not pass, though it did in other.
func (r Result) WorseThan(other Result) (names []Name) {
	for name, ended := range other.Tests {
		if whole := name.whole(); ended == "pass" && r.Tests[name] != "pass" && !slices.Contains(names, whole) {
			names = append(names, whole)
		}
	}
	slices.SortFunc(names, func(a, b Name) int { return strings.Compare(a.String(), b.String()) })
	return names
}

// Repeated takes what has passed in a run of the same tests, and returns it.
func (r Result) Repeated(again Result) (passed []Name) {
	for name, ended := range again.Tests {
		if ended == "pass" && r.Tests[name] != "pass" {
			passed = append(passed, name)
		}
		if ended == "pass" || r.Tests[name] != "pass" {
			r.Tests[name], r.Texts[name] = ended, again.Texts[name]
		}
	}
	return passed
}

// Pattern returns what -run has for tests.
func Pattern(names []Name) string {
	var tests []string
	for _, name := range names {
		tests = append(tests, "^"+strings.ReplaceAll(name.Test, "/", "$/^")+"$")
	}
	return strings.Join(tests, "|")
}
