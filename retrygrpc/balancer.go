package retrygrpc

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
)

// Balancer is the name of a load balancing policy. It does what round_robin does, and
// sends each further attempt of a call, and each hedged copy, to a server that the call
// has not tried. Under load round_robin does not: other calls come in between, so of two
// servers a retry meets the one that hangs again half of the time.
//
//	grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"` + retrygrpc.Balancer + `": {}}]}`)
//
// Only servers with a connection count. Once a call has tried all of them, it begins
// anew. For calls without a [Client] it is round_robin. Importing this package registers
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
	n := uint32(len(p.ready))
	at := p.next.Add(1) % n
	conn := p.ready[at]
	if t, ok := info.Ctx.Value(triedKey{}).(*tried); ok {
		conn = t.pick(p.ready, at)
	}
	return balancer.PickResult{SubConn: conn}, nil
}

// tried is the servers that a call has tried, until it had tried all.
type tried struct {
	mu    sync.Mutex // hedged copies pick at the same time
	conns []balancer.SubConn
}

type triedKey struct{}

// pick returns the first of ready, from at on, that the call has not tried.
func (t *tried) pick(ready []balancer.SubConn, at uint32) balancer.SubConn {
	t.mu.Lock()
	defer t.mu.Unlock()
	conn := ready[at]
	fresh := func(c balancer.SubConn) bool { return !slices.Contains(t.conns, c) }
	if i := slices.IndexFunc(ready[at:], fresh); i >= 0 {
		conn = ready[int(at)+i]
	} else if i := slices.IndexFunc(ready[:at], fresh); i >= 0 {
		conn = ready[i]
	} else {
		t.conns = t.conns[:0]
	}
	t.conns = append(t.conns, conn)
	return conn
}
