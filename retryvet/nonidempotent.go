package retryvet

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/types"
	"regexp"
	"strings"

	"golang.org/x/tools/go/cfg"
	"golang.org/x/tools/go/types/typeutil"

	"github.com/goretry/retry/retryvet/internal/code"
)

// severalcalls finds operations that make more than one call under a NonIdempotent policy
// with a Classify. What Classify says of the last error is proof that the operation did
// nothing, and it knows nothing of the calls before. Without a Classify the proof is a
// mark of the operation's own. A transaction is undone as a whole, and a batch makes calls for
// its items. Tests make such operations to see what happens.
func severalcalls(p *pass) {
	for r, op := range p.operations() {
		path := r.Func.Pkg().Path()
		if path == code.RetrySQLPath || path == code.RetryBatchPath || r.Supervises() || p.InTest(op) || !p.takesErrorsForProof(r.Policy) {
			continue
		}
		if first, second := p.twoCalls(op.Body); second != nil {
			p.report(second, fmt.Sprintf("this operation has called %s before, and its policy is NonIdempotent: Classify takes an error of this call as proof that both did nothing. "+
				"Make one call in each run, or let the operation return retry.Undone instead of setting Classify", types.ExprString(first.Fun)))
		}
	}
}

// takesErrorsForProof reports whether a policy is known to be NonIdempotent and to have a
// Classify.
func (p *pass) takesErrorsForProof(policy ast.Expr) bool {
	lit := p.policyLiteral(policy)
	if lit == nil {
		return false
	}
	flag, classify := code.Field(lit, "NonIdempotent"), code.Field(lit, "Classify")
	if flag == nil || classify == nil || p.IsNil(classify) {
		return false
	}
	v := p.TypesInfo.Types[flag].Value
	return v != nil && constant.BoolVal(v)
}

// twoCalls returns two calls that one way through body makes, and that may do something,
// nil and nil if there are none.
func (p *pass) twoCalls(body *ast.BlockStmt) (first, second *ast.CallExpr) {
	for _, from := range p.flow(body).Blocks {
		calls := p.effects(from)
		if len(calls) == 0 {
			continue
		}
		if len(calls) > 1 {
			return calls[0], calls[1]
		}
		seen := map[*cfg.Block]bool{}
		var follow func(*cfg.Block)
		follow = func(b *cfg.Block) {
			if seen[b] || second != nil {
				return
			}
			seen[b] = true
			if more := p.effects(b); len(more) > 0 {
				first, second = calls[0], more[0]
				return
			}
			for _, next := range b.Succs {
				follow(next)
			}
		}
		for _, next := range from.Succs {
			follow(next)
		}
		if second != nil {
			return first, second
		}
	}
	return nil, nil
}

// effects returns the calls in b that may do something.
func (p *pass) effects(b *cfg.Block) (calls []*ast.CallExpr) {
	for _, n := range b.Nodes {
		callsIn(n, func(call *ast.CallExpr) {
			if p.mayDo(call) {
				calls = append(calls, call)
			}
		})
	}
	return calls
}

// readers matches the names of functions that change nothing that a retry would change
// again: they read, wait, prepare or tell.
var readers = regexp.MustCompile(`^(?i:get|list|find|load|look|lookup|read|retrieve|query|select|fetch|head|describe|check|verify|validate|is|has|can|count|stat|search|resolve|watch|` +
	`wait|acquire|lock|rlock|try|ping|token|authenticate|authorize|new|make|build|parse|open|dial|connect|begin|rollback|close|with|log|debug|info|warn|error|trace|start|render|encode|decode|sleep)(?:[A-Z0-9_].*)?$`)

// mayDo reports whether a call takes a context, returns an error and has no name of a
// function that changes nothing. What a transaction does counts when it is committed.
func (p *pass) mayDo(call *ast.CallExpr) bool {
	sig, ok := p.TypesInfo.TypeOf(call.Fun).(*types.Signature)
	if !ok || sig.Params().Len() == 0 || !code.IsContext(sig.Params().At(0).Type()) {
		return false
	}
	if n := sig.Results().Len(); n == 0 || !code.IsError(sig.Results().At(n-1).Type()) {
		return false
	}
	callee := typeutil.Callee(p.TypesInfo, call)
	if callee == nil {
		return false // a conversion, or a function that has no name
	}
	f, ok := callee.(*types.Func)
	return !readers.MatchString(callee.Name()) && !(ok && ofTransaction(f))
}

// ofTransaction reports whether f is a method of a type such as sql.Tx, but for Commit.
func ofTransaction(f *types.Func) bool {
	recv := f.Signature().Recv()
	if recv == nil || f.Name() == "Commit" {
		return false
	}
	t := types.Unalias(recv.Type())
	if pointer, ok := t.(*types.Pointer); ok {
		t = types.Unalias(pointer.Elem())
	}
	named, ok := t.(*types.Named)
	return ok && strings.HasSuffix(named.Obj().Name(), "Tx")
}
