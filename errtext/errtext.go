package errtext

import (
	"fmt"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/errtree"
)

const (
	// most is how many errors a tree may have. If it has more, only its type is shown.
	most = 1000

	// looks is how many inner runs a description looks into. For others it shows only the
	// reason.
	looks = 16
)

// Of returns the text of err that may be shown, or "" if err is nil.
//
// URLs are shown without userinfo, query and fragment: that of a [*url.Error] anywhere
// in the tree, wherever it is in the text, and every other URL in the text, which is
// recognized by "://". A run is described by its reason and what its last attempt failed
// with: so texts of the same kind are equal, since they have no times and no counts. If a guard has
// ended the run, the type of the guard and its error come first. An
// error that is [retry.ErrPaced] is shown without the time that it names. If more than
// 1 000 errors are in the tree, or if a method of one panics, the text is the type of err.
func Of(err error) (text string) {
	if err == nil {
		return ""
	}
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("%T: a method of it panics", err)
		}
	}()
	d := description{looks: looks}
	return withoutSecrets(d.of(err))
}

// below calls visit for what err wraps, and reports whether it wraps anything. For an
// inner run it visits the errors that its text shows. A nil pointer wraps nothing.
func below(err error, visit func(error)) (any bool) {
	if errtree.IsNil(err) {
		return false
	}
	switch e := err.(type) {
	case *retry.Error:
		last, _ := errtree.LastAttempt(e)
		for _, err := range [...]error{last, e.Cause} {
			if err != nil {
				any = true
				visit(err)
			}
		}
	case interface{ Unwrap() error }:
		if err := e.Unwrap(); err != nil {
			any = true
			visit(err)
		}
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			if err != nil {
				any = true
				visit(err)
			}
		}
	}
	return any
}

// large reports whether more than most errors are in the tree of err. An error that
// is there twice counts twice.
func large(err error) bool {
	left := most
	count(err, &left)
	return left < 0
}

func count(err error, left *int) {
	if *left--; *left < 0 {
		return
	}
	below(err, func(err error) { count(err, left) })
}
