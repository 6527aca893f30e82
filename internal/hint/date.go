package hint

import (
	"strings"
	"time"
)

// Date reads a date in one of the three forms of HTTP (RFC 9110, section 5.6.7). Its zone may
// also be UTC or an offset, and its day may have one digit, as in dates of mails (RFC 5322,
// section 3.3). It does not look at the day of the week.
func Date(s string) (time.Time, bool) {
	weekday, rest, _ := strings.Cut(strings.TrimSpace(s), " ")
	switch {
	case rest == "":
		return time.Time{}, false
	case !strings.HasSuffix(weekday, ","):
		return parseTime(rest, "Jan _2 15:04:05 2006")
	}
	return parseTime(rest, "2 Jan 2006 15:04:05 GMT", "2 Jan 2006 15:04:05 UTC", "2 Jan 2006 15:04:05 -0700",
		"02-Jan-06 15:04:05 GMT", "02-Jan-06 15:04:05 UTC", "02-Jan-06 15:04:05 -0700")
}

// parseTimestamp reads a date of RFC 3339, also one without seconds, or as Ruby prints it.
func parseTimestamp(s string) (time.Time, bool) {
	return parseTime(s, time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02 15:04:05 -0700", "2006-01-02 15:04:05 UTC")
}

// parseTime reads a time in the first of some layouts that fits.
func parseTime(s string, layouts ...string) (time.Time, bool) {
	for _, layout := range layouts {
		if at, err := time.Parse(layout, s); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}
