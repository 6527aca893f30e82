package main

import (
	"fmt"
	"go/format"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry"
)

// goCode writes a policy as a literal in Go, formatted as gofmt does. Fields that are
// zero are left out.
func goCode(p retry.Policy) string {
	var fields strings.Builder
	for name, value := range set(reflect.ValueOf(p)) {
		text := goValue(value)
		if name == "MaxAttempts" && p.MaxAttempts < 0 {
			text = "retry.Unlimited"
		}
		fmt.Fprintf(&fields, "\t%s: %s,\n", name, text)
	}
	if fields.Len() == 0 {
		return "retry.Policy{}"
	}
	const before = "package p\n\nvar _ = "
	code, err := format.Source([]byte(before + "retry.Policy{\n" + fields.String() + "}"))
	if err != nil {
		panic("retrysim: " + err.Error()) // a value that goValue writes wrong
	}
	return strings.TrimSpace(strings.TrimPrefix(string(code), before))
}

// set yields the exported fields of a struct that are not zero.
func set(v reflect.Value) func(yield func(string, reflect.Value) bool) {
	return func(yield func(string, reflect.Value) bool) {
		for field, value := range v.Fields() {
			if field.IsExported() && !value.IsZero() && !yield(field.Name, value) {
				return
			}
		}
	}
}

// goValue writes a value of a policy's field as an expression.
func goValue(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case time.Duration:
		return goDuration(x)
	case retry.Constant:
		return "retry.Constant(" + goDuration(time.Duration(x)) + ")"
	case retry.Schedule:
		var waits []string
		for _, d := range x {
			waits = append(waits, goDuration(d))
		}
		return "retry.Schedule{" + strings.Join(waits, ", ") + "}"
	case retry.Jitter:
		for name, jitter := range map[string]retry.Jitter{"FullJitter": retry.FullJitter, "EqualJitter": retry.EqualJitter, "NoJitter": retry.NoJitter} {
			if x == jitter {
				return "retry." + name
			}
		}
		if x == retry.Plus(x.Plus) {
			return "retry.Plus(" + goDuration(x.Plus) + ")"
		}
	case float64:
		switch {
		case math.IsNaN(x):
			return "math.NaN()"
		case math.IsInf(x, 0):
			return fmt.Sprintf("math.Inf(%d)", int(math.Copysign(1, x)))
		}
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	switch v.Kind() {
	case reflect.Interface:
		return goValue(v.Elem())
	case reflect.Pointer:
		return "&" + goValue(v.Elem())
	case reflect.Struct:
		var fields []string
		for name, value := range set(v) {
			fields = append(fields, name+": "+goValue(value))
		}
		return v.Type().String() + "{" + strings.Join(fields, ", ") + "}"
	}
	return fmt.Sprintf("%#v", v.Interface())
}

// goDuration writes a time in the largest unit that divides it.
func goDuration(d time.Duration) string {
	for _, unit := range []struct {
		time.Duration
		name string
	}{{time.Hour, "Hour"}, {time.Minute, "Minute"}, {time.Second, "Second"}, {time.Millisecond, "Millisecond"}, {time.Microsecond, "Microsecond"}} {
		switch n := d / unit.Duration; {
		case d == 0 || d%unit.Duration != 0:
		case n == 1:
			return "time." + unit.name
		default:
			return fmt.Sprintf("%d * time.%s", n, unit.name)
		}
	}
	return strconv.FormatInt(int64(d), 10)
}
