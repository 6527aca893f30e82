package retryvet_test

import (
	"bytes"
	"fmt"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"

	"github.com/goretry/retry/retryvet"
	"github.com/goretry/retry/retryvet/internal/code"
)

// unlike says which functions that take a policy a check does not report, and why. All
// others are like retry.Do.
var unlike = map[string]map[string]string{
	"retry.Supervise":              {"neverstops": "it is meant to go on", "nested": "it restarts a service", "severalcalls": "a service makes many calls"},
	"hedge.Race":                   {"neverstops": "it makes one attempt", "nested": "it makes one attempt", "compared": "its error is op's", "timeoutbody": "its caller has the timeout"},
	"(retryqueue.Delivery).Handle": {"neverstops": "it makes one attempt", "nested": "it makes one attempt", "compared": "its error is settle's", "harness": "it does not wait"},
	"retryhttp.Once": {
		"freshstate": "it uses neither budget nor guards", "errorignored": "its error is that of the run around it", "neverstops": "it makes one attempt",
		"nested": "it makes one attempt", "compared": "its error is not a run's",
	},
	"retrybatch.Do":        {"severalcalls": "a call for each item"},
	"retrybatch.Run":       {"severalcalls": "a call for each item"},
	"(retry.Policy).Admit": {"neverstops": "it makes one attempt", "nested": "it makes one attempt", "compared": "its error is a guard's"},
	"retrysql.Tx":          {"severalcalls": "a transaction is undone as a whole"},
	"retrysql.TxOf":        {"severalcalls": "a transaction is undone as a whole"},
}

// TestWholeAPI makes a wrong call of each exported function and a wrong literal of each type
// of the library, found in their declarations. So a new one needs no change of a check, or
// this test says which check does not know it.
func TestWholeAPI(t *testing.T) {
	if out, err := exec.Command("go", "env", "GOWORK").Output(); err != nil || len(bytes.TrimSpace(out)) < len("off1") {
		t.Skip("needs the workspace, which has all modules of the library")
	}
	s := &sample{t: t, imports: map[string]string{}}
	s.line("var fresh = retry.Policy{Budget: &budget.Token{}}")
	for _, pkg := range library(t) {
		scope := pkg.Types.Scope()
		for _, name := range scope.Names() {
			switch obj := scope.Lookup(name).(type) {
			case *types.Func:
				s.function(obj)
			case *types.TypeName:
				s.named(obj)
			}
		}
	}
	for name := range unlike {
		if !slices.Contains(s.takers, name) {
			t.Errorf("%s takes no policy, or is gone: delete it from the list", name)
		}
	}
	if len(s.takers) < 15 || len(s.kinds) < 10 {
		t.Errorf("found only %q and %q", s.takers, s.kinds)
	}
	s.check()
}

// library returns the packages that users import.
func library(t *testing.T) (pkgs []*packages.Package) {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Path}} {{.Dir}}").Output()
	if err != nil {
		t.Fatal(err)
	}
	var patterns []string
	for line := range strings.Lines(string(out)) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		folder, _, _ := strings.Cut(strings.TrimPrefix(path, code.RetryPath+"/"), "/")
		switch folder {
		case "bench", "examples", "servertest", "dashboards", "tools", "retryvet", "retrysim": // not to be imported
		default:
			patterns = append(patterns, dir+"/...")
		}
	}
	all, err := packages.Load(&packages.Config{Mode: packages.LoadTypes}, patterns...)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(p *packages.Package) bool { return p.Name == "main" || strings.Contains(p.PkgPath, "/internal/") })
}

// A finding is what a check should say of a line, or should not.
type finding struct {
	line        int
	check, what string
	report      bool
}

// A sample is a file of wrong code that is made from the API.
type sample struct {
	t       *testing.T
	text    bytes.Buffer
	lines   int
	want    []finding
	imports map[string]string // names of packages, by path
	takers  []string          // functions that take a policy
	kinds   []string          // types that have a state
}

func (s *sample) line(format string, args ...any) int {
	fmt.Fprintf(&s.text, format+"\n", args...)
	s.lines++
	return s.lines
}

// wrong adds a line that a check must report, unless what is unlike others.
func (s *sample) wrong(check, what, format string, args ...any) {
	n := s.line(format, args...)
	s.want = append(s.want, finding{n, check, what, unlike[what][check] == ""})
}

// typ returns the text of a type, and imports what it needs. Type parameters are ints, or
// what they must have.
func (s *sample) typ(t types.Type) string {
	return types.TypeString(instance(t), func(pkg *types.Package) string {
		s.imports[pkg.Path()] = pkg.Name()
		return pkg.Name()
	})
}

// instance returns t with *http.Response, or its own constraint, for a type parameter.
func instance(t types.Type) types.Type {
	switch t := t.(type) {
	case *types.TypeParam:
		if c := t.Constraint().Underlying().(*types.Interface); c.NumMethods() > 0 {
			return t.Constraint()
		}
		return response
	case *types.Pointer:
		return types.NewPointer(instance(t.Elem()))
	case *types.Slice:
		return types.NewSlice(instance(t.Elem()))
	case *types.Map:
		return types.NewMap(instance(t.Key()), instance(t.Elem()))
	case *types.Signature:
		return types.NewSignatureType(nil, nil, nil, tuple(t.Params()), tuple(t.Results()), t.Variadic())
	case *types.Named:
		if args := t.TypeArgs(); args.Len() > 0 || t.TypeParams().Len() > 0 {
			var all []types.Type
			for i := range t.TypeParams().Len() {
				arg := types.Type(t.TypeParams().At(i))
				if args.Len() > 0 {
					arg = args.At(i)
				}
				all = append(all, instance(arg))
			}
			made, _ := types.Instantiate(nil, t.Origin(), all, false)
			return made
		}
	}
	return t
}

func tuple(of *types.Tuple) *types.Tuple {
	var all []*types.Var
	for v := range of.Variables() {
		all = append(all, types.NewVar(0, nil, "", instance(v.Type())))
	}
	return types.NewTuple(all...)
}

// response is *http.Response: nobody may return it when its context has ended.
var response = types.NewPointer(types.NewNamed(types.NewTypeName(0, types.NewPackage("net/http", "http"), "Response", nil), types.NewStruct(nil, nil), nil))

// A call is how to call a function, but for some of its arguments.
type call struct {
	head string // the function, for a method with its receiver
	args []string
	decl string // what the arguments are
}

func (c call) with(i int, arg string) call {
	if i < 0 { // the receiver
		return call{arg + c.head[strings.LastIndex(c.head, "."):], c.args, c.decl}
	}
	c.args = slices.Clone(c.args)
	c.args[i] = arg
	return c
}

func (c call) String() string { return c.head + "(" + strings.Join(c.args, ", ") + ")" }

// function writes wrong calls of f.
func (s *sample) function(f *types.Func) {
	if !f.Exported() || f.Pkg().Path() == code.RetryTestPath {
		return
	}
	sig := f.Signature()
	name := f.Pkg().Name() + "." + f.Name()
	c := call{head: name}
	var decl []string
	policy, ctx := -2, -1
	var ops []int
	if recv := sig.Recv(); recv != nil {
		name = "(" + s.typ(recv.Type()) + ")." + f.Name()
		c.head = "it." + f.Name()
		decl = append(decl, "it "+s.typ(recv.Type()))
		if code.IsPolicy(recv.Type()) {
			policy = -1
		}
	}
	s.imports[f.Pkg().Path()] = f.Pkg().Name()
	if sig.TypeParams().Len() > 0 {
		var args []string
		for p := range sig.TypeParams().TypeParams() {
			args = append(args, s.typ(p))
		}
		c.head += "[" + strings.Join(args, ", ") + "]"
	}
	for i := range sig.Params().Len() {
		t := sig.Params().At(i).Type()
		arg := fmt.Sprint("a", i)
		if sig.Variadic() && i == sig.Params().Len()-1 {
			arg += "..."
			decl = append(decl, fmt.Sprintf("a%d %s", i, s.typ(t)))
		} else {
			decl = append(decl, arg+" "+s.typ(t))
		}
		c.args = append(c.args, arg)
		switch op, isFunc := t.Underlying().(*types.Signature); {
		case code.IsPolicy(t):
			policy = i
		case code.IsContext(t):
			ctx = i
		case isFunc && op.Params().Len() > 0 && code.IsContext(op.Params().At(0).Type()) && sig.Params().At(i).Name() != "settle":
			ops = append(ops, i)
		}
	}
	c.decl = strings.Join(decl, ", ")

	for i := range sig.Params().Len() {
		p := sig.Params().At(i)
		if code.IsNamed(p.Type(), "time", "Duration") {
			s.in(c, func() { s.wrong("nanoseconds", name, "%v", c.with(i, "5")) })
		}
		if given, ok := s.givenState(p.Type()); ok {
			s.in(c, func() { s.wrong("freshstate", name, "%v", c.with(i, given)) })
		}
	}
	if sig.Recv() == nil && sig.Params().Len() > 0 && sig.Results().Len() == 1 && code.IsError(sig.Params().At(0).Type()) && code.IsError(sig.Results().At(0).Type()) {
		s.in(c, func() { s.wrong("nilmark", name, "_ = %v", c.with(0, "nil")) })
		s.in(c, func() { s.wrong("lostmark", name, `_ = fmt.Errorf("%%v", %v)`, c) })
	}
	if policy == -1 && ctx < 0 && (sig.Results().Len() != 1 || !isPointer(sig.Results().At(0).Type())) || policy == -2 {
		return // it tells something of a policy
	}
	s.takers = append(s.takers, name)
	s.run(f, name, c, policy, ctx, ops)
}

// run writes wrong calls of a function that takes a policy.
func (s *sample) run(f *types.Func, name string, c call, policy, ctx int, ops []int) {
	sig := f.Signature()
	n := sig.Results().Len()
	blanks := strings.TrimSuffix(strings.Repeat("_, ", n), ", ") + " = "
	returnsError := n > 0 && code.IsError(sig.Results().At(n-1).Type())

	s.in(c, func() {
		s.wrong("freshstate", name, "%s%v", blanks, c.with(policy, "retry.Policy{Budget: &budget.Token{}}"))
	})
	s.in(c, func() {
		s.wrong("freshstate", name, "%s%v", blanks, c.with(policy, "retry.Policy{Guards: []retry.Guard{&limit.Limit{}}}"))
	})
	for i := range sig.Params().Len() {
		if pointer, ok := sig.Params().At(i).Type().(*types.Pointer); ok && code.IsOurs(pointer.Elem()) && code.HoldsState(pointer.Elem()) { // a failover.Set has none: its targets have
			s.in(c, func() { s.wrong("freshstate", name, "%s%v", blanks, c.with(i, "&"+s.typ(pointer.Elem())+"{}")) })
		}
	}
	if returnsError {
		s.in(c, func() { s.wrong("errorignored", name, "%v", c) })
	}
	if ctx >= 0 {
		s.in(c, func() {
			s.line("p := retry.Policy{}")
			s.line("h := retrytest.New(nil, p)")
			s.wrong("harness", name, "%s%v", blanks, c.with(policy, "p"))
			s.line("_ = h")
		})
	}
	if ctx >= 0 && returnsError {
		s.in(c, func() {
			s.wrong("neverstops", name, "%s%v", blanks, c.with(policy, "retry.Policy{MaxAttempts: -1}").with(ctx, "context.Background()"))
		})
		s.in(c, func() {
			s.line("_ = retry.Run(a%d, retry.Policy{}, func(context.Context) error {", ctx)
			s.wrong("nested", name, "%s%v", blanks, c)
			s.line("return nil })")
		})
		s.in(c, func() {
			s.line("%serr := %v", strings.Repeat("_, ", n-1), c)
			s.wrong("compared", name, "_ = err == io.EOF")
		})
	}
	for _, i := range ops {
		op := s.literal(sig.Params().At(i).Type().Underlying().(*types.Signature))
		in := func(check, before, policyText string, lines ...string) {
			s.in(c, func() {
				made := c.with(i, op+" {\n")
				if policyText != "" {
					made = made.with(policy, policyText)
				}
				head, tail, _ := strings.Cut(made.String(), "\n")
				s.line("%s%s", blanks, head)
				if before != "" {
					s.line("%s", before)
				}
				for _, line := range lines {
					s.wrong(check, name, "%s", line)
				}
				s.line("panic(0) }%s", tail)
			})
		}
		in("outerctx", "", "", fmt.Sprintf("_ = charge(a%d)", ctx))
		in("sleepinop", "", "", "time.Sleep(time.Second)")
		in("nested", "", "retry.Policy{MaxAttempts: 2}", "_ = retry.Run(c0, retry.Policy{}, charge)")
		in("severalcalls", "_ = charge(c0)", "retry.Policy{NonIdempotent: true, Classify: retry.DefaultClassifier}", "_ = charge(c0)")
	}
	if len(ops) > 0 && n == 2 && isTypeParam(sig.Results().At(0).Type()) {
		s.in(c, func() {
			s.wrong("timeoutbody", name, "%s%v", blanks, c.with(policy, "retry.Policy{AttemptTimeout: 1e9}"))
		})
	}
}

// literal returns the head of a literal whose parameters are c0, the context, c1 and so on.
func (s *sample) literal(sig *types.Signature) string {
	var params []string
	for i := range sig.Params().Len() {
		params = append(params, fmt.Sprintf("c%d %s", i, s.typ(sig.Params().At(i).Type())))
	}
	return "func(" + strings.Join(params, ", ") + ")" + strings.TrimPrefix(s.typ(types.NewSignatureType(nil, nil, nil, nil, sig.Results(), false)), "func()")
}

func isPointer(t types.Type) bool   { _, ok := t.(*types.Pointer); return ok }
func isTypeParam(t types.Type) bool { _, ok := t.(*types.TypeParam); return ok }

// in writes a function that has what a call needs.
func (s *sample) in(c call, body func()) {
	s.line("func _(%s) {", c.decl)
	body()
	s.line("}")
}

// givenState returns a function for a field or parameter of type t that returns a new state
// each time, if it is one that this library calls for each call.
func (s *sample) givenState(t types.Type) (text string, ok bool) {
	sig, isFunc := t.Underlying().(*types.Signature)
	if !isFunc || sig.Results().Len() != 1 {
		return "", false
	}
	head := s.typ(instance(sig))
	switch result := sig.Results().At(0).Type(); {
	case code.IsPolicy(result):
		return head + " { return retry.Policy{Budget: &budget.Token{}} }", true
	case code.IsNamed(result, code.RetryPath, "Budget"):
		return head + " { return &budget.Token{} }", true
	case s.typ(result) == "[]retry.Guard":
		return head + " { return []retry.Guard{&limit.Limit{}} }", true
	case isPointer(result) && code.IsOurs(result.(*types.Pointer).Elem()):
		return head + " { return &" + s.typ(result.(*types.Pointer).Elem()) + "{} }", true
	}
	return "", false
}

// named writes wrong literals of a type, and wrong calls of its methods.
func (s *sample) named(obj *types.TypeName) {
	named, ok := obj.Type().(*types.Named)
	if !ok || !obj.Exported() || obj.Pkg().Path() == code.RetryTestPath {
		return
	}
	for m := range named.Methods() {
		if m.Exported() {
			s.function(m)
		}
	}
	str, ok := named.Underlying().(*types.Struct)
	if !ok {
		return
	}
	text := s.typ(named)
	for f := range str.Fields() {
		if !f.Exported() {
			continue
		}
		if policy, _, _ := types.LookupFieldOrMethod(named, false, nil, "Policy"); policy != nil && code.IsHandler(f.Type()) {
			head := s.literal(f.Type().Underlying().(*types.Signature))
			s.wrong("outerctx", text+"."+f.Name(), "func _(ctx context.Context) { _ = %s{%s: %s { return charge(ctx) }} }", text, f.Name(), head)
			s.kinds = append(s.kinds, text+"."+f.Name())
		}
		if code.IsNamed(f.Type(), "time", "Duration") {
			s.wrong("nanoseconds", text+"."+f.Name(), "var _ = %s{%s: 5}", text, f.Name())
		}
		if given, ok := s.givenState(f.Type()); ok {
			s.wrong("freshstate", text+"."+f.Name(), "var _ = %s{%s: %s}", text, f.Name(), given)
		}
	}
	if !code.HoldsState(named) {
		return
	}
	s.kinds = append(s.kinds, text)
	s.wrong("copied", text, "func _(it *%s) { var copied = *it; _ = &copied }", text)
	pointer := types.NewPointer(instance(named))
	for field, name := range map[string]string{"Budget: ": "Withdraw", "Guards: []retry.Guard": "Enter"} {
		if obj, _, _ := types.LookupFieldOrMethod(pointer, false, nil, name); obj != nil {
			made := "&" + text + "{}"
			if name == "Enter" {
				made = "{" + made + "}"
			}
			s.wrong("freshstate", text, "func _(ctx context.Context) { _ = retry.Run(ctx, retry.Policy{%s%s}, charge) }", field, made)
		}
	}
}

// check looks at the sample with the analyzer.
func (s *sample) check() {
	t := s.t
	for _, path := range []string{code.RetryPath, code.RetryPath + "/budget", code.LimitPath, code.RetryTestPath, "context", "fmt", "io", "time"} {
		s.imports[path] = path[strings.LastIndex(path, "/")+1:]
	}
	var head bytes.Buffer
	head.WriteString("package sample\n\nimport (\n")
	for path, name := range s.imports {
		if bytes.Contains(s.text.Bytes(), []byte(name+".")) {
			fmt.Fprintf(&head, "%q\n", path)
		}
	}
	head.WriteString(")\n\nfunc charge(context.Context) error { return nil }\n\n")
	above := bytes.Count(head.Bytes(), []byte("\n"))
	file, err := filepath.Abs("internal/sample/sample.go") // which only this overlay has
	if err != nil {
		t.Fatal(err)
	}
	text := append(head.Bytes(), s.text.Bytes()...)
	pkgs, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax, Overlay: map[string][]byte{file: text}}, "./internal/sample")
	if err != nil {
		t.Fatal(err)
	}
	if packages.PrintErrors(pkgs) > 0 {
		os.WriteFile(filepath.Join(os.TempDir(), "sample.go"), text, 0o600)
		t.Fatalf("the sample does not compile: %s", filepath.Join(os.TempDir(), "sample.go"))
	}
	graph, err := checker.Analyze([]*analysis.Analyzer{retryvet.Analyzer}, pkgs, nil)
	if err != nil {
		t.Fatal(err)
	}
	found := map[int]map[string]bool{}
	for _, action := range graph.Roots {
		for _, d := range action.Diagnostics {
			n := pkgs[0].Fset.Position(d.Pos).Line - above
			if found[n] == nil {
				found[n] = map[string]bool{}
			}
			found[n][d.Category] = true
		}
	}
	lines := strings.Split(s.text.String(), "\n")
	for _, w := range s.want {
		switch {
		case w.report && !found[w.line][w.check]:
			t.Errorf("%s: %s does not report\n\t%s\nteach it, or say why not in this test", w.what, w.check, lines[w.line-1])
		case !w.report && found[w.line][w.check]:
			t.Errorf("%s: %s reports\n\t%s\nthough %s", w.what, w.check, lines[w.line-1], unlike[w.what][w.check])
		}
	}
	t.Logf("%d lines; %d functions take a policy: %s; %d types have a state: %s", len(s.want), len(s.takers), strings.Join(s.takers, ", "), len(s.kinds), strings.Join(s.kinds, ", "))
}
