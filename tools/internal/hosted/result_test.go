package hosted

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The tests of a module are run, and what became of each is known.
func TestResults(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module sample\n\ngo 1.26\n",
		"a/a_test.go": `package a

import (
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) { fmt.Println("requests: 7"); m.Run() }

func TestPasses(t *testing.T) {}

func TestSkips(t *testing.T) { t.Skip() }

func TestParts(t *testing.T) {
	t.Run("one", func(*testing.T) {})
	t.Run("two", func(t *testing.T) {
		if os.Getenv("SAMPLE") == "bad" {
			t.Error("broken")
		}
	})
}

func TestFails(t *testing.T) { t.Error("always") }
`,
		"b/b_test.go": "package b\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestExits(t *testing.T) {\n\tif os.Getenv(\"SAMPLE\") == \"bad\" {\n\t\tos.Exit(1)\n\t}\n}\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(sample string, args ...string) Result {
		r, err := Test(t.Context(), dir, []string{"GOWORK=off", "GOFLAGS=", "SAMPLE=" + sample}, args...)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	good, bad := run("good", "./..."), run("bad", "./...")
	if got, want := good.String(), "5 passed, 1 failed, 1 skipped"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	parts, exits := Name{"sample/a", "TestParts"}, Name{"sample/b", "TestExits"}
	if got := bad.WorseThan(good); !slices.Equal(got, []Name{parts, exits}) {
		t.Errorf("worse: %v, want the test with a broken part and the one that does not end", got)
	}
	if got := good.WorseThan(bad); got != nil {
		t.Errorf("%v are worse than when they are broken", got)
	}
	again := run("good", "-run", Pattern([]Name{parts}), "./a")
	if passed := bad.Repeated(again); len(passed) != 2 || len(again.Tests) != 3 {
		t.Errorf("%v passed when %v were repeated, want TestParts and its part", passed, again.Tests)
	}
	if got := bad.WorseThan(good); !slices.Equal(got, []Name{exits}) {
		t.Errorf("worse: %v, want the one that was not repeated", got)
	}
	if bad.Repeated(run("bad", "-run", Pattern([]Name{parts}), "./a")); bad.Tests[parts] != "pass" {
		t.Error("a test that has passed does not count any more, since it failed later")
	}
	if got := Pattern([]Name{{"p", "Test/One"}, {"p", "TestTwo"}}); got != "^Test$/^One$|^TestTwo$" {
		t.Errorf("-run %s", got)
	}
	if got := (Name{"p", "Test/One/part"}).whole(); got != (Name{"p", "Test/One"}) {
		t.Errorf("the whole of a part is %v", got)
	}
	if _, err := Test(t.Context(), dir, []string{"GOWORK=off"}, "-run", "Nothing", "./..."); err == nil {
		t.Error("without a test there is no error")
	}
}
