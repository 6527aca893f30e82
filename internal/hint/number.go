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

// parseNumber reads digits, or digits, a dot and digits.
func parseNumber(s string) (number, bool) {
	whole, fraction, dot := strings.Cut(s, ".")
	if !isDigits(whole) || dot && !isDigits(fraction) {
		return number{}, false
	}
	n, _ := strconv.ParseUint(whole, 10, 63) // it returns tooLarge for more
	return number{int64(n), fraction}, true
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
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

// parseDuration reads what time.Duration prints, such as 1m30s or 6ms. Of seconds alone it reads
// any number: Google's Durations have up to 10 000 years.
func parseDuration(s string) (time.Duration, bool) {
	if seconds, ok := strings.CutSuffix(s, "s"); ok {
		if wait, ok := parseSeconds(seconds); ok {
			return wait, true
		}
	}
	wait, err := time.ParseDuration(s)
	return wait, err == nil
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
