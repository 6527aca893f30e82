package otelretry_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrytest"
	"go.opentelemetry.io/otel/codes"
)

// described returns the statuses of an attempt that failed with err and of its run.
func described(t *testing.T, err error) (attempt, run string) {
	t.Helper()
	v := view(t, retry.Policy{MaxAttempts: 1}).withoutEvents()
	v.h.Policy.Classify = func(error) retry.Class { return retry.Transient }
	v.run(t.Context(), retrytest.Fail[int](err))
	spans := v.spans.Ended()
	if len(spans) != 2 || spans[0].Status().Code != codes.Error || spans[1].Status().Code != codes.Error {
		t.Fatalf("spans:\n%s", v.tree())
	}
	return spans[0].Status().Description, spans[1].Status().Description
}

// What a description shows is decided in errtext, and tested there.
func TestStatusesDoNotLeakWhatURLsHold(t *testing.T) {
	inner := retry.Run(t.Context(), retry.Policy{Name: "inner", MaxAttempts: 1}, func(context.Context) error {
		return &url.Error{Op: "Get", URL: "http://u:secret@host/a?token=secret", Err: errDown}
	})
	long := "http://host/?" + strings.Repeat("secret", 1<<10)
	for _, tt := range []struct {
		err  error
		want string
	}{
		{errors.New("dial redis://u:secret@host/0?secret: refused"), "dial redis://host/0 refused"},
		{fmt.Errorf("a: %w", inner), `a: max_attempts: Get "http://host/a": connection refused`},
		{&url.Error{Op: "Get", URL: long, Err: errDown}, `Get "http://host/": connection refused`}, // cut before it is cut to size
	} {
		attempt, run := described(t, tt.err)
		if attempt != tt.want {
			t.Errorf("attempt: %q\nwant     %q", attempt, tt.want)
		}
		if want := "max_attempts: " + tt.want; run != want {
			t.Errorf("run: %q\nwant %q", run, want)
		}
	}
}

// Statuses of the same kind are the same text, so that a backend can group them.
func TestStatusesGroup(t *testing.T) {
	descriptions := map[string]bool{}
	for n := range 3 {
		v := view(t, retry.Policy{MaxAttempts: 2 + n}).withoutEvents()
		for range 2 + n {
			v.h.Clock.Advance(ms)
		}
		_ = retry.Run(t.Context(), v.h.Policy, func(ctx context.Context) error {
			return fmt.Errorf("load: %w", retry.Run(ctx, v.h.Policy.Named("inner"), func(context.Context) error {
				v.h.Clock.Advance(ms)
				return errDown
			}))
		})
		for _, s := range v.spans.Ended() {
			if s.Status().Code == codes.Error {
				descriptions[s.Status().Description] = true
			}
		}
	}
	want := []string{"connection refused", "max_attempts: connection refused", "load: max_attempts: connection refused", "max_attempts: load: max_attempts: connection refused"}
	for _, w := range want {
		if !descriptions[w] {
			t.Errorf("no status is %q", w)
		}
	}
	if len(descriptions) != len(want) {
		t.Errorf("%d texts, want %d: %q", len(descriptions), len(want), slices.Sorted(maps.Keys(descriptions)))
	}
}
