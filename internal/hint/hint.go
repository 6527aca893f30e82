package hint

import (
	"iter"
	"strings"
	"time"
)

// A Header is an http.Header.
type Header interface{ Values(name string) []string }

// Parse returns how long the response header h asks to wait, if it does. The first
// hint that is there and readable decides. now is called only if a point in time must
// be compared with a clock and h has no Date. If limits is false, Parse ignores the
// headers of rate limits: some servers send them with every response, but they matter
// only with 429 and 403.
//
// The wait is Now if the server asks for a retry at once. It is 0 with ok if a limit is used up,
// and its reset has come by the server's clock, which may count in whole seconds.
func Parse(h Header, now func() time.Time, limits bool) (wait time.Duration, ok bool) {
	for _, name := range milliseconds {
		if n, ok := parseNumber(get(h, name)); ok {
			return Asked(n.times(time.Millisecond)), true
		}
	}
	if wait, ok := Wait(get(h, "Retry-After"), h, now); ok {
		return Asked(wait), true
	}
	if !limits {
		return 0, false
	}
	return ParseLimits(h, now)
}

// Now is in the place of a wait if the server asks for a retry at once. A wait of 0 is none.
const Now time.Duration = -1

// Asked returns the wait that a server asks for by name: Now for 0.
func Asked(wait time.Duration) time.Duration {
	if wait == 0 {
		return Now
	}
	return wait
}

// Wait reads how long a text asks to wait: a number of seconds, which may have a fraction
// (Shopify: shopify.dev/docs/api/admin-rest/usage/rate-limits), an epoch in seconds or
// milliseconds (Docker Hub: docs.docker.com/docker-hub/usage/pulls), a Duration such as 1m30s,
// or a date of HTTP or of RFC 3339. It compares dates with h's Date, or with now. If the time
// has passed, the wait is 0.
func Wait(text string, h Header, now func() time.Time) (wait time.Duration, ok bool) {
	if text == "" {
		return 0, false
	}
	if n, ok := parseNumber(text); ok {
		return n.secondsOrEpoch(h, now), true
	}
	if wait, ok := parseDuration(text); ok {
		return wait, true
	}
	at, ok := parseTimestamp(text)
	if !ok {
		at, ok = Date(text)
	}
	if !ok {
		return 0, false
	}
	return max(until(at, h, now), 0), true
}

// ParseLimits returns how long it takes until a limit is reset of which nothing remains.
func ParseLimits(h Header, now func() time.Time) (wait time.Duration, ok bool) {
	for _, name := range limited {
		if text := get(h, name); !exhausted(text) { // they may be in every response
			if wait, ok := Wait(text, h, now); ok {
				return wait, true
			}
		}
	}
	if wait, ok := parseRateLimit(h.Values("Ratelimit")); ok {
		return wait, true
	}
	for i := range resets {
		if wait, ok := resets[i].wait(h, now); ok {
			return wait, true
		}
	}
	for i := range quotas {
		if wait, ok := longest(quotas[i], h, now); ok {
			return wait, true
		}
	}
	return 0, false
}

// milliseconds are the headers in milliseconds: OpenAI's and Anthropic's (both SDKs
// for Go, internal/requestconfig, read fractions), Azure's, and that of AWS
// (aws-sdk-go-v2, aws/retry/middleware.go).
var milliseconds = [...]string{"Retry-After-Ms", "X-Ms-Retry-After-Ms", "X-Amz-Retry-After"}

// limited are the headers of limits that name the wait itself: of Bucket4j's filters
// (bucket4j.com), and of others.
var limited = [...]string{"X-Rate-Limit-Retry-After-Seconds", "X-Ratelimit-Retry-After"}

// A reset is a pair of headers: what remains of a limit, and when the limit is reset.
type reset struct{ remaining, after, at string }

var resets = [...]reset{
	// draft-ietf-httpapi-ratelimit-headers-06: seconds. GitLab
	// (docs.gitlab.com/administration/settings/user_and_ip_rate_limits): an epoch.
	{"Ratelimit-Remaining", "", "Ratelimit-Reset"},
	// GitHub (docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api): an
	// epoch. Discord (docs.discord.com/developers/topics/rate-limits): both, with
	// fractions.
	{"X-Ratelimit-Remaining", "X-Ratelimit-Reset-After", "X-Ratelimit-Reset"},
	// X (docs.x.com/fundamentals/rate-limits) and Okta
	// (developer.okta.com/docs/reference/rl-best-practices): an epoch.
	{"X-Rate-Limit-Remaining", "", "X-Rate-Limit-Reset"},
}

// wait returns the time until r, if nothing remains.
func (r *reset) wait(h Header, now func() time.Time) (time.Duration, bool) {
	if !exhausted(get(h, r.remaining)) {
		return 0, false
	}
	if r.after != "" {
		if n, ok := parseNumber(get(h, r.after)); ok {
			return n.times(time.Second), true
		}
	}
	return Wait(get(h, r.at), h, now)
}

// secondsOrEpoch returns the wait of a number that is seconds from now, or an epoch in
// seconds or in milliseconds: servers do not agree on that. If the epoch has passed, the
// wait is 0.
func (n number) secondsOrEpoch(h Header, now func() time.Time) time.Duration {
	if n.whole < earliest {
		return n.times(time.Second)
	}
	for _, at := range [...]time.Time{time.Unix(n.whole, int64(n.part(time.Second))), time.UnixMilli(n.whole).Add(n.part(time.Millisecond))} {
		if wait := until(at, h, now); wait.Abs() < tenYears {
			return max(wait, 0)
		}
	}
	return n.times(time.Second)
}

// earliest is the first number that may be an epoch: in 1985.
const earliest = 5e8

// tenYears is how far an epoch is from now, at most.
const tenYears = 10 * 365 * 24 * time.Hour

// A quota is one of several limits of a server. The longest wait of the exhausted ones
// counts.
type quota struct{ remaining, reset string }

var quotas = [...][]quota{
	// OpenAI: platform.openai.com/docs/guides/rate-limits. A reset is 1m30s, or 6ms; Azure sends seconds.
	{
		{"X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"},
		{"X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"},
	},
	// Anthropic: docs.claude.com/en/api/rate-limits. A reset is a date of RFC 3339.
	{
		{"Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset"},
		{"Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset"},
		{"Anthropic-Ratelimit-Input-Tokens-Remaining", "Anthropic-Ratelimit-Input-Tokens-Reset"},
		{"Anthropic-Ratelimit-Output-Tokens-Remaining", "Anthropic-Ratelimit-Output-Tokens-Reset"},
	},
}

// longest returns the longest wait of those quotas that are exhausted.
func longest(qs []quota, h Header, now func() time.Time) (wait time.Duration, ok bool) {
	for i := range qs {
		if !exhausted(get(h, qs[i].remaining)) {
			continue
		}
		if d, known := Wait(get(h, qs[i].reset), h, now); known {
			wait, ok = max(wait, d), true
		}
	}
	return wait, ok
}

// parseRateLimit parses the header RateLimit. In
// draft-ietf-httpapi-ratelimit-headers-10 it is a list of policies, such as
//
//	"burst";r=0;t=2, "daily";r=4200;t=30000
//
// and the longest wait of an exhausted policy counts. In draft 07 it is
//
//	limit=100, remaining=0, reset=30
func parseRateLimit(lines []string) (wait time.Duration, ok bool) {
	var l limit
	for item := range items(lines) {
		l.add(item)
	}
	if !l.ok && l.none && l.known {
		return l.reset, true
	}
	return l.wait, l.ok
}

// A limit is what the items of a RateLimit have said so far.
type limit struct {
	wait time.Duration // the longest of draft 10
	ok   bool

	// Of draft 07, whose parts are items of their own.
	reset       time.Duration
	none, known bool
}

func (l *limit) add(item string) {
	var empty, timed bool
	var wait time.Duration
	for name, value := range params(item) {
		switch name {
		case "r":
			empty = exhausted(value)
		case "t":
			wait, timed = parseSeconds(value)
		case "remaining":
			l.none = exhausted(value)
		case "reset":
			l.reset, l.known = parseSeconds(value)
		}
	}
	if empty && timed {
		l.wait, l.ok = max(l.wait, wait), true
	}
}

// items yields what stands between the commas of some lines of a header.
func items(lines []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, line := range lines {
			for item := range strings.SplitSeq(unquote(line), ",") {
				if !yield(item) {
					return
				}
			}
		}
	}
}

// params yields the names and values between the semicolons of an item. A name may have no value,
// and a quoted one is empty.
func params(item string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for param := range strings.SplitSeq(item, ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
			if !yield(name, value) {
				return
			}
		}
	}
}

// unquote drops quoted strings: a policy's name may hold anything.
func unquote(s string) string {
	if !strings.Contains(s, `"`) {
		return s
	}
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

// get returns the first value of a header.
func get(h Header, name string) string {
	if v := h.Values(name); len(v) > 0 {
		return v[0]
	}
	return ""
}

// until returns the time from the response's own Date, or else from now, to at. It
// saturates.
func until(at time.Time, h Header, now func() time.Time) time.Duration {
	if sent, ok := Date(get(h, "Date")); ok {
		return at.Sub(sent)
	}
	return at.Sub(now())
}
