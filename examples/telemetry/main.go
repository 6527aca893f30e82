// Telemetry is a program with the whole set-up for traces and metrics by OTLP.
package main

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/goretry/retry"
	otelretry "github.com/goretry/retry/otel"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
)

func main() {
	if err := run(context.Background(), fetchUser); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, fetchUser func(context.Context) (string, error)) (err error) {
	spans, err := otlptracehttp.New(ctx) // to OTEL_EXPORTER_OTLP_ENDPOINT
	if err != nil {
		return err
	}
	numbers, err := otlpmetrichttp.New(ctx)
	if err != nil {
		return err
	}
	tracers := trace.NewTracerProvider(trace.WithBatcher(spans))
	meters := metric.NewMeterProvider(metric.WithReader(metric.NewPeriodicReader(numbers)))
	otel.SetTracerProvider(tracers)
	otel.SetMeterProvider(meters)
	defer func() { // exports what is left
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, tracers.Shutdown(ctx), meters.Shutdown(ctx))
	}()

	budget := &retry.EarnedBudget{} // shared by all policies for one server
	if _, err := otelretry.ObserveBudget("users-api", budget); err != nil {
		return err
	}
	policy := retry.Policy{Name: "fetch-user", Budget: budget, Hooks: otelretry.Hooks()}
	_, err = retry.Do(ctx, policy, fetchUser)
	return err
}

func fetchUser(context.Context) (string, error) { return "ada", nil } // your call
