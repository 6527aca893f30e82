package errtext

import (
	"strings"
	"unicode/utf8"
)

// Clip returns the beginning of s: at most so many bytes, and no part of a character. A
// negative number counts as zero. What is not UTF-8 becomes U+FFFD. The result is a copy,
// which keeps nothing of s.
func Clip(s string, most int) string {
	most = max(most, 0)
	return strings.Clone(upTo(strings.ToValidUTF8(upTo(s, most), "\uFFFD"), most))
}

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
