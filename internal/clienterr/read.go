package clienterr

import (
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goretry/retry/internal/hint"
)

// Answer is what a single error says. It has four fields, since the compiler keeps no larger struct
// in registers.
type Answer struct {
	Facts                // by a code, a method or the type; 0 if there is none, or it means nothing
	Beside               // what counts beside these
	Status int           // an HTTP status from 400 to 599, 0 if there is none. Facts go before it
	Hint   time.Duration // how long the server asks to wait; hint.Now for a retry at once; 0 if it does not ask
}

// Beside is what counts beside Facts, a Status and a Hint.
type Beside struct {
	Guess Facts // by words of a type that nobody has listed; they count if no error of the tree has Facts or a Status
	Timed bool  // a header names the time of a retry, which may be now
}

// Type says how to read the errors of one type.
type Type struct {
	Known    bool // by a rule, and not by what errors of any type may have
	Connects bool // its errors are those of connections that did not come about
	Names    bool // it names the service of AWS that an error within it comes from: see Service
	Alone    bool // its errors hold no others: see errtree.Alone

	kind     kind                                // tooMany, inSyntax, inRedis, inToken or inDynamoDB
	methods  []func(error) (f Facts, status int) // that are called
	database bool                                // its errors are a database's
	facts    Facts                               // by its name, or that of a method that is not called

	codes        []coded
	inner, reset path

	// Of types that nobody has listed.
	open    bool
	besides bool // they may say more than a status does
	passes  bool // they have a method Temporary
	words   []coded
	shown   []path // of numbers that are a status if the text says so
	again   []path // of true, if the call may be repeated

	// Of several paths the first with a value counts.
	status []path
	header []path // of an http.Header
	after  []wait
}

// A wait is where errors of a type have a Duration, or a number of units.
type wait struct {
	path path
	unit time.Duration
}

// A coded is where the errors of a type have a code.
type coded struct {
	kind  kind
	path  path
	each  path // not nil: path leads to a slice, and each of its elements has a code
	also  path // what the kind needs beside the code
	table *table
}

// entry is what is known about errors of a type: nil if that says nothing.
type entry struct {
	of    reflect.Type
	known *Type
}

var types sync.Map // reflect.Type → *entry

// recent has some of types, by their addresses: a look into a sync.Map takes longer than all
// else about an error with a status.
var recent [1 << 8]atomic.Pointer[entry]

// Of returns how to read errors of type t, or nil if nothing is known about them. It
// is safe for concurrent use.
func Of(t reflect.Type) *Type {
	at := reflect.ValueOf(t).Pointer()
	slot := &recent[(at>>5^at>>13)%uintptr(len(recent))]
	if here := slot.Load(); here != nil && here.of == t {
		return here.known
	}
	e, ok := types.Load(t)
	if !ok {
		named := pointed(t)
		e, _ = types.LoadOrStore(t, &entry{t, resolve(t, rulesFor(named.PkgPath(), named.Name()))})
	}
	slot.Store(e.(*entry))
	return e.(*entry).known
}

// Read returns what err says. err is of type k and not a nil pointer. What any type may have
// in fields is read only if fields is true.
func (k *Type) Read(err error, fields bool) (a Answer) {
	if k.Known || fields {
		a = k.read(reflect.ValueOf(err))
	}
	if k.Known && (a.Facts != 0 || a.Status != 0) {
		return a
	}
	f, status := k.ask(err)
	switch hinted := a.Hint != 0 || a.Timed; {
	case f != 0:
		a.Facts, a.Status = f, 0
	case Status(status, hinted) != 0:
		a.Facts, a.Status = 0, status
		if fields {
			k.readHeader(&a, reflect.ValueOf(err))
		}
	}
	if a.Facts == 0 && k.open && fields && (a.Status == 0 || k.besides) {
		k.guess(&a, err)
	}
	return a
}

// ask judges an error by its methods, one after the other: the first may not decide.
func (k *Type) ask(err error) (f Facts, status int) {
	if k.kind == inRedis {
		return redisText(err.Error()), 0
	}
	for _, ask := range k.methods {
		if f, status = ask(err); f != 0 || status != 0 {
			break
		}
	}
	return f, status
}

// read reads the fields of v.
func (k *Type) read(v reflect.Value) (a Answer) {
	if inner := k.inner.of(v); inner.Kind() == reflect.Interface && !inner.IsNil() {
		inner = inner.Elem()
		if k := Of(inner.Type()); k != nil {
			return k.read(inner)
		}
		return Answer{}
	}
	a.Status = k.statusOf(v)
	for i := range k.codes {
		if a.Facts = k.codes[i].factsOf(v, a.Status); a.Facts != 0 {
			break
		}
	}
	a.Hint = k.waitOf(v)
	if a.Status != 0 {
		k.readHeader(&a, v)
	}
	if a.Hint == 0 && k.reset != nil {
		a.Hint = untilTime(k.reset.of(v))
	}
	if a.Facts == 0 && a.Status == 0 {
		a.Facts = k.facts
	}
	if k.kind == inToken { // it is about the caller's own credentials, whatever the status
		if a.Facts == 0 {
			a.Facts = Status(a.Status, a.Hint != 0 || a.Timed)
		}
		a.Facts &^= Blames
	}
	if k.kind == inSyntax && cut(v) {
		a.Facts = Facts(Transient)
	}
	return a
}

// factsOf returns what the code of v means: of several the first that means something. status
// is what v's error has beside it, or 0.
func (c *coded) factsOf(v reflect.Value, status int) (f Facts) {
	if c.kind == inKerberos {
		return c.table.number(kerberosCode(errorText(v)))
	}
	at := value(c.path.of(v))
	if c.each == nil {
		return c.fact(at, v, status)
	}
	if c.kind == inDynamoDB {
		f = Facts(Permanent)
	}
	for i := 0; at.IsValid() && i < at.Len(); i++ {
		code := value(c.each.of(at.Index(i)))
		if c.kind == inDynamoDB {
			if f = canceled(f, text(code)); f.Is(Blames) {
				break
			}
		} else if f = c.fact(code, v, status); f != 0 {
			break
		}
	}
	return f
}

// fact returns what one code of v means.
func (c *coded) fact(code, v reflect.Value, status int) Facts {
	switch c.kind {
	case inFacts:
		return Facts(number(code))
	case inConnect: // else the client has made one of them from an error that it wraps, which says more
		if n := number(code); (n == 1 || n == 2 || n == 13) && !isTrue(value(c.also.of(v))) {
			return 0
		}
	case inLibrdkafka:
		switch isSet := func(field string) bool { return isTrue(follow(v.Type(), field).of(v)) }; {
		case isSet("fatal"): // to the producer or consumer
			return Facts(Permanent) | Renewed
		case isSet("retriable"), isSet("txnRequiresAbort"): // the latter in a new transaction
			return Facts(Transient)
		}
	case inQUIC: // the others leave the connection closed, whatever the cause (RFC 9000, section 20.1)
		if n := number(code); 0x100 <= n && n <= 0x1ff {
			return tlsalertCodes.number(n - 0x100)
		}
	}
	if !code.IsValid() {
		return 0
	}
	if c.kind == inWords {
		return phrases(nameOf(code))
	}
	if !code.CanInt() && !code.CanUint() {
		word := text(code)
		if c.kind == inURN {
			word = word[strings.LastIndexByte(word, ':')+1:]
		}
		return c.table.besideStatus(status, word)
	}
	n := number(code)
	if code.Kind() == reflect.Uint32 { // as NTSTATUS, whose errors begin with 0xc
		n = int64(int32(n))
	}
	f := c.table.number(n)
	if c.kind == inMySQL && n == optionForbids {
		f = MySQL(n, text(follow(v.Type(), "Message").of(v)))
	}
	if f != 0 {
		return f
	}
	switch also := value(c.also.of(v)); c.kind {
	case inKafka: // newer than the table: an error of franz-go says whether it passes
		switch {
		case n <= 0 || !also.IsValid():
		case isTrue(also):
			return Facts(Transient)
		default:
			return Facts(Permanent)
		}
	case inMySQL:
		return sqlstateCodes.word("", text(also))
	case inMSSQL: // errors that the user can correct
		if class := number(also); 11 <= class && class <= 16 {
			return Facts(Permanent)
		}
	case inSQLite:
		return SQLite(n)
	}
	return 0
}

// besideStatus is word for a code beside an HTTP status, which may be 0.
func (t *table) besideStatus(status int, code string) Facts {
	if status == 0 {
		return t.word("", code)
	}
	var digits [20]byte
	return t.word(string(strconv.AppendInt(digits[:0], int64(status), 10)), code)
}

// canceled judges why DynamoDB has canceled a transaction: each of its items has a reason, and f is
// what those before this one mean. If all that stood in the way is another transaction or the
// load, it may work later.
func canceled(f Facts, reason string) Facts {
	switch reason {
	case "", "None", "TransactionConflict":
		return max(f, Facts(Transient))
	case "ThrottlingError", "ProvisionedThroughputExceeded":
		return Facts(Throttled)
	}
	return Facts(Permanent) | Blames
}

func (k *Type) statusOf(v reflect.Value) int {
	if k.kind == tooMany {
		return 429
	}
	for _, p := range k.status {
		if n := number(value(p.of(v))); n >= 400 && n <= 599 {
			return int(n)
		}
	}
	return 0
}

// waitOf returns the wait that a field asks for.
func (k *Type) waitOf(v reflect.Value) time.Duration {
	for _, p := range k.after {
		field := value(p.path.of(v))
		switch n := number(field); {
		case field.Kind() == reflect.String:
			if wait, ok := hint.Wait(field.String(), nil, time.Now); ok {
				return hint.Asked(wait)
			}
		case n <= 0:
		case field.Type() == reflect.TypeFor[time.Duration]():
			return time.Duration(n)
		case p.unit == time.Second:
			return hint.Seconds(uint64(n))
		default:
			return time.Duration(min(n, int64(math.MaxInt64/p.unit))) * p.unit
		}
	}
	return 0
}

// headerOf returns the first header that is not empty, or nil.
func (k *Type) headerOf(v reflect.Value) hint.Header {
	for _, p := range k.header {
		field := p.of(v)
		if !field.IsValid() || !field.CanInterface() || field.Kind() == reflect.Map && field.Len() == 0 || isNil(field) {
			continue
		}
		switch h := field.Interface().(type) {
		case hint.Header:
			return h
		case getter:
			return values{h}
		}
	}
	return nil
}

// readHeader reads how long the server asks to wait, and headers that overrule the
// status.
func (k *Type) readHeader(a *Answer, v reflect.Value) {
	h := k.headerOf(v)
	if h == nil {
		return
	}
	if a.Hint == 0 {
		a.Hint, a.Timed = hint.Parse(h, time.Now, a.Status == 429 || a.Status == 403)
	}
	f := a.Facts
	if f == 0 {
		f = Status(a.Status, a.Hint != 0 || a.Timed)
	}
	switch word := hint.ShouldRetry(h); {
	case word == hint.No && f.Class() != Permanent:
		a.Facts = Facts(Permanent) | Refuses
	case word == hint.Yes && f.Class() == Permanent:
		a.Facts = Facts(Transient)
	}
}

func untilTime(v reflect.Value) time.Duration {
	if !v.IsValid() || !v.CanInterface() {
		return 0
	}
	at, _ := v.Interface().(time.Time)
	return max(time.Until(at), 0)
}

// kerberosCode returns the code in the text of an error of gokrb5, whose errors of a KDC have no
// other trace in what its client returns, or -1.
func kerberosCode(text string) int64 {
	if _, rest, ok := strings.Cut(text, "KRB Error: ("); ok {
		if code, _, ok := strings.Cut(rest, ")"); ok && isNumber(code) && len(code) < 10 {
			n := int64(0)
			for _, c := range code {
				n = 10*n + int64(c-'0')
			}
			return n
		}
	}
	return -1
}

// cut reports whether v, a *SyntaxError, says that JSON or XML has ended too
// early: the connection may have broken. Then a Decoder of encoding/json returns
// io.ErrUnexpectedEOF. After the end Unmarshal puts a blank, which is wrong only in a literal.
func cut(v reflect.Value) bool {
	text := errorText(v)
	return strings.Contains(text, ": unexpected EOF") || text == "unexpected end of JSON input" || strings.HasPrefix(text, "invalid character ' ' ")
}
