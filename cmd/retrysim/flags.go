package main

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// param is a line of a command's table of flags. What value points to says how the
// flag is read and written, and holds its default until then.
type param struct {
	name  string
	value any     // *bool, *string, *int, *uint64, *float64, *time.Duration, *[]string, or a list of numbers or times
	least float64 // of a number, or of a time in seconds
	most  float64
	words string // that a *string may be; "": any
	usage string // with the unit in back quotes
}

// options are a command's flags, and what all commands share.
type options struct {
	*flag.FlagSet
	params   []param
	progress func(done float64)
}

// most numbers of something, and most per second: a machine holds no more.
const many, fast = 1e7, 1e9

// forever is the longest time that a flag takes, in seconds.
const forever = 1e9

// add adds the lines of a table.
func (o *options) add(table ...param) {
	for _, p := range table {
		o.params = append(o.params, p)
		usage := p.usage
		switch text := p.text(); {
		case p.words != "":
			usage += fmt.Sprintf(": %s (default %s)", strings.ReplaceAll(p.words, " ", ", "), text)
		case !zero(text):
			usage += fmt.Sprintf(" (default %s)", text)
		}
		if on, ok := p.value.(*bool); ok {
			o.BoolVar(on, p.name, *on, usage)
			continue
		}
		o.Func(p.name, usage, p.set)
	}
}

// given reports whether a flag stands on the command line.
func (o *options) given(name string) (given bool) {
	o.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	return given
}

// set reads a flag's value. What it cannot read it refuses in one line that says
// what is wanted.
func (p param) set(text string) error {
	v := reflect.ValueOf(p.value).Elem()
	if _, words := p.value.(*[]string); v.Kind() != reflect.Slice || words {
		return p.read(v, text)
	}
	all := reflect.Zero(v.Type())
	for word := range strings.SplitSeq(text, ",") {
		one := reflect.New(v.Type().Elem()).Elem()
		if err := p.read(one, strings.TrimSpace(word)); err != nil {
			return fmt.Errorf("%w, or several separated by commas", err)
		}
		all = reflect.Append(all, one)
	}
	v.Set(all)
	return nil
}

// read reads one value, within the bounds.
func (p param) read(v reflect.Value, text string) error {
	switch v.Interface().(type) {
	case string:
		if p.words != "" && !slices.Contains(strings.Fields(p.words), text) {
			return fmt.Errorf("want one of %s", strings.ReplaceAll(p.words, " ", ", "))
		}
		v.SetString(text)
	case []string:
		v.Set(reflect.Append(v, reflect.ValueOf(text)))
	case uint64:
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return errors.New("want a whole number, such as 1")
		}
		v.SetUint(n)
	case time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil || d.Seconds() < p.least || d.Seconds() > p.most {
			return fmt.Errorf("want a time of %v or more, such as 100ms or 2s", time.Duration(p.least*float64(time.Second)))
		}
		v.SetInt(int64(d))
	default: // 200, or 200/s
		f, err := strconv.ParseFloat(strings.TrimSuffix(text, "/s"), 64)
		what := "a number"
		if v.CanInt() {
			what = "a whole number"
		}
		if err != nil || !(f >= p.least && f <= p.most) || v.CanInt() && f != math.Trunc(f) {
			plain := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
			return fmt.Errorf("want %s from %s to %s", what, plain(p.least), plain(p.most))
		}
		v.Set(reflect.ValueOf(f).Convert(v.Type()))
	}
	return nil
}

// text writes a flag's value as set reads it.
func (p param) text() string {
	v := reflect.ValueOf(p.value).Elem()
	if v.Kind() != reflect.Slice {
		return fmt.Sprint(v)
	}
	var words []string
	for i := range v.Len() {
		words = append(words, fmt.Sprint(v.Index(i)))
	}
	return strings.Join(words, ",")
}

// inputs returns all flags and their values, times as texts.
func (o *options) inputs() map[string]any {
	all := map[string]any{}
	for _, p := range o.params {
		switch x := p.value.(type) {
		case *time.Duration, *[]time.Duration:
			all[p.name] = p.text()
		default:
			all[p.name] = reflect.ValueOf(x).Elem().Interface()
		}
	}
	return all
}

// line returns the flags as a command line has them, without those that are zero.
func (o *options) line() string {
	var words []string
	for _, p := range o.params {
		texts := []string{p.text()}
		switch x := p.value.(type) {
		case *bool:
			if *x {
				words = append(words, "-"+p.name)
			}
			continue
		case *[]string:
			texts = *x
		default:
			texts = slices.DeleteFunc(texts, zero)
		}
		for _, text := range texts {
			words = append(words, "-"+p.name+" "+quote(text))
		}
	}
	return strings.Join(words, " ")
}

// zero reports whether a flag's text says no more than that it is not given.
func zero(text string) bool { return text == "" || text == "0" || text == "0s" || text == "false" }

// quote writes a word for a shell.
func quote(word string) string {
	if strings.ContainsAny(word, " ()'\"\\$&|;<>*?#~\t") || word == "" {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}
