package otelretry

import (
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"reflect"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/goretry/retry/errtext"
)

const (
	// distinct is how many names, how many values of error.type, and how many types of
	// guards a process distinguishes. longest is how many bytes each of them may have.
	distinct = 256
	longest  = 128

	// other replaces those that come later.
	other = "other"
)

// The values that this process distinguishes. They are copies, since the text that a
// value was cut from may be large.
var names, errorTypes, guardTypes = known(), known(), known()

func known() cache[string, string] {
	return cache[string, string]{most: distinct, own: strings.Clone, build: valid}
}

// valid returns s as exporters need it: with a text that is not UTF-8 they lose
// all that is sent together with it.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// upTo returns at most so many bytes of s, and no part of a character. What it
// returns keeps all of s alive.
func upTo(s string, most int) string {
	if len(s) <= most {
		return s
	}
	end := most
	for end > most-utf8.UTFMax && end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// admit returns value as exporters need it, or other if too many came before it.
func admit(known *cache[string, string], value string) (admitted string, ok bool) {
	if admitted, ok = known.find(upTo(value, longest)); !ok {
		admitted = other
	}
	return admitted, ok
}

// typed holds the names of types whose errors wrap nothing and have no code.
var typed sync.Map // reflect.Type → string

// errorType returns the error.type of an attempt's own error.
func errorType(err error) string {
	t := reflect.TypeOf(err)
	if name, ok := typed.Load(t); ok {
		return name.(string)
	}
	name, _ := admit(&errorTypes, typeName(err))
	switch err.(type) {
	case interface{ ErrorType() string }, interface{ As(any) bool }, interface{ Unwrap() error }, interface{ Unwrap() []error },
		interface{ SQLState() string }, interface{ StatusCode() int }, interface{ HTTPStatusCode() int }, *net.DNSError:
		return name // the next error of this type may have another
	}
	typed.Store(t, name)
	return name
}

// typeName returns a code that a person can act on, if err has one, as the semantic
// conventions want it. Else it is the full name of the type below what only tells where
// the error happened. Methods are someone else's, and may panic.
func typeName(err error) (name string) {
	defer func() {
		if recover() != nil {
			name = reflect.TypeOf(err).String()
		}
	}()
	err = bare(err)
	if code := errtext.Code(err); code != "" {
		return code
	}
	t := reflect.TypeOf(err)
	if t.Name() == "" || t.PkgPath() == "" {
		return t.String()
	}
	return t.PkgPath() + "." + t.Name()
}

// bare removes wrappers that only say where an error happened. A *net.OpError stays:
// inside it are only numbers of the system.
func bare(err error) error {
	for {
		var inner error
		switch err.(type) {
		case *url.Error, *fs.PathError, *os.LinkError, *os.SyscallError:
			inner = errors.Unwrap(err)
		default:
			if t := reflect.TypeOf(err).String(); t == "*fmt.wrapError" || t == mark {
				inner = errors.Unwrap(err)
			}
		}
		if inner == nil {
			return err
		}
		err = inner
	}
}

// mark is the type of what retry.Stop and retry.After put around an error. It has
// an ErrorType, which does not look below a *url.Error.
const mark = "*retry.mark"
