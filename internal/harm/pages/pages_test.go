package pages

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the file anew")

// read are the pages.
var read = []string{"README.md", "docs/llm.md", "docs/overload.md", "docs/guards.md"}

// imports are the packages that examples may use: what the root module has.
var imports = map[string]string{
	"context": "context", "errors": "errors", "fmt": "fmt", "http": "net/http", "strings": "strings", "time": "time",
	"retry": "github.com/goretry/retry", "breaker": "github.com/goretry/retry/breaker", "budget": "github.com/goretry/retry/budget",
	"hedge": "github.com/goretry/retry/hedge", "limit": "github.com/goretry/retry/limit", "pace": "github.com/goretry/retry/pace",
	"failover": "github.com/goretry/retry/failover", "retryhttp": "github.com/goretry/retry/retryhttp",
}

// The test of package harm runs the policies and the transports that the pages show, as they stand there.
func TestPages(t *testing.T) {
	const file = "../pages_test.go"
	var all []example
	for _, name := range read {
		text, err := os.ReadFile("../../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		found, err := examples(path.Base(name), string(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(found) == 0 {
			t.Errorf("%s has no policy and no transport", name)
		}
		all = append(all, found...)
	}
	want, err := source(all)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, want, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what the pages have: run go generate ./internal/harm (%v)", file, err)
	}
}

// A page may declare a name more than once, above or below its use. Each declaration makes an example.
func TestExamples(t *testing.T) {
	const page = "```go\n" + `var places limit.Limit // one

func user(ctx context.Context) (string, error) {
	policy := retry.Policy{Name: "user", Guards: []retry.Guard{&model, &places}, Classify: class(n)}
	return retry.Do(ctx, policy, fetch)
}
` + "```\ntext\n```go\n" + `client := &http.Client{Transport: &retryhttp.Transport{Check: check, Policy: retry.Policy{MaxAttempts: 5}}}
` + "```\n```go\n" + `var (
	model = pace.Pace{Quota: n, Per: time.Minute}
	n     = 500.
)

func check(*http.Response) error { return errors.New(fmt.Sprint(n)) }
` + "```\n```go\nvar model pace.Pace\n\nfunc class(n float64) retry.Classifier { return nil }\n```\n```\nretry.Policy{}\n```\n"
	found, err := examples("page.md", page)
	if err != nil {
		t.Fatal(err)
	}
	const class = "var class = func(n float64) retry.Classifier { return nil }"
	const literal = `retry.Policy{Name: "user", Guards: []retry.Guard{&model, &places}, Classify: class(n)}`
	got := fmt.Sprintf("%q", found)
	want := fmt.Sprintf("%q", []example{
		{"page.md 1, model 1", []string{"var n     = 500.", "var model = pace.Pace{Quota: n, Per: time.Minute}", "var places limit.Limit", class},
			literal},
		{"page.md 1, model 2", []string{"var model pace.Pace", "var places limit.Limit", class, "var n     = 500."},
			literal},
		{"page.md 2", []string{"var n     = 500.", "var check = func(*http.Response) error { return errors.New(fmt.Sprint(n)) }"},
			"retryhttp.Transport{Check: check, Policy: retry.Policy{MaxAttempts: 5}}"},
	})
	if got != want {
		t.Errorf("examples = %s,\nwant %s", got, want)
	}
	for _, bad := range []string{
		"```go\np := retry.Policy{Budget: ours}\n```\n",                         // not on the page
		"```go\np := retry.Policy{Guards: []retry.Guard{redis.Limit()}}\n```\n", // not in the module
	} {
		if found, err := examples("page.md", bad); err == nil {
			t.Errorf("examples(%q) = %q, want an error", bad, found)
		}
	}
}

// example is a policy or a transport that a page shows.
type example struct {
	Name    string
	Decls   []string // that it needs
	Literal string
}

// decl declares a name.
type decl struct {
	text  string
	needs []string
}

// examples returns those of a page.
func examples(page, text string) (all []example, err error) {
	decls := map[string][]decl{}
	var literals []decl
	for _, m := range regexp.MustCompile("(?sm)^```go\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		b, err := parse(m[1])
		if err != nil {
			return nil, err
		}
		for _, d := range b.file.Decls {
			b.declare(d, decls)
		}
		literals = append(literals, b.literals()...)
	}
	for i, l := range literals {
		found, err := expand(example{Name: fmt.Sprint(page, " ", i+1), Literal: l.text}, l.needs, decls, nil)
		if err != nil {
			return nil, fmt.Errorf("%w:\n%s", err, l.text)
		}
		all = append(all, found...)
	}
	return all, nil
}

// expand adds to e what declares the names, before what needs them. A name that is declared more than once makes
// as many examples. It is called for the declarations of within.
func expand(e example, names []string, decls map[string][]decl, within []string) ([]example, error) {
	all := []example{e}
	for _, name := range names {
		if imports[name] != "" || slices.Contains(within, name) {
			continue
		}
		ds := decls[name]
		if len(ds) == 0 {
			return nil, fmt.Errorf("%s is not on the page, and no package that the root module has", name)
		}
		var more []example
		for _, e := range all {
			if slices.ContainsFunc(ds, func(d decl) bool { return slices.Contains(e.Decls, d.text) }) {
				more = append(more, e)
				continue
			}
			for i, d := range ds {
				variant := e
				if len(ds) > 1 {
					variant.Name += fmt.Sprintf(", %s %d", name, i+1)
				}
				found, err := expand(variant, d.needs, decls, append(slices.Clone(within), name))
				if err != nil {
					return nil, err
				}
				for _, e := range found {
					e.Decls = append(slices.Clone(e.Decls), d.text)
					more = append(more, e)
				}
			}
		}
		all = more
	}
	return all, nil
}

// block is a piece of code of a page.
type block struct {
	text string
	fset *token.FileSet
	file *ast.File
}

// parse reads code that is declarations or statements.
func parse(code string) (*block, error) {
	var first error
	for _, around := range [][2]string{{"package p\n", ""}, {"package p\nfunc _() {\n", "}\n"}} {
		b := &block{text: around[0] + code + around[1], fset: token.NewFileSet()}
		file, err := parser.ParseFile(b.fset, "", b.text, parser.SkipObjectResolution)
		if err == nil {
			b.file = file
			return b, nil
		}
		first = err
	}
	return nil, fmt.Errorf("%w in\n%s", first, code)
}

func (b *block) source(from, to ast.Node) string {
	return b.text[b.fset.Position(from.Pos()).Offset:b.fset.Position(to.End()).Offset]
}

// declare adds what d declares.
func (b *block) declare(d ast.Decl, decls map[string][]decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if name := d.Name.Name; d.Recv == nil && name != "_" {
			text := "var " + name + " = func" + b.source(d.Type.Params, d)
			decls[name] = append(decls[name], decl{text, free(d)})
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if v, ok := spec.(*ast.ValueSpec); ok {
				for _, name := range v.Names {
					decls[name.Name] = append(decls[name.Name], decl{d.Tok.String() + " " + b.source(v, v), free(v)})
				}
			}
		}
	}
}

// literals returns the policies and transports in b that are not within another one.
func (b *block) literals() (all []decl) {
	ast.Inspect(b.file, func(n ast.Node) bool {
		l, ok := n.(*ast.CompositeLit)
		if !ok || l.Type == nil {
			return true
		}
		if typ := b.source(l.Type, l.Type); typ != "retry.Policy" && typ != "retryhttp.Transport" {
			return true
		}
		all = append(all, decl{b.source(l, l), free(l)})
		return false
	})
	return all
}

// free returns the names that n uses and does not declare, in their order.
func free(n ast.Node) (names []string) {
	declared := map[string]bool{}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			declared[n.Name.Name] = true
		case *ast.ValueSpec:
			for _, name := range n.Names {
				declared[name.Name] = true
			}
		case *ast.Field:
			for _, name := range n.Names {
				declared[name.Name] = true
			}
		case *ast.AssignStmt:
			for _, e := range n.Lhs {
				if name, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE {
					declared[name.Name] = true
				}
			}
		case *ast.RangeStmt:
			for _, e := range []ast.Expr{n.Key, n.Value} {
				if name, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE {
					declared[name.Name] = true
				}
			}
		}
		return true
	})
	var visit func(ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			ast.Inspect(n.X, visit)
			return false
		case *ast.KeyValueExpr:
			if _, ok := n.Key.(*ast.Ident); !ok { // a field; keys of maps may be names too, but those of policies are not
				ast.Inspect(n.Key, visit)
			}
			ast.Inspect(n.Value, visit)
			return false
		case *ast.Ident:
			if !declared[n.Name] && n.Name != "_" && !slices.Contains(names, n.Name) && !builtin(n.Name) {
				names = append(names, n.Name)
			}
		}
		return true
	}
	ast.Inspect(n, visit)
	return names
}

func builtin(name string) bool {
	return slices.Contains(strings.Fields("any bool byte error false float64 int int64 len max min new nil string true uint64"), name)
}

// source returns the file that runs the examples.
func source(all []example) ([]byte, error) {
	used := map[string]bool{}
	var body strings.Builder
	for _, e := range all {
		fmt.Fprintf(&body, "\t{%q, func() any {\n", e.Name)
		for _, d := range e.Decls {
			fmt.Fprintf(&body, "\t\t%s\n", d)
		}
		fmt.Fprintf(&body, "\t\tvalue := %s\n\t\treturn &value\n\t}},\n", e.Literal)
		for name := range imports {
			if regexp.MustCompile(`\b` + name + `\.[A-Z]`).MatchString(strings.Join(e.Decls, "\n") + e.Literal) {
				used[name] = true
			}
		}
	}
	var text strings.Builder
	text.WriteString("// Code generated from the pages by go generate ./internal/harm; DO NOT EDIT.\n\npackage harm_test\n\nimport (\n")
	for _, ours := range []bool{false, true} {
		for _, name := range slices.Sorted(maps.Keys(used)) {
			if strings.Contains(imports[name], ".") == ours {
				fmt.Fprintf(&text, "\t%q\n", imports[name])
			}
		}
		text.WriteString("\n")
	}
	text.WriteString(")\n\n// onPages are the policies and transports that pages show, as they stand there, with all that they use.\n")
	text.WriteString("var onPages = []struct {\n\tname  string\n\tvalue func() any // a *retry.Policy or a *retryhttp.Transport\n}{\n" + body.String() + "}\n")
	return format.Source([]byte(text.String()))
}
