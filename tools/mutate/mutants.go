package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
)

// A mutant is one change of the code.
type mutant struct {
	file, line string // the file's name, and the line's text without a comment
	what       string
	number     int // of the line
}

// String names the mutant. Two changes of one line may have one name.
func (m mutant) String() string { return m.file + ": " + m.line + ": " + oneLine(m.what) }

// writer rewrites one file so that each of its mutants can be chosen at run time.
type writer struct {
	pkg     *packages.Package
	src     string
	base    int // the file's first token.Pos
	imports map[string]string
	mutants *[]mutant // of all files; a mutant's number is its index + 1
	dropped map[int]bool
	fixed   map[ast.Node]bool // must stay as they are
	inBlock map[ast.Node]bool // statements that may become several
	results map[ast.Node]bool // of return statements
	conds   map[ast.Node]bool // conditions of if, for and switch

	comments []*ast.CommentGroup
}

// edit replaces a piece of the source.
type edit struct {
	from, to int
	text     string
}

// rewrite returns the source of f with all of its mutants.
func (w *writer) rewrite(f *ast.File) string {
	w.fixed, w.inBlock = map[ast.Node]bool{}, map[ast.Node]bool{}
	w.results, w.conds = map[ast.Node]bool{}, map[ast.Node]bool{}
	w.comments = f.Comments
	w.imports = map[string]string{w.pkg.PkgPath: ""}
	for _, spec := range f.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		w.imports[path] = path[strings.LastIndex(path, "/")+1:]
		if p := w.pkg.Imports[path]; p != nil {
			w.imports[path] = p.Name
		}
		if spec.Name != nil {
			w.imports[path] = spec.Name.Name
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			if n.Tok == token.CONST || n.Tok == token.IMPORT || n.Tok == token.TYPE {
				w.fixed[n] = true
			}
		case *ast.ArrayType:
			w.fix(n.Len)
		case *ast.KeyValueExpr:
			w.fix(n.Key)
		case *ast.CommClause:
			if n.Comm != nil {
				w.fixed[n.Comm] = true
			}
			w.block(n.Body)
		case *ast.BlockStmt:
			w.block(n.List)
		case *ast.CaseClause:
			w.block(n.Body)
		case *ast.ReturnStmt:
			for _, r := range n.Results {
				w.results[r] = true
			}
		case *ast.IfStmt:
			w.conds[n.Cond] = true
		case *ast.ForStmt:
			if n.Cond != nil {
				w.conds[n.Cond] = true
			}
		case *ast.SwitchStmt:
			if n.Tag == nil {
				for _, c := range n.Body.List {
					for _, e := range c.(*ast.CaseClause).List {
						w.conds[e] = true
					}
				}
			}
		}
		return true
	})
	return w.render(f)
}

func (w *writer) fix(e ast.Expr) {
	if e != nil {
		w.fixed[e] = true
	}
}

func (w *writer) block(list []ast.Stmt) {
	for _, s := range list {
		w.inBlock[s] = true
	}
}

func (w *writer) original(n ast.Node) string {
	if f, ok := n.(*ast.File); ok {
		return w.src[:int(f.FileEnd)-w.base]
	}
	return w.src[int(n.Pos())-w.base : int(n.End())-w.base]
}

// render returns the text of n with the mutants below it.
func (w *writer) render(n ast.Node) string {
	from := int(n.Pos()) - w.base
	if _, ok := n.(*ast.File); ok {
		from = 0
	}
	var edits []edit
	ast.Inspect(n, func(c ast.Node) bool {
		if c == nil || c == n {
			return true
		}
		if w.fixed[c] {
			return false
		}
		text, ok := w.site(c)
		if ok {
			edits = append(edits, edit{int(c.Pos()) - w.base - from, int(c.End()) - w.base - from, text})
		}
		return !ok
	})
	text, out, done := w.original(n), new(strings.Builder), 0
	for _, e := range edits {
		out.WriteString(text[done:e.from])
		out.WriteString(e.text)
		done = e.to
	}
	out.WriteString(text[done:])
	return out.String()
}

// add returns the number of a new mutant, and false if it is not to be had.
func (w *writer) add(n ast.Node, what string) (id int, ok bool) {
	at := int(n.Pos()) - w.base
	from := strings.LastIndexByte(w.src[:at], '\n') + 1
	line, _, _ := strings.Cut(w.src[from:], "\n")
	for _, c := range w.comments {
		if start := int(c.Pos()) - w.base; start > at && start < from+len(line) {
			line = line[:start-from]
		}
	}
	position := w.pkg.Fset.Position(n.Pos())
	*w.mutants = append(*w.mutants, mutant{filepath.Base(position.Filename), strings.TrimSpace(line), what, position.Line})
	id = len(*w.mutants)
	return id, !w.dropped[id]
}

// site returns the text of n with its own mutants and those below it, if it has any
// of its own. A mutant's text is made of the original: only one is chosen at a
// time.
func (w *writer) site(n ast.Node) (text string, ok bool) {
	switch n := n.(type) {
	case ast.Expr:
		return w.expr(n)
	case ast.Stmt:
		if w.inBlock[n] {
			return w.stmt(n)
		}
	}
	return "", false
}

// stmt leaves statements out, and changes the operators of assignments.
func (w *writer) stmt(n ast.Stmt) (text string, ok bool) {
	change := ""
	switch n := n.(type) {
	case *ast.ExprStmt:
		call, isCall := n.X.(*ast.CallExpr)
		if !isCall || w.never(call) {
			return "", false
		}
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE {
			return "", false
		}
		if op, ok := operators[assigned[n.Tok]]; ok && w.number(n.Lhs[0]) {
			change = w.original(n.Lhs[0]) + " " + op.String() + "= " + w.original(n.Rhs[0])
		}
	case *ast.IncDecStmt:
		change = w.original(n.X) + map[token.Token]string{token.INC: "--", token.DEC: "++"}[n.Tok]
	case *ast.DeferStmt, *ast.GoStmt, *ast.SendStmt:
	default:
		return "", false
	}
	text = w.render(n)
	if change != "" {
		if id, ok := w.add(n, w.original(n)+" → "+change); ok {
			text = fmt.Sprintf("if mutant_(%d) { %s } else { %s }", id, change, text)
		}
	}
	if id, ok := w.add(n, "without "+w.original(n)); ok {
		text = fmt.Sprintf("if !mutant_(%d) { %s }", id, text)
	}
	return text, true
}

// never reports whether a call does not return: what follows it may rely on that.
func (w *writer) never(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.Ident)
	return ok && f.Name == "panic"
}

// What becomes of operators.
var (
	boundary = map[token.Token]token.Token{
		token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	}
	connective = map[token.Token]token.Token{token.LAND: token.LOR, token.LOR: token.LAND}
	operators  = map[token.Token]token.Token{
		token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL, token.REM: token.MUL,
		token.SHL: token.SHR, token.SHR: token.SHL, token.AND: token.OR, token.OR: token.AND, token.XOR: token.AND,
		token.AND_NOT: token.AND,
	}
	assigned = map[token.Token]token.Token{
		token.ADD_ASSIGN: token.ADD, token.SUB_ASSIGN: token.SUB, token.MUL_ASSIGN: token.MUL,
		token.QUO_ASSIGN: token.QUO, token.AND_ASSIGN: token.AND, token.OR_ASSIGN: token.OR,
	}
)

// compares reports whether e is a comparison.
func compares(e ast.Expr) bool {
	b, ok := e.(*ast.BinaryExpr)
	return ok && (b.Op == token.EQL || b.Op == token.NEQ || boundary[b.Op] != 0)
}

// number reports whether e is one: + is defined on texts too, - is not.
func (w *writer) number(e ast.Expr) bool {
	t := w.pkg.TypesInfo.TypeOf(e)
	if t == nil {
		return false
	}
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsNumeric != 0
}

// expr changes operators, negates conditions and replaces results.
func (w *writer) expr(n ast.Expr) (text string, ok bool) {
	tv, known := w.pkg.TypesInfo.Types[n]
	if !known || tv.IsType() || tv.IsVoid() {
		return "", false
	}
	if tv.Value != nil {
		return w.constant(n, tv)
	}
	if paren, ok := n.(*ast.ParenExpr); ok {
		w.conds[paren.X] = w.conds[n]
		return "", false
	}
	var changes []string
	if binary, ok := n.(*ast.BinaryExpr); ok {
		with := func(op token.Token) {
			changes = append(changes, w.original(binary.X)+" "+op.String()+" "+w.original(binary.Y))
		}
		if op, ok := boundary[binary.Op]; ok && !w.changes(binary.X) && !w.changes(binary.Y) {
			with(op)
		}
		if op, ok := connective[binary.Op]; ok {
			with(op)
		}
		if op, ok := operators[binary.Op]; ok && w.number(n) {
			with(op)
		}
	}
	basic, _ := tv.Type.Underlying().(*types.Basic)
	switch {
	case basic != nil && basic.Info()&types.IsBoolean != 0:
		if w.conds[n] || w.results[n] || compares(n) {
			changes = append(changes, "!("+w.original(n)+")")
		}
	case w.results[n] && !isTuple(tv.Type):
		if zero := zeroOf(tv.Type); zero != "" && zero != w.original(n) {
			changes = append(changes, zero)
		}
	}
	typ, nameable := w.typeName(tv.Type)
	if len(changes) == 0 || !nameable || strings.Contains(w.original(n), "recover()") {
		return "", false
	}
	text = w.render(n)
	var ifs strings.Builder
	for _, change := range changes {
		if id, ok := w.add(n, w.original(n)+" → "+change); ok {
			fmt.Fprintf(&ifs, "if mutant_(%d) { return %s }; ", id, change)
		}
	}
	if ifs.Len() == 0 {
		return text, true
	}
	return fmt.Sprintf("func() %s { %sreturn %s }()", typ, ifs.String(), text), true
}

// changes reports whether e is an integer that becomes one more and one less: beside
// it another boundary is the same change.
func (w *writer) changes(e ast.Expr) bool {
	tv := w.pkg.TypesInfo.Types[e]
	if tv.Value == nil || !hasLiteral(e) {
		return false
	}
	b, ok := tv.Type.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsInteger != 0
}

func hasLiteral(e ast.Expr) (has bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		_, is := n.(*ast.BasicLit)
		has = has || is
		return true
	})
	return has
}

func isTuple(t types.Type) bool { _, ok := t.(*types.Tuple); return ok }

// zeroOf returns the text of the zero of t, "" if a mutant with it says little.
func zeroOf(t types.Type) string {
	if _, ok := t.(*types.TypeParam); ok {
		return ""
	}
	switch u := t.Underlying().(type) {
	case *types.Pointer, *types.Interface, *types.Slice, *types.Map, *types.Signature, *types.Chan:
		return "nil"
	case *types.Basic:
		switch {
		case u.Info()&types.IsNumeric != 0:
			return "0"
		case u.Info()&types.IsString != 0:
			return `""`
		}
	}
	return ""
}

// constant makes a constant one more and one less, or not true. A name alone is
// changed only where it is returned.
func (w *writer) constant(n ast.Expr, tv types.TypeAndValue) (text string, ok bool) {
	literal := hasLiteral(n)
	basic, isBasic := tv.Type.Underlying().(*types.Basic)
	typ, nameable := w.typeName(types.Default(tv.Type))
	if !isBasic || !nameable {
		return "", false
	}
	original := w.original(n)
	var changes []string
	switch {
	case basic.Info()&types.IsBoolean != 0:
		changes = []string{"!v"}
	case basic.Info()&types.IsNumeric != 0 && literal:
		changes = []string{"v + 1", "v - 1"}
	case basic.Info()&types.IsNumeric != 0 && w.results[n]:
		changes = []string{"v + 1"}
	default:
		return "", false
	}
	var ifs strings.Builder
	for _, change := range changes {
		if id, ok := w.add(n, original+" → "+strings.Replace(change, "v", "("+original+")", 1)); ok {
			fmt.Fprintf(&ifs, "if mutant_(%d) { return %s }; ", id, change)
		}
	}
	if ifs.Len() == 0 {
		return original, true
	}
	return fmt.Sprintf("func() %s { v := %s(%s); %sreturn v }()", typ, typ, original, ifs.String()), true
}

// typeName returns how t is written in this file, and false if it cannot be.
func (w *writer) typeName(t types.Type) (name string, ok bool) {
	ok = true
	name = types.TypeString(types.Default(t), func(p *types.Package) string {
		name, imported := w.imports[p.Path()]
		ok = ok && imported
		return name
	})
	if basic, is := t.(*types.Basic); is && basic.Kind() == types.UntypedNil {
		ok = false
	}
	return name, ok
}
