package retrygrpc

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
)

// Balancer is the name of a load balancing policy. It does what round_robin does, and
// sends each further attempt of a call, and each hedged copy, to one of the servers that
// the call has not tried, at random. Under load round_robin does not: other calls come in
// between, so of two servers a retry meets the one that hangs again half of the time.
//
//	grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"` + retrygrpc.Balancer + `": {}}]}`)
//
// Only servers with a connection count. Once a call has tried all of them, it begins
// anew, with another one than the last. For calls without a [Client] it is round_robin. Importing this package registers
// it.
const Balancer = "retry_round_robin"

func init() {
	balancer.Register(base.NewBalancerBuilder(Balancer, pickers{}, base.Config{HealthCheck: true}))
}

type pickers struct{}

// Build is called whenever a server gets or loses its connection.
func (pickers) Build(info base.PickerBuildInfo) balancer.Picker {
	if len(info.ReadySCs) == 0 {
		return base.NewErrPicker(balancer.ErrNoSubConnAvailable)
	}
	p := &picker{}
	for conn := range info.ReadySCs {
		p.ready = append(p.ready, conn)
	}
	p.next.Store(rand.Uint32()) // not all clients at the same server
	return p
}

type picker struct {
	ready []balancer.SubConn
	next  atomic.Uint32
}

func (p *picker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	if t, ok := info.Ctx.Value(triedKey{}).(*tried); ok {
		return balancer.PickResult{SubConn: t.pick(p)}, nil
	}
	return balancer.PickResult{SubConn: p.inTurn()}, nil
}

func (p *picker) inTurn() balancer.SubConn { return p.ready[p.next.Add(1)%uint32(len(p.ready))] }

// tried is the servers that a call has tried, until it had tried all.
type tried struct {
	mu    sync.Mutex // hedged copies pick at the same time
	conns []balancer.SubConn
}

type triedKey struct{}

// pick returns a server for the call's next attempt. The first gets the server whose turn
// it is. The others get one at random, and take no turn: of two servers one would get all
// first attempts, if each call made two. If the next one in turn got them, the neighbour
// of a server that hangs would have twice the load.
func (t *tried) pick(p *picker) (conn balancer.SubConn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.conns) == 0 {
		conn = p.inTurn()
	} else if conn = t.fresh(p.ready); conn == nil { // it has tried all: the one just now may come last
		t.conns = t.conns[len(t.conns)-1:]
		conn = cmp.Or(t.fresh(p.ready), t.conns[0])
	}
	t.conns = append(t.conns, conn)
	return conn
}

// fresh returns one of ready that is not in t, at random, or nil.
func (t *tried) fresh(ready []balancer.SubConn) (conn balancer.SubConn) {
	n := 0
	for _, c := range ready {
		if !slices.Contains(t.conns, c) {
			if n++; rand.IntN(n) == 0 {
				conn = c
			}
		}
	}
	return conn
}
