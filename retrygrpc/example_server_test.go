package retrygrpc_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrygrpc"
)

// check is a health server that answers by a func.
type check struct {
	grpc_health_v1.UnimplementedHealthServer
	f func(context.Context) (*grpc_health_v1.HealthCheckResponse, error)
}

func (c check) Check(ctx context.Context, _ *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	return c.f(ctx)
}

// start serves such a server on g and returns a client for it that makes three attempts.
func start(g *grpc.Server, c check) (client grpc_health_v1.HealthClient, stop func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	grpc_health_v1.RegisterHealthServer(g, c)
	go g.Serve(l)
	retries := &retrygrpc.Client{
		Policy:     retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(time.Millisecond)},
		Idempotent: func(string) bool { return true },
	}
	cc, err := grpc.NewClient(l.Addr().String(), append(retries.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		panic(err)
	}
	return grpc_health_v1.NewHealthClient(cc), func() { cc.Close(); g.Stop() }
}

// A service that has made its three attempts tells its caller so. Without these options
// the database would get nine calls.
func ExampleServerOptions() {
	var calls atomic.Int32
	database, stop := start(grpc.NewServer(), check{f: func(context.Context) (*grpc_health_v1.HealthCheckResponse, error) {
		calls.Add(1)
		return nil, status.Error(codes.Unavailable, "down")
	}})
	defer stop()
	g := grpc.NewServer(retrygrpc.ServerOptions()...)
	orders, stop := start(g, check{f: func(ctx context.Context) (*grpc_health_v1.HealthCheckResponse, error) {
		resp, err := database.Check(ctx, nil)
		if err != nil {
			return nil, fmt.Errorf("orders: %w", err) // not status.Error, which would hide the attempts
		}
		return resp, nil
	}})
	defer stop()

	_, err := orders.Check(context.Background(), nil)
	fmt.Println(status.Code(err), calls.Load())
	// Output: Unavailable 3
}

// A handler that returns an error of its own says beforehand what went wrong.
func ExampleRelay() {
	var calls atomic.Int32
	database, stop := start(grpc.NewServer(), check{f: func(context.Context) (*grpc_health_v1.HealthCheckResponse, error) {
		calls.Add(1)
		return nil, status.Error(codes.Unavailable, "down")
	}})
	defer stop()
	orders, stop := start(grpc.NewServer(), check{f: func(ctx context.Context) (*grpc_health_v1.HealthCheckResponse, error) {
		resp, err := database.Check(ctx, nil)
		if err != nil {
			retrygrpc.Relay(ctx, err)
			return nil, status.Error(codes.Unavailable, "orders are down")
		}
		return resp, nil
	}})
	defer stop()

	_, err := orders.Check(context.Background(), nil)
	fmt.Println(status.Convert(err).Message(), calls.Load())
	// Output: orders are down 3
}

// A transaction that was rolled back is worth another call, even of a method that must
// not run twice. Without Status the caller would get UNKNOWN, and not call again.
func ExampleStatus() {
	book := func() error { // one attempt of a transaction, by retrysql.Tx
		return &retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 1, Undone: true, Errs: []error{errors.New("conflict")}}
	}
	var calls atomic.Int32
	orders, stop := start(grpc.NewServer(), check{f: func(ctx context.Context) (*grpc_health_v1.HealthCheckResponse, error) {
		if calls.Add(1) == 3 {
			return &grpc_health_v1.HealthCheckResponse{}, nil
		}
		err := book()
		if e, ok := errors.AsType[*retry.Error](err); ok && e.Undone {
			err = retry.Undone(err) // the handler has done nothing else
		}
		return nil, retrygrpc.Status(ctx, err, "the order was not booked")
	}})
	defer stop()

	_, err := orders.Check(context.Background(), nil, retrygrpc.Idempotent(false))
	fmt.Println(status.Code(err), calls.Load())
	// Output: OK 3
}
