package clienterr

import (
	"reflect"
	"strings"
	"time"

	"github.com/goretry/retry/internal/errtree"
)

// resolve finds out how to read errors of type t, for which there are these rules.
func resolve(t reflect.Type, rules []rule) *Type {
	k := &Type{
		Alone:    errtree.Alone(t),
		Names:    implements(t, (*operation)(nil)),
		database: implements(t, (*sqlStater)(nil)) || implements(t, (*fielder)(nil)),
		open:     len(rules) == 0 && isOpen(t),
		passes:   implements(t, (*temporary)(nil)),
	}
	if implements(t, (*interface{ RedisError() })(nil)) {
		k.kind = inRedis
	}
	for _, m := range methods {
		if implements(t, m.target()) {
			k.methods = append(k.methods, m.ask)
		}
	}
	for _, m := range markers {
		if k.facts == 0 && implements(t, m.method) {
			k.facts = m.facts
		}
	}
	k.findFields(t)
	k.besides = k.words != nil || k.again != nil || k.passes
	for _, r := range rules {
		k.apply(r, t)
	}
	if !k.open && !k.Known && !k.Names && k.kind == 0 && k.methods == nil && k.codes == nil && k.status == nil && k.after == nil && k.facts == 0 {
		return nil
	}
	return k
}

// implements reports whether t has the methods of the interface that target, which may be nil, points to.
func implements(t reflect.Type, target any) bool { return t.Implements(reflect.TypeOf(target).Elem()) }

// also are the fields that a kind needs beside that of the code.
var also = [...]string{inConnect: "wireErr", inKafka: "Retriable", inMySQL: "SQLState", inMSSQL: "Class", inWords: ""}

// apply replaces what any type may have by what r says. If r's path does not exist in
// t, apply changes nothing.
func (k *Type) apply(r rule, t reflect.Type) {
	in, within, several := strings.Cut(r.path, "[]")
	p, each := firstPath(t, in), path(nil)
	if several {
		each = eachPath(t, p, strings.TrimPrefix(within, "."))
	}
	if (p == nil || several && each == nil) && r.path != "" {
		return
	}
	k.Known = true
	switch r.kind {
	case inHTTP:
		k.status = append([]path{p}, k.status...)
	case inSeconds:
		k.after = []wait{{p, time.Second}}
	case inMillis:
		k.after = []wait{{p, time.Millisecond}}
	case always:
		k.facts = r.facts
	case connecting:
		k.Connects = true
	case tooMany:
		k.kind, k.reset = tooMany, p
	case inHeader:
		k.header = []path{p}
	case inToken, inRedis, inDynamoDB, inSyntax:
		k.kind = r.kind
	case inError:
		k.inner = p
	}
	if r.table != nil || r.kind == inFacts {
		k.database = k.database || r.table != nil && r.table.database
		k.codes = append(k.codes, coded{r.kind, p, each, follow(t, also[r.kind]), r.table})
	}
}

// findFields finds what errors of any type may have in fields, those of embedded structs as well,
// which come last.
func (k *Type) findFields(t reflect.Type) {
	var statuses, headers []path // of responses: they count after those of a field, and before
	type structure struct {
		of reflect.Type
		at path
		in bool // a part, for codes in words alone
	}
	for queue := []structure{{of: pointed(t)}}; len(queue) > 0; queue = queue[1:] {
		s := queue[0]
		if s.of.Kind() != reflect.Struct {
			continue
		}
		for i := range s.of.NumField() {
			f, at := s.of.Field(i), s.at.then(i)
			part := k.open && k.findOpen(&f, at, s.in)
			if of := pointed(f.Type); len(at) < deepest && (f.Anonymous || part && !s.in) && !standard(of.PkgPath()) {
				queue = append(queue, structure{of, at, s.in || !f.Anonymous})
			}
			if s.in {
				continue
			}
			if way, response := toResponse(f.Type); response != nil {
				to := at.then(way...)
				statuses = append(statuses, to.then(follow(response, "StatusCode")...))
				headers = append(headers, to.then(follow(response, "Header")...))
				continue
			}
			unit := waitUnit(&f)
			switch {
			case !f.IsExported():
			case isStatus(&f, t):
				k.status = append(k.status, at)
			case isHeader(f.Name, f.Type):
				k.header = append(k.header, at)
			case f.Name == "Code" && reflect.Int <= f.Type.Kind() && f.Type.Kind() <= reflect.Int64: // of an error object of JSON-RPC, by its numbers
				k.codes = append(k.codes, coded{kind: inCode, path: at, table: &rpcobjectCodes})
			case unit != 0:
				k.after = append(k.after, wait{at, unit})
			}
		}
	}
	k.status, k.header = append(k.status, statuses...), append(headers, k.header...)
}

// deepest is how many structs deep a field may be. It ends a struct that embeds itself, too.
const deepest = 4

// toResponse returns http.Response, with the path from t to it, if t points to one, or to a struct
// that has one, as those of Hetzner and DigitalOcean do.
func toResponse(t reflect.Type) (path, reflect.Type) {
	if t.Kind() != reflect.Pointer {
		return nil, nil
	}
	if isHTTP(t.Elem(), "Response") {
		return nil, t
	}
	if p, in := fieldOf(t, "Response"); in != nil && in.Kind() == reflect.Pointer && isHTTP(in.Elem(), "Response") {
		return p, in
	}
	return nil, nil
}

// isStatus reports whether a field of an error of type t is an HTTP status.
func isStatus(f *reflect.StructField, t reflect.Type) bool {
	const names = " StatusCode Statuscode HTTPStatusCode HttpStatusCode HTTPStatus HttpStatus HTTPCode HttpCode ResponseStatusCode "
	switch f.Name {
	case "Actual": // gophercloud's and mailgun-go's, beside what was expected
		_, expected := fieldOf(t, "Expected")
		return expected == reflect.TypeFor[[]int]() && isInteger(f.Type)
	case "Status": // with a Code it may be anything
		_, code := fieldOf(t, "Code")
		return isInteger(pointed(f.Type)) && (code == nil || !isInteger(code))
	}
	return strings.Contains(names, " "+f.Name+" ") && isInteger(pointed(f.Type))
}

func isHeader(name string, t reflect.Type) bool {
	return strings.Contains(" Header Headers ResponseHeader ResponseHeaders ", " "+name+" ") &&
		(isHTTP(t, "Header") || implements(t, (*getter)(nil)))
}

// getter is a header that is none of net/http, as kiota has it.
type getter interface{ Get(name string) []string }

// values makes a hint.Header of a getter.
type values struct{ getter }

func (v values) Values(name string) []string { return v.Get(name) }

// waitUnit returns the unit of the wait that f is for, or 0 if f is for none. A Duration has its
// own, and a text is one of Retry-After. A bare number counts if the name says its unit: Alibaba's
// RetryAfter is of milliseconds, InfluxDB's of seconds. Types that are known have a rule. What
// has another type than a predeclared one may have another unit.
func waitUnit(f *reflect.StructField) time.Duration {
	after, isAfter := strings.CutPrefix(f.Name, "RetryAfter")
	t := pointed(f.Type)
	switch bare := isInteger(t) && t.PkgPath() == ""; {
	case !isAfter:
	case t == reflect.TypeFor[time.Duration](), t.Kind() == reflect.String && t.PkgPath() == "":
		if after == "" || after == "Seconds" {
			return time.Second
		}
	case bare && (after == "Seconds" || after == "Secs" || after == "Sec"):
		return time.Second
	case bare && (after == "Ms" || after == "MS" || after == "Millis" || after == "Milliseconds"):
		return time.Millisecond
	}
	return 0
}

// isHTTP reports whether t is a type of net/http, which is known by its name: to import the package
// would more than double a small program.
func isHTTP(t reflect.Type, name string) bool {
	return t.Name() == name && t.PkgPath() == "net/http"
}

func isInteger(t reflect.Type) bool {
	return reflect.Int <= t.Kind() && t.Kind() <= reflect.Uint64
}
