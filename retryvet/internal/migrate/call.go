package migrate

import (
	"cmp"
	"go/ast"
	"go/types"
	"time"

	"golang.org/x/tools/go/ast/inspector"

	"github.com/goretry/retry/retryvet/internal/code"
)

// This file is what the files of the libraries and all others agree on: what is known of
// a library, and what is understood of a call.

// A family is a library in all its versions.
type family struct {
	path string                     // by which it is imported, without a major version
	of   func(version int) *library // version 0: the path has none; nil: an unknown one
}

// A library is what is known of one version of another retry library.
type library struct {
	path    string // by which it is imported
	version int    // 0: the path has none
	title   string

	entries []string // functions that run something
	methods []string // methods that do
	clients []string // types that do, whose literals are reported
	instead string   // what to do by hand, since no call can be rewritten; "": read understands some

	// write returns the statement to write by hand in place of a call, "" for none, and what
	// is different then. Only one with instead has it; nil: there is none for any call.
	write func(c *foreignCall) (stmt string, told []string)

	// read fills in what is understood of a call, or says why it cannot be rewritten.
	read func(c *foreignCall) (reason string)

	// These do so for what makes a backoff: a call of the function name, the same with
	// fields that are set afterwards, and a literal. A read that calls backOff needs makes;
	// sets and literal may be nil, if nothing like that is understood.
	makes   func(c *foreignCall, name string, made *ast.CallExpr) (reason string)
	sets    func(c *foreignCall, name string, made *ast.CallExpr, fields map[string]ast.Expr) (reason string)
	literal func(c *foreignCall, lit *ast.CompositeLit) (reason string)

	aside   []string          // its functions that set nothing of a policy: a context, a hook
	becomes map[string]string // which field of a policy takes the place of its options and fields, by their names

	marks    []string // functions that mark an error, which have a counterpart here
	markType string   // of marked errors, if its name is exported
	marked   string   // a condition that says that err is marked, with %s for the library's name

	errors map[string]string // what tells its errors apart, and what to write instead
	others map[string]string // more names that keep a call as it is, and what to write instead

	inverse bool   // it repeats marked errors only
	zero    bool   // after a failure it returns no value
	resumes bool   // a run begins with the wait at which the run before stopped, if they share a backoff
	alias   string // what its import is named where package retry needs that name
}

// byHand says what to write for a name that keeps a call as it is.
func (l *library) byHand(name string) string {
	return name + ": write " + cmp.Or(l.errors[name], l.others[name], "the field of a retry.Policy that takes its place")
}

// pass is one package whose calls are rewritten.
type pass struct {
	*code.Package
	families []family
	byPath   map[string]*library // by path, nil for what is no library
	funcs    *functions
	tests    *[]*ast.File // of the folder, nil until they are read
}

// wrapsError is said of a call whose error was the operation's own as far as callers know.
const wrapsError = "its error is now a *retry.Error, which callers must not compare with =="

// A foreignCall is one call of another library, and what is understood of it, in the
// same words for all libraries. Texts use qualifier for the name of package retry, and
// those in standard for packages of the standard library.
type foreignCall struct {
	*pass
	lib    *library
	file   *ast.File
	cursor inspector.Cursor
	call   *ast.CallExpr
	name   string // of the function called

	// What it calls.
	ctx ast.Expr // nil: none given
	op  ast.Expr // nil: not understood

	// How it waits.
	waits waits

	// When it stops.
	attempts      string // after so many, the first included; "": no limit
	limit         int64  // the same number, 0 if it is not known
	mayBeZero     bool   // attempts is a variable in which zero means no limit
	elapsed       string // after this time; "": no limit
	elapsedVaries bool   // elapsed is a variable in which zero means no limit

	// What it repeats, and what it reports.
	retries *condition // which errors are repeated; nil: those that are not marked
	hook    hook
	told    []string // what is different after the fix
	judge   []string // why only the user can say whether the new call will do

	// Where all that stands.
	origin  origin     // of the policy
	removed []ast.Stmt // these go with the call
	kept    []ast.Node // parts of the call, and others, whose text stays

	// What is known while its backoff is followed to where that is made.
	arguments map[*types.Var]ast.Expr // what a helper's parameters stand for
	made      map[*types.Var][]making // the values of variables that hold a backoff
	inlined   map[*ast.FuncDecl]bool  // the helpers
}

// waits are those of a call, one before each retry.
type waits struct {
	kind   waitKind
	base   amount // the first one
	most   amount // the longest; unset: none
	factor string // by which exponential ones grow; "": 2
	jitter jitter
	list   []string // all, if they are listed
	told   []string // what is different about them after the fix
}

type waitKind int

const (
	noWaits waitKind = iota
	constantWaits
	exponentialWaits
	fibonacciWaits // 1, 2, 3, 5: only a list has them
	listedWaits
)

// A jitter is what chance does to a wait.
type jitter struct {
	text    string // as a policy writes it; "": there is none
	adds    amount // so much at most
	doubles bool   // it may double the wait
}

// An amount is a time that a call sets.
type amount struct {
	text string
	d    time.Duration // unless it varies
	is   amountKind
}

type amountKind int

const (
	unset  amountKind = iota
	plain             // a constant written without names
	named             // a constant with a name
	varies            // only the program knows it
)

// A condition is an expression about an error that has a name.
type condition struct {
	option     string // that sets it
	name, text string
	f          *types.Func // nil unless it is a call of f with the error
}

// A hook is a function that is called before each wait: the zero value is none.
type hook struct {
	body    string // of the function; "": there is none
	attempt string // the name of its parameter
}

// making is how a variable that holds a backoff gets a value.
type making struct {
	value  ast.Expr
	fields map[string]ast.Expr // that are set afterwards
}

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

func newCall(p *pass, lib *library, file *ast.File, at inspector.Cursor, name string) *foreignCall {
	return &foreignCall{
		pass: p, lib: lib, file: file, cursor: at, call: at.Node().(*ast.CallExpr), name: name,
		arguments: map[*types.Var]ast.Expr{}, made: map[*types.Var][]making{}, inlined: map[*ast.FuncDecl]bool{},
	}
}

// functions are the functions and methods that the package declares.
type functions struct {
	decls map[*types.Func]*ast.FuncDecl
	names map[*ast.FuncDecl][]*types.Func // that its body names
}
