package clienterr

import "strings"

// constants judges the constants in a text, such as SSH_FX_NO_SUCH_FILE: no language has such
// words. The first that means something counts.
func constants(text string) (f Facts) {
	text = text[:min(len(text), 4*longest)]
	for from := 0; from < len(text) && f == 0; {
		to, several := from, false
		for ; to < len(text) && (text[to] == '_' || isUpper(text[to]) || isDigit(text[to])); to++ {
			several = several || text[to] == '_' && to > from
		}
		if several {
			f = phrases(text[from:to])
		}
		from = to + 1
	}
	return f
}

// most is how many words of a code are looked at.
const most = 16

// phrases judges the words of a code by words.tsv. A phrase goes before its words, and what must
// not be repeated before all else, unless a word is for the way to a server, which may pass.
// A text with a blank in it is no code.
func phrases(code string) (f Facts) {
	var words [most][2]uint8
	n := 0
	all := noHash.addByte('^')
	for from, to := nextWord(code, 0); from < to && to <= longest && n < most; from, to = nextWord(code, to) {
		words[n] = [2]uint8{uint8(from), uint8(to)}
		all = all.addByte(' ').addWord(code[from:to])
		n++
	}
	if n == 0 || strings.IndexByte(code, ' ') >= 0 {
		return 0
	}
	if g, ok := wordsCodes.at(all.add(" $")); ok { // the whole code
		return g
	}
	never, way := false, false
	for i := 0; i < n; {
		h, found, next := noHash, Facts(0), i+1
		for j := i; j < min(i+3, n); j++ {
			if j > i {
				h = h.addByte(' ')
			}
			h = h.addWord(code[words[j][0]:words[j][1]])
			if g, ok := wordsCodes.at(h); ok {
				found, next = g, j+1
			}
		}
		if g, ok := wordsCodes.at(h.add(" $")); ok && next == n { // at the end
			found = g
		}
		switch {
		case found.Is(Renewed):
			way = true
		case found.Class() == Permanent:
			never = true
		default:
			f = max(f, found)
		}
		i = next
	}
	switch {
	case never && way:
		return 0
	case never:
		return Facts(Permanent)
	}
	return f
}

// addWord adds a word in small letters.
func (h hash) addWord(word string) hash {
	for _, c := range []byte(word) {
		h = h.addByte(lowered(c))
	}
	return h
}

// nextWord returns where the next word of a code is, from i on: requestLimit, Request_limit and
// REQUEST-LIMIT have two. from is to if there is none.
func nextWord(s string, i int) (from, to int) {
	for i < len(s) && !isLetter(s[i]) && !isDigit(s[i]) {
		i++
	}
	for to = i; to < len(s) && (isLetter(s[to]) || isDigit(s[to])); to++ {
		if to > i && isUpper(s[to]) && (!isUpper(s[to-1]) || to+1 < len(s) && 'a' <= s[to+1] && s[to+1] <= 'z') {
			break
		}
	}
	return i, to
}

func lowered(c byte) byte {
	if isUpper(c) {
		c += 'a' - 'A'
	}
	return c
}

func isUpper(c byte) bool  { return 'A' <= c && c <= 'Z' }
func isLetter(c byte) bool { return 'a' <= lowered(c) && lowered(c) <= 'z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
