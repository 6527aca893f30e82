package fleetpace

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// version is the first word of a text. A later law that keeps other numbers has another one.
const version = "1"

// exact is up to where numbers of turns and rounds are whole. A quota of 25 in a second does not
// get so far.
const exact = 1 << 53

// MarshalText returns s as text: numbers with spaces between, less than a kilobyte. It returns
// no error.
func (s *State) MarshalText() ([]byte, error) {
	b := []byte(version)
	for _, x := range s.numbers() {
		b = strconv.AppendFloat(append(b, ' '), *x, 'g', 17, 64)
	}
	return b, nil
}

// UnmarshalText reads s. A text that is not one of a State, or of one that no reports can
// bring about, is an error, and leaves s as it was.
func (s *State) UnmarshalText(text []byte) error {
	words := strings.Fields(string(text))
	var read State
	numbers := read.numbers()
	if len(words) != 1+len(numbers) || words[0] != version {
		return errText
	}
	for i, word := range words[1:] {
		x, err := strconv.ParseFloat(word, 64)
		if err != nil || x-x != 0 || strings.ContainsAny(word, "_xX") { // not finite, or as only Go writes it
			return errText
		}
		*numbers[i] = x
	}
	if !read.possible() {
		return errText
	}
	*s = read
	return nil
}

// possible reports whether the law can have made s, but for rounding.
func (s *State) possible() bool {
	for _, x := range s.numbers() {
		if *x < 0 {
			return false
		}
	}
	if s.epoch == 0 {
		return *s == State{}
	}
	above := func(x, limit float64) bool { return x > limit+1e-9*limit+1e-6 }
	switch {
	case s.mode > paced, s.sure > 1, s.share > 1, s.tail > exact, s.round > exact,
		s.epoch != math.Trunc(s.epoch), s.mode != math.Trunc(s.mode), s.sure != math.Trunc(s.sure), s.round != math.Trunc(s.round),
		s.rate == 0 && s.mode == paced, s.rate != 0 && s.rate < lowest, s.rate > highest,
		above(s.lost, s.got), above(s.head, s.tail+1), above(s.gaps, max(s.tail-s.head, 0)), s.mode <= counting && above(s.tail, s.head),
		above(max(s.busy, s.since, s.cut), s.at), above(s.hold, s.at+maxHold*(1+spread)),
		!s.trial.Possible(), !s.spare.Possible():
		return false
	}
	return true
}

var errText = errors.New("fleetpace: not the text of a State")
