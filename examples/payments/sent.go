package main

import (
	"context"
	"encoding/json"
	"net/http"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/goretry/retry/examples/payments/ledgerpb"
)

// sent counts the transfers that leave for a ledger, whatever makes the retries. What a
// call sends after its first request is a retry. An attempt that a limit refuses or that
// finds no connection is not sent. In production the telemetry of retries counts.
type sent struct {
	Requests, Retries atomic.Int64
}

type sentKey struct{}

// dialOptions must stand before those of what makes the retries.
func (s *sent) dialOptions() []grpc.DialOption {
	perCall := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if method == ledgerpb.Ledger_Transfer_FullMethodName {
			ctx = context.WithValue(ctx, sentKey{}, new(atomic.Int64))
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(perCall), grpc.WithStatsHandler(s)}
}

func (s *sent) HandleRPC(ctx context.Context, event stats.RPCStats) {
	of, ok := ctx.Value(sentKey{}).(*atomic.Int64)
	if _, leaves := event.(*stats.OutHeader); !ok || !leaves {
		return
	}
	s.Requests.Add(1)
	if of.Add(1) > 1 {
		s.Retries.Add(1)
	}
}

func (s *sent) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (s *sent) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (s *sent) HandleConn(context.Context, stats.ConnStats)                       {}

func (s *sent) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	_ = json.NewEncoder(w).Encode([]int64{s.Requests.Load(), s.Retries.Load()})
}
