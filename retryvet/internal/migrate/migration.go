package migrate

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/analysis"

	"github.com/goretry/retry/retryvet/internal/code"
)

// A migration is one call of another library on its way here: what is decided about it.
type migration struct {
	*foreignCall
	refusal string // why there is no fix; "": there is one

	repeats repeats
	literal *ast.FuncLit        // op, if it is rewritten
	renamed bool                // literal gets a context parameter named as ctx
	turned  []analysis.TextEdit // of marks, in an operation of an inverse library
	notes   []note              // comments of what goes
}

// repeats says which errors the old library repeats and DefaultClassifier does not.
type repeats int

const (
	same     repeats = iota // none
	more                    // some: all errors must be repeated
	unmarked                // all but those that the old library marks, outside of what is rewritten
)

// refuse refuses them all.
func refuse(all []*migration, reason string) {
	for _, m := range all {
		m.refusal = reason
	}
}

func refused(m *migration) bool { return m.refusal != "" }

// verb returns the function that takes the place of the call.
func (m *migration) verb() string {
	if _, ok := m.TypesInfo.TypeOf(m.call).(*types.Tuple); ok {
		return "Do"
	}
	return "Run"
}

// goes reports whether the use of a library is gone after the fix.
func (p *pass) goes(id *ast.Ident, fixed []*migration) bool {
	for _, m := range fixed {
		for _, n := range m.kept {
			if code.Within(id, n) {
				return m.literal == n && p.isMark(id)
			}
		}
		if code.Within(id, m.call) {
			return true
		}
		for _, s := range m.removed {
			if code.Within(id, s) {
				return true
			}
		}
	}
	return false
}

// A note is a comment that moves into the rewritten call.
type note struct {
	group  *ast.CommentGroup
	field  string // of the policy, to which it belongs, or opField
	beside bool   // it stood on the line of what it is about
}

// opField is the operation's place in a call.
const opField = "op"
