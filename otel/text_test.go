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
	otelretry "github.com/goretry/retry/otel"
	"github.com/goretry/retry/retrytest"
	"go.opentelemetry.io/otel/codes"
)

// described returns the statuses of an attempt that failed with err and of its run.
func described(t *testing.T, err error) (attempt, run string) {
	t.Helper()
	v := view(t, retry.Policy{MaxAttempts: 1}, otelretry.WithEvents(false))
	v.h.Policy.Classify = func(error) retry.Class { return retry.Transient }
	v.run(t.Context(), retrytest.Fail[int](err))
	spans := v.spans.Ended()
	if len(spans) != 2 || spans[0].Status().Code != codes.Error || spans[1].Status().Code != codes.Error {
		t.Fatalf("spans:\n%s", v.tree())
	}
	return spans[0].Status().Description, spans[1].Status().Description
}

// hiding is an error that shows others only through As, as some joined ones do.
type hiding struct{ errs []error }

func (h hiding) Error() string { return errors.Join(h.errs...).Error() }
func (h hiding) As(target any) bool {
	return errors.As(errors.Join(h.errs...), target)
}

// opaque has a text of its own.
type opaque struct{ error }

func (o opaque) Error() string { return "opaque: " + o.error.Error() }
func (o opaque) Unwrap() error { return o.error }

func TestStatusesDoNotLeakWhatURLsHold(t *testing.T) {
	get := func(raw string) error { return &url.Error{Op: "Get", URL: raw, Err: errDown} }
	parse := func(raw string) error {
		_, err := url.Parse(raw)
		if err == nil {
			t.Fatalf("%q is a URL", raw)
		}
		return err
	}
	inner := retry.Run(t.Context(), retry.Policy{Name: "inner", MaxAttempts: 1}, func(ctx context.Context) error {
		return get("http://u:secret@host/a?token=secret")
	})
	for _, tt := range []struct {
		err  error
		want string
	}{
		{get("http://host/a/b"), `Get "http://host/a/b": connection refused`},
		{get("http://host/a?token=secret#secret"), `Get "http://host/a": connection refused`},
		{get("http://user:secret@host:80/@a?x=@secret"), `Get "http://host:80/@a": connection refused`},
		{get("//secret@host/a?"), `Get "//host/a": connection refused`},
		{get("http://host/?secret=\"\n\xff"), `Get "http://host/": connection refused`}, // what the error's text quotes
		{get("http:user:secret@host/a?secret"), `Get "host/a": connection refused`},     // opaque: no userinfo to a parser
		{get("http://user:sec%zzret@host/a?secret"), `Get "http://host/a": connection refused`},
		{get("http://us?er:secret@host/a"), `Get "http://us": connection refused`}, // the query begins in the name
		{get("u:secret@x://user%zz@host?secret"), `Get "host": connection refused`},
		{get("http://%zz?secret@secret"), `Get "http://": connection refused`}, // @ after the ?: nothing is safe
		{parse("http://user:sec/ret@host/a?secret"), `parse "http://host/a": invalid port "…" after host`},
		{fmt.Errorf("a: %w", get("http://host/?secret")), `a: Get "http://host/": connection refused`},
		{opaque{get("http://host/?secret")}, `opaque: Get "http://host/": connection refused`},
		{errors.Join(errDown, get("http://host/?secret=1"), get("http://host/?secret")), "connection refused\n" +
			`Get "http://host/": connection refused` + "\n" + `Get "http://host/": connection refused`},
		{fmt.Errorf("a: %w", hiding{[]error{get("http://host/?secret")}}), `a: Get "http://host/": connection refused`},
		{fmt.Errorf("redirected from http://host/?secret: %w", get("http://host/?secret")), `redirected from http://host/: Get "http://host/": connection refused`},
		{inner, `max_attempts: Get "http://host/a": connection refused`},
		{get("http://host/?secret\xff" + strings.Repeat("secret", 1<<10)), `Get "http://host/": connection refused`},
		{&url.Error{Op: "Get", URL: "http://u:secret@host/b?secret", Err: fmt.Errorf("client: %w", inner)},
			`Get "http://host/b": client: max_attempts: Get "http://host/a": connection refused`},
		{fmt.Errorf("a: %w", hiding{[]error{inner}}), `a: max_attempts: Get "http://host/a": connection refused`},
	} {
		attempt, run := described(t, tt.err)
		if attempt != tt.want || strings.Contains(attempt, "secret") {
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
		v := view(t, retry.Policy{MaxAttempts: 2 + n}, otelretry.WithEvents(false))
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
