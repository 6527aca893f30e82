package clienterr

import (
	"reflect"
	"strings"
	"time"

	"github.com/goretry/retry/internal/errtree"
)

// resolve finds out how to read errors of type t, for which there are these rules.
func resolve(t reflect.Type, rules []*rule) *Type {
	k := &Type{methods: methodsOf(t), Alone: errtree.Alone(t)}
	k.facts = factsOfMethods(t)
	k.findFields(t)
	for _, r := range rules {
		k.apply(r, t)
	}
	if !k.Known && t.Implements(reflect.TypeFor[interface{ RedisError() }]()) {
		k.kind, k.Known = inRedis, true
	}
	if named := t; named.Kind() == reflect.Uint8 && named.PkgPath() == "crypto/tls" { // AlertError, or its type without a name for us
		k.codes, k.Known = []coded{{kind: inCode, path: path{}, table: &tlsalertCodes}}, true
	}
	k.Known = k.Known || k.methods&hasCode != 0 && k.methods&hasLabel != 0
	k.Names = k.methods&hasService != 0
	k.database = k.database || k.methods&hasSQLState != 0
	if !k.Known && k.methods == 0 && k.status == nil && k.response == nil && k.after == nil && k.facts == 0 {
		return nil
	}
	return k
}

// apply replaces what any type may have by what r says. If r's path does not exist in
// t, apply changes nothing.
func (k *Type) apply(r *rule, t reflect.Type) {
	p := firstPath(t, r.path)
	if p == nil && r.path != "" {
		return
	}
	k.Known = true
	code := coded{r.kind, p, nil, r.table}
	switch r.kind {
	case inHTTP:
		k.status = []path{p}
	case inSeconds:
		k.after = []path{p}
	case inGoogle:
		k.status, code.also = []path{p}, follow(t, "Errors")
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
	case inStripe:
		k.kind, k.header = inStripe, []path{p}
	case inToken, inRedis:
		k.kind = r.kind
	case inError:
		k.inner = p
	case inConnect:
		code.also = follow(t, "wireErr")
	case inKafka:
		code.also = follow(t, "Retriable")
	case inMySQL:
		k.database, code.also = true, follow(t, "SQLState")
	case inMSSQL:
		k.database, code.also = true, follow(t, "Class")
	case inSQLite:
		k.database = true
	}
	if r.table != nil {
		k.codes = append(k.codes, code)
	}
}

// firstPath returns the first of several paths that exists in t.
func firstPath(t reflect.Type, paths string) path {
	for paths != "" {
		var names string
		if names, paths, _ = strings.Cut(paths, " "); names != "" {
			if p := follow(t, names); p != nil {
				return p
			}
		}
	}
	return nil
}

// follow returns the path that names say, or nil if it does not exist in t.
func follow(t reflect.Type, names string) path {
	p := path{}
	if names == "." {
		return p
	}
	for more := true; more; {
		var name string
		name, names, more = strings.Cut(names, ".")
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
	for _, f := range fieldsOf(t) {
		if f.Name == name {
			return f, true
		}
	}
	return field, false
}

// fieldsOf returns the fields of the struct that t is or points to, those of embedded structs as well.
func fieldsOf(t reflect.Type) []reflect.StructField {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	return reflect.VisibleFields(t)
}

// findFields finds what errors of any type may have.
func (k *Type) findFields(t reflect.Type) {
	for _, f := range fieldsOf(t) {
		switch {
		case !f.IsExported():
		case f.Name == "Actual" && isInteger(f.Type): // gophercloud's, beside what was expected
			if h, ok := fieldOf(t, "ResponseHeader"); ok && isHeader(h) {
				k.status = insert(k.status, f.Index)
			}
		case isStatus(f):
			k.status = insert(k.status, f.Index)
		case f.Type.Kind() == reflect.Pointer && isHTTP(f.Type.Elem(), "Response"):
			k.response = insert(k.response, f.Index)
			k.responseStatus, k.responseHeader = follow(f.Type, "StatusCode"), follow(f.Type, "Header")
		case isHeader(f):
			k.header = insert(k.header, f.Index)
		case isWait(f):
			k.after = insert(k.after, f.Index)
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
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return isInteger(t) && (equalFold(f.Name, "StatusCode") || equalFold(f.Name, "HTTPStatusCode") ||
		equalFold(f.Name, "HTTPStatus") || equalFold(f.Name, "HTTPCode") || f.Name == "ResponseStatusCode")
}

// equalFold is strings.EqualFold for ASCII: that one brings the tables of Unicode.
func equalFold(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if a[i]|0x20 != b[i]|0x20 { // names have letters, and nothing else for which it matters
			return false
		}
	}
	return true
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

// isWait reports whether f is a Duration, a number of seconds, or a text as of Retry-After,
// or a pointer to one. What has another type than a predeclared one may have another unit.
func isWait(f reflect.StructField) bool {
	if f.Name != "RetryAfter" && f.Name != "RetryAfterSeconds" {
		return false
	}
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t == reflect.TypeFor[time.Duration]() || (isInteger(t) || t.Kind() == reflect.String) && t.PkgPath() == ""
}

// isHTTP reports whether t is a type of net/http, which is known by its name: to import the package
// would more than double a small program.
func isHTTP(t reflect.Type, name string) bool {
	return t.Name() == name && t.PkgPath() == "net/http"
}

func isInteger(t reflect.Type) bool {
	return reflect.Int <= t.Kind() && t.Kind() <= reflect.Uint64
}
