package clienterr

import (
	"reflect"
	"strings"
	"time"
)

// resolve finds out how to read errors of type t. r is the rule for them, or nil.
func resolve(t reflect.Type, r *rule) *Type {
	k := &Type{mongo: t.Implements(reflect.TypeFor[mongoError]()), class: classOfMethods(t)}
	k.findFields(t)
	switch {
	case r != nil:
		k.apply(r, t)
	case t.Implements(reflect.TypeFor[interface{ RedisError() }]()):
		k.kind = inRedis
	}
	k.Known = k.kind != 0 || k.mongo
	if !k.Known && k.status == nil && k.response == nil && k.after == nil && k.class == Unknown {
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
	k.kind = r.kind
	switch r.kind {
	case inHTTP:
		k.status = []path{p}
	case inGoogle:
		k.status, k.also = []path{p}, follow(t, "Errors")
	case timeout, never:
		k.class = TimedOut
		if r.kind == never {
			k.class = Permanent
		}
	case tooMany:
		k.reset = p
	case inStripe:
		k.header = []path{p}
	case inError:
		k.inner = p
	case inKubernetes:
		k.code = p
		k.status, k.after = []path{follow(t, "ErrStatus.Code")}, []path{follow(t, "ErrStatus.Details.RetryAfterSeconds")}
	case inConnect:
		k.code, k.also = p, follow(t, "wireErr")
	case inKafka:
		k.code, k.also = p, follow(t, "Retriable")
	default:
		k.code = p
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
		equalFold(f.Name, "HTTPStatus") || equalFold(f.Name, "HTTPCode"))
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
		return isHTTP(f.Type, "Header")
	}
	return false
}

// isWait reports whether f is a Duration, a pointer to one, or a number of seconds. A
// number of another type than a predeclared one may have another unit.
func isWait(f reflect.StructField) bool {
	if f.Name != "RetryAfter" && f.Name != "RetryAfterSeconds" {
		return false
	}
	duration := reflect.TypeFor[time.Duration]()
	return f.Type == duration || f.Type == reflect.PointerTo(duration) || isInteger(f.Type) && f.Type.PkgPath() == ""
}

// isHTTP reports whether t is a type of net/http, which is known by its name: to import the package
// would more than double a small program.
func isHTTP(t reflect.Type, name string) bool {
	return t.Name() == name && t.PkgPath() == "net/http"
}

func isInteger(t reflect.Type) bool {
	return reflect.Int <= t.Kind() && t.Kind() <= reflect.Uint64
}

// classOfMethods returns the class that errors have by a marker method, which is not
// called, as those of Docker and containerd.
func classOfMethods(t reflect.Type) Class {
	switch {
	case t.Implements(reflect.TypeFor[interface{ ResourceExhausted() }]()):
		return Throttled
	case t.Implements(reflect.TypeFor[interface{ DeadlineExceeded() }]()):
		return TimedOut
	case t.Implements(reflect.TypeFor[interface{ Unavailable() }]()),
		t.Implements(reflect.TypeFor[interface{ System() }]()):
		return Transient
	case t.Implements(reflect.TypeFor[interface{ NotFound() }]()),
		t.Implements(reflect.TypeFor[interface{ InvalidParameter() }]()),
		t.Implements(reflect.TypeFor[interface{ Conflict() }]()),
		t.Implements(reflect.TypeFor[interface{ AlreadyExists() }]()),
		t.Implements(reflect.TypeFor[interface{ Unauthorized() }]()),
		t.Implements(reflect.TypeFor[interface{ Forbidden() }]()),
		t.Implements(reflect.TypeFor[interface{ FailedPrecondition() }]()),
		t.Implements(reflect.TypeFor[interface{ OutOfRange() }]()),
		t.Implements(reflect.TypeFor[interface{ NotImplemented() }]()),
		t.Implements(reflect.TypeFor[interface{ DataLoss() }]()):
		return Permanent
	}
	return Unknown
}
