package hint

import (
	"strings"
	"time"
)

// Date reads a date in one of the three forms of HTTP (RFC 9110, section 5.6.7). Its zone may
// also be UTC or an offset, and its day may have one digit, as in dates of mails (RFC 5322,
// section 3.3). It does not look at the day of the week.
func Date(s string) (time.Time, bool) {
	weekday, rest, _ := strings.Cut(trim(s), " ")
	switch rest = strings.TrimLeft(rest, " "); { // a blank may stand for the zero of the day
	case rest == "":
		return time.Time{}, false
	case !strings.HasSuffix(weekday, ","):
		return parseTime(rest, "b d H:M:S Y")
	}
	return parseTime(rest, "d b Y H:M:S z", "D-b-y H:M:S z")
}

// parseTimestamp reads a date of RFC 3339, also one without seconds, or as Ruby prints it.
func parseTimestamp(s string) (time.Time, bool) {
	return parseTime(s, "Y-m-DTH:M:SZ", "Y-m-DTH:MZ", "Y-m-D H:M:S z")
}

// parseTime reads a time in the first of some layouts that fits.
func parseTime(s string, layouts ...string) (time.Time, bool) {
	for _, layout := range layouts {
		if at, ok := parseLayout(s, layout); ok {
			return at, true
		}
	}
	return time.Time{}, false
}

// parseLayout reads what time.Parse does, with which a test compares it. That one, with what it
// needs, would add 30 KiB to a small program, an eighth of what is known of errors. A layout's
// letters are:
//
//	Y y      a year of four digits, or of two, from 1969 on
//	m b      a month, or the first three letters of its name
//	D d      a day of two digits, or of one or two
//	H M S    an hour of one or two digits, minutes, and seconds that may have a fraction
//	Z        Z or +01:00
//	z        GMT, UTC or +0100
//
// A blank is one or several, and the rest stands for itself.
func parseLayout(s, layout string) (at time.Time, ok bool) {
	var year, month, day, seconds, nanos int
	for ; layout != ""; layout = layout[1:] {
		var n int
		var ok bool
		switch letter := layout[0]; letter {
		case 'Y':
			year, s, ok = digits(s, 4, 4)
		case 'y':
			if year, s, ok = digits(s, 2, 2); year >= 69 {
				year -= 100
			}
			year += 2000
		case 'm':
			month, s, ok = digits(s, 2, 2)
		case 'b':
			month, s, ok = monthOf(s)
		case 'D':
			day, s, ok = digits(s, 2, 2)
		case 'd':
			day, s, ok = digits(s, 1, 2)
		case 'H':
			n, s, ok = digits(s, 1, 2)
			seconds, ok = n*3600, ok && n < 24
		case 'M':
			n, s, ok = digits(s, 2, 2)
			seconds, ok = seconds+n*60, ok && n < 60
		case 'S':
			n, s, ok = digits(s, 2, 2)
			seconds, ok = seconds+n, ok && n < 60
			nanos, s = fraction(s)
		case 'Z', 'z':
			n, s, ok = offset(s, letter)
			seconds -= n
		case ' ':
			ok = s == "" || s[0] == ' '
			for s != "" && s[0] == ' ' {
				s = s[1:]
			}
		default:
			if ok = s != "" && s[0] == letter; ok {
				s = s[1:]
			}
		}
		if !ok {
			return at, false
		}
	}
	date := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if s != "" || int(date.Month()) != month || date.Day() != day { // as of the 30th of February
		return at, false
	}
	return date.Add(time.Duration(seconds)*time.Second + time.Duration(nanos)), true
}

// digits reads a number of some digits.
func digits(s string, least, most int) (n int, rest string, ok bool) {
	i := 0
	for ; i < most && i < len(s) && '0' <= s[i] && s[i] <= '9'; i++ {
		n = 10*n + int(s[i]-'0')
	}
	return n, s[i:], i >= least
}

func monthOf(s string) (month int, rest string, ok bool) {
	const names = "janfebmaraprmayjunjulaugsepoctnovdec"
	for i := 0; i < len(names) && len(s) >= 3; i += 3 {
		if is(s[:3], names[i:i+3]) {
			return i/3 + 1, s[3:], true
		}
	}
	return 0, s, false
}

// fraction reads a fraction of a second, if there is one, in nanoseconds.
func fraction(s string) (nanos int, rest string) {
	if len(s) < 2 || s[0] != '.' && s[0] != ',' || !isDigit(s[1]) {
		return 0, s
	}
	unit := int(time.Second)
	for s = s[1:]; s != "" && isDigit(s[0]); s = s[1:] {
		unit /= 10
		nanos += unit * int(s[0]-'0')
	}
	return nanos, s
}

// offset reads how many seconds a zone is ahead of UTC.
func offset(s string, layout byte) (seconds int, rest string, ok bool) {
	colon := ""
	switch {
	case layout == 'Z' && strings.HasPrefix(s, "Z"):
		return 0, s[1:], true
	case layout == 'Z':
		colon = ":"
	case strings.HasPrefix(s, "GMT"), strings.HasPrefix(s, "UTC"):
		return 0, s[3:], true
	}
	if s == "" || s[0] != '+' && s[0] != '-' {
		return 0, s, false
	}
	hours, after, two := digits(s[1:], 2, 2)
	after, colons := strings.CutPrefix(after, colon)
	minutes, rest, ok := digits(after, 2, 2)
	seconds = (hours*60 + minutes) * 60
	if s[0] == '-' {
		seconds = -seconds
	}
	return seconds, rest, two && colons && ok && hours <= 24 && minutes <= 60
}
