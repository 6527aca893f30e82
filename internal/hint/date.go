package hint

import (
	"strings"
	"time"
)

// The layouts of dates, as parseLayout reads them. time.Parse reads any, and costs a
// small program much more.
const (
	fixdate = "dd bbb yyyy hh:nn:ss" // behind the day of the week, and before the zone, as the next three
	oneDay  = "d bbb yyyy hh:nn:ss"
	rfc850  = "dd-bbb-yy hh:nn:ss"
	asctime = "bbb ed hh:nn:ss yyyy" // behind the day of the week
	rfc3339 = "yyyy-mm-ddThh:nn:ss"  // what follows varies
	minutes = "yyyy-mm-ddThh:nn"     // likewise
)

// Date reads a date in one of the three forms of HTTP (RFC 9110, section 5.6.7). Its zone may
// also be UTC or an offset, and its day may have one digit, as in dates of mails (RFC 5322,
// section 3.3). It does not look at the day of the week.
func Date(s string) (time.Time, bool) {
	weekday, rest, _ := strings.Cut(strings.TrimSpace(s), " ")
	if !strings.HasSuffix(weekday, ",") {
		return parseLayout(rest, asctime)
	}
	i := strings.LastIndexByte(rest, ' ')
	if i < 0 {
		return time.Time{}, false
	}
	east, ok := zone(rest[i+1:])
	for _, layout := range [...]string{fixdate, rfc850, oneDay} {
		if t, read := parseLayout(rest[:i], layout); read {
			return t.Add(-east), ok
		}
	}
	return time.Time{}, false
}

// zone reads how far a zone is ahead of UTC: GMT, UTC, or an offset such as +0100.
func zone(s string) (east time.Duration, ok bool) {
	if s == "GMT" || s == "UTC" {
		return 0, true
	}
	if len(s) != len("+0000") {
		return 0, false
	}
	return offset(s[0], s[1:3], s[3:])
}

// offset reads the parts of an offset.
func offset(sign byte, hours, minutes string) (east time.Duration, ok bool) {
	if countDigits(hours) != 2 || countDigits(minutes) != 2 || hours > "23" || minutes > "59" {
		return 0, false
	}
	h, m := hours[0]-'0', minutes[0]-'0'
	east = time.Duration(h*10+hours[1]-'0')*time.Hour + time.Duration(m*10+minutes[1]-'0')*time.Minute
	switch sign {
	case '+':
		return east, true
	case '-':
		return -east, true
	}
	return 0, false
}

// parseTimestamp reads a date of RFC 3339, also one without seconds.
func parseTimestamp(s string) (time.Time, bool) {
	s = strings.TrimSpace(s)
	layout := rfc3339
	if len(s) <= len(minutes) {
		return time.Time{}, false
	}
	if s[len(minutes)] != ':' {
		layout = minutes
	}
	if len(s) <= len(layout) {
		return time.Time{}, false
	}
	t, ok := parseLayout(s[:len(layout)], layout)
	if !ok {
		return time.Time{}, false
	}
	zone := s[len(layout):]
	if digits := zone[1:]; zone[0] == '.' && layout == rfc3339 {
		n := countDigits(digits)
		if n == 0 {
			return time.Time{}, false
		}
		t, zone = t.Add(number{fraction: digits[:n]}.part(time.Second)), digits[n:]
	}
	if zone == "Z" {
		return t, true
	}
	if len(zone) != len("+00:00") || zone[3] != ':' {
		return time.Time{}, false
	}
	east, ok := offset(zone[0], zone[1:3], zone[4:])
	return t.Add(-east), ok
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
