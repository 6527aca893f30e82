package retrygrpc_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/retrygrpc"
)

// echo is a server for what is measured.
func echo(tb testing.TB) string {
	return serve(tb, func(_ int, s grpc.ServerStream, in string) error { return reply(s, in) }).addr
}

// TestAllocs: a call that succeeds at once costs few allocations beside grpc's own,
// those included that grpc makes to hand over header and trailer, and two to tell whether it was asked.
func TestAllocs(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	addr := echo(t)
	least := func(cc *grpc.ClientConn) float64 { // grpc's own vary, and the server's
		ctx, in, out := t.Context(), wrapperspb.String("hello"), new(wrapperspb.StringValue)
		n := 1e9
		for range 20 {
			n = min(n, testing.AllocsPerRun(100, func() {
				if err := cc.Invoke(ctx, get, in, out); err != nil {
					t.Fatal(err)
				}
			}))
		}
		return n
	}
	without := least(dial(t, addr, nil))
	with := least(dial(t, addr, &retrygrpc.Client{}))
	if with-without > 10 {
		t.Errorf("%v allocations with retries, %v without: want at most 10 more", with, without)
	}
}

// BenchmarkUnary compares a call that succeeds at once with grpc's alone.
func BenchmarkUnary(b *testing.B) {
	addr := echo(b)
	for _, bb := range []struct {
		name   string
		client *retrygrpc.Client
	}{{"grpc", nil}, {"retrygrpc", &retrygrpc.Client{}}} {
		cc := dial(b, addr, bb.client)
		b.Run(bb.name, func(b *testing.B) {
			ctx, in, out := b.Context(), wrapperspb.String("hello"), new(wrapperspb.StringValue)
			b.ReportAllocs()
			for b.Loop() {
				if err := cc.Invoke(ctx, get, in, out); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkInterceptor is the interceptor alone, around a call that costs nothing.
func BenchmarkInterceptor(b *testing.B) {
	cc := dial(b, "127.0.0.1:1", nil)
	invoke := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil }
	for _, bb := range []struct {
		name   string
		client *retrygrpc.Client
	}{
		{"zero", &retrygrpc.Client{}},
		{"budget", &retrygrpc.Client{Policy: retry.Policy{Budget: new(budget.Token)}}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			call, ctx := bb.client.UnaryInterceptor(), b.Context()
			b.ReportAllocs()
			for b.Loop() {
				if err := call(ctx, get, nil, nil, cc, invoke); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkServerStream compares a stream of one message with grpc's alone.
func BenchmarkServerStream(b *testing.B) {
	addr := echo(b)
	for _, bb := range []struct {
		name   string
		client *retrygrpc.Client
	}{{"grpc", nil}, {"retrygrpc", &retrygrpc.Client{}}} {
		cc := dial(b, addr, bb.client)
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s, err := open(b.Context(), cc, list)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := all(s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
