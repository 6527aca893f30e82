package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry/internal/nearest"
)

// param is a line of a command's table of flags, and the flag's value. What value
// points to says how the flag is read and written, and holds its default until then.
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
	params []param
	groups []group // of the flags, as help writes them; nil: all in one
	progress
	stderr io.Writer
}

// group is flags that belong together.
type group struct{ title, flags string }

// printFlags writes what the flags mean, those of no group first.
func (o *options) printFlags(w io.Writer) {
	rest, grouped := "", " "
	for _, g := range o.groups {
		grouped += g.flags + " "
	}
	o.VisitAll(func(f *flag.Flag) {
		if !strings.Contains(grouped, " "+f.Name+" ") {
			rest += f.Name + " "
		}
	})
	for _, g := range append([]group{{"Flags", rest}}, o.groups...) {
		names := slices.DeleteFunc(strings.Fields(g.flags), func(name string) bool { return o.Lookup(name) == nil })
		if len(names) > 0 {
			fmt.Fprintf(w, "\n%s:\n", g.title)
		}
		for _, name := range names {
			f, one := o.Lookup(name), flag.NewFlagSet("", flag.ContinueOnError) // which would sort them
			one.SetOutput(w)
			one.Var(f.Value, f.Name, f.Usage)
			one.Lookup(name).DefValue = f.DefValue
			one.PrintDefaults()
		}
	}
}

// explained is the error of parsing the flags, with what an unknown one may have meant.
func (o *options) explained(err error) error {
	if name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); ok {
		return o.noFlag(name)
	}
	return err
}

// noFlag is the error of a flag that is none.
func (o *options) noFlag(name string) error {
	var names []string
	o.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	return fmt.Errorf("-%s: no such flag%s", name, nearest.Hint(name, "-", names...))
}

// The most of something, which is what a machine holds, the most per second, and the
// longest time in seconds.
const many, fast, forever = 5e6, 1e9, 1e9

// bounded returns an error if a run has more calls than a machine holds, or than most.
// A flag says how many.
func bounded(flag string, calls, most float64) error {
	if calls > most {
		return wrong("-%s: a run would have %.2g calls, want at most %.2g", flag, calls, most)
	}
	return nil
}

// add adds the lines of a table.
func (o *options) add(table ...param) {
	o.params = append(o.params, table...)
	for _, p := range table {
		if p.words != "" {
			p.usage += ": " + strings.ReplaceAll(p.words, " ", ", ")
		}
		o.Var(p, p.name, p.usage)
	}
}

// IsBoolFlag reports whether the flag stands without a value.
func (p param) IsBoolFlag() bool {
	_, ok := p.value.(*bool)
	return ok
}

// String returns the default for the flag's usage; "" where it says nothing.
func (p param) String() string {
	if p.value == nil || zero(p.text()) {
		return ""
	}
	return p.text()
}

// given reports whether a flag stands on the command line.
func (o *options) given(name string) (given bool) {
	o.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	return given
}

// Set parses a flag's value. If it cannot, it returns an error of one line that says
// what is expected.
func (p param) Set(text string) (err error) {
	v := reflect.ValueOf(p.value).Elem()
	switch x := p.value.(type) {
	case *bool:
		*x, err = strconv.ParseBool(text)
	case *[]string:
		*x = append(*x, text)
	case *string:
		if *x = text; p.words != "" && !slices.Contains(strings.Fields(p.words), text) {
			return fmt.Errorf("want one of %s%s", strings.ReplaceAll(p.words, " ", ", "), nearest.Hint(text, "", strings.Fields(p.words)...))
		}
	case *uint64:
		if *x, err = strconv.ParseUint(text, 10, 64); err != nil {
			return errors.New("want a whole number, such as 1")
		}
	case *time.Duration:
		*x, err = time.ParseDuration(text)
		if err != nil || x.Seconds() < p.least || x.Seconds() > p.most {
			seconds := func(f float64) time.Duration { return time.Duration(f * float64(time.Second)) }
			return fmt.Errorf("want a time of %v or more, such as 100ms or 2s, and %v at most", seconds(p.least), seconds(p.most))
		}
	case *[]int, *[]float64, *[]time.Duration:
		v.SetZero()
		for word := range strings.SplitSeq(text, ",") {
			one := reflect.New(v.Type().Elem())
			p.value = one.Interface()
			if err := p.Set(strings.TrimSpace(word)); err != nil {
				return fmt.Errorf("%w, or several separated by commas", err)
			}
			v.Set(reflect.Append(v, one.Elem()))
		}
	default: // 200, or 200/s
		f, err := strconv.ParseFloat(strings.TrimSuffix(text, "/s"), 64)
		what := "a number"
		if v.CanInt() {
			what = "a whole number"
		}
		if err != nil || !(f >= p.least && f <= p.most) || v.CanInt() && f != math.Trunc(f) {
			return fmt.Errorf("want %s from %.10g to %.10g", what, p.least, p.most)
		}
		v.Set(reflect.ValueOf(f).Convert(v.Type()))
	}
	return err
}

// text writes a flag's value as Set reads it, if it is not a *[]string.
func (p param) text() string {
	text := fmt.Sprint(reflect.ValueOf(p.value).Elem())
	if strings.HasPrefix(text, "[") {
		text = strings.ReplaceAll(strings.Trim(text, "[]"), " ", ",")
	}
	return text
}

// inputs returns all flags and their values, times as texts.
func (o *options) inputs() map[string]any {
	all := map[string]any{}
	for _, p := range o.params {
		all[p.name] = reflect.ValueOf(p.value).Elem().Interface()
		switch p.value.(type) {
		case *time.Duration, *[]time.Duration:
			all[p.name] = p.text()
		}
	}
	return all
}

// line returns the flags as a command line that repeats the run, all or only those
// that were given. One that is zero stands there only if it was given: its default may
// be another.
func (o *options) line(all bool) string {
	var words []string
	for _, p := range o.params {
		given := o.given(p.name)
		if !given && !all {
			continue
		}
		switch value := p.value.(type) {
		case *[]string:
			for _, text := range *value {
				words = append(words, "-"+p.name+" "+quote(text))
			}
		case *bool:
			if *value {
				words = append(words, "-"+p.name)
			}
		default:
			if text := p.text(); given || !zero(text) {
				words = append(words, "-"+p.name+" "+quote(text))
			}
		}
	}
	return strings.Join(words, " ")
}

// zero reports whether a flag's text is that of a zero value.
func zero(text string) bool { return text == "" || text == "0" || text == "0s" || text == "false" }

// quote writes a word for a shell. A word may come from a link, and so from a stranger:
// only what means nothing to any shell stays bare.
func quote(word string) string {
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./:=,@%+"
