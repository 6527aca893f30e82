package retryvet

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"iter"

	"github.com/goretry/retry/retryvet/internal/code"
)

// operations are the literals that attempts call, each with its run.
func (p *pass) operations() iter.Seq2[code.Run, *ast.FuncLit] {
	return func(yield func(code.Run, *ast.FuncLit) bool) {
		for _, r := range p.Runs() {
			for _, op := range r.Ops {
				if lit := p.OpLiteral(op); lit != nil && !yield(r, lit) {
					return
				}
			}
		}
	}
}

// attempts are the literals of operations, and of the fields beside a Policy that each attempt
// calls, such as Handler.Handle. With each is the context of its run, nil if that is not known.
func (p *pass) attempts() iter.Seq2[ast.Expr, *ast.FuncLit] {
	return func(yield func(ast.Expr, *ast.FuncLit) bool) {
		for r, op := range p.operations() {
			if !yield(r.Ctx, op) {
				return
			}
		}
		for c := range p.Root.Preorder((*ast.KeyValueExpr)(nil)) {
			kv := c.Node().(*ast.KeyValueExpr)
			lit, ok := c.Parent().Node().(*ast.CompositeLit)
			if !ok || !hasPolicy(p.TypesInfo.TypeOf(lit)) {
				continue
			}
			field, _ := kv.Key.(*ast.Ident)
			if op := p.OpLiteral(kv.Value); op != nil && field != nil && code.IsHandler(p.TypesInfo.TypeOf(field)) && !yield(nil, op) {
				return
			}
		}
	}
}

// hasPolicy reports whether t is a struct of this project with a policy for its funcs.
func hasPolicy(t types.Type) bool {
	field, _, _ := types.LookupFieldOrMethod(t, false, nil, "Policy")
	return code.IsOurs(t) && field != nil && code.IsPolicy(field.Type())
}

// outerctx finds operations that use the context around them. The attempt's own
// context carries its timeout, its number and its span.
func outerctx(p *pass) {
	told := map[token.Pos]bool{}
	for runCtx, op := range p.attempts() {
		if p.opens(op) {
			continue // the response lasts as long as the caller, and so does its request
		}
		outer := func(e ast.Expr) *types.Var {
			v := p.Variable(e)
			if v == nil || !code.IsContext(v.Type()) || op.Pos() <= v.Pos() && v.Pos() < op.End() {
				return nil
			}
			if v.Kind() == types.ParamVar || v.Kind() == types.LocalVar && v == p.Variable(runCtx) {
				return v
			}
			return nil
		}
		flag := func(e ast.Expr) {
			if v := outer(e); v != nil && !told[e.Pos()] {
				told[e.Pos()] = true
				p.report(e, fmt.Sprintf("the operation uses %s from outside instead of the attempt's context: name the operation's parameter %s", v.Name(), v.Name()))
			}
		}
		ast.Inspect(op.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.DeferStmt:
				return false // it cleans up when the attempt's context may have ended
			case *ast.CallExpr:
				if p.IsCall(n, code.RetryPath, "AttemptNumber") {
					break // it asks about the run around this one
				}
				for _, arg := range n.Args {
					flag(arg)
				}
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Done" {
					flag(sel.X)
				}
			}
			return true
		})
	}
}

// sleepinop finds operations that sleep: the policy waits between attempts. In
// tests a sleep stands for work.
func sleepinop(p *pass) {
	for _, op := range p.attempts() {
		if p.InTest(op) {
			continue
		}
		ast.Inspect(op.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncLit:
				return false
			case *ast.CallExpr:
				if p.IsCall(n, "time", "Sleep") {
					p.report(n, "the operation sleeps, which no context ends and no hook sees: return the error and let the policy's Backoff wait")
				}
			}
			return true
		})
	}
}

// nested finds retries around retries. Tests nest them to see what happens.
func nested(p *pass) {
	for outer, op := range p.operations() {
		if !repeats(outer) || p.InTest(op) || !p.multiplies(outer.Policy) {
			continue
		}
		ast.Inspect(op.Body, func(n ast.Node) bool {
			if _, ok := n.(*ast.FuncLit); ok {
				return false // who knows when it runs
			}
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			for _, inner := range p.Runs() {
				if inner.Call == call && repeats(inner) && !joins(inner, outer) && p.mayRetry(inner.Policy) {
					p.report(call, "retries within retries multiply: let one of the two retry, or give the outer policy Classify: retry.AlreadyRetried")
				}
			}
			if p.usesRetryingClient(call) {
				p.report(call, "this client's retryhttp.Transport retries, and so does the run around it: use one of the two, or give the outer policy Classify: retry.AlreadyRetried")
			}
			return true
		})
	}
}

// repeats reports whether a run may repeat its operation, and is meant to end.
func repeats(r code.Run) bool { return r.Whole() && !r.Supervises() }

// joins reports whether inner leaves the retries to outer: a transaction within another.
func joins(inner, outer code.Run) bool {
	return inner.Func.Pkg().Path() == code.RetrySQLPath && outer.Func.Pkg() == inner.Func.Pkg()
}

// multiplies reports whether a policy is known to retry what an inner run gave up.
func (p *pass) multiplies(policy ast.Expr) bool {
	lit := p.policyLiteral(policy)
	return lit != nil && code.Field(lit, "Classify") == nil && p.mayRetry(policy) && code.Keyed(lit)
}

// mayRetry reports whether a policy is not known to make one attempt only.
func (p *pass) mayRetry(policy ast.Expr) bool {
	lit := p.policyLiteral(policy)
	if lit == nil {
		return true
	}
	n, known := p.Number(code.Field(lit, "MaxAttempts"))
	return !known || n != 1
}

// usesRetryingClient reports whether call is a method of an http.Client that has a
// retryhttp.Transport.
func (p *pass) usesRetryingClient(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || p.TypesInfo.Selections[sel] == nil {
		return false
	}
	client := p.Literal(p.Value(sel.X), "net/http", "Client")
	if client == nil {
		return false
	}
	transport := p.Literal(p.Value(code.Field(client, "Transport")), code.RetryHTTPPath, "Transport")
	if transport == nil {
		return false
	}
	policy := code.Field(transport, "Policy")
	return policy == nil || p.mayRetry(policy)
}

// timeoutbody finds values that need the context of the attempt they come from.
// Policy.AttemptTimeout ends that context when op returns, and package hedge when
// the race is over.
func timeoutbody(p *pass) {
	flag := func(call *ast.CallExpr, results *types.Tuple, op ast.Expr, what, instead string) {
		if results == nil || results.Len() != 2 || !holdsContext(results.At(0).Type()) {
			return
		}
		if lit := p.OpLiteral(op); lit != nil && (setsBody(lit) || p.opens(lit)) {
			return
		}
		p.report(call, fmt.Sprintf("%s ends the context of this %s as soon as the operation returns: %s",
			what, types.TypeString(results.At(0).Type(), types.RelativeTo(p.Pkg)), instead))
	}
	for _, r := range p.Runs() {
		results, _ := p.TypesInfo.TypeOf(r.Call).(*types.Tuple)
		switch {
		case len(r.Ops) == 0:
		case p.endsWithRace(r):
			what, instead := r.Name()+" without Hold", "read all of it within the operation, or set Hold"
			if r.Name() == "hedge.Do" {
				what, instead = "hedge.Do", "read all of it within the operation, or use hedge.DoValue with Hold"
			}
			flag(r.Call, results, r.Op(), what, instead)
		case r.Whole():
			lit := p.policyLiteral(r.Policy)
			if lit == nil {
				continue
			}
			timeout := code.Field(lit, "AttemptTimeout")
			if n, known := p.Number(timeout); timeout != nil && (!known || n > 0) {
				flag(r.Call, results, r.Op(), "AttemptTimeout", "read all of it within the operation")
			}
		}
	}
}

// endsWithRace reports whether r is a race of attempts whose contexts end with it. An
// operation that is no literal may give the value a context of its own.
func (p *pass) endsWithRace(r code.Run) bool {
	if r.Func.Pkg().Path() != code.HedgePath || p.OpLiteral(r.Op()) == nil {
		return false
	}
	for _, arg := range r.Call.Args {
		if code.IsNamed(p.TypesInfo.TypeOf(arg), code.HedgePath, "Value") {
			value := p.Literal(p.Value(arg), code.HedgePath, "Value")
			return value != nil && code.Keyed(value) && code.Field(value, "Hold") == nil
		}
	}
	return true
}

// holdsContext reports whether a value of type t is of no use after its context.
func holdsContext(t types.Type) bool {
	if code.IsNamed(t, "io", "ReadCloser") {
		return true
	}
	pointer, ok := types.Unalias(t).(*types.Pointer)
	if ok {
		t = pointer.Elem()
	}
	if code.IsNamed(t, "database/sql", "Rows") {
		return true
	}
	s, ok := t.Underlying().(*types.Struct)
	if !ok {
		return false
	}
	for f := range s.Fields() {
		if f.Name() == "Body" && code.IsNamed(f.Type(), "io", "ReadCloser") {
			return true
		}
	}
	return false
}

// opens reports whether op returns a response of retryhttp.Once, whose body outlives the attempt.
func (p *pass) opens(op *ast.FuncLit) bool {
	found := false
	ast.Inspect(op.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || !p.IsCall(call, code.RetryHTTPPath, "Once") {
			return !found
		}
		results, ok := p.TypesInfo.TypeOf(call).(*types.Tuple)
		found = found || ok && holdsContext(results.At(0).Type())
		return !found
	})
	return found
}

// setsBody reports whether op replaces a body: by what it has read, as a rule.
func setsBody(op *ast.FuncLit) bool {
	found := false
	ast.Inspect(op.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if sel, ok := left.(*ast.SelectorExpr); ok && sel.Sel.Name == "Body" {
					found = true
				}
			}
		case *ast.KeyValueExpr:
			if id, ok := n.Key.(*ast.Ident); ok && id.Name == "Body" {
				found = true
			}
		}
		return !found
	})
	return found
}
