package hint

import (
	"strings"
	"testing"
	"time"
)

// compare fails if a text is read otherwise than time.Parse reads it.
func compare(t *testing.T, s string) {
	t.Helper()
	s = strings.TrimSpace(s)
	if strings.Contains(s, "-+") || strings.Contains(s, "--") {
		return // time.Parse takes +6 for a year of two digits
	}
	for _, form := range []struct {
		read    func(string) (time.Time, bool)
		layouts []string
	}{
		{func(s string) (time.Time, bool) { return Date("Sun " + s) }, []string{"Jan _2 15:04:05 2006"}},
		{func(s string) (time.Time, bool) { return Date("Sunday,  " + s) }, []string{
			"2 Jan 2006 15:04:05 GMT", "2 Jan 2006 15:04:05 UTC", "2 Jan 2006 15:04:05 -0700",
			"02-Jan-06 15:04:05 GMT", "02-Jan-06 15:04:05 UTC", "02-Jan-06 15:04:05 -0700"}},
		{parseTimestamp, []string{time.RFC3339, "2006-01-02T15:04Z07:00",
			"2006-01-02 15:04:05 -0700", "2006-01-02 15:04:05 UTC", "2006-01-02 15:04:05 GMT"}},
	} {
		at, ok := form.read(s)
		want, known := time.Time{}, false
		for _, layout := range form.layouts {
			if at, err := time.Parse(layout, s); err == nil && !known {
				want, known = at, true
			}
		}
		if ok != known || !at.Equal(want) {
			t.Errorf("%q: %v %t, time.Parse says %v %t by %q", s, at, ok, want, known, form.layouts)
		}
	}
}

var dates = []string{
	"Nov  6 08:49:37 1994", "Nov 6 08:49:37 1994", "Feb 29 00:00:00 1900", "feb 29 0:00:00 2000", "Feb 30 00:00:00 2000", "Nov 6 08:49:37.5 1994",
	"06 Nov 1994 08:49:37 GMT", "6 nov 1994 8:49:37  UTC", "06 Nov 1994 08:49:37 -0700", "06 Nov 1994 08:49:37 +2460", "06 Nov 1994 08:49:37 +2500",
	"06 Nov 1994 08:49:37 +0061", "06 Nov 1994 08:49:60 GMT", "06 Nov 1994 24:49:37 GMT", "06 Nov 1994 08:60:37 GMT", "31 Apr 1994 08:49:37 GMT", "31 Nov 1994 08:49:37 GMT",
	"31 Jun 1994 08:49:37 GMT", "31 Sep 1994 08:49:37 GMT", "31 Dec 1994 08:49:37 GMT", "32 Jan 1994 08:49:37 GMT",
	"00 Nov 1994 08:49:37 GMT", "06 Nov 1994 08:49:37 GMT ", "06 Nov 1994 08:49:37 EST", "06 Nov 1994 08:49:37 GMTx", "6 November 1994 08:49:37 GMT",
	"06-Nov-94 08:49:37 GMT", "06-Nov-68 08:49:37 GMT", "06-Nov-69 08:49:37 +0000", "6-Nov-94 08:49:37 GMT", "06-Nov-94  08:49:37GMT", "06-Nov-94 08:49:37",
	"2026-11-28T12:00:00Z", "2026-11-28T12:00:00.123456789123Z", "2026-11-28T12:00:00,5+01:00", "2026-11-28T12:00:00-25:00", "2026-11-28t12:00:00z",
	"2026-11-28T1:00Z", "2026-11-28T01:00+01:30", "2026-11-28T01:00+0130", "2026-13-28T01:00:00Z", "2026-00-28T01:00:00Z", "2026-11-28T01:00:00.Z",
	"2026-11-28 12:00:00 +0000", "2026-11-28 12:00:00 UTC", "2026-11-28 12:00:00.5 UTC", "0000-01-01T00:00:00Z", "0000-02-29T00:00:00Z",
	"0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-11-28T12:00:00+1a:00", "2026-1-28T12:00:00Z", "+026-11-28T12:00:00Z", "", " ", "x",
}

func TestDates(t *testing.T) {
	for _, s := range dates {
		compare(t, s)
		for i := range len(s) { // and what has a byte less, another one, or one more
			compare(t, s[:i]+s[i+1:])
			compare(t, s[:i])
			for _, c := range "0123459:/x +-.Z" {
				compare(t, s[:i]+string(c)+s[i+1:])
				compare(t, s[:i]+string(c)+s[i:])
			}
		}
	}
}

func FuzzDate(f *testing.F) {
	for _, s := range dates {
		f.Add(s)
	}
	f.Fuzz(compare)
}
