package grpc_test

import (
	"context"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/proxytest"
	"github.com/goretry/retry/retrygrpc"
)

func behindProxy(t *testing.T, addr string) *proxytest.Proxy {
	t.Helper()
	p, err := proxytest.New(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func sameBack(stream grpc.ServerStream, in string) error {
	return stream.SendMsg(wrapperspb.String(in))
}

// once makes one attempt.
var once = retrygrpc.WithPolicy(func(retry.Policy) retry.Policy { return retry.Policy{MaxAttempts: 1} })

// A connection that is dead is ended within an attempt, and a later attempt gets another one.
// If the peer's system acknowledges, only pings help.
func TestConnectionThatIsGone(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("grpc sets TCP_USER_TIMEOUT on Linux only")
	}
	for _, tt := range []struct {
		name  string
		fault proxytest.Fault
		opts  []grpc.DialOption // after the Client's
		ok    bool
	}{
		{"dropped", proxytest.Dropped, nil, true},
		{"dropped, grpc's default", proxytest.Dropped, []grpc.DialOption{grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: time.Duration(1<<63 - 1)})}, false},
		{"silent", proxytest.Silent, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := behindProxy(t, serve(t, sameBack))
			var attempts atomic.Int32
			policy := retry.Policy{MaxAttempts: 4, AttemptTimeout: time.Second, Backoff: retry.Constant(10 * time.Millisecond)}
			policy.Hooks.AttemptDone = func(context.Context, retry.Attempt) { attempts.Add(1) }
			c := &retrygrpc.Client{Policy: policy, Idempotent: func(string) bool { return true }}
			cc := dial(t, p.Addr(), append(c.DialOptions(), tt.opts...)...)
			if err := call(within(t), cc, get); err != nil {
				t.Fatal(err)
			}
			p.Strike(tt.fault)
			attempts.Store(0)
			err := call(within(t), cc, get, grpc.WaitForReady(true))
			if tt.ok != (err == nil) || tt.ok && attempts.Load() > 3 {
				t.Errorf("after %d attempts: %v; want success: %v", attempts.Load(), err, tt.ok)
			}
		})
	}
}

// A slow server's system acknowledges: its connection stays, and other streams go on.
func TestSlowServerKeepsItsConnection(t *testing.T) {
	release := make(chan struct{})
	p := behindProxy(t, serve(t, func(stream grpc.ServerStream, in string) error {
		if method, _ := grpc.MethodFromServerStream(stream); method == slow {
			<-stream.Context().Done()
			return stream.Context().Err()
		}
		<-release
		return stream.SendMsg(wrapperspb.String(in))
	}))
	c := &retrygrpc.Client{Policy: retry.Policy{AttemptTimeout: time.Second, Backoff: retry.Constant(0)}, Idempotent: func(string) bool { return true }}
	cc := dial(t, p.Addr(), c.DialOptions()...)
	var others, timedOut sync.WaitGroup
	for range 20 {
		others.Go(func() {
			if err := call(within(t), cc, get, once); err != nil {
				t.Error("another call was lost: ", err)
			}
		})
	}
	for range 10 {
		timedOut.Go(func() {
			if err := call(within(t), cc, slow); status.Code(err) != codes.DeadlineExceeded {
				t.Error(err)
			}
		})
	}
	timedOut.Wait()
	close(release)
	others.Wait()
	if n := p.Accepted(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// Servers object to pings that come more often than they allow, not to those of DialOptions:
// here both limits are shorter, but equal as well.
func TestServersThatObjectToPings(t *testing.T) {
	if os.Getenv("RETRY_LONG") == "" {
		t.Skip("RETRY_LONG is not set")
	}
	for _, tt := range []struct {
		name    string
		minTime time.Duration // zero: grpc's default, five minutes
		objects bool
	}{
		{"twice a minute is allowed", 10 * time.Second, false},
		{"grpc's default", 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			addr := serve(t, func(stream grpc.ServerStream, in string) error {
				<-stream.Context().Done()
				return stream.Context().Err()
			}, grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: tt.minTime}))
			cc := dial(t, addr, append((&retrygrpc.Client{}).DialOptions(), grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: time.Second}))...)
			ctx, cancel := context.WithTimeout(t.Context(), 55*time.Second)
			defer cancel()
			began := time.Now()
			err := call(ctx, cc, get, once)
			t.Log(time.Since(began), err)
			if objects := status.Code(err) == codes.Unavailable; objects != tt.objects {
				t.Errorf("error %v, want an objection: %v", err, tt.objects)
			}
		})
	}
}
