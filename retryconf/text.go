package retryconf

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/internal/nearest"
)

// format writes a policy, and returns an error if a part of it has no text.
func format(p retry.Policy) (text string, err error) {
	switch p.Budget {
	case (*retry.EarnedBudget)(nil), (*budget.Token)(nil), (*budget.Ratio)(nil):
		p.Budget = nil // which decides the same: it grants everything
	}
	l := line{policy: p}
	for i, b := range l.backoffs() {
		if _, _, jitter := parts(pointerTo(*b)); jitter != nil {
			l.jitter[i] = jitter
		}
	}
	var words []string
	for _, f := range l.fields() {
		word := write(f.value)
		switch {
		case foreign(f.value):
			err = cmp.Or(err, fmt.Errorf("retryconf: a %s of type %s has no text", f.name, word))
		case f.name == "budget" && word != "":
			if name := owner(p); name != "" {
				word += "@" + write(&name)
			}
		}
		switch _, flag := f.value.(*bool); {
		case flag && word != "":
			words = append(words, f.name)
		case word != "":
			words = append(words, f.name+"="+word)
		}
	}
	return strings.Join(words, " "), err
}

// line is a policy as its text has it: with the jitters apart from the backoffs.
type line struct {
	policy retry.Policy
	jitter [2]*retry.Jitter // nil if there is none
}

type attempts int

// field is a name in the text and a pointer to what it stands for.
type field struct {
	name  string
	value any
}

func (l *line) fields() []field {
	p := &l.policy
	return []field{
		{"name", &p.Name},
		{"attempts", (*attempts)(&p.MaxAttempts)},
		{"max_elapsed", &p.MaxElapsed},
		{"attempt_timeout", &p.AttemptTimeout},
		{"backoff", &p.Backoff},
		{"jitter", &l.jitter[0]},
		{"throttle", &p.ThrottleBackoff},
		{"throttle_jitter", &l.jitter[1]},
		{"max_retry_after", &p.MaxRetryAfter},
		{"non_idempotent", &p.NonIdempotent},
		{"budget", &p.Budget},
	}
}

func (l *line) backoffs() [2]*retry.Backoff {
	return [2]*retry.Backoff{&l.policy.Backoff, &l.policy.ThrottleBackoff}
}

// The kinds of backoffs and budgets; parts has their names.
var (
	backoffKinds = []any{retry.Exponential{}, retry.Linear{}, retry.Decorrelated{}, retry.Constant(0), retry.Schedule{}}
	budgetKinds  = []any{retry.EarnedBudget{}, budget.Token{}, budget.Ratio{}}
)

// parts returns the name of a backoff or budget, given by a pointer, and pointers
// to its arguments and its jitter. The name is empty for one that is unknown.
func parts(pointer any) (name string, args []any, jitter *retry.Jitter) {
	switch b := pointer.(type) {
	case *retry.Exponential:
		return "exponential", []any{&b.Base, &b.Max, &b.Factor}, &b.Jitter
	case *retry.Linear:
		return "linear", []any{&b.Base, &b.Max}, &b.Jitter
	case *retry.Decorrelated:
		return "decorrelated", []any{&b.Base, &b.Max}, nil
	case *retry.Constant:
		return "constant", []any{(*time.Duration)(b)}, nil
	case *retry.Schedule:
		return "schedule", []any{(*[]time.Duration)(b)}, nil
	case *retry.EarnedBudget:
		return "earned", nil, nil
	case *budget.Token:
		return "token", []any{&b.Capacity, &b.Cost, &b.ThrottleCost, &b.Reward}, nil
	case *budget.Ratio:
		return "ratio", []any{&b.Ratio, &b.MinPerSecond, &b.Window}, nil
	}
	return "", nil, nil
}

// pointerTo returns a pointer to a copy of x, nil for nil.
func pointerTo(x any) any {
	if x == nil {
		return nil
	}
	p := reflect.New(reflect.TypeOf(x))
	p.Elem().Set(reflect.ValueOf(x))
	return p.Interface()
}

// write returns the text of what a pointer points to, "" for what is not set.
func write(pointer any) string {
	switch x := pointer.(type) {
	case *string:
		if quoted := strconv.Quote(*x); quoted != `"`+*x+`"` || strings.ContainsAny(*x, separators) {
			return quoted
		}
		return *x
	case *attempts:
		if *x < 0 {
			return "unlimited"
		}
		return unless(*x == 0, strconv.Itoa(int(*x)))
	case *bool:
		return unless(!*x, "true")
	case *time.Duration:
		s := x.String()
		if strings.HasSuffix(s, "m0s") {
			s = strings.TrimSuffix(s, "0s")
		}
		if strings.HasSuffix(s, "h0m") {
			s = strings.TrimSuffix(s, "0m")
		}
		return unless(*x <= 0, s)
	case *float64:
		if math.IsNaN(*x) {
			return "-1" // which means the same wherever it may stand
		}
		return unless(*x == 0, strconv.FormatFloat(*x, 'g', -1, 64))
	case *int:
		return unless(*x == 0, strconv.Itoa(*x))
	case *retry.Backoff:
		return writeKind(*x, pointerTo(*x))
	case *retry.Budget:
		return writeKind(*x, *x)
	case **retry.Jitter:
		return writeJitter(*x)
	}
	panic(fmt.Sprintf("retryconf: %T", pointer))
}

// foreign reports whether a pointer points to a backoff or budget without a text.
func foreign(pointer any) bool {
	var name string
	switch x := pointer.(type) {
	case *retry.Backoff:
		if *x == nil {
			return false
		}
		name, _, _ = parts(pointerTo(*x))
	case *retry.Budget:
		if *x == nil {
			return false
		}
		name, _, _ = parts(*x)
	default:
		return false
	}
	return name == ""
}

func unless(unset bool, text string) string {
	if unset {
		return ""
	}
	return text
}

func writeKind(x, pointer any) string {
	if x == nil {
		return ""
	}
	name, args, _ := parts(pointer)
	return writeList(cmp.Or(name, fmt.Sprintf("%T", x)), args...)
}

// writeList writes a kind with its arguments, without those at the end that are
// not set: but a schedule has all of its waits.
func writeList(kind string, args ...any) string {
	var words []string
	set := 0
	for i, arg := range args {
		if waits, ok := arg.(*[]time.Duration); ok {
			for j := range *waits {
				words = append(words, cmp.Or(write(&(*waits)[j]), "0"))
			}
			set = len(words)
			continue
		}
		word := write(arg)
		if word != "" {
			set = i + 1
		}
		words = append(words, cmp.Or(word, "0"))
	}
	if set == 0 && kind != "constant" { // which would not look like a wait
		return kind
	}
	set = max(set, 1)
	return kind + "(" + strings.Join(words[:set], ",") + ")"
}

// jitters are the ones that have a name.
var jitters = []struct {
	name string
	retry.Jitter
}{{"full", retry.FullJitter}, {"equal", retry.EqualJitter}, {"none", retry.NoJitter}}

func writeJitter(set *retry.Jitter) string {
	if set == nil {
		return ""
	}
	j := *set
	j.Plus = max(j.Plus, 0)
	if j == (retry.Jitter{}) {
		return ""
	}
	for _, known := range jitters {
		if known.Jitter == j {
			return known.name
		}
	}
	if f := math.Round((1-j.Low)*1e9) / 1e9; retry.PlusMinus(f) == j {
		return writeList("plusminus", &f)
	}
	if retry.Plus(j.Plus) == j {
		return writeList("plus", &j.Plus)
	}
	return writeList("between", &j.Low, &j.High, &j.Plus)
}

// reader reads words. After the first error it goes on and reads nonsense, at
// which nobody will look.
type reader struct {
	text  string
	pos   int
	err   *syntaxError
	owner string // what follows the @ after the budget
}

const separators = " \t=(),"

func (l *line) read(r *reader) {
	at := map[string]int{}
	for r.space(); r.pos < len(r.text) && r.err == nil; r.space() {
		start := r.pos
		name := r.word()
		i := slices.IndexFunc(l.fields(), func(f field) bool { return f.name == name })
		if i < 0 {
			var known []string
			for _, f := range l.fields() {
				known = append(known, f.name)
			}
			r.fail(start, "unknown field %q: want one of %s%s", name, strings.Join(known, ", "), meant(name, known))
			return
		}
		if _, twice := at[name]; twice {
			r.fail(start, "%s is here twice", name)
		}
		f := l.fields()[i]
		if _, flag := f.value.(*bool); !flag && !r.take("=") {
			r.fail(r.pos, "want = and a value after %s", name)
		}
		at[name] = r.pos
		r.read(f.value)
		if _, flag := f.value.(*bool); flag && strings.HasPrefix(r.text[r.pos:], "=") {
			r.fail(r.pos, "%s takes no value", name)
		}
		if r.pos < len(r.text) && !r.space() {
			r.fail(r.pos, "want a space here, or the end")
		}
	}
	for i, b := range l.backoffs() {
		if l.jitter[i] == nil || r.err != nil {
			continue
		}
		if *b == nil {
			*b = retry.Exponential{}
		}
		p := pointerTo(*b)
		_, _, jitter := parts(p)
		if jitter == nil {
			r.fail(at[[]string{"jitter", "throttle_jitter"}[i]], "only exponential and linear backoffs have a jitter")
			return
		}
		*jitter = *l.jitter[i]
		*b = reflect.ValueOf(p).Elem().Interface().(retry.Backoff)
	}
}

// meant says which field an unknown name may have meant: one that is spelled nearly so, one that
// has the name in it or is in it, or one that other libraries call so.
func meant(name string, known []string) string {
	if hint := nearest.Hint(name, "", known...); hint != "" {
		return hint
	}
	plain := func(s string) string { return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s)) }
	word := plain(name)
	for _, k := range known {
		if p := plain(k); len(word) >= 5 && (strings.Contains(p, word) || len(p) >= 5 && strings.Contains(word, p)) {
			return "; did you mean " + k + "?"
		}
	}
	for _, synonym := range [...][2]string{{"deadline", "max_elapsed"}, {"retries", "attempts"}, {"tries", "attempts"}, {"delay", "backoff"}, {"interval", "backoff"}, {"wait", "backoff"}} {
		switch {
		case !strings.Contains(word, synonym[0]):
		case synonym[1] == "attempts":
			return "; did you mean attempts, which counts the first one too?"
		default:
			return "; did you mean " + synonym[1] + "?"
		}
	}
	return ""
}

// read reads what a pointer is to point to.
func (r *reader) read(pointer any) {
	start := r.pos
	switch x := pointer.(type) {
	case *bool:
		*x = true
		return
	case *retry.Backoff:
		if b := r.kind("backoff", backoffKinds); b != nil {
			*x = reflect.ValueOf(b).Elem().Interface().(retry.Backoff)
		}
		return
	case *retry.Budget:
		if b := r.kind("budget", budgetKinds); b != nil {
			*x = b.(retry.Budget)
		}
		r.owner = r.label()
		return
	case **retry.Jitter:
		*x = r.jitter()
		return
	case *string:
		if strings.HasPrefix(r.text[start:], `"`) {
			quoted, err := strconv.QuotedPrefix(r.text[start:])
			if err != nil {
				r.fail(start, "this quoted name has no end, or an escape that Go does not know")
			}
			r.pos += len(quoted)
			*x, _ = strconv.Unquote(quoted)
			return
		}
	}
	word := r.word()
	var err error
	var want string
	switch x := pointer.(type) {
	case *string:
		*x, want = word, `a name, such as fetch-user or "fetch user"`
		if word == "" {
			err = strconv.ErrSyntax
		}
	case *attempts:
		want = "attempts, 1 or more or unlimited; without it 3"
		n := retry.Unlimited
		if word != "unlimited" {
			if n, err = strconv.Atoi(word); n < 1 {
				err = strconv.ErrRange
			}
		}
		*x = attempts(n)
	case *time.Duration:
		want = "a duration, such as 100ms, 2s or 1m30s"
		if *x, err = time.ParseDuration(word); *x < 0 {
			err = strconv.ErrRange
		}
	case *float64:
		want = "a number, such as 0.1"
		if *x, err = strconv.ParseFloat(word, 64); math.IsNaN(*x) {
			err = strconv.ErrRange
		}
	case *int:
		*x, err = strconv.Atoi(word)
		want = "a whole number"
	}
	if err != nil {
		r.fail(start, "%q: want %s", word, want)
	}
}

// kind reads a kind and its arguments, and returns a pointer to a new one.
func (r *reader) kind(what string, known []any) any {
	start := r.pos
	word, _, labeled := strings.Cut(r.word(), "@")
	if labeled {
		r.pos = start + len(word)
	}
	var names []string
	for _, k := range known {
		p := pointerTo(k)
		name, args, _ := parts(p)
		if name == word {
			switch given := strings.HasPrefix(r.text[r.pos:], "("); {
			case given && len(args) == 0:
				r.fail(r.pos, "%s has no arguments", name)
				return nil
			case !given && name == "constant": // without a wait it would retry in a tight loop
				r.fail(r.pos, "want ( and a duration after constant")
				return nil
			}
			r.arguments(args...)
			return p
		}
		names = append(names, name)
	}
	r.fail(start, "unknown %s %q: want one of %s%s", what, word, strings.Join(names, ", "), nearest.Hint(word, "", names...))
	return nil
}

func (r *reader) jitter() *retry.Jitter {
	start := r.pos
	word := r.word()
	for _, j := range jitters {
		if j.name == word {
			return &j.Jitter
		}
	}
	var j retry.Jitter
	switch word {
	case "plusminus", "between":
		if !strings.HasPrefix(r.text[r.pos:], "(") {
			r.fail(r.pos, "want ( and a number after %s", word)
		}
	case "plus":
		if !strings.HasPrefix(r.text[r.pos:], "(") {
			r.fail(r.pos, "want ( and a duration after plus")
		}
	}
	switch word {
	case "plusminus":
		var f float64
		r.arguments(&f)
		j = retry.PlusMinus(f)
	case "plus":
		j = retry.Plus(0)
		r.arguments(&j.Plus)
	case "between":
		r.arguments(&j.Low, &j.High, &j.Plus)
	default:
		r.fail(start, "unknown jitter %q: want full, equal, none, plusminus(0.2), plus(100ms) or between(0.5,1.5)%s", word,
			nearest.Hint(word, "", "full", "equal", "none", "plusminus", "plus", "between"))
	}
	return &j
}

// arguments reads arguments in parentheses, if there are any.
func (r *reader) arguments(into ...any) {
	if !r.take("(") {
		return
	}
	for i := 0; r.err == nil; i++ {
		r.space()
		if waits, ok := into[0].(*[]time.Duration); ok {
			var d time.Duration
			r.read(&d)
			*waits = append(*waits, d)
		} else if i < len(into) {
			r.read(into[i])
		} else {
			r.fail(r.pos, "too many arguments: want at most %d", len(into))
		}
		r.space()
		if r.take(")") {
			return
		}
		if !r.take(",") {
			r.fail(r.pos, "want , or ) here")
		}
	}
}

// label reads a name after an @, if there is one.
func (r *reader) label() string {
	if !r.take("@") {
		return ""
	}
	start := r.pos
	var name string
	if strings.HasPrefix(r.text[start:], `"`) {
		r.read(&name)
	} else {
		name = r.word()
	}
	if name == "" {
		r.fail(start, "want the name of a budget after @, such as earned@ledger")
	}
	return name
}

// word reads up to a separator.
func (r *reader) word() string {
	word := r.text[r.pos:]
	if i := strings.IndexAny(word, separators); i >= 0 {
		word = word[:i]
	}
	r.pos += len(word)
	return word
}

// space reads over spaces and reports whether there were any.
func (r *reader) space() bool {
	start := r.pos
	for r.take(" ") || r.take("\t") {
	}
	return r.pos > start
}

func (r *reader) take(token string) bool {
	if !strings.HasPrefix(r.text[r.pos:], token) {
		return false
	}
	r.pos += len(token)
	return true
}

func (r *reader) fail(at int, format string, args ...any) {
	if r.err == nil {
		r.err = &syntaxError{r.text, utf8.RuneCountInString(r.text[:at]) + 1, fmt.Sprintf(format, args...)}
	}
}
