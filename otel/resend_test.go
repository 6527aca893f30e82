package otelretry_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/goretry/retry"
	otelretry "github.com/goretry/retry/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// tripper answers requests.
type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// sending traces requests as otelhttp does, but with spans of any kind.
func sending(v *viewer, kind trace.SpanKind, base http.RoundTripper) http.RoundTripper {
	return tripper(func(req *http.Request) (*http.Response, error) {
		ctx, span := v.traces.Tracer("client").Start(req.Context(), "GET", trace.WithSpanKind(kind))
		defer span.End()
		return base.RoundTrip(req.WithContext(ctx))
	})
}

func TestResendCount(t *testing.T) {
	for _, tt := range []struct {
		kind trace.SpanKind
		want string
	}{
		{trace.SpanKindClient, "[][http.request.resend_count=1][http.request.resend_count=2]"},
		{trace.SpanKindInternal, "[][][]"}, // as when otelhttp's filter leaves a request out
	} {
		v := view(t, retry.Policy{}).withoutEvents()
		sent := errors.New("sent")
		counting := sending(v, tt.kind, otelretry.ResendCount(tripper(func(*http.Request) (*http.Response, error) { return nil, sent })))
		err := retry.Run(t.Context(), v.h.Policy, func(ctx context.Context) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://host/", nil)
			if err != nil {
				return retry.Stop(err)
			}
			_, err = counting.RoundTrip(req)
			return err
		})
		if !errors.Is(err, sent) {
			t.Errorf("err = %v, want that of the base", err)
		}
		var got string
		for _, s := range v.spans.Ended() {
			if s.Name() != "GET" {
				for _, kv := range s.Attributes() {
					if kv.Key == "http.request.resend_count" {
						t.Errorf("%s has it", s.Name())
					}
				}
				continue
			}
			got += "["
			for _, kv := range s.Attributes() {
				got += fmt.Sprintf("%s=%v", kv.Key, kv.Value.AsInterface())
			}
			got += "]"
		}
		if got != tt.want {
			t.Errorf("kind %v: client spans have %s, want %s", tt.kind, got, tt.want)
		}
	}
}

// A span that does not tell its kind, such as one of another SDK, is taken for the client's.
type silent struct {
	trace.Span
	set *int
}

func (s silent) SetAttributes(kv ...attribute.KeyValue) { *s.set += len(kv) }

func TestResendCountOnASpanOfUnknownKind(t *testing.T) {
	var set int
	a := retry.Policy{Backoff: retry.Constant(0)}.Attempts(t.Context())
	defer a.Close()
	if !a.Next() || !a.Done(errDown) || !a.Next() {
		t.Fatal("there is no second attempt")
	}
	ctx := trace.ContextWithSpan(a.Context(), silent{trace.SpanFromContext(t.Context()), &set})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://host/", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = otelretry.ResendCount(tripper(func(*http.Request) (*http.Response, error) { return nil, errDown })).RoundTrip(req)
	if set != 1 {
		t.Errorf("%d attributes were set, want 1", set)
	}
}

func TestResendCountOfNilIsTheDefaultTransport(t *testing.T) {
	before := http.DefaultTransport
	defer func() { http.DefaultTransport = before }()
	called := false
	http.DefaultTransport = tripper(func(*http.Request) (*http.Response, error) { called = true; return nil, errDown })
	req, _ := http.NewRequest(http.MethodGet, "http://host/", nil)
	if _, err := otelretry.ResendCount(nil).RoundTrip(req); err != errDown || !called {
		t.Errorf("err = %v, called: %v", err, called)
	}
}
