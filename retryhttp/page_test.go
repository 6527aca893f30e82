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

// The table of docs/http.md says for each status whether a GET and a POST are sent again:
// with and without a retry time, with and without a key.
func TestThePageSaysWhichStatusesAreRetried(t *testing.T) {
	page, err := os.ReadFile("../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	type row struct{ get, post string }
	rows := map[int]row{} // by the statuses that they name
	var others, other5xx row
	for _, m := range regexp.MustCompile(`(?m)^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$`).FindAllStringSubmatch(string(page), -1) {
		r := row{m[2], m[3]}
		if strings.Contains(m[1], "CONNECT") {
			continue // an error, and not a response
		}
		for _, code := range regexp.MustCompile(`\b[3-6]\d\d\b`).FindAllString(m[1], -1) {
			n, _ := strconv.Atoi(code)
			rows[n] = r
		}
		if strings.Contains(m[1], "other 5xx") {
			other5xx = r
		}
		if strings.Contains(m[1], "4xx not named") {
			others = r
		}
	}
	if len(rows) < 14 || other5xx.get == "" || others.get == "" {
		t.Fatalf("the page has %v, other 5xx %v, others %v", rows, other5xx, others)
	}
	for code := 200; code < 700; code++ {
		r, ok := rows[code]
		switch {
		case !ok && code/100 == 5:
			r = other5xx
		case !ok:
			r = others
		}
		for _, timed := range []bool{false, true} {
			for _, keyed := range []bool{false, true} {
				for _, method := range []string{"GET", "POST"} {
					cell := r.post
					if method == "GET" || keyed {
						cell = r.get
					}
					want := strings.HasPrefix(cell, "yes") && (code != 403 || timed) ||
						strings.HasPrefix(cell, "only with a retry time") && timed ||
						strings.HasPrefix(cell, "with a key") && keyed
					if got := sentAgain(t, method, code, timed, keyed); got != want {
						t.Errorf("%s, status %d, retry time %t, key %t: sent again %t, but the page says %q", method, code, timed, keyed, got, cell)
					}
				}
			}
		}
	}
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
