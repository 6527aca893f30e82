package retrygrpc_test

import (
	"context"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/goretry/retry"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/retrygrpc"
)

// One limit for each target: every attempt takes a place.
func ExampleClient_guards() {
	targets := retry.PerKey[limit.Limit]{New: func(string) *limit.Limit { return &limit.Limit{Max: 1} }}
	underway := targets.For("passthrough:///users:443")
	_, _ = underway.Enter(context.Background(), retry.Entry{}) // as a call does

	c := &retrygrpc.Client{
		Policy: retry.Policy{MaxAttempts: 2},
		Guards: func(target string) []retry.Guard { return []retry.Guard{targets.For(target)} },
	}
	cc, err := grpc.NewClient("passthrough:///users:443", append(c.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		panic(err)
	}
	defer cc.Close()
	_, err = grpc_health_v1.NewHealthClient(cc).Check(context.Background(), nil)
	fmt.Println(status.Code(err), errors.Is(err, limit.ErrLimited))
	// Output: ResourceExhausted true
}

// A server that gets a second call while it has room for one.
func ExampleLimitServer() {
	guards := []retry.Guard{&limit.Limit{Max: 1}}
	entered, leave := make(chan bool), make(chan bool)
	users, stop := startPlain(&room{entered: entered, leave: leave},
		retrygrpc.LimitServer(func(context.Context, string) []retry.Guard { return guards })...)
	defer stop()

	first := make(chan codes.Code)
	go func() {
		_, err := users.Check(context.Background(), nil)
		first <- status.Code(err)
	}()
	<-entered
	_, err := users.Check(context.Background(), nil)
	fmt.Println(status.Code(err))
	leave <- true
	fmt.Println(<-first)
	// Output:
	// ResourceExhausted
	// OK
}

// room is a server whose calls last until they are told to leave.
type room struct {
	grpc_health_v1.UnimplementedHealthServer
	entered, leave chan bool
}

func (r *room) Check(context.Context, *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	r.entered <- true
	<-r.leave
	return &grpc_health_v1.HealthCheckResponse{}, nil
}

// startPlain serves s and returns a client for it that makes one attempt.
func startPlain(s grpc_health_v1.HealthServer, opts ...grpc.ServerOption) (client grpc_health_v1.HealthClient, stop func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	g := grpc.NewServer(opts...)
	grpc_health_v1.RegisterHealthServer(g, s)
	go g.Serve(l)
	cc, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	return grpc_health_v1.NewHealthClient(cc), func() { cc.Close(); g.Stop() }
}
