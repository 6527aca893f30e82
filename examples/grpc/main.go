// Grpc makes a dozen calls to a gRPC server that fails on purpose, and shows what
// package retrygrpc does in each: every attempt, the class of its error, every wait,
// and what the caller gets. From the root of the repository:
//
//	go run ./examples/grpc
//
// It takes two seconds, since the server, the connections and the waits are real. It
// exits with code 1 if a call did not end for the expected reason. With
// OTEL_EXPORTER_OTLP_ENDPOINT set it sends traces there: one of each call, with a span
// for each attempt and grpc's own client span below it.
//
// main.go has the client and its calls, server.go fails, timeline.go watches, and
// telemetry.go traces. The service is in shop/shop.proto, where its methods say what
// may run twice.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/examples/grpc/shop"
	"github.com/goretry/retry/retrygrpc"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "grpc:", err)
		os.Exit(1)
	}
}

// scenario is one call, and what happens to it.
type scenario struct {
	name  string // of the run
	about string
	fails []step       // the server's script
	ends  retry.Reason // why the run is to end
	call  func(context.Context, shop.ShopClient, retry.Policy) (any, error)
}

var tea = &shop.Item{Name: "tea"}

// with makes a call with p, whatever the connection's policy.
func with(p retry.Policy) grpc.CallOption {
	return retrygrpc.WithPolicy(func(retry.Policy) retry.Policy { return p })
}

// price asks with the connection's policy, under another name.
func price(ctx context.Context, c shop.ShopClient, p retry.Policy) (any, error) {
	return c.Price(ctx, tea, with(p))
}

func order(ctx context.Context, c shop.ShopClient, p retry.Policy) (any, error) {
	return c.Order(ctx, tea, with(p))
}

// watch receives quotes until there are no more.
func watch(ctx context.Context, c shop.ShopClient, p retry.Policy) (any, error) {
	stream, err := c.Watch(ctx, tea, with(p))
	if err != nil {
		return nil, err
	}
	var quotes []string
	for {
		q, err := stream.Recv()
		switch {
		case err == io.EOF:
			return strings.Join(quotes, ", "), nil
		case err != nil:
			return nil, fmt.Errorf("after %q: %w", quotes, err)
		}
		quotes = append(quotes, q.String())
	}
}

func scenarios() []scenario {
	throttle := &budget.Token{Capacity: 5, Cost: 5} // one retry, for all who share it
	throttled := func(ctx context.Context, c shop.ShopClient, p retry.Policy) (any, error) {
		p.MaxAttempts, p.Budget = 6, throttle
		return price(ctx, c, p)
	}
	return []scenario{{
		name:  "price",
		about: "Price has NO_SIDE_EFFECTS in the proto file: it may run again.",
		fails: []step{fail(codes.Unavailable, "restarting"), fail(codes.Unavailable, "restarting"), ok},
		call:  price,
	}, {
		name:  "price-busy",
		about: "RetryInfo in the details of the status: the server says when.",
		fails: []step{busy(codes.ResourceExhausted, 300*time.Millisecond), ok},
		call:  price,
	}, {
		name:  "price-hang",
		about: "The first answer never comes. Policy.AttemptTimeout gives up on it, not on the call.",
		fails: []step{hang, ok},
		call: func(ctx context.Context, c shop.ShopClient, p retry.Policy) (any, error) {
			p.AttemptTimeout = 150 * time.Millisecond
			return price(ctx, c, p)
		},
	}, {
		name:  "price-none",
		about: "NOT_FOUND is an answer: the caller gets it as it is, and hooks see no failure.",
		fails: []step{fail(codes.NotFound, "no such item")},
		call:  price,
	}, {
		name:  "price-full",
		about: "RESOURCE_EXHAUSTED, but after headers: grpc says that of too large messages too.",
		fails: []step{headersThen(fail(codes.ResourceExhausted, "too large"))},
		call:  price,
	}, {
		name:  "price-stop",
		about: "The trailer grpc-retry-pushback-ms says -1: do not come back.",
		fails: []step{pushback("-1")},
		ends:  retry.ReasonRefused,
		call:  price,
	}, {
		name:  "order",
		about: "Order says nothing of twice: it may have run.",
		fails: []step{fail(codes.Unavailable, "connection lost")},
		ends:  retry.ReasonNotIdempotent,
		call:  order,
	}, {
		name:  "order-busy",
		about: "ABORTED with RetryInfo: the server asks for this very call again.",
		fails: []step{busy(codes.Aborted, 100*time.Millisecond), ok},
		call:  order,
	}, {
		name:  "order-down",
		about: "Nobody listens: no attempt has reached a server, so there may be another.",
		ends:  retry.ReasonMaxAttempts,
		call: func(ctx context.Context, _ shop.ShopClient, p retry.Policy) (any, error) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return nil, err
			}
			l.Close()
			cc, err := dial(l.Addr().String(), &retrygrpc.Client{})
			if err != nil {
				return nil, err
			}
			defer cc.Close()
			return order(ctx, shop.NewShopClient(cc), p)
		},
	}, {
		name:  "watch",
		about: "A stream begins anew while its caller has seen nothing of it.",
		fails: []step{fail(codes.Unavailable, "restarting"), headersThen(fail(codes.Unavailable, "restarting")), ok},
		call:  watch,
	}, {
		name:  "watch-cut",
		about: "After the first message it is the caller's: errors are grpc's own.",
		fails: []step{cut},
		call:  watch,
	}, {
		name:  "shed",
		about: "A budget that all calls share has one retry, for the first of them.",
		fails: []step{fail(codes.Unavailable, "down")},
		ends:  retry.ReasonBudget,
		call:  throttled,
	}}
}

// dial connects with retries. What a program needs is the two lines around
// DialOptions.
func dial(addr string, c *retrygrpc.Client, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	opts = append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))
	return grpc.NewClient("passthrough:///"+addr, append(opts, c.DialOptions()...)...)
}

func run(w io.Writer) error { return play(w, scenarios()) }

// play runs the scenarios. It returns an error if one did not end for the expected
// reason.
func play(w io.Writer, scenarios []scenario) (err error) {
	t := &timeline{w: w}
	tracing, err := startTracing(context.Background())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tracing.close()) }()
	server, err := startServer()
	if err != nil {
		return err
	}
	defer server.close()

	policy := retry.Policy{
		MaxAttempts:    4,
		AttemptTimeout: 5 * time.Second,
		Backoff:        retry.Exponential{Base: 50 * time.Millisecond, Max: time.Second},
		MaxRetryAfter:  5 * time.Second,
		Hooks:          retry.JoinHooks(tracing.hooks(), t.hooks()),
	}
	cc, err := dial(server.addr, &retrygrpc.Client{Policy: policy}, tracing.options()...)
	if err != nil {
		return err
	}
	defer cc.Close()

	fmt.Fprintf(w, "A gRPC server that fails on purpose, and what retrygrpc makes of it.\nTraces: %s.\n", tracing.where)
	var wrong []error
	for _, s := range scenarios {
		fmt.Fprintf(w, "\n%-10s  %s\n", s.name, s.about)
		server.script(s.fails)
		ctx := metadata.AppendToOutgoingContext(context.Background(), "scenario", s.name)
		v, err := s.call(ctx, shop.NewShopClient(cc), policy.Named(s.name))
		t.returned(v, err)
		if got := t.reason; got != s.ends {
			wrong = append(wrong, fmt.Errorf("%s ended by %v, want %v", s.name, got, s.ends))
		}
	}
	if wrong != nil {
		return errors.Join(wrong...)
	}
	fmt.Fprintf(w, "\n%d calls, %d attempts. Each ended as it should.\n", len(scenarios), t.attempts)
	return nil
}
