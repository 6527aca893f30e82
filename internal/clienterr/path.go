package clienterr

import (
	"reflect"
	"strings"
)

// A path leads to a field of a struct, through structs and pointers to them. A nil
// one leads nowhere, an empty one to the value itself.
type path []int

// of returns the invalid Value if a pointer on the way is nil.
func (p path) of(v reflect.Value) reflect.Value {
	if p == nil {
		return reflect.Value{}
	}
	for _, i := range p {
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if !v.IsValid() {
			return v
		}
		v = v.Field(i)
	}
	return v
}

// then returns the path that goes on from p.
func (p path) then(more ...int) path { return append(p[:len(p):len(p)], more...) }

// firstPath returns the first of several paths that exists in t.
func firstPath(t reflect.Type, paths string) (p path) {
	for more := true; more && p == nil; {
		var names string
		names, paths, more = strings.Cut(paths, " ")
		p = follow(t, names)
	}
	return p
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
	for more := names != "."; more; {
		var name string
		name, names, more = strings.Cut(names, ".")
		at, in := fieldOf(t, name)
		if in == nil {
			return nil
		}
		p, t = append(p, at...), in
	}
	return p
}

// fieldOf returns the path to a field of the struct that t is or points to, and the field's type, or
// nil.
func fieldOf(t reflect.Type, name string) (path, reflect.Type) {
	for depth := 1; depth <= deepest; depth++ {
		if p, of := fieldAt(t, name, depth); of != nil {
			return p, of
		}
	}
	return nil, nil
}

// fieldAt finds a field that is so many structs deep. FieldByName, with what it needs, would add 10 KiB
// to a program.
func fieldAt(t reflect.Type, name string, depth int) (path, reflect.Type) {
	if t = pointed(t); t.Kind() != reflect.Struct {
		return nil, nil
	}
	for i := range t.NumField() {
		switch f := t.Field(i); {
		case depth == 1 && f.Name == name:
			return path{i}, f.Type
		case depth > 1 && f.Anonymous:
			if p, of := fieldAt(f.Type, name, depth-1); of != nil {
				return append(path{i}, p...), of
			}
		}
	}
	return nil, nil
}

// Field returns a field of the struct that v is or points to, or the invalid Value.
func Field(v reflect.Value, name string) reflect.Value {
	if !v.IsValid() {
		return v
	}
	p, _ := fieldOf(v.Type(), name)
	return p.of(v)
}

// pointed returns t, or the type that t points to.
func pointed(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// value returns what v points to or contains, the invalid Value for nil. It goes no deeper than a few
// values: v may hold itself.
func value(v reflect.Value) reflect.Value {
	for range 8 {
		if v.Kind() != reflect.Pointer && v.Kind() != reflect.Interface {
			break
		}
		v = v.Elem()
	}
	return v
}

// number returns 0 for what is no integer, and the greatest int64 for what is larger.
func number(v reflect.Value) int64 {
	switch {
	case v.CanInt():
		return v.Int()
	case v.CanUint():
		return int64(min(v.Uint(), 1<<63-1))
	}
	return 0
}

// text returns "" for what is neither a string nor five bytes.
func text(v reflect.Value) string {
	switch {
	case v.Kind() == reflect.String:
		return v.String()
	case (v.Kind() == reflect.Array || v.Kind() == reflect.Slice) && v.Type().Elem().Kind() == reflect.Uint8 && v.Len() == 5:
		var b [5]byte // a SQLSTATE
		for i := range b {
			b[i] = byte(v.Index(i).Uint())
		}
		return string(b[:])
	}
	return ""
}

// nameOf returns the text of v, or the name that a number has.
func nameOf(v reflect.Value) string {
	if v.CanInterface() && v.Kind() != reflect.String {
		if s, ok := v.Interface().(interface{ String() string }); ok {
			return s.String()
		}
	}
	return text(v)
}

func isTrue(v reflect.Value) bool { return v.Kind() == reflect.Bool && v.Bool() }

// isNil reports whether v is a nil pointer or interface.
func isNil(v reflect.Value) bool {
	return (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) && v.IsNil()
}

// errorText returns the text of v's error, or "" if it came from a field that is not exported.
func errorText(v reflect.Value) string {
	if !v.CanInterface() {
		return ""
	}
	return v.Interface().(error).Error()
}
