package retryvet

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/tools/go/analysis"
)

// This file keeps at one place what the calls of a package shared before: a policy that
// is made by a function, or of options in variables of the package.

// An origin is where the policy of a call comes from.
type origin struct {
	objects []types.Object // a function, or variables that hold options
	args    string         // what the function is given, but for contexts
	options []*types.Var   // all variables of the package that hold options of the call
	reads   []*types.Var   // variables of the package whose values the policy has
	early   *types.Var     // one of them that has been read when the program begins, and may change later
	own     bool           // the call sets something itself
	local   bool           // something depends on variables of the call's function
	named   bool           // an argument has a name, which another file may not know
}

func (o *origin) add(obj types.Object) {
	if !slices.Contains(o.objects, obj) {
		o.objects = append(o.objects, obj)
	}
}

// option notes where an option of a call comes from. Since the variables before, others
// are read.
func (o *origin) option(m *migration, option ast.Expr, made *ast.CallExpr, name string, before int) {
	v := m.variable(option)
	if m.elsewhere(made) {
		for _, read := range o.reads[before:] {
			if read.Exported() || m.changes(read) {
				o.early = read
			}
		}
	}
	switch {
	case v != nil && v.Parent() == m.Pkg.Scope():
		o.options = append(o.options, v)
		if name != "LastErrorOnly" {
			o.add(v)
		}
	case m.elsewhere(made): // an element of a slice of the package
	case name != "Context" && name != "OnRetry" && name != "LastErrorOnly":
		o.own = true
	}
}

// helper notes the function that makes the backoff, and what it is given.
func (o *origin) helper(m *migration, f *types.Func, args []ast.Expr) {
	o.add(f)
	for _, arg := range args {
		switch {
		case m.isConstant(arg):
			_, isLiteral := ast.Unparen(arg).(*ast.BasicLit)
			o.named = o.named || !isLiteral
			o.args += m.TypesInfo.Types[arg].Value.ExactString() + ","
		case !isContext(m.TypesInfo.TypeOf(arg)):
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

// A sharedPolicy is declared where its origin is, and stands in each call by its name.
type sharedPolicy struct {
	name    string
	waits   bool       // calls add a hook
	first   *migration // whose policy it is
	users   []*migration
	file    *ast.File // in which it is declared
	after   ast.Node  // the declaration behind which it is declared
	repeats repeats
}

// sharedPolicies finds the policies that calls have in common, and gives them to the
// calls. Calls in tests do not count, unless the origin is there as well: they are not
// seen where the package is analyzed without them, and both must come to one result.
func (p *pass) sharedPolicies(all []*migration) []*sharedPolicy {
	var found []*sharedPolicy
	byKey := map[string]*sharedPolicy{}
	for _, m := range all {
		m.shared = nil
		key := m.origin.key()
		if m.refusal != "" || key == "" || m.hasNotes() {
			continue
		}
		s := byKey[key]
		if s == nil {
			s = &sharedPolicy{}
			byKey[key] = s
			found = append(found, s)
		}
		s.users = append(s.users, m)
	}
	names := map[string]bool{}
	found = slices.DeleteFunc(found, func(s *sharedPolicy) bool {
		if !p.declarable(s) || names[s.name] {
			return true
		}
		names[s.name] = true
		for _, m := range s.users {
			m.shared = s
		}
		return false
	})
	return found
}

// declarable completes s, and reports whether it is worth declaring: more than one
// call has it, or it depends on variables that have other values later.
func (p *pass) declarable(s *sharedPolicy) bool {
	o := &s.users[0].origin
	origin := o.objects[len(o.objects)-1]
	home, decl := p.declarationOf(origin)
	if decl == nil || ast.IsGenerated(home) || !importsPath(home, s.users[0].lib.path) {
		return false
	}
	var counted []*migration
	for _, m := range s.users {
		if !p.inTest(m.file) || p.inTest(home) {
			counted = append(counted, m)
			s.repeats = max(s.repeats, m.repeats)
		}
	}
	if len(counted) == 0 || len(counted) == 1 && o.early == nil {
		return false
	}
	s.waits = slices.ContainsFunc(counted, func(m *migration) bool { return m.wait != "" })
	s.users = slices.DeleteFunc(s.users, func(m *migration) bool { return m.repeats > s.repeats || m.wait != "" && !s.waits })
	s.first, s.file, s.after = counted[0], home, decl
	if i := slices.IndexFunc(counted, func(m *migration) bool { return m.file == home }); i >= 0 {
		s.first = counted[i]
	} else if o.named {
		s.file, s.after = s.first.file, nil
	}
	s.name = policyName(o.objects)
	return p.isFree(s.name) && (!s.waits || p.isFree(withWait))
}

// withWait is the name of the function that adds a hook to a shared policy.
const withWait = "withWait"

// isFree reports whether no identifier of the package has the name.
func (p *pass) isFree(name string) bool {
	taken := func(file *ast.File) bool { return freeName(file, name) == "" }
	return !slices.ContainsFunc(p.Files, taken) && !p.namedInTests(name)
}

func importsPath(file *ast.File, path string) bool {
	return slices.ContainsFunc(file.Imports, func(spec *ast.ImportSpec) bool { return spec.Path.Value == strconv.Quote(path) })
}

// declarationOf returns the declaration of a function or variable of the package, and
// its file.
func (p *pass) declarationOf(obj types.Object) (*ast.File, ast.Decl) {
	for _, file := range p.Files {
		for _, decl := range file.Decls {
			if decl.Pos() <= obj.Pos() && obj.Pos() < decl.End() {
				return file, decl
			}
		}
	}
	return nil, nil
}

// policyName names a policy after what it is made of: newUploadBackOff becomes
// uploadPolicy, rtyAtt and rtyDel become rtyPolicy.
func policyName(objects []types.Object) string {
	name := objects[0].Name()
	if len(objects) > 1 {
		for _, obj := range objects[1:] {
			name = commonWords(name, obj.Name())
		}
	}
	for _, prefix := range []string{"New", "new", "Get", "get", "Make", "make"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && (rest == "" || unicode.IsUpper(rune(rest[0]))) {
			name = rest
		}
	}
	for _, suffix := range []string{"BackOff", "Backoff", "backOff", "backoff", "Options", "options", "Opts", "opts", "Policy", "policy"} {
		name = strings.TrimSuffix(name, suffix)
	}
	if name == "" {
		return "retryPolicy"
	}
	return lowerFirst(name) + "Policy"
}

// commonWords returns the words that both names begin with.
func commonWords(a, b string) string {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	wordEnds := func(s string) bool { return n == len(s) || unicode.IsUpper(rune(s[n])) }
	for n > 0 && !(wordEnds(a) && wordEnds(b)) {
		n--
	}
	return a[:n]
}

// lowerFirst returns name as that of something unexported: URLWait becomes urlWait.
func lowerFirst(name string) string {
	n := 0
	for n < len(name) && unicode.IsUpper(rune(name[n])) {
		n++
	}
	if n > 1 && n < len(name) {
		n-- // the last begins the next word
	}
	return strings.ToLower(name[:n]) + name[n:]
}

// text returns the declaration.
func (s *sharedPolicy) text(im *importer, notes []note) string {
	fields := s.first.fields(im, s.repeats)
	value := inline(fields)
	if len(value) > 80 || strings.Contains(value, "\n") || len(notes) > 0 {
		value = broken(fields, notes)
	}
	if s.first.origin.isHelper() && len(s.first.origin.reads) > 0 { // which may have other values later
		return fmt.Sprintf("func %s() %s.Policy {\nreturn %s\n}", s.name, qualifier, value)
	}
	return fmt.Sprintf("var %s = %s", s.name, value)
}

// in returns what stands in a call of m, in the place of a policy.
func (s *sharedPolicy) in(m *migration, im *importer) string {
	text := s.name
	if s.first.origin.isHelper() && len(s.first.origin.reads) > 0 {
		text += "()"
	}
	if m.wait == "" {
		return text
	}
	return fmt.Sprintf("%s(%s, %s)", withWait, text, m.hookLiteral(im))
}

// withWaitText returns the declaration of that function.
func withWaitText(im *importer) string {
	return fmt.Sprintf("\n// %[1]s returns the policy with a hook that is called before each wait.\n"+
		"func %[1]s(p %[2]s.Policy, wait func(%[3]s.Context, %[2]s.Attempt)) %[2]s.Policy {\np.Hooks.Wait = wait\nreturn p\n}\n",
		withWait, qualifier, im.context)
}

// declarePolicies returns the edits that declare the shared policies of the file. Such a
// one takes the place of its origin if that goes.
func (im *importer) declarePolicies(tokens *token.File, source []byte) []analysis.TextEdit {
	var edits []analysis.TextEdit
	s := &sources{tokens: tokens, source: source}
	deleted := s.lines(im.dead)
	withHook := im.plan.waiting() == im.file
	for _, shared := range im.plan.policies {
		if shared.file != im.file {
			continue
		}
		text := shared.text(im, notesFrom(im.plan.leftovers, shared.first))
		if withHook {
			text, withHook = text+"\n"+withWaitText(im), false
		}
		text, reason := im.resolve(text)
		if reason != "" {
			refuse(im.plan.users(im.file), reason)
			return nil
		}
		at := tokens.Pos(tokens.Size())
		if shared.after != nil {
			at = s.lineEnd(shared.after.End())
		}
		i := slices.IndexFunc(deleted, func(e analysis.TextEdit) bool {
			return shared.after != nil && e.Pos <= shared.after.Pos() && shared.after.End() <= e.End
		})
		if i >= 0 {
			at, text = deleted[i].Pos, shared.doc()+text+"\n"
		} else {
			text = "\n\n" + text
		}
		edits = append(edits, analysis.TextEdit{Pos: at, End: at, NewText: []byte(text)})
	}
	return edits
}

// doc returns the comment of the origin, for what takes its place.
func (s *sharedPolicy) doc() string {
	var group *ast.CommentGroup
	old := s.first.origin.objects[0].Name()
	switch d := s.after.(type) {
	case *ast.FuncDecl:
		group = d.Doc
	case *ast.GenDecl:
		group = d.Doc
	}
	if group == nil {
		return ""
	}
	text := note{group: group}.text() + "\n"
	if rest, ok := strings.CutPrefix(text, "// "+old+" "); ok {
		if what, ok := strings.CutPrefix(rest, "returns "); ok && len(s.first.origin.reads) == 0 {
			rest = "has " + what
		}
		text = "// " + s.name + " " + rest
	}
	return text
}
