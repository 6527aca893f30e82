package retryhttp

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

const (
	quoted  = 4 << 10 // how many bytes of a text that may hold secrets are read, and shown of an error's
	excerpt = 256     // how many are shown of a body or of a header's value
)

// secrets are texts that must not be shown: values in URLs. A redirect chooses some of
// them, so there are at most mostSecrets, of secretBytes together. If there would be
// more, tooMany is set and no text is shown at all.
type secrets struct {
	texts   []string
	bytes   int
	tooMany bool
}

const (
	mostSecrets = 200
	secretBytes = 64 << 10
)

// secrets returns those of the requested URL, and of the URL that redirects led to,
// because a page may repeat them.
func (c *call) secrets(resp *http.Response) (s secrets) {
	s.addURL(c.req.URL)
	if resp.Request != nil {
		s.addURL(resp.Request.URL)
	}
	return s
}

// addURL adds userinfo and the values of the query, each as written in u and decoded.
func (s *secrets) addURL(u *url.URL) {
	if u == nil {
		return
	}
	password, _ := u.User.Password()
	name, encoded, _ := strings.Cut(u.User.String(), ":")
	for _, secret := range []string{password, encoded, u.User.Username(), name} {
		s.add(secret)
	}
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		if s.tooMany {
			return
		}
		name, raw, found := strings.Cut(pair, "=")
		if !found { // it may be a value as well
			raw = name
		}
		s.add(raw)
		if value, err := url.QueryUnescape(raw); err == nil {
			s.add(value)
		}
	}
}

func (s *secrets) add(secret string) {
	switch {
	case secret == "", slices.Contains(s.texts, secret):
	case len(s.texts) == mostSecrets, s.bytes+len(secret) > secretBytes:
		s.tooMany = true
	default:
		s.texts = append(s.texts, secret)
		s.bytes += len(secret)
	}
}

func (s *secrets) longest() (n int) {
	for _, secret := range s.texts {
		n = max(n, len(secret))
	}
	return n
}

// hide returns at most so many bytes of the beginning of text, with REDACTED for every
// byte that belongs to a secret. Secrets may overlap, and may extend beyond the cut.
func (s *secrets) hide(text string, most int) string {
	if s.tooMany && text != "" {
		return "REDACTED"
	}
	var b strings.Builder
	hidden := 0 // the end of the last secret
	for i := 0; i < min(len(text), quoted) && b.Len() < most; i++ {
		goesOn := i < hidden
		for _, secret := range s.texts {
			if strings.HasPrefix(text[i:], secret) {
				hidden = max(hidden, i+len(secret))
			}
		}
		switch {
		case i >= hidden:
			b.WriteByte(text[i])
		case !goesOn:
			b.WriteString("REDACTED")
		}
	}
	shown := b.String()
	return shown[:min(len(shown), most)]
}

// hideIn returns err if its text shows no secret. Otherwise it returns an error with
// another text, in which errors.Is and errors.As find what err holds.
func (s *secrets) hideIn(err error) error {
	if s.tooMany {
		return &concealed{fmt.Sprintf("%T", err), err}
	}
	text := err.Error()
	if shown := s.hide(text, quoted); shown != text {
		return &concealed{shown, err}
	}
	return err
}

// concealed has no Unwrap, because code that prints wrapped errors would print the
// secret.
type concealed struct {
	text string
	err  error
}

func (e *concealed) Error() string        { return e.text }
func (e *concealed) Is(target error) bool { return errors.Is(e.err, target) }
func (e *concealed) As(target any) bool   { return errors.As(e.err, target) }
