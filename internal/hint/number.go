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
func Seconds(n uint64) time.Duration { return multiply(int64(min(n, tooLarge)), time.Second) }

// multiply returns n units, or Longest. n must not be negative.
func multiply(n int64, unit time.Duration) time.Duration {
	if n > int64(Longest/unit) {
		return Longest
	}
	return time.Duration(n) * unit
}

// add adds two waits, or returns Longest.
func add(a, b time.Duration) time.Duration {
	if a > Longest-b {
		return Longest
	}
	return a + b
}

// A number has no sign and no exponent.
type number struct {
	whole    int64  // tooLarge if it is too large to count
	fraction string // the digits after the dot
}

const tooLarge = math.MaxInt64

// parseNumber reads digits, or digits, a dot and digits.
func parseNumber(s string) (number, bool) {
	n, rest := leadingNumber(s)
	return n, s != "" && rest == ""
}

// leadingNumber reads the number that s begins with. rest is s if there is none.
func leadingNumber(s string) (n number, rest string) {
	whole, rest := leadingDigits(s)
	for i := range len(whole) {
		d := int64(whole[i] - '0')
		if n.whole > (tooLarge-d)/10 {
			n.whole = tooLarge
			break
		}
		n.whole = 10*n.whole + d
	}
	if whole != "" && rest != "" && rest[0] == '.' {
		if n.fraction, rest = leadingDigits(rest[1:]); n.fraction == "" {
			return number{}, s
		}
	}
	return n, rest
}

func leadingDigits(s string) (digits, rest string) {
	i := 0
	for i < len(s) && isDigit(s[i]) {
		i++
	}
	return s[:i], s[i:]
}

// times returns n units, rounded up to the nanosecond, or Longest. If n has a
// fraction, unit must be a power of ten.
func (n number) times(unit time.Duration) time.Duration {
	return add(multiply(n.whole, unit), n.part(unit))
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

// parseDuration reads what time.Duration prints, such as 1m30s or 6ms, with any number of seconds:
// Google's Durations have up to 10 000 years.
func parseDuration(s string) (wait time.Duration, ok bool) {
	for s != "" {
		n, rest := leadingNumber(s)
		end := 0
		for end < len(rest) && !isDigit(rest[end]) && rest[end] != '.' {
			end++
		}
		unit, many := unitOf(rest[:end])
		if unit == 0 || len(rest) == len(s) {
			return 0, false
		}
		wait = add(wait, multiply(int64(n.times(unit)), many))
		s = rest[end:]
	}
	return wait, true
}

// unitOf returns a unit as so many powers of ten. 0 is none.
func unitOf(name string) (unit, many time.Duration) {
	switch name {
	case "ns":
		return time.Nanosecond, 1
	case "us", "µs", "μs":
		return time.Microsecond, 1
	case "ms":
		return time.Millisecond, 1
	case "s":
		return time.Second, 1
	case "m":
		return time.Second, 60
	case "h":
		return time.Second, 3600
	}
	return 0, 0
}

// JSON reads a number as JSON writes it, maybe with an exponent, as [Wait] does.
func JSON(s string, h Header, now func() time.Time) (time.Duration, bool) {
	if strings.ContainsAny(s, "eE") {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return 0, false
		}
		s = strconv.FormatFloat(min(f, math.MaxFloat64), 'f', -1, 64)
	}
	n, ok := parseNumber(s)
	if !ok {
		return 0, false
	}
	return n.secondsOrEpoch(h, now), true
}
