package otelretry

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goretry/retry"
)

// What a span's status may tell of an error is decided here. A status has to group:
// no elapsed time, no number of attempts. And it must not leak what a URL holds
// beside the place that it leads to.

// described returns the text of an attempt's error for a status, at most 4 KiB of
// it. The methods of err are someone else's and may panic.
func described(err error) (s string) {
	defer func() {
		if recover() != nil {
			s = fmt.Sprintf("%T: a method of it panics", err)
		}
	}()
	return brief(describe(err))
}

// describedRun is described for the error of a run: its reason, and what its last
// attempt failed with.
func describedRun(reason retry.Reason, err error) string {
	s := reason.String()
	var e *retry.Error
	if errors.As(err, &e) {
		if last := e.Last(); last != nil {
			return brief(s + ": " + described(last))
		}
		if e.Attempts == 0 && e.Cause != nil {
			return brief(s + ": " + described(e.Cause))
		}
	}
	return s
}

// brief returns at most 4 KiB of s, as exporters need it.
func brief(s string) string { return clip(valid(clip(s, 4<<10)), 4<<10) }

// clip returns at most so many bytes of s, and no part of a character.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	end := most
	for end > most-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// describe returns the text of err in which each inner run is described as that
// run's own status is, and each URL is without its secrets.
func describe(err error) string {
	if e, ok := err.(*retry.Error); ok && e != nil {
		return describedRun(e.Reason, e)
	}
	var r replacements
	r.collect(err)
	return r.apply(err.Error())
}

// replacements are texts that an error's text may contain, each with what stands in
// its place.
type replacements [][2]string

// collect looks through the tree of err as errors.As does.
func (r *replacements) collect(err error) {
	switch e := err.(type) {
	case nil:
		return
	case *retry.Error:
		if e != nil {
			r.add(e.Error(), describe(e)) // with all that is below it
		}
		return
	case *url.Error:
		r.url(e)
	case interface{ As(any) bool }: // it may hide more than it unwraps
		var u *url.Error
		if e.As(&u) {
			r.url(u)
		}
		var inner *retry.Error
		if e.As(&inner) && inner != nil {
			r.add(inner.Error(), describe(inner))
		}
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		r.collect(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			r.collect(err)
		}
	}
}

func (r *replacements) add(text, instead string) {
	if text != "" && text != instead {
		*r = append(*r, [2]string{text, instead})
	}
}

// url has the URL of e shown without its secrets, as it is and as e quotes it.
func (r *replacements) url(e *url.Error) {
	if e == nil {
		return
	}
	shown, parsed := public(e.URL)
	r.add(e.URL, shown)
	quote := func(s string) string { s = strconv.Quote(s); return s[1 : len(s)-1] }
	r.add(quote(e.URL), quote(shown))
	if !parsed && e.Err != nil { // which quotes the part that is wrong
		text := e.Err.Error()
		if from, to := strings.Index(text, `"`), strings.LastIndex(text, `"`); from < to {
			r.add(text, text[:from]+`"…"`+text[to+1:])
		}
	}
}

// apply replaces all of them in s at once, where two begin at the same place the
// longer one.
func (r replacements) apply(s string) string {
	if len(r) == 0 {
		return s
	}
	slices.SortStableFunc(r, func(a, b [2]string) int { return cmp.Compare(len(b[0]), len(a[0])) })
	var pairs []string
	for _, p := range r {
		pairs = append(pairs, p[0], p[1])
	}
	return strings.NewReplacer(pairs...).Replace(s)
}

// public returns a URL without its userinfo, query and fragment, and whether it
// could be parsed. Of one that could not, what precedes an @ and what follows a ?
// or a # is cut, whatever it is.
func public(raw string) (shown string, parsed bool) {
	if u, err := url.Parse(raw); err == nil && u.Opaque == "" {
		u.User, u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = nil, "", false, "", ""
		return u.String(), true
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || strings.ContainsAny(scheme, ":@?#") {
		return within(raw), false
	}
	return scheme + "://" + within(rest), false
}

func within(s string) string {
	from, to := strings.LastIndex(s, "@")+1, strings.IndexAny(s, "?#")
	if to < 0 {
		to = len(s)
	}
	return s[min(from, to):to]
}

// valid returns s as exporters need it: with a text that is not UTF-8 they lose
// all that is sent together with it.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
