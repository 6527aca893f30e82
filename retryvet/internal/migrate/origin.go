package migrate

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/types"
	"slices"

	"github.com/goretry/retry/retryvet/internal/code"
)

// This file notes where the policy of a call comes from: calls may share it.

func (o *origin) add(obj types.Object) {
	if !slices.Contains(o.objects, obj) {
		o.objects = append(o.objects, obj)
	}
}

// sets notes that the call itself uses a function of the library.
func (o *origin) sets(lib *library, name string) {
	o.own = o.own || !slices.Contains(lib.aside, name)
}

// option notes where an option of a call comes from. Since the variables before, others
// are read.
func (o *origin) option(c *foreignCall, option ast.Expr, made *ast.CallExpr, name string, before int) {
	v := c.Variable(option)
	if c.elsewhere(made) {
		for _, read := range o.reads[before:] {
			if read.Exported() || c.Changes(read) {
				o.early = read
			}
		}
	}
	switch {
	case v != nil && v.Parent() == c.Pkg.Scope():
		o.options = append(o.options, v)
		if !slices.Contains(c.lib.aside, name) {
			o.add(v)
		}
	case c.elsewhere(made): // an element of a slice of the package
	default:
		o.sets(c.lib, name)
	}
}

// helper notes the function that makes the backoff, and what it is given.
func (o *origin) helper(c *foreignCall, f *types.Func, args []ast.Expr) {
	o.add(f)
	for _, arg := range args {
		switch {
		case c.isConstant(arg):
			_, isLiteral := ast.Unparen(arg).(*ast.BasicLit)
			o.named = o.named || !isLiteral
			o.args += c.TypesInfo.Types[arg].Value.ExactString() + ","
		case !code.IsContext(c.TypesInfo.TypeOf(arg)):
			o.local = true
		}
	}
}

// key tells origins apart. It is "" if the policy belongs to the call alone.
func (o *origin) key() string {
	if o.own || o.local || len(o.objects) == 0 {
		return ""
	}
	slices.SortFunc(o.objects, func(a, b types.Object) int { return cmp.Compare(a.Pos(), b.Pos()) })
	return fmt.Sprint(o.objects, o.args)
}

// isHelper reports whether the policy is made whenever it is needed. That of options is
// made when the program begins.
func (o *origin) isHelper() bool {
	_, ok := o.objects[0].(*types.Func)
	return ok
}
