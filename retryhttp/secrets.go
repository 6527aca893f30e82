package retryhttp

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// quoted is how many bytes of a text that may hold secrets are read and shown.
const quoted = 4 << 10

// secrets are texts that must not be shown: values in URLs.
type secrets []string

// secrets returns those of the requested URL, and of the URL that redirects led to,
// because a page may repeat them.
func (c *call) secrets(resp *http.Response) (s secrets) {
	s.add(c.req.URL)
	if resp.Request != nil {
		s.add(resp.Request.URL)
	}
	return s
}

// add adds userinfo and the values of the query, each as written in u and decoded.
func (s *secrets) add(u *url.URL) {
	if u == nil {
		return
	}
	password, _ := u.User.Password()
	name, encoded, _ := strings.Cut(u.User.String(), ":")
	all := []string{password, encoded, u.User.Username(), name}
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		name, raw, found := strings.Cut(pair, "=")
		if !found { // it may be a value as well
			raw = name
		}
		all = append(all, raw)
		if value, err := url.QueryUnescape(raw); err == nil {
			all = append(all, value)
		}
	}
	for _, secret := range all {
		if secret != "" {
			*s = append(*s, secret)
		}
	}
}

func (s secrets) longest() (n int) {
	for _, secret := range s {
		n = max(n, len(secret))
	}
	return n
}

// hide returns at most so many bytes of the beginning of text, with REDACTED for every
// byte that belongs to a secret. Secrets may overlap, and may extend beyond the cut.
func (s secrets) hide(text string, most int) string {
	var b strings.Builder
	hidden := 0 // the end of the last secret
	for i := 0; i < min(len(text), quoted) && b.Len() < most; i++ {
		goesOn := i < hidden
		for _, secret := range s {
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
func (s secrets) hideIn(err error) error {
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
