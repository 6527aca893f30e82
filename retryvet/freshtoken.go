package retryvet

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"strings"

	"golang.org/x/tools/go/types/typeutil"

	"github.com/goretry/retry/retryvet/internal/code"
)

// A tokenClient puts a token into a write that has none, a new one for each call.
type tokenClient struct {
	input  *regexp.Regexp // of the path of the package that declares the inputs of calls
	fields []string       // of an input, for the token
	keeps  bool           // it puts the token into the caller's input, which keeps it
}

// tokenClients are those of clients.md whose inputs have a field for the token. The names of
// AWS's fields are those that its models call idempotency tokens in most operations with them.
var tokenClients = []tokenClient{
	{regexp.MustCompile(`^github\.com/stripe/stripe-go/v\d+$`), []string{"IdempotencyKey"}, false},
	{regexp.MustCompile(`^github\.com/aws/aws-sdk-go-v2/service/\w+$`), []string{"ClientRequestToken", "ClientToken", "IdempotencyToken"}, true},
}

// freshtoken finds operations that write by a client which makes a token for each call: of two
// attempts the server sees two writes.
func freshtoken(p *pass) {
	for r, op := range p.operations() {
		if r.Supervises() || p.InTest(op) || !p.repeatsWrites(r.Policy) {
			continue
		}
		callsIn(op.Body, func(call *ast.CallExpr) {
			if callee := typeutil.Callee(p.TypesInfo, call); callee == nil || !creates(callee.Name()) {
				return
			}
			for _, arg := range call.Args {
				if field := p.freshToken(op, arg); field != "" {
					p.report(call, fmt.Sprintf("each attempt makes this write with another token, so that it may happen twice: set %s outside of the operation, or NonIdempotent in the policy", field))
				}
			}
		})
	}
}

// creates reports whether a function with that name may do something twice. New is one in
// stripe-go, and what is deleted twice is gone.
func creates(name string) bool {
	return name == "New" || !readers.MatchString(name) && !strings.HasPrefix(name, "Del")
}

// repeatsWrites reports whether a policy is known, may retry, and is not NonIdempotent.
func (p *pass) repeatsWrites(policy ast.Expr) bool {
	lit := p.policyLiteral(policy)
	if lit == nil || !code.Keyed(lit) || !p.mayRetry(policy) {
		return false
	}
	once := code.Field(lit, "NonIdempotent")
	if once == nil {
		return true
	}
	v := p.TypesInfo.Types[once].Value
	return v != nil && !constant.BoolVal(v)
}

// freshToken returns the field in which input, an argument of a call in op, gets a new token for
// each attempt, or "". What is not made by a literal may have a token.
func (p *pass) freshToken(op *ast.FuncLit, input ast.Expr) (field string) {
	made := pointedAt(input)
	v := p.Variable(made)
	if v != nil && p.First(v) != nil {
		made = pointedAt(p.First(v))
	}
	lit, ok := made.(*ast.CompositeLit)
	if !ok || !code.Keyed(lit) {
		return ""
	}
	client, field := p.tokenOf(lit)
	if field == "" || client.keeps && !code.Within(lit, op) || setsToken(lit, field) || v != nil && p.setsTokenOf(v, field) {
		return ""
	}
	return field
}

// pointedAt returns what e is, or what it points to.
func pointedAt(e ast.Expr) ast.Expr {
	e = ast.Unparen(e)
	if u, ok := e.(*ast.UnaryExpr); ok && u.Op == token.AND {
		return ast.Unparen(u.X)
	}
	return e
}

// tokenOf returns the client that lit is an input for, and its field for a token; "" if it has
// none.
func (p *pass) tokenOf(lit *ast.CompositeLit) (client tokenClient, field string) {
	named, ok := types.Unalias(p.TypesInfo.TypeOf(lit)).(*types.Named)
	if !ok || named.Obj().Pkg() == nil {
		return client, ""
	}
	for _, c := range tokenClients {
		if !c.input.MatchString(named.Obj().Pkg().Path()) {
			continue
		}
		for _, name := range c.fields {
			if found, _, _ := types.LookupFieldOrMethod(named, true, named.Obj().Pkg(), name); found != nil {
				return c, name
			}
		}
	}
	return client, ""
}

// setsToken reports whether a literal sets a field, or one of a literal in it does so.
func setsToken(lit *ast.CompositeLit, field string) (sets bool) {
	ast.Inspect(lit, func(n ast.Node) bool {
		if kv, ok := n.(*ast.KeyValueExpr); ok {
			id, ok := kv.Key.(*ast.Ident)
			sets = sets || ok && id.Name == field
		}
		return !sets
	})
	return sets
}

// setsTokenOf reports whether the package names v's field, or the method that sets it.
func (p *pass) setsTokenOf(v *types.Var, field string) bool {
	for c := range p.Root.Preorder((*ast.SelectorExpr)(nil)) {
		sel := c.Node().(*ast.SelectorExpr)
		if p.RootVariable(sel) == v && (sel.Sel.Name == field || sel.Sel.Name == "Set"+field) {
			return true
		}
	}
	return false
}
