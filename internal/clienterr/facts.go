package clienterr

import "slices"

// Facts are what a code, or an error, means. The zero Facts say nothing.
type Facts uint8

// The lowest bits are the Class. The generator of tables.go knows these numbers.
const (
	classBits Facts = 7

	// Renewed says that a new session mends a permanent error: a connection, a cursor, a
	// token, a lease, a member of a group. retry.Supervise begins one, and so does a transaction.
	Renewed Facts = 1 << 3

	// Blames says that the content of the call is at fault: it fails in the same way whatever
	// becomes of the network, of the server and of the caller's rights.
	Blames Facts = 1 << 4

	// RolledBack says that the server has rolled back the transaction.
	RolledBack Facts = 1 << 5

	// Refuses says that the server asked for no retry of what would be repeated otherwise.
	Refuses Facts = 1 << 6

	// Answered says that package retryhttp took the response for an answer, without a mark.
	Answered Facts = 1 << 7
)

// Class returns the class to an operation that is called again.
func (f Facts) Class() Class { return Class(f & classBits) }

// Is reports whether fact, one of Renewed, Blames, RolledBack, Refuses and Answered, is true.
func (f Facts) Is(fact Facts) bool { return f&fact != 0 }

// A table has the facts of a vendor's codes, which are numbers, or else texts. The generator
// writes it: see tables.go.
type table struct {
	facts string // of steps or of words, a Facts in a byte

	// Each number has the facts of the last step that is not above it.
	steps []int32

	// Sorted texts, each after the other, and where each ends. One that ends in a * is for all
	// that begin so.
	words      string
	ends       []uint16
	beginnings uint64 // bit n: there are beginnings of n bytes
}

// number returns the facts of a number.
func (t *table) number(n int64) Facts {
	if int64(int32(n)) != n {
		return 0
	}
	i, exact := slices.BinarySearch(t.steps, int32(n))
	if !exact {
		i--
	}
	if i < 0 {
		return 0
	}
	return Facts(t.facts[i])
}

// longest is the longest text that is looked for.
const longest = 120

// word returns the facts of a text. beside is what has to be known with it, such as a status
// or a service, or "".
func (t *table) word(beside, word string) Facts {
	if word == "" && beside == "" || len(beside)+len(word) > longest {
		return 0
	}
	var with, alone [longest + 2]byte // room for a blank and a *
	keys, first := [...][]byte{nil, append(alone[:0], word...)}, 1
	if beside != "" {
		keys[0], first = append(append(append(with[:0], beside...), ' '), word...), 0
	}
	for _, key := range keys[first:] {
		if f, ok := exact(t, key); ok {
			return f
		}
	}
	for _, key := range keys[first:] {
		if f, ok := t.beginning(key); ok {
			return f
		}
	}
	return 0
}

// exact looks for key.
func exact[K string | []byte](t *table, key K) (f Facts, ok bool) {
	from, to := 0, len(t.ends)
	for from < to {
		middle := int(uint(from+to) >> 1)
		switch word := t.at(middle); {
		case word == string(key):
			return Facts(t.facts[middle]), true
		case word < string(key):
			from = middle + 1
		default:
			to = middle
		}
	}
	return 0, false
}

// beginning looks for the longest beginning of key. It changes key.
func (t *table) beginning(key []byte) (f Facts, ok bool) {
	for n := min(len(key), 63); n >= 0 && !ok && t.beginnings != 0; n-- {
		if t.beginnings&(1<<n) != 0 {
			f, ok = exact(t, append(key[:n], '*'))
		}
	}
	return f, ok
}

// at returns a text.
func (t *table) at(i int) string {
	from := uint16(0)
	if i > 0 {
		from = t.ends[i-1]
	}
	return t.words[from:t.ends[i]]
}
