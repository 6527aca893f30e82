package bench

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"

	ourretry "github.com/goretry/retry"
	"github.com/goretry/retry/retrygrpc"
)

// GRPCPeer is a layer that retries gRPC calls. All of them make up to four attempts
// with waits next to nothing, of any method.
type GRPCPeer struct {
	Name, Module string
	Options      func() []grpc.DialOption
}

// ServiceConfig has grpc-go make up to four attempts by itself.
const ServiceConfig = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.000000001s",
	"maxBackoff": "0.000000001s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"]}}]}`

// GRPCPeers are the layers, the floor, which does not retry, first and ours second.
var GRPCPeers = []GRPCPeer{
	{
		Name:    "grpc",
		Module:  "google.golang.org/grpc",
		Options: func() []grpc.DialOption { return []grpc.DialOption{grpc.WithDisableRetry()} },
	},
	{
		// As in its package comment: a Client with a Policy.
		Name:   "goretry/retrygrpc",
		Module: "github.com/goretry/retry/retrygrpc",
		Options: func() []grpc.DialOption {
			c := &retrygrpc.Client{Policy: ourretry.Policy{MaxAttempts: 4, Backoff: ourretry.Constant(0)}}
			c.Idempotent = func(string) bool { return true }
			return c.DialOptions()
		},
	},
	{
		// As in gRPC's guide: a retryPolicy in the service config.
		Name: "grpc, service config",
		Options: func() []grpc.DialOption {
			return []grpc.DialOption{grpc.WithDefaultServiceConfig(ServiceConfig)}
		},
	},
	{
		// As in its package comment: options for the interceptor. WithMax counts attempts.
		Name:   "go-grpc-middleware",
		Module: "github.com/grpc-ecosystem/go-grpc-middleware/v2",
		Options: func() []grpc.DialOption {
			return []grpc.DialOption{grpc.WithChainUnaryInterceptor(retry.UnaryClientInterceptor(
				retry.WithMax(4), retry.WithBackoff(retry.BackoffLinear(time.Nanosecond))))}
		},
	},
}

// GRPCServer is a server in memory, of any method.
type GRPCServer struct {
	listener *bufconn.Listener
	server   *grpc.Server
}

// NewGRPCServer starts a server that answers by a func.
func NewGRPCServer(answer func(grpc.ServerStream) error) *GRPCServer {
	s := &GRPCServer{listener: bufconn.Listen(1 << 20)}
	s.server = grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		if err := stream.RecvMsg(new(wrapperspb.StringValue)); err != nil {
			return err
		}
		return answer(stream)
	}))
	go s.server.Serve(s.listener) // returns when stopped
	return s
}

// Stop ends the server.
func (s *GRPCServer) Stop() { s.server.Stop() }

// Dial connects to the server.
func (s *GRPCServer) Dial(opts ...grpc.DialOption) *grpc.ClientConn {
	cc, err := grpc.NewClient("passthrough:///memory", append(opts,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return s.listener.DialContext(ctx) }))...)
	if err != nil {
		panic(err)
	}
	return cc
}

// GRPC is what a unary call costs beside one without retries, over a connection in
// memory. Server and connections stay for the life of the process.
func GRPC() []Item {
	return []Item{
		{"A gRPC call", "OK", "one unary call that needs no retry, over a connection in memory, including the server's part.", unaryCalls(1)},
		{"A gRPC call", "UNAVAILABLE × 3, OK", "the same after three responses that ask for a retry, with hardly any waits. grpc makes four calls.", unaryCalls(4)},
	}
}

func unaryCalls(each int64) []Case {
	var calls atomic.Int64
	server := NewGRPCServer(func(s grpc.ServerStream) error {
		if calls.Add(1)%each != 0 {
			return status.Error(codes.Unavailable, "no")
		}
		return s.SendMsg(wrapperspb.String("hello"))
	})
	var all []Case
	for i, p := range GRPCPeers {
		cc := server.Dial(p.Options()...)
		all = append(all, Case{Name: p.Name, Run: func(n int) {
			ctx, in, out := context.Background(), wrapperspb.String("hello"), new(wrapperspb.StringValue)
			for range n {
				err := cc.Invoke(ctx, "/bench.Service/Get", in, out)
				for tries := int64(1); i == floor && tries < each; tries++ {
					err = cc.Invoke(ctx, "/bench.Service/Get", in, out)
				}
				if err != nil {
					panic(err)
				}
			}
		}})
	}
	return all
}
