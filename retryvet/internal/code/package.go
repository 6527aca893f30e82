// Package code reads the Go code of a package: what an expression stands for, what a
// call calls, where a run of package retry is. The checks and the migration both read
// with it, and neither knows the other.
//
// What may live here: what both need. It reports what it is told to, and judges nothing.
package code

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

// Package is one package that is looked at. It is not safe for concurrent use.
type Package struct {
	*analysis.Pass
	Root    inspector.Cursor
	ignored map[ignore]bool
	runs    []Run
	scanned bool // runs is filled
	vars    *variables
}

// ignore is a place where a comment turns off a check.
type ignore struct {
	file  string
	line  int
	check string
}

var ignoreComment = regexp.MustCompile(`^//retryvet:ignore ([a-z]+): *\S`)

// New returns the package of a pass, whose analyzer must require [inspect.Analyzer].
func New(pass *analysis.Pass) *Package {
	p := &Package{
		Pass:    pass,
		Root:    pass.ResultOf[inspect.Analyzer].(*inspector.Inspector).Root(),
		ignored: map[ignore]bool{},
	}
	for _, file := range pass.Files {
		for _, group := range file.Comments {
			for _, comment := range group.List {
				if m := ignoreComment.FindStringSubmatch(comment.Text); m != nil {
					at := pass.Fset.Position(comment.Pos())
					p.ignored[ignore{at.Filename, at.Line, m[1]}] = true
				}
			}
		}
	}
	return p
}

// Ignores reports whether a comment turns a check off at pos.
func (p *Package) Ignores(check string, pos token.Pos) bool {
	at := p.Fset.Position(pos)
	return p.ignored[ignore{at.Filename, at.Line, check}] || p.ignored[ignore{at.Filename, at.Line - 1, check}]
}

// Find reports a finding of a check, unless a comment turns the check off there: what
// happens at node and what to write instead.
func (p *Package) Find(check string, node ast.Node, message string, fixes ...analysis.SuggestedFix) {
	if p.Ignores(check, node.Pos()) {
		return
	}
	p.Report(analysis.Diagnostic{
		Pos: node.Pos(), End: node.End(), Category: check, Message: message, SuggestedFixes: fixes,
	})
}

// InTest reports whether node is in a test file.
func (p *Package) InTest(node ast.Node) bool {
	return strings.HasSuffix(p.Fset.Position(node.Pos()).Filename, "_test.go")
}

// Imports reports whether pkg is, or imports directly, a package whose path is wanted.
func Imports(pkg *types.Package, wanted func(path string) bool) bool {
	if wanted(pkg.Path()) {
		return true
	}
	for _, imported := range pkg.Imports() {
		if wanted(imported.Path()) {
			return true
		}
	}
	return false
}

// variables say what is known of the package's variables.
type variables struct {
	init    map[*types.Var]ast.Expr // the only value
	changed map[*types.Var]bool     // has another value at times, or may have
}
