package retrygrpc_test

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/goretry/retry"
	"github.com/goretry/retry/failover"
	"github.com/goretry/retry/retrygrpc"
)

// checkReplicas asks the first replica that answers. The connections have no retries of their own.
func checkReplicas(ctx context.Context, replicas *failover.Set[*grpc.ClientConn]) (*grpc_health_v1.HealthCheckResponse, error) {
	policy := retry.Policy{Name: "check", Classify: retrygrpc.Classify}
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
