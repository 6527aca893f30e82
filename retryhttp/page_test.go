package retryhttp_test

import (
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// A rule says whether a request is sent again after a status: one that may run twice, one that
// names a retry time, one with an idempotency key.
type rule func(code int, twice, timed, keyed bool) bool

// The table of docs/http.md and the list in the documentation of the package say for each status
// whether a GET and a POST are sent again: with and without a retry time, with and without a key.
func TestThePagesSayWhichStatusesAreRetried(t *testing.T) {
	rules := map[string]rule{"docs/http.md": tableOfStatuses(t), "doc.go": listOfStatuses(t)}
	for code := 200; code < 700; code++ {
		for _, timed := range []bool{false, true} {
			for _, keyed := range []bool{false, true} {
				for _, method := range []string{"GET", "POST"} {
					got := sentAgain(t, method, code, timed, keyed)
					for name, rule := range rules {
						if rule(code, method == "GET" || keyed, timed, keyed) != got {
							t.Errorf("%s, status %d, retry time %t, key %t: sent again %t, but %s says otherwise", method, code, timed, keyed, got, name)
						}
					}
				}
			}
		}
	}
}

// tableOfStatuses reads the table of docs/http.md.
func tableOfStatuses(t *testing.T) rule {
	type row struct{ twice, others string }
	rows := map[int]row{} // by the statuses that they name
	var others, other5xx row
	for _, m := range regexp.MustCompile(`(?m)^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$`).FindAllStringSubmatch(file(t, "../docs/http.md"), -1) {
		r := row{m[2], m[3]}
		if strings.Contains(m[1], "CONNECT") {
			continue // an error, and not a response
		}
		for code := range codesIn(m[1]) {
			rows[code] = r
		}
		if strings.Contains(m[1], "other 5xx") {
			other5xx = r
		}
		if strings.Contains(m[1], "4xx not named") {
			others = r
		}
	}
	if len(rows) < 14 || other5xx.twice == "" || others.twice == "" {
		t.Fatalf("the page has %v, other 5xx %v, others %v", rows, other5xx, others)
	}
	return func(code int, twice, timed, keyed bool) bool {
		r, ok := rows[code]
		switch {
		case !ok && code/100 == 5:
			r = other5xx
		case !ok:
			r = others
		}
		cell := r.others
		if twice {
			cell = r.twice
		}
		return strings.HasPrefix(cell, "yes") && (code != 403 || timed) ||
			strings.HasPrefix(cell, "only with a retry time") && timed ||
			strings.HasPrefix(cell, "with a key") && keyed
	}
}

// listOfStatuses reads the rules in the documentation of the package.
func listOfStatuses(t *testing.T) rule {
	doc := strings.Join(strings.Fields(strings.ReplaceAll(file(t, "doc.go"), "//", "")), " ")
	m := regexp.MustCompile(`may run twice is retried after (.*), 5xx except (.*), and (.*) with a retry time .* it is also retried after (.*), since .*` +
		` if it provably did nothing: .* the server answered (.*), refused .* rejected it with (.*) and a retry time`).FindStringSubmatch(doc)
	if m == nil {
		t.Fatal("doc.go has no list of statuses")
	}
	retried, not5xx, twiceTimed, withKey, undone, rejected := codesIn(m[1]), codesIn(m[2]), codesIn(m[3]), codesIn(m[4]), codesIn(m[5]), codesIn(m[6])
	return func(code int, twice, timed, keyed bool) bool {
		if !twice {
			return undone[code] || rejected[code] && timed
		}
		return retried[code] || code/100 == 5 && !not5xx[code] || twiceTimed[code] && timed || withKey[code] && keyed
	}
}

// codesIn returns the statuses that a text names.
func codesIn(text string) map[int]bool {
	found := map[int]bool{}
	for _, code := range regexp.MustCompile(`\b[3-6]\d\d\b`).FindAllString(text, -1) {
		n, _ := strconv.Atoi(code)
		found[n] = true
	}
	return found
}

func file(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// sentAgain reports whether a request is sent again after a status.
func sentAgain(t *testing.T, method string, code int, timed, keyed bool) bool {
	t.Helper()
	requests := 0
	transport := &retryhttp.Transport{
		Policy: retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0)},
		Base: tripper(func(req *http.Request) (*http.Response, error) {
			requests++
			resp := &http.Response{StatusCode: code, Header: http.Header{}, Body: http.NoBody, Request: req}
			if timed {
				resp.Header.Set("Retry-After-Ms", "1")
			}
			return resp, nil
		}),
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://example.com/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if keyed {
		req.Header.Set("Idempotency-Key", "k")
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return requests == 2
}
