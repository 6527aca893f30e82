package otelretry

import "strings"

// clip returns the beginning of s: at most so many bytes, and no part of a character. A
// negative number counts as zero. What is not UTF-8 becomes U+FFFD. The result is a copy,
// which keeps nothing of s.
func clip(s string, most int) string {
	most = max(most, 0)
	return strings.Clone(upTo(valid(upTo(s, most)), most))
}
