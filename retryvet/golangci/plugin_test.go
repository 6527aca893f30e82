package golangci_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/golangci/plugin-module-register/register"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"

	_ "github.com/goretry/retry/retryvet/golangci"
	"github.com/goretry/retry/retryvet/internal/samples"
)

// calls makes a module with the package calls.
func calls(t *testing.T) (dir string) {
	t.Helper()
	dir = samples.Module(t, "../internal/migrate/testdata/src")
	if err := os.CopyFS(filepath.Join(dir, "calls"), os.DirFS("testdata/calls")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func configured(t *testing.T, settings any) (register.LinterPlugin, error) {
	t.Helper()
	plugin, err := register.GetPlugin("retryvet")
	if err != nil {
		t.Fatal(err)
	}
	return plugin(settings)
}

// A setting turns one check off, and only in the linter that has it.
func TestSettings(t *testing.T) {
	pkgs, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax | packages.NeedModule, Dir: calls(t), Env: samples.Env()}, "./calls")
	if err != nil {
		t.Fatal(err)
	}
	if packages.PrintErrors(pkgs) > 0 {
		t.Fatal("it does not compile")
	}
	for _, tt := range []struct {
		settings any
		want     []string
	}{
		{nil, []string{"foreign", "loopctx", "nanoseconds"}},
		{map[string]any{"loopctx": false}, []string{"foreign", "nanoseconds"}},
		{map[string]any{"foreign": false, "loopctx": true}, []string{"loopctx", "nanoseconds"}},
		{map[string]any{"nanoseconds": false, "foreign": false, "loopctx": false}, nil},
		{map[string]any{}, []string{"foreign", "loopctx", "nanoseconds"}},
	} {
		plugin, err := configured(t, tt.settings)
		if err != nil {
			t.Fatal(err)
		}
		if mode := plugin.GetLoadMode(); mode != register.LoadModeTypesInfo {
			t.Errorf("load mode %s, want %s", mode, register.LoadModeTypesInfo)
		}
		analyzers, err := plugin.BuildAnalyzers()
		if err != nil {
			t.Fatal(err)
		}
		graph, err := checker.Analyze(analyzers, pkgs, nil)
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, action := range graph.Roots {
			if action.Err != nil {
				t.Fatal(action.Err)
			}
			for _, d := range action.Diagnostics {
				found = append(found, d.Category)
				if len(d.SuggestedFixes) > 0 {
					t.Errorf("%v: %s: golangci-lint would fix it", tt.settings, d.Message)
				}
			}
		}
		slices.Sort(found)
		if !slices.Equal(found, tt.want) {
			t.Errorf("%v: findings of %q, want %q", tt.settings, found, tt.want)
		}
	}
}

func TestWrongSettings(t *testing.T) {
	for _, tt := range []struct {
		settings any
		want     string
	}{
		{map[string]any{"lopctx": false}, `no check is called "lopctx"`},
		{map[string]any{"loopctx": true, "fix": true}, `no check is called "fix"`},
		{map[string]any{"loopctx": "no"}, "cannot unmarshal string"},
		{"loopctx", "cannot unmarshal string"},
	} {
		if _, err := configured(t, tt.settings); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: error %v, want %s", tt.settings, err, tt.want)
		}
	}
}
