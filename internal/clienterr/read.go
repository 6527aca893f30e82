package clienterr

import (
	"reflect"
	"sync"
	"time"

	"github.com/goretry/retry/internal/hint"
)

// Answer is what a single error says.
type Answer struct {
	Class  Class         // by a code or a method; Unknown if there is none, or it means nothing
	Status int           // an HTTP status from 400 to 599, 0 if there is none. Class goes before it
	Hint   time.Duration // how long the server asks to wait; 0 if it does not
	Timed  bool          // a header names the time of a retry, which may be now
}

// Type says how to read the errors of one type.
type Type struct {
	Known bool // by a rule, and not by what errors of any type may have

	kind  kind  // 0 if no rule applies
	mongo bool  // its methods are called
	class Class // by the name of a method, which is not called

	// Where the rule says.
	code, also, inner, reset path

	// Of several paths the first with a value counts.
	status   []path
	response []path // of an *http.Response
	header   []path // of an http.Header
	after    []path // of a Duration, or of seconds

	responseStatus, responseHeader path // within an http.Response
}

var types sync.Map // reflect.Type → *Type, nil for a type that says nothing

// Of returns how to read errors of type t, or nil if nothing is known about them. It
// is safe for concurrent use.
func Of(t reflect.Type) *Type {
	if known, ok := types.Load(t); ok {
		return known.(*Type)
	}
	named := t
	if t.Kind() == reflect.Pointer {
		named = t.Elem()
	}
	known := resolve(t, find(named.PkgPath(), named.Name()))
	types.Store(t, known)
	return known
}

// Read returns what err says. err is of type k and not a nil pointer. Read calls only
// methods of errors of MongoDB and Redis.
func (k *Type) Read(err error) Answer {
	if k.kind == inRedis {
		return Answer{Class: redisText(err.Error())}
	}
	if e, ok := err.(mongoError); k.mongo && ok {
		return Answer{Class: judgeMongo(e)}
	}
	return k.read(reflect.ValueOf(err))
}

func (k *Type) read(v reflect.Value) (a Answer) {
	if inner := k.inner.of(v); inner.Kind() == reflect.Interface && !inner.IsNil() {
		inner = inner.Elem()
		if k := Of(inner.Type()); k != nil {
			return k.read(inner)
		}
		return Answer{}
	}
	if k.code != nil {
		if code := value(k.code.of(v)); code.IsValid() {
			a.Class = k.kind.class(code, value(k.also.of(v)))
		}
	}
	if k.kind == inGoogle {
		a.Class = googleReason(k.also.of(v))
	}
	response := k.responseOf(v)
	a.Status = k.statusOf(v, response)
	a.Hint = k.waitOf(v)
	if a.Status != 0 {
		k.readHeader(&a, k.headerOf(v, response))
	}
	if a.Hint == 0 && k.reset != nil {
		a.Hint = untilTime(k.reset.of(v))
	}
	if a.Class == Unknown && a.Status == 0 {
		a.Class = k.class
	}
	return a
}

// googleReason judges the reasons of a googleapi.Error. The first known one counts.
func googleReason(items reflect.Value) Class {
	if items.Kind() != reflect.Slice {
		return Unknown
	}
	for i := range items.Len() {
		if f, ok := fieldOf(items.Type().Elem(), "Reason"); ok {
			if c := google.class(text(path(f.Index).of(items.Index(i)))); c != Unknown {
				return c
			}
		}
	}
	return Unknown
}

// responseOf returns the http.Response, or the invalid Value.
func (k *Type) responseOf(v reflect.Value) (response reflect.Value) {
	for _, p := range k.response {
		if response = value(p.of(v)); response.IsValid() {
			break
		}
	}
	return response
}

func (k *Type) statusOf(v, response reflect.Value) int {
	if k.kind == tooMany {
		return 429
	}
	for _, p := range k.status {
		if n := number(value(p.of(v))); n >= 400 && n <= 599 {
			return int(n)
		}
	}
	if response.IsValid() {
		if n := number(k.responseStatus.of(response)); n >= 400 && n <= 599 {
			return int(n)
		}
	}
	return 0
}

// waitOf returns the wait that a field asks for: a Duration, or a number of seconds.
func (k *Type) waitOf(v reflect.Value) time.Duration {
	for _, p := range k.after {
		field := value(p.of(v))
		switch n := number(field); {
		case n <= 0:
		case field.Type() == reflect.TypeFor[time.Duration]():
			return time.Duration(n)
		default:
			return hint.Seconds(uint64(n))
		}
	}
	return 0
}

// headerOf returns the header of the response, or else that of the error, or nil.
func (k *Type) headerOf(v, response reflect.Value) hint.Header {
	if response.IsValid() {
		if h := asHeader(k.responseHeader.of(response)); h != nil {
			return h
		}
	}
	for _, p := range k.header {
		if h := asHeader(p.of(v)); h != nil {
			return h
		}
	}
	return nil
}

func asHeader(v reflect.Value) hint.Header {
	if !v.IsValid() || !v.CanInterface() {
		return nil
	}
	h, _ := v.Interface().(hint.Header)
	return h
}

// readHeader reads how long the server asks to wait, and headers that overrule the
// status.
func (k *Type) readHeader(a *Answer, h hint.Header) {
	if h == nil {
		return
	}
	if a.Hint == 0 {
		a.Hint, a.Timed = hint.Parse(h, time.Now, a.Status == 429 || a.Status == 403)
	}
	if k.kind != inStripe {
		return
	}
	if word := h.Values("Stripe-Should-Retry"); len(word) > 0 {
		switch {
		case word[0] == "false":
			a.Class = Permanent
		case word[0] == "true" && Status(a.Status, a.Hint > 0 || a.Timed) == Permanent:
			a.Class = Transient
		}
	}
}

func untilTime(v reflect.Value) time.Duration {
	if !v.IsValid() || !v.CanInterface() {
		return 0
	}
	at, _ := v.Interface().(time.Time)
	return max(time.Until(at), 0)
}

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

// value returns what v points to or contains, the invalid Value for nil.
func value(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
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

// text returns "" for what is no string.
func text(v reflect.Value) string {
	if v.Kind() == reflect.String {
		return v.String()
	}
	return ""
}

func isTrue(v reflect.Value) bool { return v.Kind() == reflect.Bool && v.Bool() }
