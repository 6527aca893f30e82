// Chaos makes calls through the three places at which faults can be injected into attempts:
// around the op of retry.Do, in the Base of a retryhttp.Transport, and in an interceptor after
// those of a retrygrpc.Client. A tenth of the attempts fails, a tenth is sent late, and a tenth is
// answered late. From the root of the repository:
//
//	go run ./examples/chaos -seed 7
//
// With one seed it does the same each time. Without a seed it injects nothing, as in
// production. It exits with code 1 if a call failed. chaos.go is the part to copy.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrygrpc"
	"github.com/goretry/retry/retryhttp"
)

func main() {
	seed := flag.Uint64("seed", 0, "of the faults; 0: none")
	flag.Parse()
	if err := run(os.Stdout, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

// calls is how many calls go through each place.
const calls = 50

var (
	shares = Shares{Fail: .1, Delay: .1, Late: .1, Wait: 100 * time.Millisecond}
	policy = retry.Policy{MaxAttempts: 6, AttemptTimeout: 50 * time.Millisecond, Backoff: retry.Constant(time.Millisecond)}
)

func run(w io.Writer, seed uint64) error {
	fmt.Fprintf(w, "%-12s %6s %9s %7s %8s %5s\n", "place", "calls", "attempts", "failed", "delayed", "late")
	for _, place := range []struct {
		name string
		make func(*Chaos) (call func(context.Context) error, end func(), err error)
	}{{"op", ofOp}, {"Base", ofBase}, {"interceptor", ofInterceptor}} {
		c := New(seed, shares)
		call, end, err := place.make(c)
		if err != nil {
			return err
		}
		for range calls {
			if err = call(context.Background()); err != nil {
				break
			}
		}
		end()
		if err != nil {
			return fmt.Errorf("%s: %w", place.name, err)
		}
		n := c.Counts()
		fmt.Fprintf(w, "%-12s %6d %9d %7d %8d %5d\n", place.name, calls, n.Attempts, n.Failed, n.Delayed, n.Late)
	}
	return nil
}

// ofOp makes calls of a func.
func ofOp(c *Chaos) (call func(context.Context) error, end func(), err error) {
	op := Op(c, func(context.Context) (string, error) { return "done", nil })
	return func(ctx context.Context) error {
		_, err := retry.Do(ctx, policy, op)
		return err
	}, func() {}, nil
}

// ofBase makes calls of a server for HTTP.
func ofBase(c *Chaos) (call func(context.Context) error, end func(), err error) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `"done"`) }))
	client := &http.Client{Transport: &retryhttp.Transport{Base: c.Base(http.DefaultTransport), Policy: policy}}
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s", resp.Status)
		}
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}, s.Close, nil
}

// ofInterceptor makes calls of a server for gRPC.
func ofInterceptor(c *Chaos) (call func(context.Context) error, end func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	s := grpc.NewServer()
	healthpb.RegisterHealthServer(s, health.NewServer())
	go func() { _ = s.Serve(l) }()
	retries := &retrygrpc.Client{Policy: policy, Idempotent: func(string) bool { return true }}
	options := append(retries.DialOptions(), c.DialOptions()...)
	conn, err := grpc.NewClient(l.Addr().String(), append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		s.Stop()
		return nil, nil, err
	}
	client := healthpb.NewHealthClient(conn)
	return func(ctx context.Context) error {
		_, err := client.Check(ctx, &healthpb.HealthCheckRequest{})
		return err
	}, func() { conn.Close(); s.Stop() }, nil
}
