package retryhttp

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ParseRetryAfter returns how long the server asks to wait, if it does. It reads,
// in this order:
//
//   - Retry-After-Ms and X-Ms-Retry-After-Ms, in milliseconds
//   - Retry-After, in seconds or as any of the three dates of HTTP
//   - RateLimit (draft-ietf-httpapi-ratelimit-headers-10), the longest t of the
//     policies that have r=0
//   - X-RateLimit-Reset, if X-RateLimit-Remaining is 0: the seconds of an epoch if
//     above 10⁹, else seconds from now
//
// Points in time are compared with the response's own Date, or with now if that
// is missing. What is negative, garbled or more than a [time.Duration] holds is
// ignored, and the next one is asked.
func ParseRetryAfter(h http.Header, now time.Time) (wait time.Duration, ok bool) {
	if date, ok := date(h.Get("Date")); ok {
		now = date
	}
	for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		if wait, ok := count(h.Get(name), time.Millisecond); ok {
			return wait, true
		}
	}
	after := h.Get("Retry-After")
	if wait, ok := count(after, time.Second); ok {
		return wait, true
	}
	if at, ok := date(after); ok {
		if wait, ok := until(at, now); ok {
			return wait, true
		}
	}
	if wait, ok := rateLimit(strings.Join(h.Values("RateLimit"), ",")); ok {
		return wait, true
	}
	if left, ok := count(h.Get("X-RateLimit-Remaining"), 1); ok && left == 0 {
		reset, ok := count(h.Get("X-RateLimit-Reset"), time.Second)
		if ok && reset > 1e9*time.Second {
			return until(time.Unix(int64(reset/time.Second), 0), now)
		}
		return reset, ok
	}
	return 0, false
}

// date reads a date of HTTP. Most headers are not there: no error is made of that.
func date(s string) (time.Time, bool) {
	if s == "" {
		return time.Time{}, false
	}
	t, err := http.ParseTime(s)
	return t, err == nil
}

// count reads a number of units: digits and nothing else.
func count(s string, unit time.Duration) (time.Duration, bool) {
	if s == "" {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 63)
	if err != nil || n > uint64(math.MaxInt64/unit) {
		return 0, false
	}
	return time.Duration(n) * unit, true
}

// until returns the time from now to at, unless at has passed or is too far away.
func until(at, now time.Time) (time.Duration, bool) {
	wait := at.Sub(now) // saturates
	if wait < 0 || wait == math.MaxInt64 {
		return 0, false
	}
	return wait, true
}

// rateLimit reads a list such as
//
//	"burst";r=0;t=2, "daily";r=4200;t=30000
func rateLimit(list string) (longest time.Duration, ok bool) {
	for item := range strings.SplitSeq(unquote(list), ",") {
		exhausted, wait, known := false, time.Duration(0), false
		for param := range strings.SplitSeq(item, ";") {
			switch name, value, _ := strings.Cut(strings.TrimSpace(param), "="); name {
			case "r":
				exhausted = value == "0"
			case "t":
				wait, known = count(value, time.Second)
			}
		}
		if exhausted && known {
			longest, ok = max(longest, wait), true
		}
	}
	return longest, ok
}

// unquote drops quoted strings: a policy's name may hold anything.
func unquote(s string) string {
	var b strings.Builder
	quoted, escaped := false, false
	for i := range len(s) {
		switch {
		case escaped:
			escaped = false
		case quoted && s[i] == '\\':
			escaped = true
		case s[i] == '"':
			quoted = !quoted
		case !quoted:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}
