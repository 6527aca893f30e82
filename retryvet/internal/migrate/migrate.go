package migrate

import (
	"fmt"
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/types/typeutil"

	"github.com/goretry/retry/retryvet/internal/code"
)

// families are the libraries that are known. Each has a file.
var families = []family{cenkalti, avast, sethvargo, retryablehttp}

// Analyzer reports calls of other retry libraries, and rewrites those of which everything
// is understood. The fix of a file is one, with those of the files that share something
// with it.
var Analyzer = &analysis.Analyzer{
	Name:     check,
	Doc:      "find calls of other retry libraries, and rewrite what is understood",
	URL:      "https://github.com/goretry/retry/blob/main/docs/vet.md#coming-from-another-library-foreign",
	Requires: []*analysis.Analyzer{inspect.Analyzer},
	Run: func(ap *analysis.Pass) (any, error) {
		if code.Imports(ap.Pkg, func(path string) bool { return find(families, path) != nil }) {
			(&pass{Package: code.New(ap), families: families, byPath: map[string]*library{}}).run()
		}
		return nil, nil
	},
}

// check is the category of all findings.
const check = "foreign"

// Libraries returns the import paths, without major versions, of the libraries whose
// calls Analyzer reports.
func Libraries() []string {
	var paths []string
	for _, f := range families {
		paths = append(paths, f.path)
	}
	return paths
}

// run reports all calls, and the literals of clients.
func (p *pass) run() {
	all := p.calls()
	for _, m := range all {
		m.refusal = m.understand()
	}
	for _, m := range all {
		if m.refusal == "" {
			m.refusal = m.check(all)
		}
		switch {
		case m.refusal != "":
		case ast.IsGenerated(m.file):
			m.refusal = "its file is generated: change what generates it"
		case p.Ignores(check, m.call.Pos()):
			m.refusal = "ignored"
		case len(m.judge) > 0:
			m.refusal = byHand(append(m.judge, m.told...), m.byHand())
		}
	}
	fixes, plan := p.fixes(all)
	for _, m := range all {
		what := fmt.Sprintf("%s v%d: ", m.lib.title, m.lib.version)
		if m.lib.version == 0 {
			what = m.lib.title + ": "
		}
		if m.refusal != "" {
			p.Find(check, m.call, what+"not rewritten: "+m.refusal)
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
		p.Find(check, m.call, message, fix...)
	}
}

// calls returns the calls of all libraries, and reports the literals of their clients.
func (p *pass) calls() []*migration {
	var all []*migration
	for _, file := range p.Files {
		cursor, _ := p.Root.FindNode(file)
		for c := range cursor.Preorder((*ast.CallExpr)(nil)) {
			f, ok := typeutil.Callee(p.TypesInfo, c.Node().(*ast.CallExpr)).(*types.Func)
			if !ok || f.Pkg() == nil {
				continue
			}
			lib := p.libraryOf(f.Pkg().Path())
			if lib != nil && f.Pkg() != p.Pkg && lib.runs(f, c) {
				all = append(all, &migration{foreignCall: newCall(p, lib, file, c, f.Name())})
			}
		}
		for c := range cursor.Preorder((*ast.CompositeLit)(nil)) {
			p.reportClient(c.Node().(*ast.CompositeLit))
		}
	}
	return all
}

// reportClient reports a literal of another library's client, which no fix replaces.
func (p *pass) reportClient(lit *ast.CompositeLit) {
	named, ok := types.Unalias(p.TypesInfo.TypeOf(lit)).(*types.Named)
	if !ok || named.Obj().Pkg() == nil || named.Obj().Pkg() == p.Pkg {
		return
	}
	if lib := p.libraryOf(named.Obj().Pkg().Path()); lib != nil && slices.Contains(lib.clients, named.Obj().Name()) {
		p.Find(check, lit, lib.title+": not rewritten: "+lib.instead)
	}
}

// understand reads the call, or says why it cannot be rewritten.
func (c *foreignCall) understand() (reason string) {
	if c.lib.instead != "" {
		if c.lib.write != nil {
			if stmt, told := c.lib.write(c); stmt != "" {
				return byHand(append([]string{"other code may know its type"}, told...), formatted(stmt))
			}
		}
		return c.lib.instead
	}
	reason = c.lib.read(c)
	c.told = append(c.told, c.waits.told...)
	return reason
}
