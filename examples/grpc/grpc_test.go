package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/goretry/retry"
	"github.com/goretry/retry/examples/grpc/shop"
	otelretry "github.com/goretry/retry/otel"
	"github.com/goretry/retry/retrygrpc"
)

// TestRun is the smoke test: the program as it is, connections and waits included.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of real time")
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	var out bytes.Buffer
	if err := run(&out); err != nil {
		t.Errorf("run: %v", err)
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 120 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	blocks := strings.Split(out.String(), "\n\n")[1:]
	for i, s := range scenarios() {
		if i >= len(blocks) || !strings.HasPrefix(blocks[i], s.name+" ") || !strings.Contains(blocks[i], "ended by") {
			t.Errorf("no timeline of %s in its place", s.name)
		}
	}
	if t.Failed() {
		t.Logf("output:\n%s", out.String())
	}
}

func TestUnintendedEnd(t *testing.T) {
	err := play(io.Discard, []scenario{{name: "price", fails: []step{pushback("-1")}, call: price}})
	if want := "price ended by refused, want none"; err == nil || err.Error() != want {
		t.Errorf("play = %v, want %s", err, want)
	}
}

// TestEachAttemptHasItsClientSpan: with otelgrpc as stats handler grpc's own span of
// an attempt is a child of the attempt's span, for calls and for streams.
func TestEachAttemptHasItsClientSpan(t *testing.T) {
	server, err := startServer()
	if err != nil {
		t.Fatal(err)
	}
	defer server.close()
	spans := tracetest.NewInMemoryExporter()
	provider := trace.NewTracerProvider(trace.WithSyncer(spans))
	cc, err := dial(server.addr, &retrygrpc.Client{Policy: retry.Policy{
		Backoff: retry.Constant(time.Millisecond),
		Hooks:   otelretry.Hooks(otelretry.WithTracerProvider(provider)),
	}}, grpc.WithStatsHandler(otelgrpc.NewClientHandler(otelgrpc.WithTracerProvider(provider))))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for name, use := range map[string]func(context.Context, shop.ShopClient, retry.Policy) (any, error){
		"unary": func(ctx context.Context, c shop.ShopClient, _ retry.Policy) (any, error) { return c.Price(ctx, tea) },
		"server stream": func(ctx context.Context, c shop.ShopClient, _ retry.Policy) (any, error) {
			s, err := c.Watch(ctx, tea)
			if err != nil {
				return nil, err
			}
			for err == nil {
				_, err = s.Recv()
			}
			if err == io.EOF {
				err = nil
			}
			return nil, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			spans.Reset()
			server.script([]step{fail(codes.Unavailable, "down"), fail(codes.Unavailable, "down"), ok})
			if _, err := use(ctx, shop.NewShopClient(cc), retry.Policy{}); err != nil {
				t.Fatal(err)
			}
			kinds := make(map[oteltrace.SpanID]oteltrace.SpanKind)
			for _, s := range spans.GetSpans() {
				kinds[s.SpanContext.SpanID()] = s.SpanKind
			}
			parents := make(map[oteltrace.SpanID]bool)
			for _, s := range spans.GetSpans() {
				if s.SpanKind != oteltrace.SpanKindClient {
					continue
				}
				if kind, ok := kinds[s.Parent.SpanID()]; !ok || kind == oteltrace.SpanKindClient {
					t.Errorf("the client span %s has no attempt for a parent", s.Name)
				}
				parents[s.Parent.SpanID()] = true
			}
			if len(parents) != 3 {
				t.Errorf("client spans below %d attempts, want 3", len(parents))
			}
		})
	}
}
