package retrygrpc_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrygrpc"
)

// A server is away for 300 ms, and a hundred calls begin in that time. grpc connects
// again after a second, and until then calls that do not wait for the connection fail
// at once: a policy's short waits are over by then. docs/grpc.md says what helps.
func TestServerIsAwayForAMoment(t *testing.T) {
	for _, tt := range []struct {
		name   string
		policy retry.Policy
		opts   []grpc.CallOption
		all    bool
	}{
		{"a zero policy", retry.Policy{}, nil, false},
		{"wait for ready, and an attempt timeout", retry.Policy{AttemptTimeout: 5 * time.Second}, []grpc.CallOption{grpc.WaitForReady(true)}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := listen(t)
			addr := l.Addr().String()
			run := func(l net.Listener) *grpc.Server {
				g := grpc.NewServer()
				g.RegisterService(unaryService(func(_ context.Context, in string) (string, error) { return in, nil }), nil)
				go g.Serve(l)
				return g
			}
			g := run(l)
			cc := ready(t, dial(t, addr, &retrygrpc.Client{Policy: tt.policy}))
			g.Stop()
			var succeeded atomic.Int32
			var calls sync.WaitGroup
			for range 100 {
				calls.Go(func() {
					if _, err := call(within(t), cc, get, tt.opts...); err == nil {
						succeeded.Add(1)
					}
				})
				time.Sleep(3 * time.Millisecond)
			}
			l, err := net.Listen("tcp", addr)
			if err != nil {
				t.Skip(err) // somebody else has the port
			}
			defer run(l).Stop()
			calls.Wait()
			got := succeeded.Load()
			t.Logf("%d of 100 calls succeed", got)
			if tt.all != (got == 100) {
				t.Errorf("%d of 100 calls succeed, want all: %v", got, tt.all)
			}
		})
	}
}
