package hint

import (
	"strings"
	"time"
)

// The layouts of dates, as parseLayout reads them. time.Parse reads any, and costs a
// small program much more.
const (
	fixdate = "dd bbb yyyy hh:nn:ss GMT" // behind the day of the week, as the next two
	rfc850  = "dd-bbb-yy hh:nn:ss GMT"
	asctime = "bbb ed hh:nn:ss yyyy"
	rfc3339 = "yyyy-mm-ddThh:nn:ss" // what follows varies
)

// Date reads a date in one of the three forms of HTTP (RFC 9110, section
// 5.6.7). It does not look at the day of the week.
func Date(s string) (time.Time, bool) {
	weekday, rest, _ := strings.Cut(strings.TrimSpace(s), " ")
	if !strings.HasSuffix(weekday, ",") {
		return parseLayout(rest, asctime)
	}
	if t, ok := parseLayout(rest, fixdate); ok {
		return t, true
	}
	return parseLayout(rest, rfc850)
}

// parseTimestamp reads a date of RFC 3339.
func parseTimestamp(s string) (time.Time, bool) {
	s = strings.TrimSpace(s)
	if len(s) <= len(rfc3339) {
		return time.Time{}, false
	}
	t, ok := parseLayout(s[:len(rfc3339)], rfc3339)
	if !ok {
		return time.Time{}, false
	}
	zone := s[len(rfc3339):]
	if digits := zone[1:]; zone[0] == '.' {
		n := countDigits(digits)
		if n == 0 {
			return time.Time{}, false
		}
		t, zone = t.Add(number{fraction: digits[:n]}.part(time.Second)), digits[n:]
	}
	if zone == "Z" {
		return t, true
	}
	if len(zone) != len("+00:00") {
		return time.Time{}, false
	}
	offset, ok := parseLayout("0001-01-01T"+zone[1:]+":00", rfc3339)
	switch east := offset.Sub(time.Time{}); zone[0] {
	case '+':
		return t.Add(-east), ok
	case '-':
		return t.Add(east), ok
	}
	return time.Time{}, false
}

const months = "JanFebMarAprMayJunJulAugSepOctNovDec"

// parseLayout reads a time of UTC. The letters of layout stand for digits of the
// (y)ear, (m)onth, (d)ay, (h)our, mi(n)ute and (s)econd, e for a digit of the day or a blank, and bbb for
// the name of a month. All else stands for itself.
func parseLayout(s, layout string) (time.Time, bool) {
	if len(s) != len(layout) {
		return time.Time{}, false
	}
	var year, month, day, hour, minute, second int
	for i := 0; i < len(s); i++ {
		var field *int
		switch layout[i] {
		case 'y':
			field = &year
		case 'm':
			field = &month
		case 'd', 'e':
			field = &day
		case 'h':
			field = &hour
		case 'n':
			field = &minute
		case 's':
			field = &second
		case 'b':
			at := strings.Index(months, s[i:i+3])
			if at < 0 || at%3 != 0 {
				return time.Time{}, false
			}
			month = at/3 + 1
			i += 2
			continue
		}
		switch {
		case field != nil && '0' <= s[i] && s[i] <= '9':
			*field = *field*10 + int(s[i]-'0')
		case layout[i] == 'e' && s[i] == ' ':
		case field != nil || s[i] != layout[i]:
			return time.Time{}, false
		}
	}
	if layout == rfc850 { // as time.Parse does
		year += 1900
		if year < 1969 {
			year += 100
		}
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC)
	// A month of 31 days has no 32nd: Date makes it the next month's first. It carries
	// the 24th hour and the 60th minute and second too.
	return t, t.Month() == time.Month(month) && t.Day() == day && t.Hour() == hour && t.Minute() == minute && t.Second() == second
}
