package behaviour_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	avast4 "github.com/avast/retry-go/v4"
	avast5 "github.com/avast/retry-go/v5"
	backoff4 "github.com/cenkalti/backoff/v4"
	backoff5 "github.com/cenkalti/backoff/v5"
	backoff6 "github.com/cenkalti/backoff/v6"
	backoff7 "github.com/cenkalti/backoff/v7"
	sethvargo "github.com/sethvargo/go-retry"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryvet/behaviour"
	"github.com/goretry/retry/retryvet/behaviour/after"
	"github.com/goretry/retry/retryvet/behaviour/before"
	"github.com/goretry/retry/retryvet/internal/migrate"
)

var update = flag.Bool("update", false, "write package after")

type call = func(context.Context, *behaviour.Service) error

func TestSameCallsAtTheSameTimes(t *testing.T) {
	marks := map[string]func(error) error{ // by which another package says that an error is permanent, or is to be repeated
		"Backoff4": backoff4.Permanent, "Backoff5": backoff5.Permanent,
		"Backoff6": backoff6.Permanent, "Backoff7": backoff7.Permanent,
		"Avast4": avast4.Unrecoverable, "Avast5": avast5.Unrecoverable,
		"Sethvargo": sethvargo.RetryableError,
	}
	for name, c := range map[string]struct{ before, after call }{
		"Backoff4Limited":  {before.Backoff4Limited, after.Backoff4Limited},
		"Backoff4Elapsed":  {before.Backoff4Elapsed, after.Backoff4Elapsed},
		"Backoff4Constant": {before.Backoff4Constant, after.Backoff4Constant},
		"Backoff5":         {before.Backoff5, after.Backoff5},
		"Backoff6":         {before.Backoff6, after.Backoff6},
		"Backoff7":         {before.Backoff7, after.Backoff7},
		"Avast4Doubling":   {before.Avast4Doubling, after.Avast4Doubling},
		"Avast4Fixed":      {before.Avast4Fixed, after.Avast4Fixed},
		"Avast5Doubling":   {before.Avast5Doubling, after.Avast5Doubling},
		"Avast5Fixed":      {before.Avast5Fixed, after.Avast5Fixed},

		"Backoff4Chain":        {before.Backoff4Chain, after.Backoff4Chain},
		"Backoff4OwnContext":   {before.Backoff4OwnContext, after.Backoff4OwnContext},
		"Backoff4Shared":       {before.Backoff4Shared, after.Backoff4Shared},
		"Backoff4SharedToo":    {before.Backoff4SharedToo, after.Backoff4SharedToo},
		"Avast4Shared":         {before.Avast4Shared, after.Avast4Shared},
		"Avast4SharedToo":      {before.Avast4SharedToo, after.Avast4SharedToo},
		"Avast4Fields":         {before.Avast4Fields, after.Avast4Fields},
		"Backoff4Helper":       {before.Backoff4Helper, after.Backoff4Helper},
		"Backoff4Method":       {before.Backoff4Method, after.Backoff4Method},
		"Avast4Helper":         {before.Avast4Helper, after.Avast4Helper},
		"Avast4RetryIf":        {before.Avast4RetryIf, after.Avast4RetryIf},
		"SethvargoExponential": {before.SethvargoExponential, after.SethvargoExponential},
		"SethvargoFibonacci":   {before.SethvargoFibonacci, after.SethvargoFibonacci},
		"SethvargoConstant":    {before.SethvargoConstant, after.SethvargoConstant},
	} {
		var mark func(error) error
		for library, f := range marks {
			if strings.HasPrefix(name, library) {
				mark = f
			}
		}
		for story, errs := range map[string][]error{
			"works":              nil,
			"fails twice":        {behaviour.ErrDown, behaviour.ErrDown},
			"permanent":          {behaviour.ErrDown, behaviour.ErrGone, behaviour.ErrDown},
			"no such file yet":   {fs.ErrNotExist, sql.ErrNoRows, context.Canceled},
			"marked elsewhere":   {behaviour.ErrDown, mark(fs.ErrNotExist), behaviour.ErrDown},
			"fails many times":   slices.Repeat([]error{behaviour.ErrDown}, 30),
			"canceled in a wait": slices.Repeat([]error{behaviour.ErrDown}, forEver),
		} {
			t.Run(name+"/"+story, func(t *testing.T) {
				old, calls := outcome(t, c.before, errs)
				got, _ := outcome(t, c.after, errs)
				if got != old {
					t.Errorf("after the fix:\n%s\nbefore:\n%s", got, old)
				}
				if 0 < len(errs) && len(errs) < forEver && calls < 2 {
					t.Errorf("%d calls: this sample shows no retry", calls)
				}
			})
		}
	}
}

// forEver is so many failures that the caller cancels the call.
const forEver = 1000

// outcome tells what a call did, and how many calls of the service it made.
func outcome(t *testing.T, f call, errs []error) (text string, calls int) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		if len(errs) == forEver {
			var cancel context.CancelFunc
			ctx, cancel = context.WithCancel(ctx)
			defer cancel()
			defer time.AfterFunc(450*time.Millisecond, cancel).Stop()
		}
		s := &behaviour.Service{Errs: errs}
		start := time.Now()
		err := f(ctx, s)
		last := err
		if e, ok := errors.AsType[*retry.Error](err); ok && e.Attempts > 0 {
			last = e.Last() // theirs has no others
		}
		var at []time.Duration
		for _, c := range s.Calls {
			at = append(at, c.Sub(start))
		}
		calls = len(s.Calls)
		text = fmt.Sprintf("failed %t, gone %t, canceled %t, calls %v, told %q, took %v", err != nil,
			errors.Is(last, behaviour.ErrGone), errors.Is(err, context.Canceled), at, s.Told, time.Since(start))
	})
	return text, calls
}

// Package after is what -fix makes of package before.
func TestAfterIsWhatFixWrites(t *testing.T) {
	pkgs, err := packages.Load(&packages.Config{Mode: packages.LoadAllSyntax}, "./before")
	if err != nil {
		t.Fatal(err)
	}
	graph, err := checker.Analyze([]*analysis.Analyzer{migrate.Analyzer}, pkgs, nil)
	if err != nil {
		t.Fatal(err)
	}
	edits := map[string][]analysis.TextEdit{}
	for _, action := range graph.Roots {
		for _, d := range action.Diagnostics {
			for _, fix := range d.SuggestedFixes {
				for _, e := range fix.TextEdits {
					name := action.Package.Fset.Position(e.Pos).Filename
					same := func(other analysis.TextEdit) bool { return reflect.DeepEqual(e, other) }
					if !slices.ContainsFunc(edits[name], same) { // files that share something have one fix
						edits[name] = append(edits[name], e)
					}
				}
			}
		}
	}
	names, _ := filepath.Glob("before/*.go")
	for _, name := range names {
		full, err := filepath.Abs(name)
		if err != nil {
			t.Fatal(err)
		}
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all := edits[full]
		if len(all) == 0 {
			t.Errorf("%s has no fix", name)
		}
		for _, e := range slices.Backward(all) { // they are sorted
			from, to := pkgs[0].Fset.Position(e.Pos).Offset, pkgs[0].Fset.Position(e.End).Offset
			source = slices.Concat(source[:from], e.NewText, source[to:])
		}
		source = bytes.Replace(source, []byte("package before"), []byte("package after"), 1)
		source = bytes.Replace(source, []byte("// Package before has calls of other libraries."), []byte("// Package after has what retryvet -fix made of package before."), 1)
		source = bytes.Replace(source, []byte("functions that take a context and a service."), []byte("what go test -update writes."), 1)
		source, err = format.Source(source)
		if err != nil {
			t.Fatal(err)
		}
		target := filepath.Join("after", filepath.Base(name))
		if *update {
			if err := os.WriteFile(target, source, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(target)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(source, want) {
			t.Errorf("%s differs from what -fix writes: run go test -update\n%s", target, source)
		}
	}
}
