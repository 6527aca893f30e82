package migrate

import (
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goretry/retry/retryvet/internal/code"
)

// retryablehttp is hashicorp/go-retryablehttp. No call of it is rewritten: its client goes
// to code that knows its type. But the finding has the client that takes its place.
var retryablehttp = family{"github.com/hashicorp/go-retryablehttp", func(int) *library {
	return &library{
		title:   "hashicorp/go-retryablehttp",
		entries: []string{"NewClient", "Get", "Head", "Post", "PostForm"},
		clients: []string{"Client", "RoundTripper"},
		instead: "use an http.Client whose Transport is a retryhttp.Transport; what becomes of each field: " + retryablehttpTable,
		write:   writeRetryablehttp,
	}
}}

const retryablehttpTable = "https://github.com/goretry/retry/blob/main/examples/migrate/README.md#hashicorpgo-retryablehttp"

// writeRetryablehttp returns the client that takes the place of one that NewClient makes,
// and what is different about it.
func writeRetryablehttp(c *foreignCall) (stmt string, told []string) {
	name, set, other := c.clientFields()
	if set == nil {
		return "", nil
	}
	take := func(field string) ast.Expr {
		e := set[field]
		delete(set, field)
		return e
	}
	told = []string{"POST and PATCH are sent again only on proof that they did nothing, or with an idempotency key"}

	attempts := "5"
	if e := take("RetryMax"); e != nil {
		attempts = plusOne(types.ExprString(e))
		if n, ok := c.Number(e); ok {
			attempts = strconv.FormatInt(n+1, 10)
		}
	}
	first, longest := "time.Second", "30 * time.Second"
	if e := take("RetryWaitMin"); e != nil {
		first = types.ExprString(e)
	}
	if e := take("RetryWaitMax"); e != nil {
		longest = types.ExprString(e)
	}
	backoff := "retry.Exponential{Base: " + first + ", Max: " + longest + ", Jitter: retry.NoJitter}"
	if first == "0" {
		backoff = "retry.Constant(0)"
	}
	policy := "MaxAttempts: " + attempts + ",\nBackoff: " + backoff
	if e := take("HTTPClient.Timeout"); e != nil {
		policy += ",\nAttemptTimeout: " + types.ExprString(e)
	}

	base := ""
	if e := set["HTTPClient"]; e != nil && c.RootVariable(e) != nil {
		old := types.ExprString(take("HTTPClient"))
		base = "Base: " + old + ".Transport, "
		told = append(told, "the new client needs the other fields of "+old)
	}
	if e := take("HTTPClient.Transport"); e != nil {
		base = "Base: " + types.ExprString(e) + ", "
	}

	// These are as here if they are not set, or to what they are by default.
	if e := set["Logger"]; e != nil && c.IsNil(e) {
		take("Logger")
	}
	for field, usual := range map[string]string{"CheckRetry": "DefaultRetryPolicy", "Backoff": "DefaultBackoff"} {
		if e := set[field]; e != nil && c.libraryName(e) == usual {
			take(field)
		}
	}
	if e := set["ErrorHandler"]; e != nil && c.libraryName(e) == "PassthroughErrorHandler" {
		take("ErrorHandler")
	} else {
		told = append(told, "after the last attempt callers get its response: they got an error")
	}
	if other = slices.AppendSeq(other, maps.Keys(set)); len(other) > 0 {
		slices.Sort(other)
		told = append(told, "what becomes of "+strings.Join(slices.Compact(other), ", ")+": "+retryablehttpTable)
	}
	return name + " := &http.Client{Transport: &retryhttp.Transport{" + base + "Policy: retry.Policy{\n" + policy + ",\n}}}", told
}

// clientFields returns the name of the variable that holds a new client, what its fields are
// set to in the block that makes it, and the names of those that are set in another way. set
// is nil if no variable holds the client.
func (c *foreignCall) clientFields() (name string, set map[string]ast.Expr, other []string) {
	assign, ok := c.cursor.Parent().Node().(*ast.AssignStmt)
	if !ok || c.name != "NewClient" || len(assign.Lhs) != 1 {
		return "", nil, nil
	}
	block, ok := c.cursor.Parent().Parent().Node().(*ast.BlockStmt)
	v := c.Variable(assign.Lhs[0])
	if !ok || v == nil {
		return "", nil, nil
	}
	set = map[string]ast.Expr{}
	for at := range c.Root.Preorder((*ast.AssignStmt)(nil)) {
		s := at.Node().(*ast.AssignStmt)
		if !code.Within(s, block) || s.Pos() < c.call.End() {
			continue
		}
		plain := at.Parent().Node() == ast.Node(block) && s.Tok == token.ASSIGN && len(s.Lhs) == len(s.Rhs)
		for i, left := range s.Lhs {
			switch field := c.fieldOf(left, v); {
			case field == "":
			case plain && set[field] == nil:
				set[field] = s.Rhs[i]
			default:
				other = append(other, field)
			}
		}
	}
	return v.Name(), set, other
}

// fieldOf returns the path of the field of v that e is, such as HTTPClient.Timeout, "" if it
// is none.
func (c *foreignCall) fieldOf(e ast.Expr, v *types.Var) string {
	sel, ok := ast.Unparen(e).(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if c.Variable(sel.X) == v {
		return sel.Sel.Name
	}
	if outer := c.fieldOf(sel.X, v); outer != "" {
		return outer + "." + sel.Sel.Name
	}
	return ""
}
