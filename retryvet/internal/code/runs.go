package code

import (
	"go/ast"
	"go/types"
	"strings"

	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"
)

// The paths of this project's packages that a check names.
const (
	RetryPath      = "github.com/goretry/retry"
	RetryHTTPPath  = RetryPath + "/retryhttp"
	RetryTestPath  = RetryPath + "/retrytest"
	RetrySQLPath   = RetryPath + "/retrysql"
	RetryBatchPath = RetryPath + "/retrybatch"
	QueuePath      = RetryPath + "/retryqueue"
	HedgePath      = RetryPath + "/hedge"
	LimitPath      = RetryPath + "/limit"
	PacePath       = RetryPath + "/pace"
	FailoverPath   = RetryPath + "/failover"
)

// Ours reports whether path is that of a package of this project.
func Ours(path string) bool {
	return path == RetryPath || strings.HasPrefix(path, RetryPath+"/")
}

// A Run is a call that is given a policy, or that begins a run of the policy whose method
// it calls. Which functions these are is read from their signatures, so it needs no list.
type Run struct {
	Cursor inspector.Cursor
	Call   *ast.CallExpr
	Func   *types.Func
	Ctx    ast.Expr // nil if it gets none
	Policy ast.Expr
	Ops    []ast.Expr // functions of a context, which the attempts call
}

// Runs returns the calls that run a policy, in the order of the source.
func (p *Package) Runs() []Run {
	if p.scanned {
		return p.runs
	}
	p.scanned = true
	for c := range p.Root.Preorder((*ast.CallExpr)(nil)) {
		if r, ok := p.runAt(c); ok {
			p.runs = append(p.runs, r)
		}
	}
	return p.runs
}

// runAt returns the run that the call at c is.
func (p *Package) runAt(c inspector.Cursor) (Run, bool) {
	r := Run{Cursor: c, Call: c.Node().(*ast.CallExpr)}
	f, ok := typeutil.Callee(p.TypesInfo, r.Call).(*types.Func)
	if !ok || !TakesPolicy(f) {
		return r, false
	}
	r.Func = f
	if sel, ok := ast.Unparen(r.Call.Fun).(*ast.SelectorExpr); ok && f.Signature().Recv() != nil {
		if p.TypesInfo.Selections[sel].Kind() != types.MethodVal {
			return r, false // retry.Policy.Attempts(p, ctx) is nobody's
		}
		if IsPolicy(f.Signature().Recv().Type()) {
			r.Policy = sel.X
		}
	}
	params := f.Signature().Params()
	for i, arg := range r.Call.Args {
		if i >= params.Len() {
			break
		}
		switch t := params.At(i).Type(); {
		case IsContext(t):
			r.Ctx = arg
		case IsPolicy(t):
			r.Policy = arg
		case isOp(t) && params.At(i).Name() != settles:
			r.Ops = append(r.Ops, arg)
		}
	}
	return r, r.Policy != nil
}

// settles is the parameter of a function of a context that no attempt calls: Delivery.Handle
// calls it after the attempt.
const settles = "settle"

// isOp reports whether t is a function of a context, and maybe of more.
func isOp(t types.Type) bool {
	f, ok := t.Underlying().(*types.Signature)
	return ok && f.Params().Len() > 0 && IsContext(f.Params().At(0).Type())
}

// IsHandler reports whether t is a function of a context and a message, say, that can only fail.
// It gets nothing of what a run has come to.
func IsHandler(t types.Type) bool {
	f, ok := t.Underlying().(*types.Signature)
	if !ok || !isOp(f) || f.Results().Len() != 1 || !IsError(f.Results().At(0).Type()) {
		return false
	}
	for param := range f.Params().Variables() {
		if IsNamed(Deref(param.Type()), RetryPath, "Error") {
			return false
		}
	}
	return true
}

// IsPolicy reports whether t is a retry.Policy.
func IsPolicy(t types.Type) bool { return IsNamed(t, RetryPath, "Policy") }

// TakesPolicy reports whether f is a function of this project that is given a policy to use
// it: as a parameter, or as the receiver of a method that begins a run. Such a method gets a
// context, or returns what goes on, a *Loop say. Others only tell something of the policy. A
// harness for tests hands the policy on, and retryhttp.Once makes an attempt of a run around it.
func TakesPolicy(f *types.Func) bool {
	if f.Pkg() == nil || !Ours(f.Pkg().Path()) || f.Pkg().Path() == RetryTestPath || !f.Exported() || f.Pkg().Path() == RetryHTTPPath && f.Name() == "Once" {
		return false
	}
	sig := f.Signature()
	begins := false
	for v := range sig.Params().Variables() {
		if IsPolicy(v.Type()) {
			return true
		}
		begins = begins || IsContext(v.Type())
	}
	for v := range sig.Results().Variables() {
		_, pointer := types.Unalias(v.Type()).(*types.Pointer)
		begins = begins || pointer
	}
	return begins && sig.Recv() != nil && IsPolicy(sig.Recv().Type())
}

// Name returns the name of the function with that of its package: retry.Do.
func (r Run) Name() string { return r.Func.Pkg().Name() + "." + r.Func.Name() }

// Op returns what an attempt calls, the last one if there are several. It is nil if the call
// has its own operation, such as a request.
func (r Run) Op() ast.Expr {
	if len(r.Ops) == 0 {
		return nil
	}
	return r.Ops[len(r.Ops)-1]
}

// ReturnsError reports whether the last result of the call is an error.
func (r Run) ReturnsError() bool {
	results := r.Func.Signature().Results()
	return results.Len() > 0 && IsError(results.At(results.Len()-1).Type())
}

// Whole reports whether the call makes all attempts of a run, and returns its error. A method
// makes a part of one, and hedge.Race a single attempt.
func (r Run) Whole() bool {
	return r.Ctx != nil && r.ReturnsError() && r.Func.Signature().Recv() == nil && r.Func.Name() != "Race"
}

// Supervises reports whether the call repeats its operation for ever, and is meant to.
func (r Run) Supervises() bool { return r.Func.Name() == "Supervise" }

// OpLiteral returns the literal that is run as the operation e, or nil.
func (p *Package) OpLiteral(e ast.Expr) *ast.FuncLit {
	e = p.Value(e)
	if p.IsCall(e, RetryPath, "Until") {
		return p.OpLiteral(e.(*ast.CallExpr).Args[0])
	}
	lit, _ := e.(*ast.FuncLit)
	return lit
}

// Endless reports whether a context is known never to end.
func (p *Package) Endless(ctx ast.Expr) bool {
	return p.IsCall(p.Value(ctx), "context", "Background", "TODO")
}
