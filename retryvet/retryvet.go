package retryvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
)

// Analyzer reports calls that retry in a way that their author cannot mean. The
// package documentation describes its checks; each has a flag, which is on.
var Analyzer = newAnalyzer()

// A check looks at one package.
type check struct {
	name  string
	doc   string
	needs func(path string) bool // says which import makes the check worth running
	run   func(*pass)
}

// checks are all there are, in the order of their reports.
func checks() []check {
	return []check{
		{"outerctx", "find operations that use the context around them instead of the one they are given", ours, outerctx},
		{"timeoutbody", "find values that need the context of an attempt which has ended", ours, timeoutbody},
		{"freshbudget", "find budgets that are made for one run", ours, freshbudget},
		{"neverstops", "find runs that nothing ends", ours, neverstops},
		{"lostmark", "find marks of Stop, Refuse and After that fmt.Errorf loses", ours, lostmark},
		{"nanoseconds", "find durations written without a unit", ours, nanoseconds},
		{"sleepinop", "find operations that sleep", ours, sleepinop},
		{"nested", "find retries around retries, which multiply", ours, nested},
		{"errorignored", "find runs whose error is ignored", ours, errorignored},
		{"compared", "find errors of a run compared with ==, or asserted", ours, compared},
		{"harness", "find tests that run the policy they gave to retrytest.New", ours, harness},
		{"copied", "find copies of a Loop, a Hedge or a Limit", ours, copied},
		{"loopctx", "find retry loops that sleep through the end of their context", contextual, loopctx},
		{"foreign", "find calls of other retry libraries, and rewrite those that are understood", theirs, foreign},
	}
}

// The paths of the packages that the checks know.
const (
	retryPath      = "github.com/goretry/retry"
	retryhttpPath  = retryPath + "/retryhttp"
	retrytestPath  = retryPath + "/retrytest"
	retrysqlPath   = retryPath + "/retrysql"
	retrybatchPath = retryPath + "/retrybatch"
	hedgePath      = retryPath + "/hedge"
	limitPath      = retryPath + "/limit"
)

func ours(path string) bool { return path == retryPath || strings.HasPrefix(path, retryPath+"/") }
func contextual(path string) bool {
	return path == "context" || path == "net/http" || path == "testing"
}
func theirs(path string) bool { return libraryOf(path) != nil }

func newAnalyzer() *analysis.Analyzer {
	a := &analysis.Analyzer{
		Name: "retryvet",
		Doc: "find mistakes that compile in code that retries\n\n" +
			"Each check has a flag. -fix rewrites calls of other retry libraries where everything about the call is understood.",
		URL:      "https://github.com/goretry/retry/blob/main/docs/vet.md",
		Requires: []*analysis.Analyzer{inspect.Analyzer},
	}
	all := checks()
	enabled := make([]*bool, len(all))
	for i, c := range all {
		enabled[i] = a.Flags.Bool(c.name, true, c.doc)
	}
	a.Run = func(ap *analysis.Pass) (any, error) {
		var p *pass
		for i, c := range all {
			if !*enabled[i] || !imports(ap.Pkg, c.needs) {
				continue
			}
			if p == nil {
				p = newPass(ap)
			}
			p.check = c.name
			c.run(p)
		}
		return nil, nil
	}
	return a
}

// imports reports whether pkg is, or imports directly, a package whose path needs
// accepts.
func imports(pkg *types.Package, needs func(string) bool) bool {
	if needs(pkg.Path()) {
		return true
	}
	for _, imported := range pkg.Imports() {
		if needs(imported.Path()) {
			return true
		}
	}
	return false
}

// pass is what the checks share while they look at one package.
type pass struct {
	*analysis.Pass
	root    inspector.Cursor
	check   string // the one that is running
	ignored map[ignore]bool
	calls   []run
	scanned bool // calls is filled
	vars    *variables
	funcs   *functions
	tests   *[]*ast.File // of the folder, nil until they are read
}

// ignore is a place where a comment turns off a check.
type ignore struct {
	file  string
	line  int
	check string
}

var ignoreComment = regexp.MustCompile(`^//retryvet:ignore ([a-z]+): *\S`)

func newPass(ap *analysis.Pass) *pass {
	p := &pass{
		Pass:    ap,
		root:    ap.ResultOf[inspect.Analyzer].(*inspector.Inspector).Root(),
		ignored: map[ignore]bool{},
	}
	for _, file := range ap.Files {
		for _, group := range file.Comments {
			for _, comment := range group.List {
				if m := ignoreComment.FindStringSubmatch(comment.Text); m != nil {
					at := ap.Fset.Position(comment.Pos())
					p.ignored[ignore{at.Filename, at.Line, m[1]}] = true
				}
			}
		}
	}
	return p
}

// ignores reports whether a comment turns the running check off at pos.
func (p *pass) ignores(pos token.Pos) bool {
	at := p.Fset.Position(pos)
	return p.ignored[ignore{at.Filename, at.Line, p.check}] || p.ignored[ignore{at.Filename, at.Line - 1, p.check}]
}

// report tells what happens at node and what to write instead.
func (p *pass) report(node ast.Node, message string, fixes ...analysis.SuggestedFix) {
	if p.ignores(node.Pos()) {
		return
	}
	p.Report(analysis.Diagnostic{
		Pos: node.Pos(), End: node.End(), Category: p.check, Message: message, SuggestedFixes: fixes,
	})
}

// inTest reports whether node is in a test file.
func (p *pass) inTest(node ast.Node) bool {
	return strings.HasSuffix(p.Fset.Position(node.Pos()).Filename, "_test.go")
}
