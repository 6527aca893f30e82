package hint

import (
	"cmp"
	"strings"
	"time"
)

// Quota is what the headers of a response state of a limit of requests.
type Quota struct {
	Limit, Remaining float64
	Per              time.Duration
	Bucket           bool // it fills evenly: what resets it is that it is full
}

// ParseQuota reads a quota of requests whose time is stated, or documented. Servers state others,
// too, such as that of tokens, or that of a day beside that of a minute: if two limits count
// requests, none is returned.
func ParseQuota(h Header, now func() time.Time) (q Quota, ok bool) {
	if q, ok = ofDraft(h); ok {
		return q, true
	}
	if per := ofGitHub(get(h, "X-Ratelimit-Resource")); per > 0 {
		return stated(h, "X-Ratelimit-Limit", "X-Ratelimit-Remaining", per)
	}
	if q, ok = stated(h, "Anthropic-Ratelimit-Requests-Limit", "Anthropic-Ratelimit-Requests-Remaining", time.Minute); ok {
		q.Bucket = true
		return q, true
	}
	return ofOpenAI(h, now)
}

// ofGitHub returns the time of a resource of GitHub of which each request takes one
// (docs.github.com/rest/rate-limit), or 0.
func ofGitHub(resource string) time.Duration {
	switch resource {
	case "core":
		return time.Hour
	case "search", "code_search":
		return time.Minute
	}
	return 0
}

// stated reads a limit and what remains of it.
func stated(h Header, limit, remaining string, per time.Duration) (Quota, bool) {
	l, lok := amount(get(h, limit))
	r, rok := amount(get(h, remaining))
	return Quota{Limit: l, Remaining: min(r, l), Per: per}, lok && rok && l > 0
}

// ofOpenAI reads a limit that is for a minute, or for a day as with others that use OpenAI's names
// (console.groq.com/docs/rate-limits): which, the time says in which the rest of the bucket fills.
func ofOpenAI(h Header, now func() time.Time) (Quota, bool) {
	q, ok := stated(h, "X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests", 0)
	full, known := Wait(get(h, "X-Ratelimit-Reset-Requests"), h, now)
	if used := q.Limit - q.Remaining; ok && known && used >= 1 {
		seconds := full.Seconds() * q.Limit / used
		for _, per := range [...]time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour} {
			if x := seconds / per.Seconds(); x > .75 && x < 1.25 { // the time is rounded
				q.Per, q.Bucket = per, true
				return q, true
			}
		}
	}
	return Quota{}, false
}

// ofDraft reads RateLimit and RateLimit-Policy of draft-ietf-httpapi-ratelimit-headers-10, whose
// policies have names, or those of its drafts up to 07, such as
//
//	RateLimit-Limit: 100, 100;w=60
//	RateLimit-Policy: 100;w=60
func ofDraft(h Header) (q Quota, ok bool) {
	lines := h.Values("Ratelimit-Policy")
	if len(lines) == 0 {
		lines = h.Values("Ratelimit-Limit")
	}
	for item := range items(lines) {
		per, timed := parseSeconds(param(item, "w"))
		if !timed || per <= 0 {
			continue // draft 06: the first is the limit itself
		}
		if ok || param(item, "qu") != "" || param(item, "pk") != "" {
			return Quota{}, false // which of them counts is not known, or it has another unit, or is one of several shares
		}
		limit, _, _ := strings.Cut(item, ";") // of the drafts up to 07
		q.Limit, ok = amount(cmp.Or(param(item, "q"), trim(limit)))
		q.Per = per
	}
	if !ok || q.Limit <= 0 {
		return Quota{}, false
	}
	q.Remaining, ok = remaining(h)
	q.Remaining = min(q.Remaining, q.Limit)
	return q, ok
}

// remaining reads what is left of the only policy.
func remaining(h Header) (n float64, ok bool) {
	if text := get(h, "Ratelimit-Remaining"); text != "" {
		return amount(text)
	}
	for item := range items(h.Values("Ratelimit")) {
		text := cmp.Or(param(item, "r"), param(item, "remaining"))
		if text == "" {
			continue
		}
		if ok {
			return 0, false
		}
		n, ok = amount(text)
	}
	return n, ok
}

// amount parses a number of requests.
func amount(text string) (float64, bool) {
	n, ok := parseNumber(text)
	return float64(n.whole), ok && n.whole < tooLarge
}
