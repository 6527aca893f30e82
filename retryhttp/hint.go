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
//   - X-RateLimit-Reset, if X-RateLimit-Remaining is 0: an epoch in milliseconds
//     if above 10¹², in seconds if above 10⁹, else seconds from now
//
// Points in time are compared with the response's own Date, or with now if that
// is missing. A number or a date that is more than a [time.Duration] holds gives
// the longest Duration, which no policy waits for. What is negative or garbled is
// ignored, and the next one is asked.
//
// A [Transport] reads the last two on 429 and 403 only: they stand on every response
// of a server that limits rates, and say nothing about a 503.
func ParseRetryAfter(h http.Header, now time.Time) (wait time.Duration, ok bool) {
	return parseRetryAfter(h, now, true)
}

// hinted reports whether there may be a hint. Most failures have none.
func hinted(h http.Header, limits bool) bool {
	return len(h["Retry-After"]) > 0 || len(h["Retry-After-Ms"]) > 0 || len(h["X-Ms-Retry-After-Ms"]) > 0 ||
		limits && (len(h["Ratelimit"]) > 0 || len(h["X-Ratelimit-Remaining"]) > 0)
}

// parseRetryAfter leaves out the headers of rate limits unless limits is true.
func parseRetryAfter(h http.Header, now time.Time, limits bool) (wait time.Duration, ok bool) {
	if date, ok := date(h.Get("Date")); ok {
		now = date
	}
	for _, name := range [...]string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		if wait, ok := parseUnits(h.Get(name), time.Millisecond); ok {
			return wait, true
		}
	}
	after := h.Get("Retry-After")
	if wait, ok := parseUnits(after, time.Second); ok {
		return wait, true
	}
	if at, ok := date(after); ok && !at.Before(now) {
		return at.Sub(now), true // saturates
	}
	if !limits {
		return 0, false
	}
	if wait, ok := rateLimit(strings.Join(h.Values("RateLimit"), ",")); ok {
		return wait, true
	}
	if left, ok := parseUnits(h.Get("X-RateLimit-Remaining"), 1); ok && left == 0 {
		return reset(h.Get("X-RateLimit-Reset"), now)
	}
	return 0, false
}

// reset reads an X-RateLimit-Reset. Servers do not agree on what it is.
func reset(s string, now time.Time) (time.Duration, bool) {
	n, ok := parseUnits(s, 1)
	at := now
	switch {
	case !ok, n == math.MaxInt64:
		return n, ok
	case n > 1e12:
		at = time.UnixMilli(int64(n))
	case n > 1e9:
		at = time.Unix(int64(n), 0)
	default:
		return n * time.Second, true
	}
	if at.Before(now) {
		return 0, false
	}
	return at.Sub(now), true // saturates
}

// date reads a date of HTTP. Most headers are not there: no error is made of that.
func date(s string) (time.Time, bool) {
	if s == "" {
		return time.Time{}, false
	}
	t, err := http.ParseTime(s)
	return t, err == nil
}

// parseUnits reads a number of units: digits and nothing else. A number that is
// too large gives the longest Duration.
func parseUnits(s string, unit time.Duration) (time.Duration, bool) {
	if s = strings.TrimSpace(s); s == "" {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil || n > uint64(math.MaxInt64/unit) {
		return math.MaxInt64, true
	}
	return time.Duration(n) * unit, true
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
				wait, known = parseUnits(value, time.Second)
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
