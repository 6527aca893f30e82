//go:build unix

package grpc_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrygrpc"
)

const asServer = "RETRY_TEST_GRPC_SERVER"

// TestServeUntilKilled is a server in a process of its own, for TestFrozenServer. Its servers
// allow the pings that docs/grpc.md recommends.
func TestServeUntilKilled(t *testing.T) {
	if os.Getenv(asServer) == "" {
		t.Skip("it is run by TestFrozenServer")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("at " + l.Addr().String())
	g := grpc.NewServer(grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			in := new(wrapperspb.StringValue)
			if err := stream.RecvMsg(in); err != nil {
				return err
			}
			return stream.SendMsg(in)
		}))
	_ = g.Serve(l)
}

// process starts a server, and returns its address and its process.
func process(t *testing.T) (addr string, p *os.Process) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestServeUntilKilled$")
	cmd.Env = append(os.Environ(), asServer+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // which ends a process that is stopped, too
		_ = cmd.Wait()
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if addr, ok := strings.CutPrefix(lines.Text(), "at "); ok {
			return addr, cmd.Process
		}
	}
	t.Fatal("the server does not say where it is")
	return "", nil
}

// freeze returns when p has stopped: a thread of it may go on for a while after the signal.
func freeze(t *testing.T, p *os.Process) {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(p.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("%v, status %x", err, status)
	}
}

// One of two servers is frozen: its system acknowledges what is sent to it, and nothing answers.
// With gRPC's default no call succeeds. With the Balancer each does, in at most two attempts. If
// clients and servers agree on pings, none loses an attempt once the connection is gone.
func TestFrozenServer(t *testing.T) {
	const calls = 10
	pings := grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: time.Second, PermitWithoutStream: true})
	for _, tt := range []struct {
		name            string
		opts            []grpc.DialOption
		wait            time.Duration // after it was frozen
		succeeds        bool
		atLeast, atMost int32 // attempts
	}{
		{"pick_first", nil, 0, false, 3 * 4, 3 * 4},
		{"the Balancer", []grpc.DialOption{balanced}, 0, true, calls + 1, 2 * calls},
		{"the Balancer, with pings", []grpc.DialOption{balanced, pings}, 15 * time.Second, true, calls, calls},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.wait > 0 && os.Getenv("RETRY_LONG") == "" {
				t.Skip("RETRY_LONG is not set")
			}
			t.Parallel()
			servers, state := map[string]*os.Process{}, resolver.State{}
			for range 2 {
				addr, p := process(t)
				servers[addr], state.Addresses = p, append(state.Addresses, resolver.Address{Addr: addr})
			}
			r := manual.NewBuilderWithScheme("both")
			r.InitialState(state)
			var attempts atomic.Int32
			policy := retry.Policy{MaxAttempts: 4, AttemptTimeout: 500 * time.Millisecond, Backoff: retry.Constant(10 * time.Millisecond)}
			policy.Hooks.AttemptDone = func(context.Context, retry.Attempt) { attempts.Add(1) }
			c := &retrygrpc.Client{Policy: policy, Idempotent: func(string) bool { return true }}
			cc, err := grpc.NewClient("both:///", append(append(c.DialOptions(), tt.opts...), grpc.WithResolvers(r), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
			if err != nil {
				t.Fatal(err)
			}
			defer cc.Close()
			cc.Connect()
			for state := cc.GetState(); state != connectivity.Ready; state = cc.GetState() {
				cc.WaitForStateChange(within(t), state)
			}
			time.Sleep(500 * time.Millisecond) // the Balancer connects to both
			var answers peer.Peer              // of pick_first it is the one that was faster
			if err := call(within(t), cc, get, grpc.Peer(&answers)); err != nil {
				t.Fatal(err)
			}
			freeze(t, servers[answers.Addr.String()])
			time.Sleep(tt.wait)
			attempts.Store(0)
			n := calls
			if !tt.succeeds {
				n = 3
			}
			for range n {
				if err := call(within(t), cc, get); (err == nil) != tt.succeeds {
					t.Errorf("%v, want success: %t", err, tt.succeeds)
				}
			}
			if got := attempts.Load(); got < tt.atLeast || got > tt.atMost {
				t.Errorf("%d attempts for %d calls, want %d to %d", got, n, tt.atLeast, tt.atMost)
			}
		})
	}
}

var balanced = grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"` + retrygrpc.Balancer + `": {}}]}`)
