package retrygrpc_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/retrygrpc"
)

// dropping is a load balancing policy that drops every second call as an overloaded control plane
// has it do, by the status of its name.
type dropping struct{ err error }

var picks atomic.Int64

func (d dropping) Build(info base.PickerBuildInfo) balancer.Picker {
	for c := range info.ReadySCs {
		return picker{c, d.err}
	}
	return base.NewErrPicker(balancer.ErrNoSubConnAvailable)
}

type picker struct {
	to  balancer.SubConn
	err error
}

func (p picker) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	if picks.Add(1)%2 == 0 {
		return balancer.PickResult{}, p.err
	}
	return balancer.PickResult{SubConn: p.to}, nil
}

// drops are the errors with which policies of grpc drop calls (xds/internal/balancer/clusterimpl,
// balancer/grpclb), and others that gRFC A54 allows them.
var drops = map[string]error{
	"unavailable":        status.Error(codes.Unavailable, "RPC is dropped"),
	"circuit_breaking":   status.Error(codes.Unavailable, "RPC dropped, circuit breaking"),
	"resource_exhausted": status.Error(codes.ResourceExhausted, "full"),
	"unknown":            status.Error(codes.Unknown, "no"),
	"permission_denied":  status.Error(codes.PermissionDenied, "no"),
}

func init() {
	for name, err := range drops {
		balancer.Register(base.NewBalancerBuilder("dropping_"+name, dropping{err}, base.Config{}))
	}
}

func dropsAreUnseen() bool {
	var minor int
	_, err := fmt.Sscanf(grpc.Version, "1.%d", &minor)
	return err == nil && minor < 78
}

// TestNoRetryOfACallThatTheBalancerDropped: whatever the policy says, and whatever the status of
// the drop, half of the calls reach the server if half are dropped, as with grpc alone.
func TestNoRetryOfACallThatTheBalancerDropped(t *testing.T) {
	if dropsAreUnseen() {
		t.Skip("grpc " + grpc.Version + " does not call OnFinish for a call that was dropped")
	}
	s := serve(t, func(_ int, s grpc.ServerStream, in string) error { return reply(s, in) })
	repeats := retry.Policy{MaxAttempts: 5, Backoff: retry.Constant(0), Classify: func(error) retry.Class { return retry.Transient }}
	for name := range drops {
		for client, c := range map[string]*retrygrpc.Client{
			"zero":      {},
			"Classify":  {Policy: repeats, Idempotent: func(string) bool { return true }},
			"hedges":    {Policy: four(), Hedge: func(string) *hedge.Hedge { return &hedge.Hedge{Delay: time.Hour} }},
			"untimed":   {Policy: retry.Policy{AttemptTimeout: time.Minute, Clock: struct{ clockx.Clock }{clockx.System()}}},
			"no client": nil,
		} {
			cc := ready(t, dial(t, s.addr, c, grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"dropping_`+name+`": {}}]}`)))
			for method, try := range map[string]func() error{
				"unary":  func() error { _, err := call(within(t), cc, get); return err },
				"once":   func() error { _, err := call(within(t), cc, pay); return err },
				"stream": func() error { return stream(within(t), cc, list) },
				"chat":   func() error { return stream(within(t), cc, chat) },
			} {
				before, ok := s.calls(), 0
				for range 10 {
					err := try()
					if err == nil {
						ok++
						continue
					}
					if got, want := status.Code(err), status.Code(drops[name]); got != want {
						t.Errorf("%s, %s, %s: %v, want %v", name, client, method, err, want)
					}
					if p := (retry.Policy{}); c != nil && p.Ends(p.Judge(err)) == retry.ReasonNone {
						t.Errorf("%s, %s, %s: a run around it would repeat %v", name, client, method, err)
					}
				}
				if sent := s.calls() - before; ok != 5 || sent != 5 {
					t.Errorf("%s, %s, %s: %d of 10 calls succeeded, %d reached the server; want 5 and 5", name, client, method, ok, sent)
				}
			}
		}
	}
}

// stream opens a stream and reads it to its end.
func stream(ctx context.Context, cc *grpc.ClientConn, method string) error {
	s, err := open(ctx, cc, method)
	if err == nil {
		_, err = all(s)
	}
	return err
}

// TestAttemptsThatWereNotSentButNotDropped: each is repeated, for a method that must not run twice too.
func TestAttemptsThatWereNotSentButNotDropped(t *testing.T) {
	s := serve(t, func(_ int, s grpc.ServerStream, in string) error { return reply(s, in) })
	refuses := func(times int, err error) grpc.DialOption {
		return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if times--; times >= 0 {
				return err
			}
			return invoke(ctx, method, req, reply, cc, opts...)
		})
	}
	c := &retrygrpc.Client{Policy: four()}
	for name, below := range map[string]grpc.DialOption{
		"an interceptor below":  refuses(2, status.Error(codes.Unavailable, "no tokens left")),
		"credentials that fail": grpc.WithPerRPCCredentials(&tokens{failures: 2}),
	} {
		cc, err := grpc.NewClient("passthrough:///"+s.addr, append(c.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()), below)...)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := call(within(t), ready(t, cc), pay); got != "hello" || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		cc.Close()
	}
}

// TestNoDropWhereAServerRestarts: calls that find no server are repeated, and none is taken for a
// drop, though the connection is ready again and again.
func TestNoDropWhereAServerRestarts(t *testing.T) {
	l := listen(t)
	addr := l.Addr().String()
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			s := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error { return reply(s, "") }))
			go s.Serve(l)
			time.Sleep(10 * time.Millisecond)
			s.Stop()
			select {
			case <-stop:
				return
			default:
			}
			var err error
			for l, err = net.Listen("tcp", addr); err != nil; l, err = net.Listen("tcp", addr) {
				time.Sleep(time.Millisecond)
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	calls := 2000
	if os.Getenv("RETRY_LONG") == "1" {
		calls = 200_000
	}
	for _, lb := range []string{"pick_first", "round_robin"} {
		c := &retrygrpc.Client{Policy: retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Constant(time.Millisecond)}}
		cc := dial(t, addr, c, grpc.WithDefaultServiceConfig(fmt.Sprintf(`{"loadBalancingConfig": [{%q: {}}]}`, lb)),
			grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second}))
		ended := make(chan error, 8)
		for range cap(ended) {
			go func() {
				for range calls / cap(ended) {
					_, err := call(within(t), cc, get)
					if why, ok := errors.AsType[*retry.Error](err); err != nil && (!ok || why.Reason == retry.ReasonRefused) {
						ended <- err
						return
					}
				}
				ended <- nil
			}()
		}
		for range cap(ended) {
			if err := <-ended; err != nil {
				t.Errorf("%s: %v", lb, err)
			}
		}
	}
}
