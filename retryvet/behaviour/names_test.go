package behaviour_test

import (
	"bytes"
	"fmt"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"

	"github.com/goretry/retry/retryvet/internal/migrate"
)

// instructs matches what tells somebody what to do.
var instructs = regexp.MustCompile(`: (call|change|get|give|leave|let|make|name|pass|rename|return|set|update|use|write) `)

// vague is said of names that nobody has thought of.
const vague = "that takes its place"

// samples say for each library how to run something, how to do so with an option or a backoff
// of its, and which types these have.
var samples = map[string]struct {
	run    string
	option map[string]string // by the type's name
}{
	"github.com/cenkalti/backoff/v4": {"backoff.Retry(op, backoff.NewConstantBackOff(time.Second))",
		map[string]string{"BackOff": "backoff.Retry(op, %s)", "BackOffContext": "backoff.Retry(op, %s)", "ExponentialBackOffOpts": "backoff.Retry(op, backoff.NewExponentialBackOff(%s))"}},
	"github.com/cenkalti/backoff/v5": {"_, err := backoff.Retry(ctx, value)", map[string]string{"BackOff": "_, err := backoff.Retry(ctx, value, backoff.WithBackOff(%s))", "RetryOption": "_, err := backoff.Retry(ctx, value, %s)"}},
	"github.com/cenkalti/backoff/v6": {"_, err := backoff.Retry(ctx, value)", map[string]string{"BackOff": "_, err := backoff.Retry(ctx, value, backoff.WithBackOff(%s))", "RetryOption": "_, err := backoff.Retry(ctx, value, %s)"}},
	"github.com/cenkalti/backoff/v7": {"_, err := backoff.Retry(ctx, value)", map[string]string{"BackOff": "_, err := backoff.Retry(ctx, value, backoff.WithBackOff(%s))", "RetryOption": "_, err := backoff.Retry(ctx, value, %s)"}},
	"github.com/avast/retry-go/v4":   {"retry.Do(op)", map[string]string{"Option": "retry.Do(op, %s)", "DelayTypeFunc": "retry.Do(op, retry.DelayType(%s))"}},
	"github.com/avast/retry-go/v5":   {"retry.New().Do(op)", map[string]string{"Option": "retry.New(%s).Do(op)", "DelayTypeFunc": "retry.New(retry.DelayType(%s)).Do(op)"}},
	"github.com/sethvargo/go-retry":  {"retry.Do(ctx, retry.NewConstant(time.Second), opCtx)", map[string]string{"Backoff": "retry.Do(ctx, %s, opCtx)"}},
}

// A call stays as it is for the sake of some name of its library. Whatever exported name of
// the real libraries that is, the finding says what to write.
func TestEveryNameIsRewrittenOrHasAWord(t *testing.T) {
	dir, n := module(t), 0
	for path, sample := range samples {
		lib, err := packages.Load(&packages.Config{Mode: packages.LoadTypes}, path)
		if err != nil || packages.PrintErrors(lib) > 0 {
			t.Fatal(path, err)
		}
		var b bytes.Buffer
		qualifier := func(pkg *types.Package) string { return pkg.Name() }
		scope := lib[0].Types.Scope()
		for _, name := range scope.Names() {
			obj := scope.Lookup(name)
			if !obj.Exported() {
				continue
			}
			use, params, call := lib[0].Name+"."+name, "", ""
			switch obj := obj.(type) {
			case *types.Func:
				sig := obj.Signature()
				if sig.TypeParams().Len() > 0 {
					continue // it runs something
				}
				var args []string
				for i := range sig.Params().Len() {
					p := sig.Params().At(i)
					arg, variadic := fmt.Sprint("a", i), sig.Variadic() && i == sig.Params().Len()-1
					args = append(args, arg)
					typ := types.TypeString(p.Type(), qualifier)
					if variadic {
						typ, args[i] = strings.Replace(typ, "[]", "...", 1), arg+"..."
					}
					params += ", " + arg + " " + typ
				}
				use += "(" + strings.Join(args, ", ") + ")"
				results := sig.Results()
				if results.Len() == 1 {
					for option, format := range sample.option {
						if types.AssignableTo(results.At(0).Type(), scope.Lookup(option).Type()) || strings.HasSuffix(results.At(0).Type().String(), "."+option) {
							call = fmt.Sprintf(format, use)
						}
					}
				}
				if of := scope.Lookup("DelayTypeFunc"); of != nil && types.AssignableTo(sig, of.Type()) {
					call = fmt.Sprintf(sample.option["DelayTypeFunc"], lib[0].Name+"."+name)
				}
				if call == "" && results.Len() > 0 {
					use = "_ = " + use
				}
			case *types.TypeName:
				if _, generic := obj.Type().(*types.Named); generic && obj.Type().(*types.Named).TypeParams().Len() > 0 {
					continue
				}
				use = "var _ " + use
			default:
				use = "_ = " + use
			}
			if call == "" { // in the operation
				call = sample.run
				for _, op := range []string{"op", "value", "opCtx"} {
					call = strings.Replace(call, op+",", literal(op, use)+",", 1)
					call = strings.Replace(call, op+")", literal(op, use)+")", 1)
				}
			}
			if strings.HasPrefix(call, "_, err := ") {
				call += "\n_ = err"
			} else {
				call = "_ = " + call
			}
			fmt.Fprintf(&b, "func f_%s(ctx context.Context%s) {\n%s\n}\n\n", name, params, call)
			n++
		}
		head := "package names\n\nimport (\n\"context\"\n\"time\"\n" + fmt.Sprintf("%q\n)\n\n", path) +
			"var _ time.Duration\n\nfunc op() error { return nil }\nfunc value() (int, error) { return 0, nil }\nfunc opCtx(context.Context) error { return nil }\n\n"
		folder := strings.NewReplacer("/", "_", ".", "_").Replace(path)
		write(t, filepath.Join(dir, folder, "names.go"), head+b.String())
	}
	pkgs, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax, Dir: dir, Env: append(os.Environ(), "GOWORK=off")}, "./...")
	if err != nil {
		t.Fatal(err)
	}
	if packages.PrintErrors(pkgs) > 0 {
		t.Fatal("the samples do not compile")
	}
	graph, err := checker.Analyze([]*analysis.Analyzer{migrate.Analyzer}, pkgs, nil)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, action := range graph.Roots {
		for _, d := range action.Diagnostics {
			found++
			if !strings.Contains(d.Message, ": -fix makes this a ") && !strings.Contains(d.Message, "By hand:") && (!instructs.MatchString(d.Message) || strings.Contains(d.Message, vague)) {
				t.Errorf("%v: what is to be written? %s", action.Package.Fset.Position(d.Pos), d.Message)
			}
		}
	}
	if found < n || n < 100 {
		t.Errorf("%d findings of %d calls", found, n)
	}
}

// module makes a module that requires the libraries.
func module(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		root, err := filepath.Abs("../..")
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), strings.NewReplacer("=> ../..\n", "=> "+root+"\n", "=> ../\n", "=> "+filepath.Join(root, "retryvet")+"\n").Replace(string(text)))
	}
	return dir
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// literal returns the operation with something else in it.
func literal(op, use string) string {
	switch op {
	case "value":
		return "func() (int, error) {\n" + use + "\nreturn value()\n}"
	case "opCtx":
		return "func(ctx context.Context) error {\n" + use + "\nreturn opCtx(ctx)\n}"
	}
	return "func() error {\n" + use + "\nreturn op()\n}"
}
