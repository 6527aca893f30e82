package clienterr

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry/internal/errtree"
)

// resolve finds out how to read errors of type t, for which there are these rules.
func resolve(t reflect.Type, rules []*rule) *Type {
	k := &Type{Alone: errtree.Alone(t), Names: t.Implements(reflect.TypeFor[operation]()), database: t.Implements(reflect.TypeFor[sqlStater]())}
	if t.Implements(reflect.TypeFor[interface{ RedisError() }]()) {
		k.kind = inRedis
	}
	for i := range methods {
		if t.Implements(methods[i].of) {
			k.methods = append(k.methods, &methods[i])
		}
	}
	for _, m := range markers {
		if k.facts == 0 && t.Implements(m.method) {
			k.facts = m.facts
		}
	}
	k.findFields(t)
	for _, r := range rules {
		k.apply(r, t)
	}
	if !k.Known && !k.Names && k.kind == 0 && k.methods == nil && k.status == nil && k.after == nil && k.facts == 0 {
		return nil
	}
	return k
}

// also are the fields that a kind needs beside that of the code.
var also = [...]string{inConnect: "wireErr", inKafka: "Retriable", inMySQL: "SQLState", inMSSQL: "Class", inKerberos: ""}

// apply replaces what any type may have by what r says. If r's path does not exist in
// t, apply changes nothing.
func (k *Type) apply(r *rule, t reflect.Type) {
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
	case timeout:
		k.facts = Facts(TimedOut)
	case never:
		k.facts = Facts(Permanent)
	case blamed:
		k.kind, k.facts = blamed, Facts(Permanent)|Blames
	case connecting:
		k.Connects = true
	case tooMany:
		k.kind, k.reset = tooMany, p
	case inHeader:
		k.header = []path{p}
	case inToken, inRedis, inDynamoDB:
		k.kind = r.kind
	case inError:
		k.inner = p
	}
	if r.table != nil || r.kind == inFacts {
		k.database = k.database || r.table != nil && r.table.database
		k.codes = append(k.codes, coded{r.kind, p, each, follow(t, also[r.kind]), r.table})
	}
}

// firstPath returns the first of several paths that exists in t.
func firstPath(t reflect.Type, paths string) path {
	for names := range strings.SplitSeq(paths, " ") {
		if p := follow(t, names); p != nil {
			return p
		}
	}
	return nil
}

// eachPath returns the path that names say in each element of the slice at p in t, or nil if it
// does not exist.
func eachPath(t reflect.Type, p path, names string) path {
	for _, i := range p {
		t = pointed(t).Field(i).Type
	}
	if t.Kind() != reflect.Slice {
		return nil
	}
	if names == "" {
		return path{}
	}
	return follow(t.Elem(), names)
}

// follow returns the path that names say, or nil if it does not exist in t.
func follow(t reflect.Type, names string) path {
	p := path{}
	if names == "." {
		return p
	}
	for name := range strings.SplitSeq(names, ".") {
		f, ok := fieldOf(t, name)
		if !ok {
			return nil
		}
		p, t = append(p, f.Index...), f.Type
	}
	return p
}

// fieldOf returns a field of the struct that t is or points to.
func fieldOf(t reflect.Type, name string) (field reflect.StructField, ok bool) {
	if t = pointed(t); t.Kind() != reflect.Struct {
		return field, false
	}
	return t.FieldByName(name)
}

// pointed returns t, or the type that t points to.
func pointed(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// findFields finds what errors of any type may have in fields, those of embedded structs as well.
func (k *Type) findFields(t reflect.Type) {
	if t = pointed(t); t.Kind() != reflect.Struct {
		return
	}
	for _, f := range reflect.VisibleFields(t) {
		switch {
		case !f.IsExported():
		case f.Name == "Actual" && isInteger(f.Type): // gophercloud's and mailgun-go's
			if expected, ok := fieldOf(t, "Expected"); ok && expected.Type == reflect.TypeFor[[]int]() {
				k.status = insert(k.status, f.Index)
			}
		case isStatus(f):
			k.status = insert(k.status, f.Index)
		case f.Type.Kind() == reflect.Pointer && isHTTP(f.Type.Elem(), "Response"):
			k.status = insert(k.status, append(slices.Clone(path(f.Index)), follow(f.Type, "StatusCode")...))
			k.header = append([]path{append(slices.Clone(path(f.Index)), follow(f.Type, "Header")...)}, k.header...)
		case isHeader(f):
			k.header = insert(k.header, f.Index)
		default:
			if unit := waitUnit(f); unit != 0 {
				k.after = append(k.after, wait{f.Index, unit})
			}
		}
	}
}

// insert puts p behind the paths that are no longer: what is embedded comes last.
func insert(ps []path, p path) []path {
	ps = append(ps, p)
	for i := len(ps) - 1; i > 0 && len(ps[i]) < len(ps[i-1]); i-- {
		ps[i], ps[i-1] = ps[i-1], ps[i]
	}
	return ps
}

func isStatus(f reflect.StructField) bool {
	switch f.Name {
	case "StatusCode", "Statuscode", "HTTPStatusCode", "HttpStatusCode", "HTTPStatus", "HttpStatus", "HTTPCode", "HttpCode", "ResponseStatusCode":
		return isInteger(pointed(f.Type))
	}
	return false
}

func isHeader(f reflect.StructField) bool {
	switch f.Name {
	case "Header", "Headers", "ResponseHeader", "ResponseHeaders":
		return isHTTP(f.Type, "Header") || f.Type.Implements(reflect.TypeFor[getter]())
	}
	return false
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
func waitUnit(f reflect.StructField) time.Duration {
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
