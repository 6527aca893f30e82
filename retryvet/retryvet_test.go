package retryvet_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"

	"github.com/goretry/retry/retryvet"
)

// Every check runs on every sample: what is right for one is right for all.
func TestMisuse(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), retryvet.Analyzer, "./misuse/...")
}

func TestLoopsByHand(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), retryvet.Analyzer, "./loopctx")
}

// The goldens are what -fix writes. TestFixedSamples compiles them.
func TestForeign(t *testing.T) {
	analysistest.RunWithSuggestedFixes(t, analysistest.TestData(), retryvet.Analyzer, "./foreign/...")
}

// What -fix has written compiles, passes go vet, has no finding of ours but calls
// that were refused, and nothing is left to fix.
func TestFixedSamples(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("testdata/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	mod = bytes.Replace(mod, []byte("=> ../..\n"), []byte("=> "+root+"\n"), 1)
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), mod, 0o600); err != nil {
		t.Fatal(err)
	}
	goldens, err := filepath.Glob(filepath.Join(dir, "foreign/*/*.golden"))
	if err != nil || len(goldens) == 0 {
		t.Fatal("no goldens", err)
	}
	for _, golden := range goldens {
		if err := os.Rename(golden, strings.TrimSuffix(golden, ".golden")); err != nil {
			t.Fatal(err)
		}
	}
	env := append(os.Environ(), "GOWORK=off", "GOPROXY=off")
	vet := exec.Command("go", "vet", "./foreign/...")
	vet.Dir, vet.Env = dir, env
	if out, err := vet.CombinedOutput(); err != nil {
		t.Fatalf("go vet: %v\n%s", err, out)
	}

	pkgs, err := packages.Load(&packages.Config{Mode: packages.LoadAllSyntax, Dir: dir, Env: env}, "./foreign/...")
	if err != nil {
		t.Fatal(err)
	}
	graph, err := checker.Analyze([]*analysis.Analyzer{retryvet.Analyzer}, pkgs, nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, action := range graph.Roots {
		for _, d := range action.Diagnostics {
			seen++
			if len(d.SuggestedFixes) > 0 || d.Category != "foreign" {
				t.Errorf("%v: %s: %s", action.Package.Fset.Position(d.Pos), d.Category, d.Message)
			}
		}
	}
	if seen == 0 {
		t.Error("not even refused calls are reported: the analyzer did not run")
	}
}
