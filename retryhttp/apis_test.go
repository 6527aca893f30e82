package retryhttp_test

import (
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// What popular APIs send with a 429 and the like is read: testdata/apis.tsv has it, with its sources.
func TestAPIs(t *testing.T) {
	table, err := os.ReadFile("testdata/apis.tsv")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(table)) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(cells) != 6 || cells[0] == "api" {
			continue
		}
		rows++
		api, wait, source := cells[0], cells[4], cells[5]
		code, err := strconv.Atoi(cells[1])
		if err != nil || source == "" {
			t.Errorf("%s: status %q, source %q", api, cells[1], source)
		}
		resp := &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(cells[3]))}
		resp.Header.Set("Date", "Sun, 01 Mar 2026 12:00:00 GMT")
		for header := range strings.SplitSeq(cells[2], " | ") {
			if name, value, ok := strings.Cut(header, ": "); ok {
				resp.Header.Add(name, value)
			}
		}
		if err := retryhttp.BodyHint(resp); err != nil {
			t.Errorf("%s: %v", api, err)
		}
		var want time.Duration
		if wait != "-" {
			if want, err = time.ParseDuration(wait); err != nil {
				t.Errorf("%s: %v", api, err)
			}
		}
		v := retry.Policy{}.Judge(retryhttp.Failure(resp))
		class := map[int]retry.Class{403: retry.Throttled, 429: retry.Throttled, 503: retry.Transient}[code]
		if v.Hint != want || v.Now || v.Class != class {
			t.Errorf("%s: %v, a wait of %v, at once %t, want %v and %v", api, v.Class, v.Hint, v.Now, class, want)
		}
	}
	if rows < 60 {
		t.Errorf("the table has %d rows, want more", rows)
	}
}
