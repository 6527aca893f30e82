package hint

import (
	"iter"
	"strings"
)

// get returns the first value of a header.
func get(h Header, name string) string {
	if h == nil {
		return ""
	}
	if v := h.Values(name); len(v) > 0 {
		return trim(v[0])
	}
	return ""
}

// items are those of a header that is a list.
func items(lines []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, line := range lines {
			for line != "" {
				var item string
				if item, line = cut(line, ','); !yield(item) {
					return
				}
			}
		}
	}
}

// param returns the value of a parameter of an item of a list, "" without one.
func param(item, name string) string {
	for item != "" {
		var p string
		p, item = cut(item, ';')
		if key, value, _ := strings.Cut(trim(p), "="); key == name {
			return trim(value)
		}
	}
	return ""
}

// cut cuts s at the first end that does not stand between quotes: a policy's name may hold anything.
func cut(s string, end byte) (before, after string) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case !quoted && c == end:
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

// trim removes the blanks around s. Package strings trims those of all languages, with 8 KiB.
func trim(s string) string {
	for s != "" && isBlank(s[0]) {
		s = s[1:]
	}
	for s != "" && isBlank(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

func isBlank(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

// is reports whether s is a word of small letters, in letters of any case.
func is(s, word string) bool {
	if len(s) != len(word) {
		return false
	}
	for i := range len(s) {
		if s[i]|0x20 != word[i] {
			return false
		}
	}
	return true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
