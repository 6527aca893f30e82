package retrydebug

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// line returns s as one line of at most so many bytes in valid UTF-8, and keeps
// nothing of s. It ends with "…" if s was cut. Line breaks and tabs become a space.
// What else controls a terminal or the direction of the text becomes U+FFFD.
func line(s string, most int) string {
	var b strings.Builder
	b.Grow(min(len(s), most))
	kept := 0 // bytes of b that leave room for the ellipsis
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == '\r' && strings.HasPrefix(s[i+1:], "\n") {
			size++
		}
		i += size
		r = shown(r)
		if b.Len()+utf8.RuneLen(r) > most {
			return b.String()[:kept] + ellipsis
		}
		b.WriteRune(r)
		if b.Len()+len(ellipsis) <= most {
			kept = b.Len()
		}
	}
	return b.String()
}

const ellipsis = "…"

// shown returns what stands for r on a line.
func shown(r rune) rune {
	switch {
	case r >= '\t' && r <= '\r', r == '\u0085', r == '\u2028', r == '\u2029':
		return ' '
	case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
		return utf8.RuneError
	}
	return r
}
