package errtext

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/errtree"
)

// description is what one call of Of knows.
type description struct {
	looks int                     // how many more inner runs it looks into
	told  map[*retry.Error]string // those it has met
}

// of returns the text of err in which inner runs are described, and the URLs of
// *url.Error are without secrets.
func (d *description) of(err error) string {
	if e, ok := err.(*retry.Error); ok && e != nil {
		return d.run(e)
	}
	if large(err) {
		return typeOf(err)
	}
	var r replacements
	d.collect(err, true, &r)
	text, ok := r.apply(err.Error())
	if !ok {
		return typeOf(err)
	}
	return text
}

func typeOf(err error) string { return fmt.Sprintf("%T", err) }

// run returns the description of an inner run. It looks into each run once.
func (d *description) run(e *retry.Error) string {
	text, known := d.told[e]
	if known {
		return text
	}
	text = e.Reason.String()
	if d.looks == 0 {
		return text
	}
	d.looks--
	if d.told == nil {
		d.told = make(map[*retry.Error]string)
	}
	d.told[e] = text // in case that e is also below itself
	last := told(e)
	if e.Guard != "" && e.Cause != nil { // it has ended the run, whatever attempts have failed with
		text += ": " + e.Guard + ": " + d.of(e.Cause)
		if len(e.Errs) == 0 {
			last = nil // which is e.Cause
		} else {
			text += "; attempts failed with"
		}
	}
	if last != nil {
		text += ": " + d.of(last)
	}
	d.told[e] = text
	return text
}

// collect looks through the tree of err for texts to replace. Runs within runs are
// described where those are; URLs count wherever they are.
func (d *description) collect(err error, runs bool, r *replacements) {
	switch e := err.(type) {
	case *retry.Error:
		if runs && e != nil {
			r.add(e.Error(), d.run(e))
		}
		runs = false
	case *url.Error:
		r.url(e)
	}
	if below(err, func(err error) { d.collect(err, runs, r) }) || errtree.IsNil(err) {
		return
	}
	if e, ok := err.(interface{ Is(error) bool }); ok && e.Is(retry.ErrPaced) {
		r.add(err.Error(), retry.ErrPaced.Error()) // it says how long the wait would have been
	}
	// It may hide more. The method As of what wraps others is not called: if it looks
	// through these itself, each level would double the work.
	if e, ok := err.(interface{ As(any) bool }); ok {
		var u *url.Error
		if e.As(&u) {
			r.url(u)
		}
		var inner *retry.Error
		if runs && e.As(&inner) && inner != nil {
			r.add(inner.Error(), d.run(inner))
		}
	}
}

// replacement is a text that an error's text may contain, and what stands in its
// place.
type replacement struct{ text, instead string }

type replacements []replacement

func (r *replacements) add(text, instead string) {
	if text != "" && text != instead {
		*r = append(*r, replacement{text, instead})
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

// effort limits the work of replacing: texts to look for, times bytes to look
// through.
const effort = 1 << 26

// apply replaces all of them in s, from left to right, where two begin at the same
// byte the longer one. It reports false, and not what s is, if that takes too long.
func (r replacements) apply(s string) (text string, ok bool) {
	if len(r) == 0 {
		return s, true
	}
	slices.SortStableFunc(r, func(a, b replacement) int {
		return cmp.Or(cmp.Compare(len(a.text), len(b.text)), cmp.Compare(a.text, b.text))
	})
	r = slices.CompactFunc(r, func(a, b replacement) bool { return a.text == b.text })
	if len(r) > effort/(len(s)+1) {
		return "", false
	}
	here := make([]uint16, len(s)) // the number of the longest that begins at a byte, counted from 1
	for i, p := range r {
		found(s, p.text, func(at int) { here[at] = uint16(i + 1) })
	}
	var b strings.Builder
	for from, at := 0, 0; ; {
		if at == len(s) {
			b.WriteString(s[from:])
			return b.String(), true
		}
		if here[at] == 0 {
			at++
			continue
		}
		p := r[here[at]-1]
		b.WriteString(s[from:at])
		b.WriteString(p.instead)
		at += len(p.text)
		from = at
	}
}

// found calls visit for each byte of s at which text begins, as Knuth, Morris and
// Pratt do it: texts that repeat themselves, which an attacker may have chosen, take
// no longer than others.
func found(s, text string, visit func(at int)) {
	if len(text) > len(s) {
		return
	}
	// back[n] is how much of text still fits where its first n+1 bytes did and the next
	// one did not.
	back := make([]int32, len(text))
	fit := func(n int, c byte) int {
		for n > 0 && (n == len(text) || text[n] != c) {
			n = int(back[n-1])
		}
		if text[n] == c {
			n++
		}
		return n
	}
	for i, n := 1, 0; i < len(text); i++ {
		n = fit(n, text[i])
		back[i] = int32(n)
	}
	for i, n := 0, 0; i < len(s); i++ {
		if n = fit(n, s[i]); n == len(text) {
			visit(i + 1 - n)
		}
	}
}
