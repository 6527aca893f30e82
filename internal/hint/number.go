package hint

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// Longest stands for a wait that is more than a Duration holds. No policy waits for it.
const Longest time.Duration = math.MaxInt64

// Seconds returns n seconds, or Longest.
func Seconds(n uint64) time.Duration {
	if n > uint64(Longest/time.Second) {
		return Longest
	}
	return time.Duration(n) * time.Second
}

// A number has no sign and no exponent.
type number struct {
	whole    int64  // tooLarge if it is too large to count
	fraction string // the digits after the dot
}

const tooLarge = math.MaxInt64

// parseNumber reads digits, or digits, a dot and digits, with blanks around them.
func parseNumber(s string) (number, bool) {
	s = strings.TrimSpace(s)
	n, rest, ok := cutNumber(s)
	return n, ok && rest == ""
}

// cutNumber reads the number that s begins with.
func cutNumber(s string) (n number, rest string, ok bool) {
	digits := countDigits(s)
	if digits == 0 {
		return number{}, s, false
	}
	for i := range digits {
		d := int64(s[i] - '0')
		if n.whole > (tooLarge-d)/10 {
			n.whole = tooLarge
			break
		}
		n.whole = n.whole*10 + d
	}
	s = s[digits:]
	if s == "" || s[0] != '.' {
		return n, s, true
	}
	digits = countDigits(s[1:])
	n.fraction = s[1 : 1+digits]
	return n, s[1+digits:], digits > 0
}

func countDigits(s string) (n int) {
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return n
}

// times returns n units, rounded up to the nanosecond, or Longest. If n has a
// fraction, unit must be a power of ten.
func (n number) times(unit time.Duration) time.Duration {
	if n.whole > int64(Longest/unit) {
		return Longest
	}
	whole, part := time.Duration(n.whole)*unit, n.part(unit)
	if whole > Longest-part {
		return Longest
	}
	return whole + part
}

// part returns the fraction of n in units, rounded up to the nanosecond.
func (n number) part(unit time.Duration) (part time.Duration) {
	for i := range len(n.fraction) {
		d := n.fraction[i] - '0'
		if unit == 1 { // the rest is less than a nanosecond
			if d != 0 {
				return part + 1
			}
			continue
		}
		unit /= 10
		part += time.Duration(d) * unit
	}
	return part
}

// exhausted reports whether s says that nothing remains.
func exhausted(s string) bool {
	n, ok := parseNumber(s)
	return ok && n.whole == 0 && n.part(time.Second) == 0
}

func parseSeconds(s string) (time.Duration, bool) {
	n, ok := parseNumber(s)
	return n.times(time.Second), ok
}

// JSON reads a number as JSON writes it, maybe with an exponent, as [Wait] does.
func JSON(s string, h Header, now func() time.Time) (time.Duration, bool) {
	if e := strings.IndexAny(s, "eE"); e >= 0 {
		if _, ok := parseNumber(s[:e]); !ok {
			return 0, false
		}
		places, err := strconv.Atoi(s[e+1:])
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return 0, false
		}
		s = moveDot(s[:e], places)
	}
	n, ok := parseNumber(s)
	if !ok {
		return 0, false
	}
	return n.secondsOrEpoch(h, now), true
}

// moveDot moves the decimal point of digits to the right, or to the left if places is
// negative. It adds no more zeros than decide about a Duration.
func moveDot(digits string, places int) string {
	const most = 20 // more than a Duration has digits
	whole, fraction, _ := strings.Cut(digits, ".")
	digits = whole + fraction
	dot := len(whole) + max(min(places, len(fraction)+most), -len(whole)-most)
	switch {
	case dot <= 0:
		return "0." + strings.Repeat("0", -dot) + digits
	case dot >= len(digits):
		return digits + strings.Repeat("0", dot-len(digits))
	}
	return digits[:dot] + "." + digits[dot:]
}

// parseDuration reads what time.Duration prints of a time that is not negative, such
// as 1m30s or 6ms.
func parseDuration(s string) (sum time.Duration, ok bool) {
	for s = strings.TrimSpace(s); s != ""; ok = true {
		n, rest, isNumber := cutNumber(s)
		if !isNumber {
			return 0, false
		}
		var d time.Duration
		switch {
		case strings.HasPrefix(rest, "ms"):
			d, s = n.times(time.Millisecond), rest[2:]
		case strings.HasPrefix(rest, "s"):
			d, s = n.times(time.Second), rest[1:]
		case n.fraction != "": // of the larger units Duration prints no fractions
			return 0, false
		case strings.HasPrefix(rest, "m"):
			d, s = n.times(time.Minute), rest[1:]
		case strings.HasPrefix(rest, "h"):
			d, s = n.times(time.Hour), rest[1:]
		default:
			return 0, false
		}
		if d > Longest-sum {
			sum = Longest
			continue
		}
		sum += d
	}
	return sum, ok
}
