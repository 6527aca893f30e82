package hint

import (
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
// or a date of HTTP or of RFC 3339. It compares dates with h's Date, or with now if it has none or h
// is nil. If the time has passed, the wait is 0.
func Wait(text string, h Header, now func() time.Time) (wait time.Duration, ok bool) {
	text = trim(text)
	if n, ok := parseNumber(text); ok {
		return n.secondsOrEpoch(h, now), true
	}
	parse := Date
	if text != "" && isDigit(text[0]) {
		if !strings.Contains(text, "-") {
			return parseDuration(text)
		}
		parse = parseTimestamp
	}
	at, ok := parse(text)
	if !ok {
		return 0, false
	}
	return max(until(at, h, now), 0), true
}

// ParseLimits returns how long it takes until a limit is reset of which nothing remains.
func ParseLimits(h Header, now func() time.Time) (wait time.Duration, ok bool) {
	for _, name := range limited {
		if text := get(h, name); !exhausted(strings.TrimSuffix(text, "s")) { // they may be in every response, as 0 or 0s
			if wait, ok := Wait(text, h, now); ok {
				return wait, true
			}
		}
	}
	if wait, ok := parseRateLimit(h.Values("Ratelimit")); ok {
		return wait, true
	}
	for _, limits := range quotas {
		if wait, ok := longest(limits, h, now); ok {
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
// (bucket4j.com), of Help Scout, CrowdStrike and Contentful, and of others. The sources of these and
// of the others are in retryhttp/testdata/apis.tsv.
var limited = [...]string{"X-Rate-Limit-Retry-After-Seconds", "X-Ratelimit-Retry-After", "X-Ratelimit-Retryafter", "X-Contentful-Ratelimit-Reset"}

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

// A quota is a pair of headers: what remains of a limit, and when the limit is reset.
type quota struct{ remaining, reset string }

// quotas are the limits of some servers. Of several limits of one server the longest wait of the
// exhausted ones counts.
var quotas = [...][]quota{
	// draft-ietf-httpapi-ratelimit-headers-06: seconds. GitLab
	// (docs.gitlab.com/administration/settings/user_and_ip_rate_limits): an epoch.
	{{"Ratelimit-Remaining", "Ratelimit-Reset"}},
	// Discord (docs.discord.com/developers/topics/rate-limits): seconds and an epoch, with fractions.
	{{"X-Ratelimit-Remaining", "X-Ratelimit-Reset-After"}},
	// GitHub (docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api): an epoch.
	{{"X-Ratelimit-Remaining", "X-Ratelimit-Reset"}},
	// X (docs.x.com/fundamentals/rate-limits) and Okta
	// (developer.okta.com/docs/reference/rl-best-practices): an epoch.
	{{"X-Rate-Limit-Remaining", "X-Rate-Limit-Reset"}},
	// Sentry: an epoch. Fitbit, RapidAPI: seconds.
	{{"X-Sentry-Rate-Limit-Remaining", "X-Sentry-Rate-Limit-Reset"}},
	{{"Fitbit-Rate-Limit-Remaining", "Fitbit-Rate-Limit-Reset"}},
	{{"X-Ratelimit-Requests-Remaining", "X-Ratelimit-Requests-Reset"}},
	// OpenAI: platform.openai.com/docs/guides/rate-limits. A reset is 1m30s, or 6ms; Azure and Cerebras
	// send seconds.
	{
		{"X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"},
		{"X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"},
		{"X-Ratelimit-Remaining-Requests-Day", "X-Ratelimit-Reset-Requests-Day"},
		{"X-Ratelimit-Remaining-Tokens-Minute", "X-Ratelimit-Reset-Tokens-Minute"},
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
	var reset time.Duration // of draft 07, whose parts are items of their own
	var none, known bool
	for item := range items(lines) {
		if after, timed := parseSeconds(param(item, "t")); timed && exhausted(param(item, "r")) {
			wait, ok = max(wait, after), true
		}
		none = none || exhausted(param(item, "remaining"))
		if after, timed := parseSeconds(param(item, "reset")); timed {
			reset, known = after, true
		}
	}
	if !ok && none && known {
		return reset, true
	}
	return wait, ok
}

// until returns the time from the response's own Date, or else from now, to at. It
// saturates.
func until(at time.Time, h Header, now func() time.Time) time.Duration {
	if sent, ok := Date(get(h, "Date")); ok {
		return at.Sub(sent)
	}
	return at.Sub(now())
}
