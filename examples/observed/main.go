// Observed is a small service with a flaky dependency, under steady load, and shows
// what package otelretry reports about it. From the root of the repository:
//
//	go run ./examples/observed
//
// Once a second it draws a trace in which something was retried or failed. With the
// address of a collector it sends all traces there instead, by OTLP/HTTP:
//
//	OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 go run ./examples/observed -duration 5m
//
// In both cases http://127.0.0.1:9464/metrics has its metrics for Prometheus, and
// http://127.0.0.1:9464/debug/retry a page that shows what retries do now. It stops by
// itself. In the middle fifth of the run most requests to the dependency fail, and the
// budget for retries empties.
//
// main.go has the flags and the load, service.go the retried calls, telemetry.go
// sets OpenTelemetry up, traces.go draws, and dependency.go fails.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/goretry/retry/retrydebug"
)

func main() {
	c := config{every: time.Second}
	flag.Float64Var(&c.rate, "rate", 20, "calls per second")
	flag.Float64Var(&c.failures, "failures", 0.2, "share of requests that the dependency fails, but for the middle fifth of the run")
	flag.DurationVar(&c.duration, "duration", 30*time.Second, "how long calls are made")
	flag.StringVar(&c.metrics, "metrics", "127.0.0.1:9464", "address that serves /metrics and /debug/retry")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, c, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "observed:", err)
		os.Exit(1)
	}
}

type config struct {
	rate     float64
	failures float64
	duration time.Duration
	metrics  string
	every    time.Duration // at most one trace is drawn in this time
}

func run(ctx context.Context, c config, w io.Writer) (err error) {
	if !(c.rate > 0 && c.rate <= 1000 && c.duration > 0) {
		return fmt.Errorf("a rate of %v for %v: both have to be above 0, the rate 1000 at most", c.rate, c.duration)
	}
	page := &retrydebug.Recorder{Trace: traceID}
	t, err := setUp(ctx, c, page, w)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	began := time.Now()
	dependency := httptest.NewServer(flaky(func() float64 {
		if 5*time.Since(began)/c.duration == 2 { // the middle fifth
			return 0.9
		}
		return c.failures
	}))
	defer dependency.Close()
	s, err := newService(dependency.URL, page)
	if err != nil {
		return err
	}
	defer s.close()
	fmt.Fprintf(w, "%v calls a second for %v, metrics on %s, traces %s.\n", c.rate, c.duration, t.url, t.traces)
	fmt.Fprintf(w, "What retries do now: %s\n", t.page)
	fmt.Fprintf(w, "The dependency is as good as down from %s to %s.\n\n",
		began.Add(2*c.duration/5).Format(time.TimeOnly), began.Add(3*c.duration/5).Format(time.TimeOnly))
	load(ctx, c, s.call)
	return s.report(w)
}

// load makes calls at a steady rate, whatever becomes of them, and waits for the
// last ones.
func load(ctx context.Context, c config, call func(context.Context)) {
	var calls sync.WaitGroup
	defer calls.Wait()
	end := time.After(c.duration)
	tick := time.NewTicker(time.Duration(float64(time.Second) / c.rate))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-end:
			return
		case <-tick.C:
			calls.Go(func() { call(ctx) })
		}
	}
}
