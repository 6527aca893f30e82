package golangci

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/golangci/plugin-module-register/register"
	"golang.org/x/tools/go/analysis"

	"github.com/goretry/retry/retryvet/internal/both"
)

func init() { register.Plugin("retryvet", configured) }

// plugin is the linter with its settings.
type plugin struct{ *analysis.Analyzer }

func (p plugin) BuildAnalyzers() ([]*analysis.Analyzer, error) {
	return []*analysis.Analyzer{p.Analyzer}, nil
}

func (plugin) GetLoadMode() string { return register.LoadModeTypesInfo }

// configured returns the linter with its flags set. It sets all of them: they are shared
// with those of another that was configured before.
func configured(raw any) (register.LinterPlugin, error) {
	settings, err := register.DecodeSettings[map[string]bool](raw)
	if err != nil {
		return nil, err
	}
	a := both.Analyzer()
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if a.Flags.Lookup(name) == nil {
			return nil, fmt.Errorf("no check is called %q: docs/vet.md lists them", name)
		}
	}
	a.Flags.VisitAll(func(f *flag.Flag) {
		on, set := settings[f.Name]
		err = errors.Join(err, f.Value.Set(strconv.FormatBool(on || !set)))
	})
	run := a.Run
	a.Run = func(pass *analysis.Pass) (any, error) {
		unfixed := *pass
		unfixed.Report = func(d analysis.Diagnostic) {
			d.SuggestedFixes = nil
			pass.Report(d)
		}
		return run(&unfixed)
	}
	return plugin{a}, err
}
