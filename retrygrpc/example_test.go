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
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	"github.com/goretry/retry"
	"github.com/goretry/retry/failover"
	"github.com/goretry/retry/retrygrpc"
)

// starting is a health server that is unavailable for so many calls.
type starting struct {
	grpc_health_v1.UnimplementedHealthServer
	fails atomic.Int32
}

func (s *starting) Check(context.Context, *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if s.fails.Add(-1) >= 0 {
		return nil, status.Error(codes.Unavailable, "starting")
	}
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}

// startHealth starts such a server.
func startHealth(fails int32) (target string, stop func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	g, s := grpc.NewServer(), &starting{}
	s.fails.Store(fails)
	grpc_health_v1.RegisterHealthServer(g, s)
	go g.Serve(l)
	return l.Addr().String(), g.Stop
}

var opts = []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}

// connect starts such a server and connects to it.
func connect(fails int32, c *retrygrpc.Client) (client grpc_health_v1.HealthClient, stop func()) {
	target, stopServer := startHealth(fails)
	cc, err := grpc.NewClient(target, append(c.DialOptions(), opts...)...)
	if err != nil {
		panic(err)
	}
	return grpc_health_v1.NewHealthClient(cc), func() { cc.Close(); stopServer() }
}

func ExampleClient() {
	target, stop := startHealth(2)
	defer stop()
	c := &retrygrpc.Client{
		Policy: retry.Policy{
			MaxAttempts:    4,
			AttemptTimeout: 2 * time.Second,
			Budget:         &retry.EarnedBudget{}, // shared by all calls of this client
		},
		// The proto file of the health service has no idempotency_level.
		Idempotent: func(method string) bool { return method == grpc_health_v1.Health_Check_FullMethodName },
	}
	cc, err := grpc.NewClient(target, append(c.DialOptions(), opts...)...)
	if err != nil {
		panic(err)
	}
	defer cc.Close()
	resp, err := grpc_health_v1.NewHealthClient(cc).Check(context.Background(), nil)
	fmt.Println(resp.GetStatus(), err)
	// Output: SERVING <nil>
}

func ExampleIdempotent() {
	health, stop := connect(1, &retrygrpc.Client{})
	defer stop()
	_, err := health.Check(context.Background(), nil)
	fmt.Println(status.Code(err))
	if e, ok := errors.AsType[*retry.Error](err); ok {
		fmt.Println(e.Name, e.Reason)
	}

	health, stop = connect(1, &retrygrpc.Client{})
	defer stop()
	_, err = health.Check(context.Background(), nil, retrygrpc.Idempotent(true))
	fmt.Println(status.Code(err))
	// Output:
	// Unavailable
	// grpc.health.v1.Health/Check not_idempotent
	// OK
}

func ExampleWithPolicy() {
	health, stop := connect(10, &retrygrpc.Client{})
	defer stop()
	once := func(p retry.Policy) retry.Policy { // no retry for this call
		p.Name, p.MaxAttempts = "probe", 1
		return p
	}
	_, err := health.Check(context.Background(), nil, retrygrpc.WithPolicy(once), retrygrpc.Idempotent(true))
	if e, ok := errors.AsType[*retry.Error](err); ok {
		fmt.Println(e.Name, e.Reason, e.Attempts)
	}
	// Output: probe max_attempts 1
}

func ExampleClassify() {
	p := retry.Policy{Classify: retrygrpc.Classify}
	calls := 0
	err := retry.Run(context.Background(), p, func(ctx context.Context) error {
		calls++ // a call that somebody else's client makes
		return status.Error(codes.NotFound, "no such user")
	})
	fmt.Println(calls, status.Code(err))
	// Output: 1 NotFound
}

func ExampleClient_budget() {
	earned := new(retry.EarnedBudget) // for all who call this target
	health, stop := connect(10, &retrygrpc.Client{
		Policy:     retry.Policy{MaxAttempts: 9, Backoff: retry.Constant(time.Millisecond)},
		Idempotent: func(string) bool { return true },
		Budget:     func(target string) retry.Budget { return earned },
	})
	defer stop()
	_, err := health.Check(context.Background(), nil)
	if e, ok := errors.AsType[*retry.Error](err); ok {
		fmt.Println(e.Attempts, e.Reason, earned.Balance())
	}
	// Output: 5 budget 0.1
}

// One of two servers always fails. A call that meets it goes to the other one.
func ExampleBalancer() {
	sick, stopSick := startHealth(1 << 30)
	defer stopSick()
	well, stopWell := startHealth(0)
	defer stopWell()
	servers := manual.NewBuilderWithScheme("servers")
	servers.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: sick}, {Addr: well}}})

	c := &retrygrpc.Client{
		Policy:     retry.Policy{MaxAttempts: 4, Backoff: retry.Constant(20 * time.Millisecond)},
		Idempotent: func(string) bool { return true },
	}
	cc, err := grpc.NewClient("servers:///", append(c.DialOptions(),
		grpc.WithResolvers(servers),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"`+retrygrpc.Balancer+`": {}}]}`),
		grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		panic(err)
	}
	defer cc.Close()
	client := grpc_health_v1.NewHealthClient(cc)
	for range 3 {
		resp, err := client.Check(context.Background(), &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
		fmt.Println(resp.GetStatus(), err)
	}
	// Output:
	// SERVING <nil>
	// SERVING <nil>
	// SERVING <nil>
}

// checkReplicas asks the first replica that answers. The connections have no retries of their own.
func checkReplicas(ctx context.Context, replicas *failover.Set[*grpc.ClientConn]) (*grpc_health_v1.HealthCheckResponse, error) {
	policy := retry.Policy{Name: "check", MaxAttempts: 4, AttemptTimeout: time.Second, Classify: retrygrpc.Classify}
	return failover.Do(ctx, policy, replicas, func(ctx context.Context, t *failover.Target[*grpc.ClientConn]) (*grpc_health_v1.HealthCheckResponse, error) {
		return grpc_health_v1.NewHealthClient(t.Value).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	})
}

// Replicas in an order of preference, such as that of this zone first.
func ExampleClassify_failover() {
	replicas := new(failover.Set[*grpc.ClientConn])
	for i, fails := range []int32{1, 0} {
		address, stop := startHealth(fails)
		defer stop()
		conn, err := grpc.NewClient(address, opts...)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer conn.Close()
		replicas.Targets = append(replicas.Targets, &failover.Target[*grpc.ClientConn]{Name: fmt.Sprint("zone ", i), Value: conn})
	}
	resp, err := checkReplicas(context.Background(), replicas)
	fmt.Println(resp.GetStatus(), err)
	// Output: SERVING <nil>
}
