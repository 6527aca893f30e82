package errtext

import (
	"cmp"
	"slices"
	"strings"
	"testing"
)

// FuzzReplacements compares apply with the standard library's replacer, which takes
// too long for some texts.
func FuzzReplacements(f *testing.F) {
	f.Add("abcabcabd", "abcabd", "b", "abcab")
	f.Add("", "", "a", "b")
	f.Add("a", "", "a", "b")
	f.Add("aaaaaaa", "aa", "aaa", "aaaaaaaa")
	f.Add("abababac", "ababac", "ab", "ababac")
	f.Fuzz(func(t *testing.T, s, one, two, three string) {
		var r replacements
		r.add(one, "1")
		r.add(two, "<two>")
		r.add(three, "")
		sorted := slices.Clone(r)
		slices.SortStableFunc(sorted, func(a, b replacement) int { return cmp.Compare(len(b.text), len(a.text)) })
		var pairs []string
		for _, p := range sorted {
			pairs = append(pairs, p.text, p.instead)
		}
		want := strings.NewReplacer(pairs...).Replace(s)
		if got, ok := r.apply(s); got != want || !ok {
			t.Errorf("%q in %q: %q, %v, want %q", pairs, s, got, ok, want)
		}
	})
}
