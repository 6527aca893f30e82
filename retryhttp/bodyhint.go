package retryhttp

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry/internal/hint"
)

// BodyHint is a [Transport].Check for servers that name the wait in a JSON body:
//
//   - error.details[].retryDelay of Google's APIs ("30s")
//   - retry_after or retryAfter, in seconds, as Discord and Telegram have it
//   - backoff_seconds in error.data of JSON-RPC, as Infura has it
//   - retry_in_seconds in errors[].extensions of GraphQL, as monday.com has it
//   - estimated_time of a 503, in seconds: Hugging Face loads a model until then
//
// A wait is rounded up to the nanosecond. One that overflows a [time.Duration] is the
// longest Duration, which no policy waits for. If error.errors[].reason of a 403 is
// rateLimitExceeded or userRateLimitExceeded, as Google's APIs have it, such a 403 is
// Throttled, as a 429 is, and any other is Permanent. A 429 whose error.code or error.type is
// insufficient_quota, as OpenAI has it, is not repeated: somebody has to pay first. Without
// BodyHint it is, since nothing else reads the body.
//
// If a response is a failure and no header asks to wait, BodyHint reads up to 64 KiB of
// its body, puts them back, and sets a header of the response, which then counts as if the
// server had sent it: Retry-After-Ms, RateLimit for such a 403 whose body names no wait, or
// X-Should-Retry: false for such a 429. BodyHint returns nil.
func BodyHint(resp *http.Response) error {
	if resp.StatusCode < 400 || resp.Body == nil {
		return nil
	}
	if _, timed := hint.Parse(canonical(resp.Header), time.Now, limited(resp.StatusCode)); timed {
		return nil
	}
	text, rest := peek(resp.Body, maxPeek)
	resp.Body = rest
	name, value := readBody(text, resp)
	if name == "" {
		return nil
	}
	if resp.Header == nil {
		resp.Header = http.Header{}
	}
	resp.Header.Set(name, value)
	return nil
}

// milliseconds returns d exactly, as a header in milliseconds has it.
func milliseconds(d time.Duration) string {
	whole := strconv.FormatInt(int64(d/time.Millisecond), 10)
	if d %= time.Millisecond; d == 0 {
		return whole
	}
	fraction := strconv.FormatInt(int64(time.Millisecond+d), 10)[1:] // six digits
	return whole + "." + strings.TrimRight(fraction, "0")
}

// readBody returns what the body of a failure asks for, as a header, or "".
func readBody(text []byte, resp *http.Response) (name, value string) {
	var doc any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // as it is written, since a float64 is inexact, and has no 1e400
	if d.Decode(&doc) != nil {
		return "", ""
	}
	b := bodyReader{canonical(resp.Header)}
	wait, ok := b.wait(doc, 0)
	if object, isObject := doc.(map[string]any); !ok && isObject && resp.StatusCode == http.StatusServiceUnavailable {
		wait, ok = b.read(object["estimated_time"])
	}
	if ok {
		return "Retry-After-Ms", milliseconds(wait)
	}
	switch {
	case resp.StatusCode == http.StatusForbidden && rateLimited(doc):
		return "RateLimit", `"unnamed";r=0;t=0` // used up, and nobody knows until when: no request to come back at once
	case resp.StatusCode == http.StatusTooManyRequests && unpaid(doc):
		return "X-Should-Retry", "false"
	}
	return "", ""
}

// bodyReader reads waits in the body of a response that has this header.
type bodyReader struct{ header canonical }

// wait returns the wait that the JSON of a failure names. It looks into the objects
// in which servers put it, and no deeper.
func (b bodyReader) wait(doc any, depth int) (time.Duration, bool) {
	if depth > 4 {
		return 0, false
	}
	switch doc := doc.(type) {
	case []any:
		for _, x := range doc {
			if wait, ok := b.wait(x, depth+1); ok {
				return wait, true
			}
		}
	case map[string]any:
		for _, name := range [...]string{"retryDelay", "retry_after", "retryAfter", "backoff_seconds", "retry_in_seconds"} {
			if wait, ok := b.read(doc[name]); ok {
				return wait, true
			}
		}
		for _, name := range [...]string{"error", "details", "parameters", "errors", "extensions"} {
			if wait, ok := b.wait(doc[name], depth+1); ok {
				return wait, true
			}
		}
		if failure, ok := doc["error"].(map[string]any); ok {
			return b.data(failure["data"], depth+2)
		}
	}
	return 0, false
}

// data returns the wait in error.data of JSON-RPC. What is in there is up to the
// server, so that it may be in an object of any name. The longest wait counts.
func (b bodyReader) data(data any, depth int) (wait time.Duration, ok bool) {
	if wait, ok := b.wait(data, depth); ok {
		return wait, true
	}
	object, _ := data.(map[string]any)
	for _, x := range object {
		if d, named := b.wait(x, depth+1); named {
			wait, ok = max(wait, d), true
		}
	}
	return wait, ok
}

// read reads the numbers 30 and 1.5e1, and texts as of Retry-After, such as "30" and "1m1.5s".
func (b bodyReader) read(x any) (time.Duration, bool) {
	switch x := x.(type) {
	case json.Number:
		return hint.JSON(string(x), b.header, time.Now)
	case string:
		return hint.Wait(x, b.header, time.Now)
	}
	return 0, false
}

// rateLimited reports whether a failure of Google's APIs is one of a rate limit, which
// passes. The other limits of a 403 last until a day is over or somebody pays, such as
// dailyLimitExceeded and quotaExceeded (developers.google.com/workspace/drive/api/guides/handle-errors).
func rateLimited(doc any) bool {
	if list, ok := doc.([]any); ok && len(list) == 1 { // of a stream
		doc = list[0]
	}
	object, _ := doc.(map[string]any)
	failure, _ := object["error"].(map[string]any)
	reasons, _ := failure["errors"].([]any)
	for _, x := range reasons {
		detail, _ := x.(map[string]any)
		switch detail["reason"] {
		case "rateLimitExceeded", "userRateLimitExceeded":
			return true
		}
	}
	return false
}

// unpaid reports whether a 429 says that the account's money is spent, as OpenAI's guide to error
// codes has it (platform.openai.com/docs/guides/error-codes).
func unpaid(doc any) bool {
	const code = "insufficient_quota"
	object, _ := doc.(map[string]any)
	failure, _ := object["error"].(map[string]any)
	return failure["code"] == code || failure["type"] == code
}
