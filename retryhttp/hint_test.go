package retryhttp_test

import (
	"maps"
	"math"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// now is when the headers of these tests arrive.
var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestParseRetryAfter(t *testing.T) {
	const none, longest = -1, time.Duration(math.MaxInt64)
	at := func(d time.Duration, layout string) string { return now.Add(d).Format(layout) }
	for _, tt := range []struct {
		name   string
		header map[string]string
		want   time.Duration
	}{
		{"nothing", nil, none},
		{"seconds", map[string]string{"Retry-After": "120"}, 2 * time.Minute},
		{"spaces", map[string]string{"Retry-After": " 120\t"}, 2 * time.Minute},
		{"zero", map[string]string{"Retry-After": "0"}, 0},
		{"11 days", map[string]string{"Retry-After": "1000000"}, 1_000_000 * time.Second},
		{"the longest", map[string]string{"Retry-After": "9223372036"}, 9223372036 * time.Second},
		{"a second longer", map[string]string{"Retry-After": "9223372037"}, longest},
		{"64 bits", map[string]string{"Retry-After": "18446744073709551615"}, longest},
		{"more than 64 bits", map[string]string{"Retry-After": "99999999999999999999999"}, longest},
		{"negative", map[string]string{"Retry-After": "-1"}, none},
		{"signed", map[string]string{"Retry-After": "+1"}, none},
		{"fraction", map[string]string{"Retry-After": "1.5"}, none},
		{"exponent", map[string]string{"Retry-After": "1e3"}, none},
		{"unit", map[string]string{"Retry-After": "10s"}, none},
		{"words", map[string]string{"Retry-After": "soon"}, none},
		{"empty", map[string]string{"Retry-After": ""}, none},

		{"date", map[string]string{"Retry-After": at(time.Minute, http.TimeFormat)}, time.Minute},
		{"RFC 850 date", map[string]string{"Retry-After": at(time.Minute, "Monday, 02-Jan-06 15:04:05 GMT")}, time.Minute},
		{"asctime date", map[string]string{"Retry-After": at(time.Minute, time.ANSIC)}, time.Minute},
		{"date now", map[string]string{"Retry-After": at(0, http.TimeFormat)}, 0},
		{"date that has passed", map[string]string{"Retry-After": at(-time.Minute, http.TimeFormat)}, none},
		{"date beyond all durations", map[string]string{"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"}, longest},
		{"server's clock is an hour slow", map[string]string{"Retry-After": at(-time.Hour+time.Minute, http.TimeFormat), "Date": at(-time.Hour, http.TimeFormat)}, time.Minute},
		{"server's clock is an hour fast", map[string]string{"Retry-After": at(time.Hour+time.Minute, http.TimeFormat), "Date": at(time.Hour, time.ANSIC)}, time.Minute},
		{"garbled Date", map[string]string{"Retry-After": at(time.Minute, http.TimeFormat), "Date": "today"}, time.Minute},
		{"Date does not matter to seconds", map[string]string{"Retry-After": "5", "Date": at(time.Hour, http.TimeFormat)}, 5 * time.Second},

		{"milliseconds", map[string]string{"Retry-After-Ms": "1500"}, 1500 * time.Millisecond},
		{"Azure's milliseconds", map[string]string{"X-Ms-Retry-After-Ms": "20"}, 20 * time.Millisecond},
		{"milliseconds go first", map[string]string{"Retry-After-Ms": "1", "X-Ms-Retry-After-Ms": "2", "Retry-After": "3"}, time.Millisecond},
		{"then Azure's", map[string]string{"Retry-After-Ms": "x", "X-Ms-Retry-After-Ms": "2", "Retry-After": "3"}, 2 * time.Millisecond},
		{"then seconds", map[string]string{"Retry-After-Ms": "-1", "X-Ms-Retry-After-Ms": "1 s", "Retry-After": "3"}, 3 * time.Second},
		{"too many milliseconds", map[string]string{"X-Ms-Retry-After-Ms": "9223372036855", "Retry-After": "3"}, longest},
		{"then the rate limit", map[string]string{"Retry-After": "?", "Ratelimit": `"a";r=0;t=4`, "X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "5"}, 4 * time.Second},
		{"then the reset", map[string]string{"Ratelimit": `"a";r=1;t=4`, "X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "5"}, 5 * time.Second},

		{"rate limit", map[string]string{"Ratelimit": `"default";r=0;t=30`}, 30 * time.Second},
		{"rate limit, other order", map[string]string{"Ratelimit": `"default"; t=30; r=0`}, 30 * time.Second},
		{"rate limit, not exhausted", map[string]string{"Ratelimit": `"default";r=50;t=30`}, none},
		{"rate limit, r unknown", map[string]string{"Ratelimit": `"default";t=30`}, none},
		{"rate limit, t unknown", map[string]string{"Ratelimit": `"default";r=0`}, none},
		{"rate limit, t garbled", map[string]string{"Ratelimit": `"default";r=0;t=-3`}, none},
		{"rate limit, longest exhausted", map[string]string{"Ratelimit": `"a";r=0;t=2, "b";r=0;t=9, "c";r=1;t=99`}, 9 * time.Second},
		{"rate limit, longest first", map[string]string{"Ratelimit": `"a";r=0;t=9, "b";r=0;t=2`}, 9 * time.Second},
		{"rate limit, strange names", map[string]string{"Ratelimit": `"a,r=0;t=7\";r=0;t=8";r=1;t=9, "b";r=0;t=3`}, 3 * time.Second},
		{"rate limit, open quote", map[string]string{"Ratelimit": `"a;r=0;t=7`}, none},

		{"reset in seconds", map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "30"}, 30 * time.Second},
		{"reset at the border", map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "1000000000"}, 1e9 * time.Second},
		{"reset of an epoch", map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "1772366460"}, time.Minute},
		{"reset by the server's Date", map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "1772366460", "Date": at(30*time.Second, http.TimeFormat)}, 30 * time.Second},
		{"reset that has passed", map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "1000000001"}, none},
		{"reset in milliseconds", map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "1772366460500"}, time.Minute + 500*time.Millisecond},
		{"reset in milliseconds that has passed", map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "1000000000001"}, none},
		{"reset in seconds, the last", map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "1000000000000"}, longest},
		{"reset in milliseconds, beyond a Duration", map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "9223372036854775806"}, longest},
		{"reset overflows", map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "9223372036854775808"}, longest},
		{"rate limit overflows", map[string]string{"Ratelimit": `"a";r=0;t=99999999999999999999`}, longest},
		{"reset, some remaining", map[string]string{"X-Ratelimit-Remaining": "1", "X-Ratelimit-Reset": "30"}, none},
		{"reset, remaining unknown", map[string]string{"X-Ratelimit-Reset": "30"}, none},
		{"reset garbled", map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "later"}, none},
	} {
		h := http.Header{}
		for name, value := range tt.header {
			h.Set(name, value)
		}
		got, ok := retryhttp.ParseRetryAfter(h, now)
		if want := max(tt.want, 0); got != want || ok != (tt.want != none) {
			t.Errorf("%s: ParseRetryAfter(%v) = %v, %v, want %v, %v", tt.name, h, got, ok, want, tt.want != none)
		}
	}
	lines := http.Header{"Ratelimit": {`"a";r=0;t=2`, `"b";r=0;t=9`}}
	if got, _ := retryhttp.ParseRetryAfter(lines, now); got != 9*time.Second {
		t.Errorf("two lines of RateLimit: %v, want the longest, 9s", got)
	}
	if _, ok := retryhttp.ParseRetryAfter(nil, now); ok {
		t.Error("a nil header gave a hint")
	}
}

// Any header gives a wait of at least what it says, or none, or ends the run
// because it asks for too much.
func FuzzParseRetryAfter(f *testing.F) {
	for _, text := range []string{"120", "-1", "99999999999999999999", "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT",
		"Sun Nov  6 08:49:37 1994", `"a";r=0;t=30, "b\"";r=0;t=9`, "1772366460", "0", ""} {
		f.Add(text, text, text, text, text, text, text)
	}
	f.Add("x", "x", "x", `"a";r=1;t=1`, "0", "1772366460", "Sun, 01 Mar 2026 12:00:00 GMT")
	f.Fuzz(func(t *testing.T, ms, azure, after, limit, remaining, reset, date string) {
		h := http.Header{"Retry-After-Ms": {ms}, "X-Ms-Retry-After-Ms": {azure}, "Retry-After": {after}, "Ratelimit": {limit},
			"X-Ratelimit-Remaining": {remaining}, "X-Ratelimit-Reset": {reset}, "Date": {date}}
		wait, ok := retryhttp.ParseRetryAfter(h, now)
		if wait < 0 || !ok && wait != 0 {
			t.Fatalf("ParseRetryAfter(%v) = %v, %v", h, wait, ok)
		}
		for _, name := range slices.Collect(maps.Keys(h)) { // one header alone decides, or the next one does
			one := maps.Clone(h)
			delete(one, name)
			if wait, ok := retryhttp.ParseRetryAfter(one, now); wait < 0 || !ok && wait != 0 {
				t.Fatalf("ParseRetryAfter(%v) = %v, %v", one, wait, ok)
			}
		}
		loop := retry.Policy{Rand: func() float64 { return 0 }}.Start(now)
		next, again := loop.Next(now, &retryhttp.StatusError{Code: 429, Hint: wait})
		if again != (wait <= retry.DefaultMaxRetryAfter) || again && next != wait {
			t.Fatalf("a hint of %v: wait %v, %v", wait, next, again)
		}
	})
}
