package retryhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

func TestRelay(t *testing.T) {
	ended := func(reason retry.Reason, attempts int, err error) error {
		return &retry.Error{Reason: reason, Attempts: attempts, Errs: []error{err}}
	}
	status := func(code int, hint time.Duration) error { return &retryhttp.StatusError{Code: code, Hint: hint} }
	long := retry.Run(t.Context(), retry.Policy{}, func(context.Context) error { return retry.After(io.EOF, time.Hour) })
	for name, tt := range map[string]struct {
		err   error
		code  int
		no    bool
		after string
	}{
		"nil":                              {nil, 200, false, ""},
		"a nil *Error":                     {(*retry.Error)(nil), 200, false, ""},
		"unknown":                          {io.ErrUnexpectedEOF, 503, false, ""},
		"permanent":                        {fmt.Errorf("orders: %w", status(404, 0)), 500, false, ""},
		"Stop":                             {retry.Stop(io.EOF), 500, true, ""},
		"Refuse":                           {retry.Refuse(io.EOF), 503, true, ""},
		"Refuse, with a wait":              {retry.Refuse(status(503, time.Minute)), 503, true, "60"},
		"a run that was stopped":           {ended(retry.ReasonPermanent, 1, status(404, 0)), 500, true, ""},
		"a run that was refused":           {ended(retry.ReasonRefused, 1, status(503, time.Second)), 503, true, "1"},
		"a run that may have done it":      {ended(retry.ReasonNotIdempotent, 1, status(503, 0)), 500, true, ""},
		"a run of three attempts":          {ended(retry.ReasonMaxAttempts, 3, status(503, 0)), 503, true, ""},
		"a run of one attempt":             {ended(retry.ReasonMaxAttempts, 1, status(503, 0)), 503, false, ""},
		"an empty budget at once":          {ended(retry.ReasonBudget, 1, status(503, 0)), 503, false, ""},
		"a rate limit":                     {ended(retry.ReasonRetryAfter, 1, status(429, 10*time.Minute)), 503, false, "600"},
		"a rate limit that is marked":      {fmt.Errorf("orders: %w", long), 503, false, "3600"},
		"a rate limit, after retries":      {ended(retry.ReasonMaxAttempts, 3, status(429, 1)), 503, true, "1"},
		"canceled":                         {ended(retry.ReasonCanceled, 3, context.Canceled), 503, false, ""},
		"canceled, by itself":              {context.Canceled, 503, false, ""},
		"a hint, rounded up":               {retry.After(io.EOF, 1500*time.Millisecond), 503, false, "2"},
		"a hint of whole seconds":          {retry.After(io.EOF, 2*time.Second), 503, false, "2"},
		"the longest hint":                 {retry.After(io.EOF, math.MaxInt64), 503, false, "9223372037"},
		"a refused retry beside a success": {errors.Join(nil, ended(retry.ReasonRefused, 1, io.EOF)), 503, true, ""},
	} {
		want := http.Header{"X-Should-Retry": {"true"}, "Content-Type": {"text/plain"}}
		h := want.Clone()
		if tt.no {
			want.Set("X-Should-Retry", "false")
		}
		if tt.after != "" {
			want.Set("Retry-After", tt.after)
		}
		if code := retryhttp.Relay(h, tt.err); code != tt.code || !equalHeaders(h, want) {
			t.Errorf("%s: %d with %v, want %d with %v", name, code, h, tt.code, want)
		}
		// A time that is there already is the handler's own.
		h.Set("Retry-After", "7")
		if retryhttp.Relay(h, tt.err); h.Get("Retry-After") != "7" {
			t.Errorf("%s: Retry-After was 7 and is %q", name, h.Get("Retry-After"))
		}
	}
}

func equalHeaders(a, b http.Header) bool {
	return maps.EqualFunc(a, b, func(v, w []string) bool { return fmt.Sprint(v) == fmt.Sprint(w) })
}
