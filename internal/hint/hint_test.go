package hint

import (
	"encoding/json"
	"maps"
	"math"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func clock() time.Time { return now }

// A limit counts only if the status is one that says that it was exceeded.
func TestLimitsAreLeftOut(t *testing.T) {
	clock := func() time.Time { return now }
	for name, h := range map[string]http.Header{
		"draft 10":  {"Ratelimit": {`"a";r=0;t=4`}},
		"draft 07":  {"Ratelimit": {"remaining=0, reset=4"}},
		"draft 06":  {"Ratelimit-Remaining": {"0"}, "Ratelimit-Reset": {"4"}},
		"GitHub":    {"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"4"}},
		"Discord":   {"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset-After": {"4"}},
		"Okta":      {"X-Rate-Limit-Remaining": {"0"}, "X-Rate-Limit-Reset": {"4"}},
		"OpenAI":    {"X-Ratelimit-Remaining-Tokens": {"0"}, "X-Ratelimit-Reset-Tokens": {"4s"}},
		"Anthropic": {"Anthropic-Ratelimit-Tokens-Remaining": {"0"}, "Anthropic-Ratelimit-Tokens-Reset": {"2026-03-01T12:00:04Z"}},
	} {
		if wait, ok := Parse(h, clock, true); !ok || wait != 4*time.Second {
			t.Errorf("%s: %v, %v, want 4s", name, wait, ok)
		}
		if wait, ok := Parse(h, clock, false); ok || wait != 0 {
			t.Errorf("%s, without limits: %v, %v, want none", name, wait, ok)
		}
	}
}

// The clock is read only if there is no other way.
func TestClockIsReadWhenNeeded(t *testing.T) {
	const date = "Sun, 01 Mar 2026 12:00:09 GMT"
	for _, tt := range []struct {
		name  string
		h     http.Header
		reads int
	}{
		{"seconds", http.Header{"Retry-After": {"9"}}, 0},
		{"a date", http.Header{"Retry-After": {date}}, 1},
		{"a date and the server's clock", http.Header{"Retry-After": {date}, "Date": {"Sun, 01 Mar 2026 12:00:00 GMT"}}, 0},
		{"seconds to a reset", http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"9"}}, 0},
		{"an epoch", http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"1772366409"}}, 1},
	} {
		reads := 0
		wait, ok := Parse(tt.h, func() time.Time { reads++; return now }, true)
		if wait != 9*time.Second || !ok || reads != tt.reads {
			t.Errorf("%s: %v, %v, after %d readings, want 9s after %d", tt.name, wait, ok, reads, tt.reads)
		}
	}
}

// All ways in which servers write a time, in all headers and bodies that name one.
func TestWays(t *testing.T) {
	clock := func() time.Time { return now }
	for text, want := range map[string]time.Duration{
		"30": 30 * time.Second, " 30 ": 30 * time.Second, "2.5": 2500 * time.Millisecond, "0": 0,
		"1772366430": 30 * time.Second, "1772366430000": 30 * time.Second, "1772366370": 0, "1772366430.5": 30500 * time.Millisecond,
		"30s": 30 * time.Second, "1m0s": time.Minute, "1m30s": 90 * time.Second, "250ms": 250 * time.Millisecond, "1h0m0s": time.Hour, "0s": 0,
		"2026-03-01T12:00:30Z": 30 * time.Second, "2026-03-01T12:01Z": time.Minute, "2026-03-01T14:01+02:00": time.Minute, "2026-03-01T10:30:30.5-01:30": 30500 * time.Millisecond,
		"2026-03-01T11:59:59Z": 0, "2026-03-01T11:59Z": 0,
		"2026-03-01 12:00:30 +0000": 30 * time.Second, "2026-03-01 05:00:30 -0700": 30 * time.Second, "2026-03-01 12:00:30 UTC": 30 * time.Second, "2026-03-01 11:59:59 UTC": 0,
		"Sun, 01 Mar 2026 12:00:30 GMT": 30 * time.Second, "Sun,  1 Mar 2026 12:00:30 GMT": 30 * time.Second, "Sun, 1 Mar 2026 12:00:30 GMT": 30 * time.Second, "Sun, 01 Mar 2026 12:00:30 UTC": 30 * time.Second,
		"Sun, 01 Mar 2026 12:00:30 +0000": 30 * time.Second, "Sun, 1 Mar 2026 14:00:30 +0200": 30 * time.Second, "Sun, 01 Mar 2026 07:00:30 -0500": 30 * time.Second,
		"Sunday, 01-Mar-26 12:00:30 GMT": 30 * time.Second, "Sun Mar  1 12:00:30 2026": 30 * time.Second, "Sun, 01 Mar 2026 11:59:00 GMT": 0,
	} {
		for _, h := range []http.Header{
			{"Retry-After": {text}},
			{"X-Rate-Limit-Retry-After-Seconds": {text}},
			{"X-Ratelimit-Retry-After": {text}},
			{"X-Ratelimit-Retryafter": {text}},
			{"X-Contentful-Ratelimit-Reset": {text}},
			{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {text}},
			{"X-Sentry-Rate-Limit-Remaining": {"0"}, "X-Sentry-Rate-Limit-Reset": {text}},
			{"Fitbit-Rate-Limit-Remaining": {"0"}, "Fitbit-Rate-Limit-Reset": {text}},
			{"X-Ratelimit-Requests-Remaining": {"0"}, "X-Ratelimit-Requests-Reset": {text}},
			{"X-Ratelimit-Remaining-Tokens-Minute": {"0"}, "X-Ratelimit-Reset-Tokens-Minute": {text}},
			{"X-Ratelimit-Remaining-Tokens": {"0"}, "X-Ratelimit-Reset-Tokens": {text}},
			{"Anthropic-Ratelimit-Tokens-Remaining": {"0"}, "Anthropic-Ratelimit-Tokens-Reset": {text}},
		} {
			if names := slices.Collect(maps.Keys(h)); (text == "0" || text == "0s") && len(names) == 1 && names[0] != "Retry-After" {
				if wait, ok := Parse(h, clock, true); ok || wait != 0 { // in every response, maybe
					t.Errorf("%v: %v, %v, want none", h, wait, ok)
				}
				continue
			}
			want := want
			if want == 0 && h["Retry-After"] != nil { // the others are limits, and ask for nothing
				want = Now
			}
			if wait, ok := Parse(h, clock, true); wait != want || !ok {
				t.Errorf("%v: %v, %v, want %v", h, wait, ok, want)
			}
		}
		if wait, ok := Wait(text, http.Header{"Date": {"Sun, 01 Mar 2026 11:00:00 GMT"}}, clock); !ok || wait < want {
			t.Errorf("%q, by the server's clock: %v, %v", text, wait, ok)
		}
	}
	for _, text := range []string{"", " ", "soon", "-1", "-30s", "+30", "1e3", "30 s", "s", "2026-03-01", "2026-03-01T12:01", "2026-03-01 12:01:00", "2026-03-01 12:01:00 CET", "2026-03-01 12:01:00 +07", "2026-03-01T12:60Z", "2026-03-01T25:00Z", "2026-03-01T12:01+0200",
		"Sun, 01 Mar 2026 12:00:30", "Sun, 01 Mar 2026 12:00:30 CET", "Sun, 01 Mar 2026 12:00:30 +2500", "Sun, 001 Mar 2026 12:00:30 GMT", "Sun, 32 Mar 2026 12:00:30 GMT", "Sun, 1 Mar 2026"} {
		for _, h := range []http.Header{{"Retry-After": {text}}, {"X-Ratelimit-Retry-After": {text}}, {"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {text}}} {
			if wait, ok := Parse(h, clock, true); wait != 0 || ok {
				t.Errorf("%v: %v, %v, want none", h, wait, ok)
			}
		}
	}
}

func TestParseAllocatesNothing(t *testing.T) {
	for name, h := range map[string]http.Header{
		"no hint":   {"Content-Type": {"text/plain"}, "Date": {"Sun, 01 Mar 2026 12:00:00 GMT"}},
		"seconds":   {"Retry-After": {"9"}, "Date": {"Sun, 01 Mar 2026 12:00:00 GMT"}},
		"a date":    {"Retry-After": {"Sun, 01 Mar 2026 12:00:09 GMT"}, "Date": {"Sun, 01 Mar 2026 12:00:00 GMT"}},
		"draft 07":  {"Ratelimit": {"remaining=0, reset=4"}},
		"epoch":     {"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"1772366409"}},
		"OpenAI":    {"X-Ratelimit-Remaining-Tokens": {"0"}, "X-Ratelimit-Reset-Tokens": {"4s"}},
		"Anthropic": {"Anthropic-Ratelimit-Tokens-Remaining": {"0"}, "Anthropic-Ratelimit-Tokens-Reset": {"2026-03-01T12:00:04Z"}},
	} {
		if n := testing.AllocsPerRun(100, func() { Parse(h, time.Now, true) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestSeconds(t *testing.T) {
	for n, want := range map[uint64]time.Duration{0: 0, 90: 90 * time.Second, 9223372036: 9223372036 * time.Second,
		9223372037: Longest, 1<<64 - 1: Longest} {
		if got := Seconds(n); got != want {
			t.Errorf("Seconds(%d) = %v, want %v", n, got, want)
		}
	}
}

// A number of JSON is read exactly and rounded up, or as a float64 if it has an exponent.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{"0", "12.5", "1e3", "1.5E+1", "1.336e-3", "9223372036854775807e-9", "9223372036854775808e-9", "5e-1", "0.000e400", "1e400", "1e-400", "100e-2",
		"1e99999999999999999999", "1e-99999999999999999999", "0e99999999999999999999", "1e", "1e+", "1e1.5", "-1e3", "-0", "1e1e1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var n json.Number
		if len(s) > 1000 || strings.TrimSpace(s) != s || json.Unmarshal([]byte(s), &n) != nil || n == "" || s[0] == '"' {
			return
		}
		got, ok := JSON(s, http.Header{}, clock)
		if want := s[0] != '-'; ok != want {
			t.Fatalf("JSON(%q): %v, want %v", s, ok, want)
		}
		exact, small := new(big.Rat).SetString(s) // which does not read exponents of any size
		if _, exponent, _ := strings.Cut(strings.ToLower(s), "e"); !ok || !small || len(exponent) > 5 {
			return
		}
		ns := exact.Mul(exact, big.NewRat(int64(time.Second), 1))
		up := new(big.Int).Add(ns.Num(), new(big.Int).Sub(ns.Denom(), big.NewInt(1)))
		want := Longest
		if up.Quo(up, ns.Denom()); up.IsInt64() {
			want = time.Duration(up.Int64())
		}
		if (got-want).Abs() > want/1e15+1 && want < earliest*time.Second {
			t.Fatalf("JSON(%q) = %d, want %d", s, got, want)
		}
	})
}

func TestJSONExponentsOfAnySize(t *testing.T) {
	for s, want := range map[string]time.Duration{"1e99999999999999999999": Longest, "1e-99999999999999999999": 0, "0e99999999999999999999": 0,
		"0." + strings.Repeat("0", 500) + "1e501": time.Second, "1" + strings.Repeat("0", 500) + "e-500": time.Second} {
		if got, ok := JSON(s, http.Header{}, clock); got != want || !ok {
			t.Errorf("JSON(%q) = %v, %v, want %v", s, got, ok, want)
		}
	}
	for _, s := range []string{"1e", "1e+", "1e1.5", "-1e3", "e3"} {
		if got, ok := JSON(s, http.Header{}, clock); ok || got != 0 {
			t.Errorf("JSON(%q) = %v, %v, want none", s, got, ok)
		}
	}
}

// A number is read exactly, and rounded up.
func FuzzNumber(f *testing.F) {
	for _, s := range []string{"0", "12.5", "9223372036.854775807", "9223372036.8547758071", "0.0000000001", "18446744073709551616", "1.", ".1", "1e3", "+1", "0x1", "1/", "1:", "1.0000000000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 1000 || strings.TrimSpace(s) != s {
			return
		}
		n, ok := parseNumber(s)
		if want := s != "" && strings.Trim(s, "0123456789.") == "" && strings.Count(s, ".") <= 1 && s[0] != '.' && s[len(s)-1] != '.'; ok != want {
			t.Fatalf("parseNumber(%q): %v, want %v", s, ok, want)
		}
		if !ok {
			return
		}
		exact, _ := new(big.Rat).SetString(s)
		for _, unit := range []time.Duration{time.Second, time.Millisecond} {
			ns := new(big.Rat).Mul(exact, big.NewRat(int64(unit), 1))
			up := new(big.Int).Add(ns.Num(), new(big.Int).Sub(ns.Denom(), big.NewInt(1)))
			want := Longest
			if up.Quo(up, ns.Denom()); up.IsInt64() {
				want = time.Duration(up.Int64())
			}
			if got := n.times(unit); got != want {
				t.Fatalf("%q times %v = %d, want %d", s, unit, got, want)
			}
		}
	})
}

// What time.Duration prints is read as it was.
func FuzzDuration(f *testing.F) {
	for _, d := range []int64{0, 1, 999, 1500, 250e3, 6e6, 59e9, 90e9, 3600e9, 3661_000_000_001, math.MaxInt64} {
		f.Add(d)
	}
	f.Fuzz(func(t *testing.T, n int64) {
		d := time.Duration(n &^ math.MinInt64)
		if got, ok := parseDuration(d.String()); !ok || got != d {
			t.Errorf("parseDuration(%q) = %v, %v", d.String(), got, ok)
		}
	})
}

func TestDurations(t *testing.T) {
	for s, want := range map[string]time.Duration{"1.5m": 90 * time.Second, "2us": 2000, "9223372036854775801ns": 9223372036854775801, "1h1h": 2 * time.Hour, "315576000000s": Longest, "999999999h": Longest, "5000000h": Longest} {
		if got, ok := parseDuration(s); got != want || !ok {
			t.Errorf("parseDuration(%q) = %v, %v, want %v", s, got, ok, want)
		}
	}
	for _, s := range []string{"1", "s", "1x", "1m1", "1.s", "1.2.3s", "1 s", "1s "} {
		if got, ok := parseDuration(s); ok {
			t.Errorf("parseDuration(%q) = %v, want none", s, got)
		}
	}
}
