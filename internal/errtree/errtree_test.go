package errtree_test

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/errtree"
)

type leaf string

func (l leaf) Error() string { return string(l) }

// unhurt is a type of which a nil pointer must not be called.
type unhurt struct{ err error }

func (u *unhurt) Error() string { return u.err.Error() }
func (u *unhurt) Unwrap() error { return u.err }

// shows has a method As over errors that nothing unwraps.
type shows []error

func (shows) Error() string { return "shows" }
func (s shows) As(target any) bool {
	return slices.ContainsFunc(s, func(err error) bool { return errors.As(err, target) })
}

// shy shows an error to those who ask for its type.
type shy struct{ leaf leaf }

func (shy) Error() string { return "shy" }
func (s shy) As(target any) bool {
	p, ok := target.(*leaf)
	if ok {
		*p = s.leaf
	}
	return ok
}

// liar finds everything and sets nothing.
type liar struct{}

func (liar) Error() string { return "liar" }
func (liar) As(any) bool   { return true }

func visited(err error, answer func(error) errtree.Next) (seen []string, stopped bool) {
	stopped = errtree.Walk(err, func(err error) errtree.Next {
		if l, ok := err.(leaf); ok {
			seen = append(seen, string(l))
		}
		return answer(err)
	})
	return seen, stopped
}

func TestWalk(t *testing.T) {
	run := &retry.Error{Errs: []error{leaf("first"), leaf("last")}, Cause: leaf("cause")}
	tree := errors.Join(
		fmt.Errorf("x: %w", leaf("a")),
		(*unhurt)(nil),
		fmt.Errorf("%w, %w", &unhurt{leaf("b")}, errors.Join(leaf("c"), nil, leaf("d"))),
		run,
		leaf("e"),
	)
	into := func(error) errtree.Next { return errtree.Into }
	if seen, stopped := visited(tree, into); stopped || !slices.Equal(seen, []string{"a", "b", "c", "d", "last", "e"}) {
		t.Errorf("visited %v, stopped: %v", seen, stopped)
	}
	seen, stopped := visited(tree, func(err error) errtree.Next {
		if err == leaf("c") {
			return errtree.Stop
		}
		return errtree.Into
	})
	if !stopped || !slices.Equal(seen, []string{"a", "b", "c"}) {
		t.Errorf("visited %v, stopped: %v", seen, stopped)
	}
	seen, _ = visited(tree, func(err error) errtree.Next {
		if err == error(run) {
			return errtree.Past
		}
		return errtree.Into
	})
	if !slices.Equal(seen, []string{"a", "b", "c", "d", "e"}) {
		t.Errorf("visited %v", seen)
	}
	for _, none := range []error{nil, (*unhurt)(nil), (*retry.Error)(nil)} {
		if errtree.Walk(none, func(error) errtree.Next { return errtree.Stop }) || !errtree.IsNil(none) {
			t.Errorf("visited %T", none)
		}
	}
	if errtree.IsNil(leaf("")) || errtree.IsNil(&unhurt{}) {
		t.Error("an error is nil")
	}
}

// broken panics in its method Unwrap, and in the other one if it is called.
type broken struct{}

func (broken) Error() string { return "broken" }
func (broken) Unwrap() error { panic("Unwrap") }
func (broken) Broken() bool  { panic("Broken") }

func TestWalkSafely(t *testing.T) {
	tree := errors.Join(leaf("a"), broken{}, &unhurt{broken{}}, leaf("b"), leaf("c"))
	var seen []string
	stopped := errtree.WalkSafely(tree, func(err error) errtree.Next {
		switch e := err.(type) {
		case leaf:
			seen = append(seen, string(e))
		case interface{ Broken() bool }:
			e.Broken()
		}
		if err == leaf("b") {
			return errtree.Stop
		}
		return errtree.Into
	})
	if !stopped || !slices.Equal(seen, []string{"a", "b"}) {
		t.Errorf("visited %v, stopped: %v", seen, stopped)
	}
	into := func(error) errtree.Next { return errtree.Into }
	if errtree.WalkSafely(tree, into) || errtree.WalkSafely(broken{}, into) {
		t.Error("stopped")
	}
	defer func() {
		if recover() != "Unwrap" {
			t.Error("Walk hides a panic")
		}
	}()
	errtree.Walk(tree, into)
}

// A run that ended with a run says why the inner one ended, for "permanent" says nothing.
func TestReason(t *testing.T) {
	run := func(reason retry.Reason, errs ...error) *retry.Error { return &retry.Error{Reason: reason, Errs: errs} }
	exhausted := run(retry.ReasonMaxAttempts, leaf("down"))
	for _, tt := range []struct {
		run  *retry.Error
		want string
	}{
		{run(retry.ReasonMaxAttempts, exhausted), "max_attempts"},
		{run(retry.ReasonPermanent, leaf("not found")), "permanent"},
		{run(retry.ReasonPermanent, exhausted, leaf("not found")), "permanent"},
		{run(retry.ReasonPermanent, fmt.Errorf("x: %w", exhausted)), "permanent: max_attempts inside"},
		{run(retry.ReasonPermanent, run(retry.ReasonPermanent, exhausted)), "permanent: max_attempts inside"},
		{run(retry.ReasonPermanent, errors.Join(exhausted, run(retry.ReasonCanceled))), "permanent: max_attempts inside"},
		{run(retry.ReasonPermanent, run(retry.ReasonPermanent, leaf("not found"))), "permanent"},
	} {
		if got := errtree.Reason(tt.run); got != tt.want {
			t.Errorf("Reason(%v) = %q, want %q", tt.run.Errs, got, tt.want)
		}
	}
}

func TestAs(t *testing.T) {
	if got, ok := errtree.As[leaf](shows{io.EOF, fmt.Errorf("x: %w", leaf("a"))}); !ok || got != "a" {
		t.Errorf("As = %q, %v", got, ok)
	}
	for _, err := range []error{shows{io.EOF}, fmt.Errorf("x: %w", leaf("a")), nil} {
		if got, ok := errtree.As[leaf](err); ok {
			t.Errorf("As(%v) = %q", err, got)
		}
	}
	if _, ok := errtree.As[*unhurt](liar{}); ok {
		t.Error("a nil pointer was found")
	}
}

// positions is kafka-go's WriteErrors: an error for each message, nil for one that was
// written.
type positions []error

func (positions) Error() string { return "positions" }

// chain is go-multierror's: As shows the first error, and Unwrap leads to the others.
type chain []error

func (chain) Error() string        { return "chain" }
func (c chain) As(target any) bool { return errors.As(c[0], target) }
func (c chain) Unwrap() error {
	if len(c) == 1 {
		return nil
	}
	return c[1:]
}

func TestWalkGoesThroughSlicesAndMethodsAs(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want []string
	}{
		{positions{leaf("a"), nil, leaf("b")}, []string{"a", "b"}},
		{chain{leaf("a"), leaf("b"), fmt.Errorf("x: %w", leaf("c"))}, []string{"a", "b", "c"}},
		{chain{chain{leaf("a"), leaf("b")}, leaf("c")}, []string{"a", "b", "c"}},
		{shows{leaf("a")}, []string{"a"}},
	} {
		seen, _ := visited(tt.err, func(error) errtree.Next { return errtree.Into })
		if !slices.Equal(seen, tt.want) {
			t.Errorf("in %T: visited %v, want %v", tt.err, seen, tt.want)
		}
	}
	if seen, stopped := visited(shows{leaf("a")}, func(err error) errtree.Next {
		if err == leaf("a") {
			return errtree.Stop
		}
		return errtree.Into
	}); !stopped {
		t.Errorf("visited %v, and did not stop", seen)
	}
	if _, joined := errtree.Below(positions{nil}); len(joined) != 1 || joined[0] == nil {
		t.Errorf("a part that succeeded is %v, want an error that says so", joined)
	}
}

func TestWalkVisitsSharedErrorsAboutOnce(t *testing.T) {
	err := error(leaf("a"))
	for range 1000 {
		err = errors.Join(err, &unhurt{err}) // fmt.Errorf would make a text of all
	}
	if seen, _ := visited(errors.Join(leaf("a"), leaf("a")), func(error) errtree.Next { return errtree.Into }); len(seen) != 2 {
		t.Errorf("in a small tree an error is visited %d times, want at both its places", len(seen))
	}
	visits := 0
	errtree.Walk(err, func(error) errtree.Next { visits++; return errtree.Into })
	if visits < 2001 || visits > 3000 {
		t.Errorf("%d visits of 2001 errors", visits)
	}
}

// folded returns the texts of all leaves of err, and how many errors were visited.
func folded(err error) (leaves string, visits int) {
	f := errtree.Fold[string]{}
	f.Add = func(above, below string) string {
		for i := range below {
			if !strings.Contains(above, below[i:i+1]) {
				above += below[i : i+1]
			}
		}
		return above
	}
	f.Visit = func(err error, at uint8) (says string, then uint8, next error) {
		visits++
		if leaf, ok := err.(leaf); ok {
			return string(leaf), at, nil
		}
		n := f.Look(err)
		for _, err := range n.Joined {
			says = f.Add(says, f.Branch(err, at))
		}
		return says, at, n.One
	}
	return f.Of(err, 0), visits
}

func TestFold(t *testing.T) {
	a, b, c := leaf("a"), leaf("b"), leaf("c")
	long, large := error(a), errors.Join(b, &unhurt{a})
	for range 100_000 {
		long = &unhurt{long}
	}
	for range 1000 {
		large = errors.Join(large, &unhurt{large})
	}
	itself := positions{a, nil, b}
	itself[1] = itself
	for name, tt := range map[string]struct {
		err  error
		want string
		most int
	}{
		"one":                     {a, "a", 1},
		"none":                    {nil, "", 0},
		"joined":                  {fmt.Errorf("%w %w %w", b, errors.Join(c, a), a), "bca", 6},
		"a long chain":            {long, "a", 100_001},
		"one that holds itself":   {itself, "ab", 200},
		"the same in many places": {large, "ba", 3000},
	} {
		if got, visits := folded(tt.err); got != tt.want || visits > tt.most {
			t.Errorf("%s: %q in %d visits, want %q in at most %d", name, got, visits, tt.want, tt.most)
		}
	}
}

// says wraps an error and says something itself.
type says struct {
	err  error
	text string
}

func (says) Error() string    { return "says" }
func (s *says) Unwrap() error { return s.err }

// What an error says counts at each of its places, in a large tree too.
func TestFoldAddsUp(t *testing.T) {
	f := errtree.Fold[string]{Add: func(above, below string) string { return above + below }}
	f.Visit = func(err error, at uint8) (own string, then uint8, next error) {
		switch e := err.(type) {
		case leaf:
			own = string(e)
		case *says:
			own = e.text
		}
		n := f.Look(err)
		for _, err := range n.Joined {
			own += f.Branch(err, at)
		}
		return own, at, n.One
	}
	tree := error(&says{&says{&says{leaf("d"), "c"}, "b"}, "a"})
	if got := f.Of(tree, 0); got != "abcd" {
		t.Errorf("a small tree says %q", got)
	}
	tree = errors.Join(append(slices.Repeat([]error{leaf("")}, 100), tree, &says{tree, "e"}, tree)...)
	if got, want := f.Of(tree, 0), "abcd"+"eabcd"+"abcd"; got != want {
		t.Errorf("a large tree says %q, want %q", got, want)
	}
}

// The same error may say something else at another place.
func TestFoldAtPlaces(t *testing.T) {
	f := errtree.Fold[int]{Add: func(above, below int) int { return max(above, below) }}
	f.Visit = func(err error, at uint8) (says int, then uint8, next error) {
		n := f.Look(err)
		for i, err := range n.Joined {
			says = max(says, f.Branch(err, at+uint8(i)))
		}
		return max(says, int(at)), at, n.One
	}
	var err error = leaf("a")
	for range 20 {
		err = errors.Join(err, err)
	}
	if got := f.Of(err, 0); got != 20 {
		t.Errorf("the furthest place is %d, want 20", got)
	}
}

// node is an error of which a test says what its methods do.
type node struct {
	wraps []error
	shows error // by As, to those who ask for any error
	is    error // by Is
}

func (node) Error() string          { return "node" }
func (n node) Unwrap() []error      { return n.wraps }
func (n node) Is(target error) bool { return n.is != nil && target == n.is }
func (n node) As(target any) bool {
	p, ok := target.(*error)
	if ok && n.shows != nil {
		*p = n.shows
	}
	return ok && n.shows != nil
}

// passes wraps an error, and its method As searches it.
type passes struct{ err error }

func (passes) Error() string        { return "passes" }
func (p passes) Unwrap() error      { return p.err }
func (p passes) As(target any) bool { return errors.As(p.err, target) }

// passesIs wraps an error, and its method Is searches it.
type passesIs struct{ err error }

func (passesIs) Error() string          { return "passes" }
func (p passesIs) Unwrap() error        { return p.err }
func (p passesIs) Is(target error) bool { return errors.Is(p.err, target) }

// What a method As shows is of interest only if Unwrap does not lead there.
func TestLookFindsWhatOnlyAsShows(t *testing.T) {
	below, other := leaf("below"), leaf("other")
	for name, tt := range map[string]struct {
		err    error
		hidden error
		asked  bool // whether As may show more
	}{
		"no method As":                  {below, nil, false},
		"no error":                      {&node{}, nil, true},
		"no error, though one is below": {&node{wraps: []error{below}}, nil, true},
		"what it wraps":                 {passes{below}, nil, false},
		"one that is joined":            {&node{wraps: []error{nil, other, below}, shows: below}, nil, false},
		"another":                       {&node{wraps: []error{nil, below}, shows: other}, other, false},
		"another, below none":           {&node{shows: other}, other, true},
		"of a chain, the first":         {chain{below, other}, below, false},
	} {
		if n := new(errtree.Asking).Look(tt.err); n.Hidden != tt.hidden || (n.As != nil) != tt.asked {
			t.Errorf("%s: %+v, want %v, asked: %v", name, n, tt.hidden, tt.asked)
		}
	}
	itself := &node{}
	itself.shows = itself
	if n := new(errtree.Asking).Look(itself); n.Hidden != nil {
		t.Errorf("itself: %v", n.Hidden)
	}
}

// Methods As may make errors without an end.
// What may search a hidden tree is called only if that is small, and few of its errors search on.
func TestHiddenSaysWhatMayBeCalled(t *testing.T) {
	large := make([]error, 64)
	for i := range large {
		large[i] = leaf("a")
	}
	deep := func(n int, wrap func(error) error) (err error) {
		err = leaf("a")
		for range n {
			err = wrap(err)
		}
		return err
	}
	as := func(err error) error { return passes{err} }
	is := func(err error) error { return passesIs{err} }
	run := func(err error) error { return &retry.Error{Errs: []error{err}} }
	for name, tt := range map[string]struct {
		hidden error
		says   string
		calls  bool
	}{
		"none":                {nil, "", true},
		"one":                 {leaf("a"), "a", true},
		"three that search":   {deep(3, as), "a", true},
		"four that search":    {deep(4, as), "a", false},
		"three, by Is":        {deep(3, is), "a", true},
		"four, by Is":         {deep(4, is), "a", false},
		"three runs":          {deep(3, run), "a", true},
		"four runs":           {deep(4, run), "a", false},
		"64 errors":           {errors.Join(large[1:]...), "a", true},
		"more than 64 errors": {errors.Join(large...), "a", false},
	} {
		var f errtree.Fold[string]
		f.Add = func(above, below string) string { return cmp.Or(above, below) }
		f.Visit = func(err error, at uint8) (says string, then uint8, next error) {
			switch e := err.(type) {
			case leaf:
				return string(e), at, nil
			case *retry.Error:
				f.CountRun()
				return "", at, e.Last()
			}
			n := f.Look(err)
			for _, err := range n.Joined {
				says = cmp.Or(says, f.Branch(err, at))
			}
			return says, at, n.One
		}
		f.Look(deep(1, as))
		f.Look(deep(1, is)) // before
		n := f.Look(&node{shows: tt.hidden})
		if says, ask := f.Hidden(n.Hidden, 0); says != tt.says || ask != tt.calls {
			t.Errorf("%s: %q, calls: %v, want %q, %v", name, says, ask, tt.says, tt.calls)
		}
	}
}

func TestLookFindsAThousand(t *testing.T) {
	var a errtree.Asking
	for i := range 1002 {
		if n := a.Look(&node{wraps: []error{leaf("below")}, shows: leaf("other")}); (n.Hidden != nil) != (i < 1000) || n.As != nil || n.Is != nil {
			t.Errorf("%d: %+v", i, n)
		}
	}
}

// Errors of all kinds.
type (
	holds struct {
		err error
		n   int
	}
	array  [2]int
	errs   [2]error
	table  map[string]int
	action func()
	long   [100]int
	count  struct{ _ int }
)

func (holds) Error() string  { return "holds" }
func (array) Error() string  { return "array" }
func (errs) Error() string   { return "errs" }
func (table) Error() string  { return "table" }
func (action) Error() string { return "action" }
func (long) Error() string   { return "long" }
func (count) Error() string  { return "count" }

// leaves has a value of each kind that is compared by itself, beside one that is not.
type leaves struct {
	err error
	u   uint8
	f   float64
	b   bool
	c   complex64
}

func (leaves) Error() string { return "leaves" }

// A method As may return a copy of what Unwrap returns.
func TestLookComparesValues(t *testing.T) {
	a, b := leaf("a"), leaf("b")
	list, numbers := chain{a, b}, table{}
	first, second := action(func() { t.Log() }), action(func() { t.Fail() })
	last := long{99: 1}
	for name, tt := range map[string]struct {
		wraps, shows error
		same         bool
	}{
		"equal":                        {a, leaf("a"), true},
		"not equal":                    {a, b, false},
		"another type":                 {a, array{}, false},
		"a pointer":                    {&holds{}, &holds{}, false},
		"equal structs":                {holds{a, 1}, holds{a, 1}, true},
		"structs, not equal":           {holds{a, 1}, holds{a, 2}, false},
		"equal leaves":                 {leaves{a, 1, 1, true, 1}, leaves{a, 1, 1, true, 1}, true},
		"another uint":                 {leaves{u: 1}, leaves{}, false},
		"another float":                {leaves{f: 1}, leaves{}, false},
		"another bool":                 {leaves{b: true}, leaves{}, false},
		"another complex":              {leaves{c: 1}, leaves{}, false},
		"structs with other errors":    {holds{a, 1}, holds{b, 1}, false},
		"structs without errors":       {holds{}, holds{}, true},
		"a struct without an error":    {holds{}, holds{a, 0}, false},
		"equal arrays":                 {array{1, 2}, array{1, 2}, true},
		"arrays, not equal":            {array{1, 2}, array{1, 3}, false},
		"one slice":                    {list, list[:2], true},
		"a part of it":                 {list, list[:1], false},
		"another slice":                {list, chain{a, b}, false},
		"one map":                      {numbers, numbers, true},
		"another map":                  {numbers, table{}, false},
		"one func":                     {first, first, true},
		"another func":                 {first, second, false},
		"not equal, after many values": {last, long{}, true}, // it looks no further
		"not equal at once":            {last, long{0: 1}, false},
	} {
		n := &node{wraps: []error{tt.wraps}, shows: tt.shows}
		if hidden := new(errtree.Asking).Look(n).Hidden; (hidden == nil) != tt.same {
			t.Errorf("%s: %v", name, hidden)
		}
	}
}

// A method Is that finds what its error wraps, or that may search what As shows, is not that
// error's own word.
func TestIs(t *testing.T) {
	below, other, claimed := leaf("below"), leaf("other"), leaf("claimed")
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"no method":                     {claimed, false},
		"a claim":                       {&node{is: claimed}, true},
		"another claim":                 {&node{is: other}, false},
		"around an error":               {&node{wraps: []error{below}, is: claimed}, true},
		"around none":                   {&node{wraps: []error{nil}, is: claimed}, true},
		"around the one it claims":      {&node{wraps: []error{claimed}, is: claimed}, false},
		"around those it claims":        {&node{wraps: []error{nil, claimed, below}, is: claimed}, false},
		"around a slice":                {&node{wraps: []error{chain{below}}, is: claimed}, false}, // too much to compare
		"around a struct with an error": {&node{wraps: []error{holds{}}, is: claimed}, false},
		"around a struct of numbers":    {&node{wraps: []error{count{}}, is: claimed}, true},
		"around an array of errors":     {&node{wraps: []error{errs{}}, is: claimed}, false},
		"around an array of numbers":    {&node{wraps: []error{array{}}, is: claimed}, true},
		"As shows another":              {&node{shows: other, is: claimed}, false},
		"As shows what it wraps":        {&node{wraps: []error{below}, shows: below, is: claimed}, true},
	} {
		if got := errtree.Is(tt.err, claimed); got != tt.want {
			t.Errorf("%s: Is = %v, want %v", name, got, tt.want)
		}
	}
	// Walk comes to what As shows. Who does not walk there may ask, if nothing is wrapped.
	n := &node{shows: other, is: claimed}
	if new(errtree.Asking).Look(n).Is == nil {
		t.Error("an error that wraps none is not asked")
	}
	n.wraps = []error{below}
	if new(errtree.Asking).Look(n).Is != nil {
		t.Error("an error is asked that may search what As shows")
	}
}

// relays searches what it wraps by all of its methods, and counts their calls.
type relays struct {
	err   error
	calls *int
}

func (p *relays) Error() string        { return "relays" }
func (p *relays) Unwrap() error        { *p.calls++; return p.err }
func (p *relays) Is(target error) bool { *p.calls++; return errors.Is(p.err, target) }
func (p *relays) As(target any) bool   { *p.calls++; return errors.As(p.err, target) }

// uncomparable cannot be compared.
type uncomparable []int

func (uncomparable) Error() string { return "uncomparable" }

func TestFindAndHoldsAreLinear(t *testing.T) {
	const n = 60
	calls := 0
	for _, found := range []bool{true, false} {
		err := error(leaf("other"))
		if found {
			err = errors.Join(leaf("other"), io.EOF, &unhurt{leaf("found")})
		}
		for range n {
			err = &relays{err, &calls}
		}
		calls = 0
		if _, ok := errtree.Find[*unhurt](err); ok != found {
			t.Errorf("Find: %v, want %v", ok, found)
		}
		if ok := errtree.Holds(err, io.EOF); ok != found {
			t.Errorf("Holds: %v, want %v", ok, found)
		}
		if calls > 10*n {
			t.Errorf("%d calls of methods for %d errors", calls, n)
		}
	}
	if got, ok := errtree.Find[leaf](fmt.Errorf("x: %w", shows{leaf("a"), leaf("b")})); !ok || got != "a" {
		t.Errorf("Find = %q, %v, want what As shows", got, ok)
	}
	if got, ok := errtree.Find[leaf](errors.Join(io.EOF, shy{leaf("a")})); !ok || got != "a" {
		t.Errorf("Find = %q, %v, want what As shows to who asks for its type", got, ok)
	}
	if errtree.Shy(shows{leaf("a")}) != nil || errtree.Shy(leaf("a")) != nil || errtree.Shy(shy{}) == nil {
		t.Error("Shy is of those that show no error to who asks for any")
	}
	if errtree.Holds(uncomparable{1}, uncomparable{1}) || errtree.Holds(nil, io.EOF) {
		t.Error("Holds finds what it cannot compare")
	}
}

// What Alone says of a type holds for Look.
func TestAlone(t *testing.T) {
	for err, want := range map[error]bool{
		leaf("a"): true, io.EOF: true, &unhurt{}: false, &node{}: false, fmt.Errorf("x: %w", io.EOF): false, errors.Join(io.EOF): false, liar{}: false, syscall.EIO: false,
	} {
		if got := errtree.Alone(reflect.TypeOf(err)); got != want {
			t.Errorf("%T: %v, want %v", err, got, want)
		}
	}
	for _, err := range []error{positions{}, shows{}, chain{}, (*retry.Error)(nil)} {
		if errtree.Alone(reflect.TypeOf(err)) {
			t.Errorf("%T is alone", err)
		}
	}
}
