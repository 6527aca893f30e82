package migrate

import (
	"cmp"
	"go/ast"
	"go/token"
	"slices"
	"strings"

	"github.com/goretry/retry/retryvet/internal/code"
)

// This file says what becomes of comments that stand beside or above what goes.

// keepComments notes the comments that would go with the call and with what is removed.
// One above statements that end in the call's own stays where it is: it is above that
// then.
func (m *migration) keepComments() {
	line := func(pos token.Pos) int { return m.Fset.Position(pos).Line }
	places := append(m.places([]ast.Node{m.call}, m.removed), place{m.op, opField})
	for _, group := range m.file.Comments {
		if slices.ContainsFunc(m.kept, func(n ast.Node) bool { return code.Within(group, n) }) {
			continue
		}
		goes := code.Within(group, m.call)
		for _, s := range m.removed {
			on := line(s.Pos()) <= line(group.Pos()) && line(group.Pos()) <= line(s.End())
			above := line(group.End())+1 == line(s.Pos()) && m.Fset.Position(group.Pos()).Column == m.Fset.Position(s.Pos()).Column
			goes = goes || on || above && !m.leadsToCall(s)
		}
		if goes {
			m.notes = append(m.notes, m.note(group, places))
		}
	}
}

// leadsToCall reports whether nothing stands between stmt and the statement of the call
// but what is removed.
func (m *migration) leadsToCall(stmt ast.Stmt) bool {
	c, ok := m.Root.FindNode(stmt)
	if !ok {
		return false
	}
	block, ok := c.Parent().Node().(*ast.BlockStmt)
	if !ok {
		return false
	}
	rest := block.List[slices.Index(block.List, stmt):]
	i := slices.IndexFunc(rest, func(s ast.Stmt) bool { return !slices.Contains(m.removed, s) })
	return i >= 0 && code.Within(m.call, rest[i]) && !m.repeated(c)
}

// note finds what a comment is about: what ends on its line, or else what comes next.
func (m *migration) note(group *ast.CommentGroup, places []place) note {
	line := m.Fset.Position(group.Pos()).Line
	var before, next ast.Node
	fields := map[ast.Node]string{}
	for _, place := range places {
		n := place.node
		if m.Fset.File(n.Pos()) != m.Fset.File(group.Pos()) {
			continue
		}
		fields[n] = place.field
		if n.End() <= group.Pos() && m.Fset.Position(n.End()).Line == line && place.field != opField && (before == nil || n.End() >= before.End()) {
			before = n
		}
		if n.Pos() >= group.End() && (next == nil || n.Pos() < next.Pos()) {
			next = n
		}
	}
	switch {
	case before != nil:
		return note{group, fields[before], len(group.List) == 1}
	case next != nil:
		return note{group, fields[next], false}
	}
	return note{group, "Backoff", false}
}

// A place is what becomes a field of the policy, or the operation.
type place struct {
	node  ast.Node
	field string
}

// places returns those in nodes and statements, from the outside in.
func (m *migration) places(nodes []ast.Node, statements []ast.Stmt) []place {
	var all []place
	add := func(n ast.Node, name string) {
		if field := m.lib.becomes[name]; field != "" {
			all = append(all, place{n, field})
		}
	}
	for _, s := range statements {
		nodes = append(nodes, s)
		if assign, ok := s.(*ast.AssignStmt); ok {
			if sel, ok := assign.Lhs[0].(*ast.SelectorExpr); ok {
				add(s, sel.Sel.Name)
			} else {
				all = append(all, place{s, "Backoff"})
			}
		}
	}
	for _, n := range nodes {
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncLit:
				return false
			case *ast.CallExpr:
				if path, name := m.Callee(n); path == m.lib.path {
					add(n, name)
				}
			case *ast.KeyValueExpr:
				if id, ok := n.Key.(*ast.Ident); ok {
					add(n, id.Name)
				}
			}
			return true
		})
	}
	return all
}

// aboveOp returns the comments above the operation.
func (m *migration) aboveOp() (above string) {
	for _, n := range m.notes {
		if n.field == opField {
			above += "\n" + n.text()
		}
	}
	if above != "" {
		above += "\n"
	}
	return above
}

// hasNotes reports whether a comment belongs to a field of the policy.
func (m *migration) hasNotes() bool {
	return slices.ContainsFunc(m.notes, func(n note) bool { return n.field != opField })
}

func (n note) text() string {
	var all []string
	for _, c := range n.group.List {
		all = append(all, c.Text)
	}
	return strings.Join(all, "\n")
}

// dropped returns what is deleted outside of the call: statements, each with the comment
// behind it, and the comments above them that move.
func (m *migration) dropped() []ast.Node {
	var all []ast.Node
	for _, s := range m.removed {
		all = append(all, span{s.Pos(), s.End()})
	}
	for _, n := range m.notes {
		g := n.group
		if code.Within(g, m.call) {
			continue
		}
		i := slices.IndexFunc(all, func(s ast.Node) bool {
			return s.End() <= g.Pos() && m.Fset.Position(s.End()).Line == m.Fset.Position(g.Pos()).Line || code.Within(g, s)
		})
		if i < 0 {
			all = append(all, span{g.Pos(), g.End()})
		} else {
			all[i] = span{all[i].Pos(), max(all[i].End(), g.End())}
		}
	}
	slices.SortFunc(all, func(a, b ast.Node) int { return cmp.Compare(a.Pos(), b.Pos()) })
	return all
}
