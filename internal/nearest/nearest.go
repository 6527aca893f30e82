// Package nearest says what a mistyped word may have meant.
package nearest

import "strings"

// Hint returns "; did you mean processes?" for prosesses, with the nearest of the known
// words in place of processes, the first of equal ones. It returns "" if none is near: one
// is if it begins with the word's three letters or more, or if a third of the word's letters
// at most are wrong, missing, too many or two in the wrong order. Case does not count, and
// prefix stands before the known word.
func Hint(word, prefix string, known ...string) string {
	const longest = 64
	if len(word) > longest {
		return ""
	}
	best, least := "", max(len(word)/3, 1)+1
	for _, k := range known {
		n := distance(strings.ToLower(word), strings.ToLower(k))
		if len(word) >= 3 && len(k) > len(word) && strings.EqualFold(k[:len(word)], word) {
			n = 1
		}
		if n < least && n < len(word) {
			best, least = k, n
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + prefix + best + "?"
}

// distance returns how many letters of a to insert, delete, replace or swap with the next
// one until it is b: the optimal string alignment.
func distance(a, b string) int {
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			other := 1
			if a[i-1] == b[j-1] {
				other = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+other)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}
