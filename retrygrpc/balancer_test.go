package retrygrpc_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goretry/retry"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/retrygrpc"
)

// among returns a connection to servers of which each fails, and a func that returns how
// often a server has met a call, by both. No server may meet two attempts in a row.
func among(t *testing.T, servers int, c *retrygrpc.Client) (cc *grpc.ClientConn, met func() map[string]int) {
	var mu sync.Mutex
	calls, last := map[string]int{}, map[string]int{}
	var state resolver.State
	for i := range servers {
		s := serve(t, func(_ int, s grpc.ServerStream, in string) error {
			mu.Lock()
			defer mu.Unlock()
			calls[fmt.Sprint(in, " at ", i)]++
			if before, ok := last[in]; ok && before == i && in != "warm" {
				t.Errorf("%s: two attempts in a row at server %d", in, i)
			}
			last[in] = i
			return fail(codes.Unavailable)
		})
		state.Addresses = append(state.Addresses, resolver.Address{Addr: s.addr})
	}
	r := manual.NewBuilderWithScheme("all")
	r.InitialState(state)
	cc, err := grpc.NewClient("all:///", append(c.DialOptions(), grpc.WithResolvers(r), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"`+retrygrpc.Balancer+`": {}}]}`), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	met = func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return calls
	}
	eventually(t, "all servers are connected", func() bool {
		_ = cc.Invoke(t.Context(), get, wrapperspb.String("warm"), new(wrapperspb.StringValue), retrygrpc.WithPolicy(single))
		mu.Lock()
		defer mu.Unlock()
		return len(calls) == servers
	})
	return cc, met
}

func single(p retry.Policy) retry.Policy { p.MaxAttempts = 1; return p }

// TestRetriesGoElsewhere: many calls at once, of three attempts each, each of which meets
// another of three servers. A fourth and a fifth attempt begin anew, not where the one
// before was.
func TestRetriesGoElsewhere(t *testing.T) {
	for attempts, most := range map[int]int{3: 1, 5: 2} {
		c := &retrygrpc.Client{Policy: retry.Policy{MaxAttempts: attempts, Backoff: retry.Constant(time.Millisecond)}}
		cc, met := among(t, 3, c)
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				_ = cc.Invoke(within(t), get, wrapperspb.String(fmt.Sprint("call ", i)), new(wrapperspb.StringValue))
			})
		}
		all.Wait()
		sum := 0
		for where, n := range met() {
			if where[:4] == "warm" {
				continue
			}
			if sum += n; n > most {
				t.Errorf("%d attempts: %s: %d times, want at most %d", attempts, where, n, most)
			}
		}
		if sum != 40*attempts {
			t.Errorf("%d attempts arrived, want %d", sum, 40*attempts)
		}
	}
}

// TestRetriesTakeNoTurn: two servers take turns. Before each of these calls comes another
// one, so all meet the same server, whatever number of attempts the others need.
func TestRetriesTakeNoTurn(t *testing.T) {
	cc, met := among(t, 2, &retrygrpc.Client{Policy: retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(time.Millisecond)}})
	at := map[int]int{}
	for i := range 10 {
		_ = cc.Invoke(t.Context(), get, wrapperspb.String("two attempts"), new(wrapperspb.StringValue))
		call := fmt.Sprint("call ", i)
		_ = cc.Invoke(t.Context(), get, wrapperspb.String(call), new(wrapperspb.StringValue), retrygrpc.WithPolicy(single))
		at[met()[call+" at 1"]]++
	}
	if len(at) != 1 {
		t.Errorf("%d calls met one server, and %d the other", at[0], at[1])
	}
}

// TestHedgesGoElsewhere: each copy of a call goes to a server of its own.
func TestHedgesGoElsewhere(t *testing.T) {
	c := &retrygrpc.Client{
		Policy: retry.Policy{MaxAttempts: 1},
		Hedge:  hedging(&hedge.Hedge{Delay: time.Nanosecond, MaxInFlight: 3, Budget: new(ledger)}),
	}
	cc, met := among(t, 3, c)
	for i := range 40 {
		_ = cc.Invoke(within(t), get, wrapperspb.String(fmt.Sprint("call ", i)), new(wrapperspb.StringValue))
	}
	sum := 0
	for where, n := range met() {
		if where[:4] == "warm" {
			continue
		}
		if sum += n; n > 1 {
			t.Errorf("%s: %d times, want once", where, n)
		}
	}
	if sum <= 40 {
		t.Errorf("%d copies of 40 calls: none was a hedge", sum)
	}
}
