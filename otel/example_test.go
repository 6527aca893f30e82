package otelretry_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	otelretry "github.com/goretry/retry/otel"
	"github.com/goretry/retry/retryhttp"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

func ExampleHooks() {
	spans := tracetest.NewInMemoryExporter()
	provider := trace.NewTracerProvider(trace.WithSyncer(spans)) // a program sets its global provider instead

	policy := retry.Policy{
		Name:    "fetch-user",
		Backoff: retry.Constant(100 * time.Millisecond),
		Hooks:   otelretry.Hooks(otelretry.WithTracerProvider(provider)),
		Clock:   clockx.NewVirtual(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
	}
	_ = retry.Run(context.Background(), policy, func(ctx context.Context) error {
		if retry.AttemptNumber(ctx) == 1 {
			return errors.New("connection reset")
		}
		return nil
	})
	for _, s := range spans.GetSpans() {
		fmt.Println(s.Name, s.EndTime.Sub(s.StartTime), s.Status.Code)
	}
	// Output:
	// attempt 1 fetch-user 0s Error
	// wait fetch-user 100ms Unset
	// attempt 2 fetch-user 0s Unset
	// fetch-user 100ms Unset
}

func ExampleObserveBudget() {
	budget := &retry.EarnedBudget{} // shared by all policies for one server
	if _, err := otelretry.ObserveBudget("users-api", budget); err != nil {
		log.Fatal(err)
	}

	policy := retry.Policy{Name: "fetch-user", Budget: budget, Hooks: otelretry.Hooks()}
	err := retry.Run(context.Background(), policy, func(context.Context) error { return nil })
	fmt.Println(err, budget.Balance())
	// Output: <nil> 0.91
}

func ExampleResendCount() {
	client := &http.Client{Transport: &retryhttp.Transport{
		Policy: retry.Policy{Name: "get-user", Hooks: otelretry.Hooks()},
		Base:   otelhttp(otelretry.ResendCount(nil)), // otelhttp.NewTransport in a program
	}}
	fmt.Println(client.Timeout)
	// Output: 0s
}

// otelhttp stands for otelhttp.NewTransport of OpenTelemetry's contributions.
func otelhttp(base http.RoundTripper) http.RoundTripper { return base }

func ExampleWithAttempts() {
	hooks := otelretry.Hooks(
		otelretry.WithAttempts(otelretry.RetriedRuns), // no span for a run that succeeds at once
		otelretry.WithWaits(false),                    // waits as events alone
	)
	fmt.Println(hooks.Wait != nil)
	// Output: true
}
