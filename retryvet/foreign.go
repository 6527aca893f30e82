package retryvet

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"
)

// A library is another retry library.
type library struct {
	title   string
	path    string   // by which it is imported
	version int      // 0: the path has none
	entries []string // functions that run something
	methods []string // that do
	clients []string // types that do, whose literals are reported
	marks   []string // what makes an error permanent; with a counterpart here
	errors  []string // what tells its errors apart; without a counterpart
	plan    func(m *migration) string

	inverse bool                                                       // it repeats marked errors only
	zero    bool                                                       // after a failure it returns no value
	waits   func(m *migration, name string, call *ast.CallExpr) string // understands what makes a backoff, but for cenkalti's

	markType string // of marked errors, if its name is exported
	marked   string // a condition that says that err is marked, with %s for the library's name
}

// libraryOf returns what is known of the package at path, nil if that is no retry
// library.
func libraryOf(path string) *library {
	version, full := 0, path
	if i := strings.LastIndex(path, "/v"); i >= 0 {
		if n, err := strconv.Atoi(path[i+2:]); err == nil {
			path, version = path[:i], n
		}
	}
	var l *library
	switch path {
	case "github.com/cenkalti/backoff":
		l = cenkalti(version)
	case "github.com/avast/retry-go":
		l = avast(version)
	case "github.com/sethvargo/go-retry":
		l = &library{
			title: "sethvargo/go-retry", entries: []string{"Do", "DoValue", "Constant", "Exponential", "Fibonacci"},
			marks: []string{"RetryableError"}, inverse: true, zero: true, plan: planSethvargo, waits: sethvargoWaits,
		}
	case "github.com/hashicorp/go-retryablehttp":
		l = &library{
			title: "hashicorp/go-retryablehttp", entries: []string{"NewClient", "Get", "Head", "Post", "PostForm"},
			clients: []string{"Client", "RoundTripper"},
			plan: func(*migration) string {
				return "use an http.Client whose Transport is a retryhttp.Transport; docs/migrating.md says what becomes of each field"
			},
		}
	}
	if l != nil {
		l.path = full
	}
	return l
}

// cenkalti returns what is known of a version of cenkalti/backoff.
func cenkalti(version int) *library {
	l := &library{
		title: "cenkalti/backoff", version: version,
		entries: []string{"Retry", "RetryNotify", "RetryWithData", "RetryNotifyWithData", "RetryNotifyWithTimer",
			"RetryNotifyWithTimerAndData", "NewTicker", "NewTickerWithTimer"},
		methods: []string{"NextBackOff"},
	}
	switch version {
	case 0, 3:
		l.plan = func(*migration) string {
			return "update to github.com/cenkalti/backoff/v4 first: its calls are the same, but it finds a wrapped Permanent, and a canceled wait returns the context's error"
		}
		return l
	case 4, 5, 6, 7:
	default:
		return nil
	}
	l.marks = []string{"Permanent"}
	l.errors = []string{"PermanentError", "RetryError", "AsRetryError", "RetryAfterError", "RetryAfter", "ErrPermanent", "ErrExhausted", "ErrMaxElapsedTime"}
	l.plan = planBackoff
	l.marked = errorsQualifier + ".Is(err, %s.ErrPermanent)"
	if version < 6 {
		l.markType, l.marked = "PermanentError", "_, ok := "+errorsQualifier+".AsType[*%s.PermanentError](err); ok"
	}
	return l
}

// avast returns what is known of a version of avast/retry-go.
func avast(version int) *library {
	l := &library{
		title: "avast/retry-go", version: version, entries: []string{"Do", "DoWithData"},
		marks:  []string{"Unrecoverable"},
		errors: []string{"Error", "IsRecoverable", "ErrThrottled"},
		plan:   planAvast,
		zero:   true,
		marked: "!%s.IsRecoverable(err)",
	}
	switch version {
	case 0, 3:
		l.plan = func(*migration) string {
			return "update to github.com/avast/retry-go/v4 first: there the waits begin with twice Delay up to v4.6, and Attempts(0) sets no limit"
		}
	case 4:
	case 5:
		l.entries, l.methods = nil, []string{"Do"}
	default:
		return nil
	}
	return l
}

func (l *library) is(other *library) bool {
	return l != nil && l.title == other.title && l.version == other.version
}

// migration is one call of another library on its way here.
type migration struct {
	*pass
	lib     *library
	file    *ast.File
	cursor  inspector.Cursor
	call    *ast.CallExpr
	name    string // of the function called
	refusal string // why there is no fix; "": there is one

	// The plan fills these. Text uses qualifier for the name of package retry.
	ctx                      ast.Expr // nil: none given
	op                       ast.Expr
	attempts                 string // "": none set
	limit                    int64  // the number of attempts, 0 if it is not known
	elapsed                  string // "": none set
	backoff                  string
	mayBeZero, elapsedVaries bool                    // attempts, elapsed: a variable in which zero means no limit
	arguments                map[*types.Var]ast.Expr // what a helper's parameters stand for
	made                     map[*types.Var][]making // the values of variables that hold a backoff
	inlined                  map[*ast.FuncDecl]bool  // the helpers
	origin                   origin                  // of the policy
	shared                   *sharedPolicy           // nil: the policy stands in the call

	sequence *sequence  // of waits, for sethvargo's library
	retries  *condition // which errors are repeated; nil: those that are not marked
	wait     string     // the body of Hooks.Wait
	attempt  string     // the name of its parameter
	repeats  repeats
	told     []string
	removed  []ast.Stmt // go with the call
	kept     []ast.Node // parts of the call, and others, whose text stays

	notes []note // comments of what goes

	turned  []analysis.TextEdit // of marks, in an operation of an inverse library
	literal *ast.FuncLit        // op, if it is rewritten
	renamed bool                // literal gets a context parameter named as ctx
	edits   []analysis.TextEdit
}

func newMigration(p *pass, lib *library, file *ast.File, c inspector.Cursor, name string) *migration {
	return &migration{
		pass: p, lib: lib, file: file, cursor: c, call: c.Node().(*ast.CallExpr), name: name,
		arguments: map[*types.Var]ast.Expr{}, made: map[*types.Var][]making{}, inlined: map[*ast.FuncDecl]bool{},
	}
}

// repeats says which errors the old library repeats and DefaultClassifier does not.
type repeats int

const (
	same     repeats = iota // none
	more                    // some: all errors must be repeated
	unmarked                // all but those that the old library marks, outside of what is rewritten
)

// qualifier stands for the name of package retry until it is known.
const qualifier = "\x00"

// foreign reports calls of other retry libraries. Those that are understood are
// rewritten: all of a file in one fix, since what the import becomes depends on all,
// with those of the files that share something with it.
func foreign(p *pass) {
	var all []*migration
	for _, file := range p.Files {
		cursor, _ := p.root.FindNode(file)
		for c := range cursor.Preorder((*ast.CallExpr)(nil)) {
			call := c.Node().(*ast.CallExpr)
			f, ok := typeutil.Callee(p.TypesInfo, call).(*types.Func)
			if !ok || f.Pkg() == nil {
				continue
			}
			lib := libraryOf(f.Pkg().Path())
			if lib != nil && f.Pkg() != p.Pkg && lib.runs(f, c) {
				all = append(all, newMigration(p, lib, file, c, f.Name()))
			}
		}
		for c := range cursor.Preorder((*ast.CompositeLit)(nil)) {
			p.reportClient(c.Node().(*ast.CompositeLit))
		}
	}
	for _, m := range all {
		m.refusal = m.lib.plan(m)
	}
	for _, m := range all {
		if m.refusal == "" {
			m.refusal = m.check(all)
		}
		switch {
		case m.refusal != "":
		case ast.IsGenerated(m.file):
			m.refusal = "its file is generated"
		case p.ignores(m.call.Pos()):
			m.refusal = "ignored"
		}
	}
	fixes, plan := p.fixes(all)
	for _, m := range all {
		what := fmt.Sprintf("%s v%d: ", m.lib.title, m.lib.version)
		if m.lib.version == 0 {
			what = m.lib.title + ": "
		}
		if m.refusal != "" {
			p.report(m.call, what+"not rewritten: "+m.refusal)
			continue
		}
		message := what + "-fix makes this a retry." + m.verb()
		if told := append(m.told, plan.told(m)...); len(told) > 0 {
			message += "; " + strings.Join(told, "; ")
		}
		var fix []analysis.SuggestedFix
		if edits := fixes[m.file]; edits != nil {
			fix = []analysis.SuggestedFix{{Message: "Rewrite this file's calls with package retry, and what they share", TextEdits: edits}}
			delete(fixes, m.file)
		}
		p.report(m.call, message, fix...)
	}
}

// reportClient reports a literal of another library's client, which no fix replaces.
func (p *pass) reportClient(lit *ast.CompositeLit) {
	named, ok := types.Unalias(p.TypesInfo.TypeOf(lit)).(*types.Named)
	if !ok || named.Obj().Pkg() == nil || named.Obj().Pkg() == p.Pkg {
		return
	}
	if lib := libraryOf(named.Obj().Pkg().Path()); lib != nil && slices.Contains(lib.clients, named.Obj().Name()) {
		p.report(lit, lib.title+": not rewritten: "+lib.plan(nil))
	}
}

// runs reports whether a call of f, at c, runs something. A method that calls the
// same one of another value passes it on: a backoff made of another.
func (l *library) runs(f *types.Func, c inspector.Cursor) bool {
	if f.Signature().Recv() == nil {
		return slices.Contains(l.entries, f.Name())
	}
	for around := range c.Enclosing((*ast.FuncDecl)(nil)) {
		if decl := around.Node().(*ast.FuncDecl); decl.Recv != nil && decl.Name.Name == f.Name() {
			return false
		}
	}
	return slices.Contains(l.methods, f.Name())
}

// of returns the library and the name of the thing that id names, nil if it is not
// a library's.
func (p *pass) of(id *ast.Ident) (*library, string) {
	obj := p.TypesInfo.Uses[id]
	if obj == nil || obj.Pkg() == nil || obj.Pkg() == p.Pkg || obj.Parent() != obj.Pkg().Scope() {
		return nil, ""
	}
	return libraryOf(obj.Pkg().Path()), obj.Name()
}

// check looks for what a rewritten call would do differently, or what this package
// would report about it. It fills in literal and the context.
func (m *migration) check(all []*migration) string {
	p := m.pass
	for _, other := range all {
		if other != m && (within(other.call, m.call) || within(m.call, other.call)) {
			return "it is within another retry, or has one in its operation"
		}
	}
	for _, r := range p.runs() {
		if op := p.opLiteral(r.op); op != nil && within(m.call, op) {
			return "it is within a run of package retry"
		}
	}
	switch m.cursor.Parent().Node().(type) {
	case *ast.GoStmt, *ast.DeferStmt:
		return "go and defer drop its error"
	}
	if reason := m.comparesError(); reason != "" {
		return reason
	}
	if m.ctx == nil {
		if name := p.contextAt(m.cursor); name != "" {
			_, obj := p.Pkg.Scope().Innermost(m.call.Pos()).LookupParent(name, m.call.Pos())
			if v, ok := obj.(*types.Var); ok && isContext(v.Type()) {
				m.ctx = &ast.Ident{NamePos: token.NoPos, Name: name}
				m.told = append(m.told, "it ends with "+name+" now")
			}
		}
	}
	if m.attempts == "" && m.elapsed == "" && (m.ctx == nil || m.ctx.Pos().IsValid() && p.endless(m.ctx)) {
		return "nothing would end it: set a limit, or pass a context"
	}
	if reason := m.checkOp(); reason != "" {
		return reason
	}
	m.keepComments()
	if reason := m.blocked(all); reason != "" {
		return reason
	}
	if m.lib.zero && m.verb() == "Do" && m.mayReturnBoth() {
		m.told = append(m.told, "after a failure its value is the last attempt's: it was none")
	}
	switch {
	case m.retries != nil && m.attempts == "" && m.mayReturnMarks(all):
		return "without a limit marks end it beside its RetryIf, and may be made elsewhere"
	case m.attempts == "1", m.retries != nil:
	case m.lib.inverse:
		return m.turnMarks()
	case m.repeatsAnyway():
	case m.mayReturnMarks(all):
		m.repeats = unmarked
		m.told = append(m.told, "Classify repeats every error that "+m.lib.marks[0]+" has not marked, as before")
	default:
		m.repeats = more
		m.told = append(m.told, "Classify repeats every error, as before: delete it to let retry.DefaultClassifier decide")
	}
	return ""
}

// comparesError tells if the caller does with the error what works on the
// operation's own error only.
func (m *migration) comparesError() string {
	assign, ok := m.cursor.Parent().Node().(*ast.AssignStmt)
	if !ok {
		return ""
	}
	v := m.variable(assign.Lhs[len(assign.Lhs)-1])
	around := body(m.cursor)
	if v == nil || around == nil {
		return ""
	}
	reason := ""
	is := func(e ast.Expr) bool { return m.variable(e) == v }
	ast.Inspect(around, func(n ast.Node) bool {
		found := false
		switch n := n.(type) {
		case *ast.BinaryExpr:
			found = (n.Op == token.EQL || n.Op == token.NEQ) && (is(n.X) && !m.isNil(n.Y) || is(n.Y) && !m.isNil(n.X))
		case *ast.TypeAssertExpr:
			found = is(n.X)
		case *ast.SwitchStmt:
			found = n.Tag != nil && is(n.Tag)
		case *ast.CallExpr:
			found = m.isCall(n, "os", "IsExist", "IsNotExist", "IsPermission", "IsTimeout") && is(n.Args[0]) ||
				m.isCall(n, "errors", "Unwrap") && is(n.Args[0])
		}
		if found {
			reason = fmt.Sprintf("the caller compares or asserts %s, which will wrap the operation's error", v.Name())
		}
		return reason == ""
	})
	return reason
}

// checkOp finds the operation and what must not be in it.
func (m *migration) checkOp() string {
	e := ast.Unparen(m.op)
	if call, ok := e.(*ast.CallExpr); ok && len(call.Args) == 1 && m.TypesInfo.Types[call.Fun].IsType() {
		e = ast.Unparen(call.Args[0]) // backoff.Operation(op)
	}
	m.op = e
	lit, isLiteral := e.(*ast.FuncLit)
	if v := m.variable(e); v != nil {
		lit, isLiteral = m.value(e).(*ast.FuncLit)
		if !isLiteral {
			return "the operation cannot be read"
		}
		if v.Parent() == m.Pkg.Scope() || m.uses(e) > 1 || !m.defined(lit) {
			m.kept = append(m.kept, e)
			return m.sleeps(lit)
		}
	}
	if !isLiteral {
		return m.checkNamed(e)
	}
	if reason := m.sleeps(lit); reason != "" {
		return reason
	}
	m.literal = lit
	m.kept = append(m.kept, lit)
	return m.checkContexts(lit)
}

// checkNamed looks at an operation that is a function or a method, which is wrapped.
func (m *migration) checkNamed(op ast.Expr) string {
	f := m.declared(op)
	if f == nil || f.Pkg() != m.Pkg {
		return "the operation cannot be read"
	}
	if recv := f.Signature().Recv(); recv != nil && types.IsInterface(recv.Type()) {
		return "the operation cannot be read"
	}
	m.kept = append(m.kept, op)
	return ""
}

// checkContexts looks at the contexts in the operation. The one that the run is given
// becomes the operation's parameter; another would outlive its attempt.
func (m *migration) checkContexts(lit *ast.FuncLit) (reason string) {
	given := m.givenContext()
	var own *ast.Ident // a context of the operation that has the given one's name
	captured := false  // a literal in the operation uses the given one
	ast.Inspect(lit.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			captured = captured || given != nil && m.mentions(n, given)
		case *ast.Ident:
			v := m.variable(n)
			if v == nil || !isContext(v.Type()) || v.IsField() {
				break
			}
			switch {
			case v == given:
				m.renamed = true
			case m.TypesInfo.Defs[n] == v && v.Parent() == m.TypesInfo.Scopes[lit.Type] && given != nil && v.Name() == given.Name():
				own = n
			case v.Pos() < lit.Pos() || v.Pos() > lit.End():
				reason = "the operation uses " + v.Name() + ", which is not the context of the run"
			}
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if n.Tok != token.DEFINE && given != nil && m.variable(left) == given {
					reason = "the operation sets " + given.Name()
				}
			}
		}
		return reason == ""
	})
	if name := lit.Type.Params; m.lib.inverse && m.renamed && len(name.List[0].Names) == 1 && name.List[0].Names[0].Name != "_" {
		return "the operation uses " + given.Name() + " beside its own context"
	}
	if own != nil && m.renamed && reason == "" && (captured || !m.redeclares(own)) {
		return "the operation declares a " + own.Name + " of its own"
	}
	return reason
}

// redeclares reports whether the declaration of id may set a parameter of the same name
// instead: it declares something else as well.
func (m *migration) redeclares(id *ast.Ident) bool {
	c, ok := m.root.FindNode(id)
	if !ok {
		return false
	}
	assign, ok := c.Parent().Node().(*ast.AssignStmt)
	return ok && slices.ContainsFunc(assign.Lhs, func(e ast.Expr) bool {
		other, ok := e.(*ast.Ident)
		return ok && other != id && m.TypesInfo.Defs[other] != nil
	})
}

// givenContext returns the variable that is the context of the run, nil if that is none.
func (m *migration) givenContext() *types.Var {
	if m.ctx == nil {
		return nil
	}
	if id, ok := m.ctx.(*ast.Ident); ok && !id.Pos().IsValid() { // the function's own
		_, obj := m.Pkg.Scope().Innermost(m.call.Pos()).LookupParent(id.Name, m.call.Pos())
		v, _ := obj.(*types.Var)
		return v
	}
	return m.variable(m.ctx)
}

// defined reports whether lit is the value of a := statement.
func (p *pass) defined(lit *ast.FuncLit) bool {
	c, ok := p.root.FindNode(lit)
	if !ok {
		return false
	}
	assign, ok := c.Parent().Node().(*ast.AssignStmt)
	return ok && assign.Tok == token.DEFINE
}

func (p *pass) mentionsLibrary(n ast.Node) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			lib, _ := p.of(id)
			found = found || lib != nil
		}
		return !found
	})
	return found
}

func (p *pass) sleeps(lit *ast.FuncLit) string {
	reason := ""
	ast.Inspect(lit.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && p.isCall(call, "time", "Sleep") {
			reason = "the operation sleeps"
		}
		_, inner := n.(*ast.FuncLit)
		return reason == "" && !inner
	})
	return reason
}
