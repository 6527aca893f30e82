package clienterr

import "slices"

// A table has the facts of a vendor's codes, which are numbers, or else texts. The generator
// writes it: see tables.go.
type table struct {
	database bool
	facts    string // of steps or of words, a Facts in a byte

	// Each number has the facts of the last step that is not above it.
	steps []int32

	// Sorted hashes of texts: the texts would be five times as long. A text that is in no row
	// has the hash of one with a probability of len(words) in 2³². One that ends in a * is for
	// all that begin so.
	words      []uint32
	beginnings uint64 // bit n: there are beginnings of n bytes
}

// number returns the facts of a number. In ten places it would take a kilobyte of each program.
//
//go:noinline
func (t *table) number(n int64) Facts {
	if int64(int32(n)) != n {
		return 0
	}
	i, above := -1, len(t.steps) // i is a step that is not above n, or before all
	for i+1 < above {
		if middle := (i + above) / 2; t.steps[middle] <= int32(n) {
			i = middle
		} else {
			above = middle
		}
	}
	if i < 0 {
		return 0
	}
	return Facts(t.facts[i])
}

// longest is the longest text that is looked for. Of a longer one only the beginning may be known.
const longest = 120

// word returns the facts of a text. beside is what has to be known with it, such as a status
// or a service, or "".
func (t *table) word(beside, word string) Facts {
	if word == "" && beside == "" {
		return 0
	}
	word = word[:min(len(word), longest+1)]
	alone, how := t.look(noHash, 0, word)
	if beside != "" {
		if with, better := t.look(noHash.add(beside).add(" "), len(beside)+1, word); better >= how && better != none {
			return with
		}
	}
	return alone
}

// found says how a text was found.
type found uint8

const (
	none found = iota
	begun
	whole
)

// look looks for word behind n bytes that have the hash h.
func (t *table) look(h hash, n int, word string) (f Facts, how found) {
	for i := 0; ; i++ {
		if n+i < 64 && t.beginnings>>(n+i)&1 != 0 {
			if g, ok := t.at(h.add("*")); ok {
				f, how = g, begun // a longer one may follow
			}
		}
		if i == len(word) {
			break
		}
		h = h.addByte(word[i])
	}
	if g, ok := t.at(h); ok {
		return g, whole
	}
	return f, how
}

// at returns the facts of the text that has the hash h.
func (t *table) at(h hash) (f Facts, ok bool) {
	i, ok := slices.BinarySearch(t.words, uint32(h))
	if !ok {
		return 0, false
	}
	return Facts(t.facts[i]), true
}

// A hash is FNV-1a with 32 bits, as of package hash/fnv.
type hash uint32

const noHash hash = 2166136261

func (h hash) add(s string) hash {
	for i := range len(s) {
		h = h.addByte(s[i])
	}
	return h
}

func (h hash) addByte(c byte) hash { return (h ^ hash(c)) * 16777619 }
