package main

import (
	"flag"
	"fmt"
	"reflect"
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
		case text != "" && text != "0" && text != "0s" && text != "false":
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
func (p param) set(text string) (err error) {
	switch x := p.value.(type) {
	case *string:
		if p.words != "" && !contains(p.words, text) {
			return fmt.Errorf("want one of %s", strings.ReplaceAll(p.words, " ", ", "))
		}
		*x = text
	case *[]string:
		*x = append(*x, text)
	case *int:
		*x, err = one(p.number(true))(text)
	case *uint64:
		*x, err = strconv.ParseUint(text, 10, 64)
		if err != nil {
			err = fmt.Errorf("want a whole number, such as 1")
		}
	case *float64:
		*x, err = p.number(false)(text)
	case *time.Duration:
		*x, err = p.time(text)
	case *[]int:
		*x, err = list(text, one(p.number(true)))
	case *[]float64:
		*x, err = list(text, p.number(false))
	case *[]time.Duration:
		*x, err = list(text, p.time)
	}
	return err
}

func contains(words, word string) bool {
	return word != "" && strings.Contains(" "+words+" ", " "+word+" ")
}

// number reads a number within the bounds: 200, or 200/s.
func (p param) number(whole bool) func(string) (float64, error) {
	return func(text string) (float64, error) {
		f, err := strconv.ParseFloat(strings.TrimSuffix(text, "/s"), 64)
		if err != nil || !(f >= p.least && f <= p.most) || whole && f != float64(int(f)) {
			what := "a number"
			if whole {
				what = "a whole number"
			}
			return 0, fmt.Errorf("want %s from %v to %v", what, plain(p.least), plain(p.most))
		}
		return f, nil
	}
}

func one(read func(string) (float64, error)) func(string) (int, error) {
	return func(text string) (int, error) {
		f, err := read(text)
		return int(f), err
	}
}

func plain(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// time reads a time within the bounds.
func (p param) time(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d.Seconds() < p.least || d.Seconds() > p.most {
		least := time.Duration(p.least * float64(time.Second))
		return 0, fmt.Errorf("want a time of %v or more, such as 100ms or 2s", least)
	}
	return d, nil
}

// list reads words that are separated by commas.
func list[T any](text string, read func(string) (T, error)) (all []T, err error) {
	for word := range strings.SplitSeq(text, ",") {
		v, err := read(strings.TrimSpace(word))
		if err != nil {
			return nil, fmt.Errorf("%w, or several separated by commas", err)
		}
		all = append(all, v)
	}
	return all, nil
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
		switch x := p.value.(type) {
		case *bool:
			if *x {
				words = append(words, "-"+p.name)
			}
		case *[]string:
			for _, text := range *x {
				words = append(words, "-"+p.name+" "+quote(text))
			}
		default:
			if text := p.text(); text != "" && text != "0" && text != "0s" {
				words = append(words, "-"+p.name+" "+quote(text))
			}
		}
	}
	return strings.Join(words, " ")
}

// quote writes a word for a shell.
func quote(word string) string {
	if strings.ContainsAny(word, " ()'\"\\$&|;<>*?#~\t") || word == "" {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}
