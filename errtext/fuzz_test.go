package errtext_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/goretry/retry"
	"github.com/goretry/retry/errtext"
)

// FuzzSecrets puts a secret where URLs have theirs, wraps the error in all ways,
// and looks for the secret in what is told.
func FuzzSecrets(f *testing.F) {
	f.Add("https", "host:80", "user", "/path", "dial", byte(0))
	f.Add("", "h%zz", "us%er", "/@", "x://y?", byte(0b0101_0110))
	f.Add("a b", "[::1", "\xff", "\n\"", "://", byte(0b1110_1011))
	f.Fuzz(func(t *testing.T, scheme, host, user, path, text string, shape byte) {
		const secret = "Sécret"
		for _, s := range []string{scheme, host, user, path, text} {
			if strings.Contains(s, secret) || strings.Contains(secret, s) && s != "" {
				t.Skip("the secret is no secret")
			}
		}
		// A name with one of these in it is no userinfo any more, whoever reads it.
		clean := func(s, cutset string) string {
			return strings.Map(func(r rune) rune {
				if strings.ContainsRune(cutset, r) {
					return '_'
				}
				return r
			}, s)
		}
		user, host, scheme = clean(user, "/?#@"), clean(host, "/?#@"), clean(scheme, ":/?#@")
		path = clean(path, "?#@")
		whole := []string{
			scheme + "://" + user + ":" + secret + "@" + host + path + "?" + secret,
			scheme + "://" + host + path + "#" + secret,
			scheme + "://" + user + ":" + secret + "://@" + host + "?a=" + secret + " " + secret, // no URL: who has it as one?
			path + "?" + secret + " " + secret,
		}
		var err error = &url.Error{Op: "Get", URL: whole[shape&3], Err: errors.New(text)}
		check := func(what, got string) {
			t.Helper()
			if strings.Contains(got, secret) {
				t.Errorf("%s tells the secret of %q: %q", what, err, got)
			}
			if got != strings.ToValidUTF8(got, "") && utf8.ValidString(err.Error()) {
				t.Errorf("%s is no UTF-8: %q", what, got)
			}
		}
		for bit := byte(4); bit != 0; bit <<= 1 {
			if shape&bit == 0 {
				continue
			}
			switch bit {
			case 4:
				err = fmt.Errorf("%s: %w", text, err)
			case 8:
				err = opaque{err}
			case 16:
				err = hiding{[]error{err}}
			case 32:
				err = errors.Join(errors.New(text), err, err)
			case 64:
				err = fmt.Errorf("load: %w", &retry.Error{Name: user, Reason: retry.ReasonBudget, Attempts: 1, Errs: []error{err}})
			case 128:
				err = retry.Stop(err)
			}
		}
		check("Of", errtext.Of(err))
		check("of a run", ofRun(retry.ReasonBudget, &retry.Error{Errs: []error{err}}))

		// The text of an error that is not known: of a user's name, host and path only what
		// no white space ends.
		nospace := func(s string) string { return strings.Join(strings.Fields(s), "") }
		for _, text := range []string{
			scheme + "://" + nospace(user) + ":" + secret + "@" + host,
			scheme + "://" + nospace(host) + nospace(path) + "?" + secret,
			scheme + "://" + nospace(host) + "#" + nospace(path) + secret,
			scheme + "://" + nospace(clean(user, ":,[")) + ":x" + secret,
		} {
			err = errors.New(text + " " + nospace(path))
			check("a text", errtext.Of(err))
		}
	})
}
