package combine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrygrpc"
	"github.com/goretry/retry/retryhttp"
)

// proof says over which protocols an end proves that the service has done nothing, or has
// it ask for another call of any method.
type proof struct{ http, grpc bool }

// end is what the last service of a chain does with every call.
type end struct {
	name   string
	again  bool // a caller may call again
	proof  proof
	absent bool // nobody listens
	http   func(w http.ResponseWriter)
	grpc   func(ctx context.Context) error
}

func withWait(c codes.Code, d time.Duration) error {
	st, err := status.New(c, "busy").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(d)})
	if err != nil {
		panic(err)
	}
	return st.Err()
}

func plainHTTP(code int, headers ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		http.Error(w, "no", code)
	}
}

func plainGRPC(err error) func(context.Context) error {
	return func(context.Context) error { return err }
}

func relayed(err error) end {
	return end{
		http: func(w http.ResponseWriter) { http.Error(w, "no", retryhttp.Relay(w.Header(), err)) },
		grpc: func(ctx context.Context) error { return retrygrpc.Status(ctx, err, "no") },
	}
}

func (e end) named(name string) end {
	e.name = name
	return e
}

var errNo = errors.New("no")

var ends = []end{
	{name: "down", again: true, http: plainHTTP(503), grpc: plainGRPC(status.Error(codes.Unavailable, "down"))},
	{name: "absent", again: true, proof: proof{true, true}, absent: true},
	{name: "busy", again: true, http: plainHTTP(429), grpc: plainGRPC(status.Error(codes.ResourceExhausted, "busy"))},
	{name: "busy for a second", again: true, proof: proof{true, true}, http: plainHTTP(429, "Retry-After", "1"), grpc: plainGRPC(withWait(codes.ResourceExhausted, time.Second))},
	{name: "down for a second", again: true, proof: proof{grpc: true}, http: plainHTTP(503, "Retry-After", "1"), grpc: plainGRPC(withWait(codes.Unavailable, time.Second))},
	{name: "busy for ten minutes", http: plainHTTP(429, "Retry-After", "600"), grpc: plainGRPC(withWait(codes.ResourceExhausted, 10*time.Minute))},
	{name: "down for ten minutes", http: plainHTTP(503, "Retry-After", "600"), grpc: plainGRPC(withWait(codes.Unavailable, 10*time.Minute))},
	{name: "refuses", http: plainHTTP(503, "X-Should-Retry", "false"), grpc: func(ctx context.Context) error {
		_ = grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", "-1"))
		return status.Error(codes.Unavailable, "no")
	}},
	{name: "does not know it", http: plainHTTP(404), grpc: plainGRPC(status.Error(codes.NotFound, "no"))},
	{name: "does not accept it", http: plainHTTP(400), grpc: plainGRPC(status.Error(codes.InvalidArgument, "no"))},
	relayed(retry.Stop(errNo)).named("stops"),
	relayed(retry.Refuse(errNo)).named("refuses by a mark"),
	relayed(fmt.Errorf("orders: %w", retry.Stop(errNo))).named("stops by a wrapped mark"),
}

// link is a service, and how it is called.
type link struct {
	grpc   bool
	relays bool // the service tells its caller whether to call again; not if it is the last
}

// calls is the model: how many calls the last service gets of one of the edge's, if each
// layer makes at most n attempts. A layer repeats what may be repeated. If it does, and
// nothing came of it, its caller does not, provided that it knows. With once no call may
// be repeated without a proof.
func calls(chain []link, n int, e end, once bool) int {
	last := chain[len(chain)-1]
	again := e.again && (!once || last.grpc && e.proof.grpc || !last.grpc && e.proof.http)
	all := 1
	for i := range slices.Backward(chain) {
		if i < len(chain)-1 && !chain[i].relays {
			again = !once // what the service answers looks like an outage of its own
		}
		if again {
			all *= n
		}
		again = again && n == 1
	}
	return all
}

// Chains of services over HTTP and gRPC in every order, some of which do not relay. The
// last one fails in every way.
func TestChains(t *testing.T) {
	for length := 1; length <= 4; length++ {
		for bits := range 1 << (2*length - 1) { // protocols, and who relays
			chain := make([]link, length)
			relays := 0
			for i := range chain {
				chain[i].grpc = bits>>i&1 == 1
				if chain[i].relays = i < length-1 && bits>>(length+i)&1 == 1; chain[i].relays {
					relays++
				}
			}
			if length > 2 && relays < length-1 && (relays > 0 || length > 3) && os.Getenv("RETRY_LONG") == "" {
				continue
			}
			t.Run(nameOf(chain), func(t *testing.T) {
				for _, e := range ends {
					for variant := range 4 {
						n := &network{end: e, chain: chain, once: variant&1 > 0, wraps: variant&2 > 0}
						if !n.wraps || relays > 0 {
							synctest.Test(t, n.test)
						}
					}
				}
			})
		}
	}
}

func nameOf(chain []link) string {
	var names []string
	for _, l := range chain {
		name := "HTTP"
		if l.grpc {
			name = "gRPC"
		}
		if l.relays {
			name += " relays"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// network is the services of a chain, with an edge in front of them that calls the first.
type network struct {
	end    end
	chain  []link
	policy retry.Policy
	once   bool // the methods must not run twice
	wraps  bool // a service returns its error within another one, and leaves the rest to ServerOptions
	calls  atomic.Int64
	stops  []func()
}

// test makes one call of the edge.
func (n *network) test(t *testing.T) {
	n.policy = retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(10 * time.Millisecond)}
	defer n.stop()
	err := n.start()(t.Context())
	if err == nil {
		t.Errorf("%s: no error", n.end.name)
	}
	if got, want := int(n.calls.Load()), calls(n.chain, n.policy.MaxAttempts, n.end, n.once); got != want {
		t.Errorf("%s, once %v, wrapped %v: %d calls reach the last one, want %d; %v", n.end.name, n.once, n.wraps, got, want, err)
	}
}

// client makes a call, with retries.
type client func(ctx context.Context) error

// start starts the services from the last to the first, and returns the edge's client.
func (n *network) start() client {
	var next client
	for i := range slices.Backward(n.chain) {
		l := bufconn.Listen(1 << 14)
		if i == len(n.chain)-1 && n.end.absent {
			l.Close()
		} else if n.chain[i].grpc {
			n.serveGRPC(l, n.chain[i], next)
		} else {
			n.serveHTTP(l, n.chain[i], next)
		}
		if n.chain[i].grpc {
			next = n.clientGRPC(l, i)
		} else {
			next = n.clientHTTP(l, i)
		}
	}
	return next
}

func (n *network) stop() {
	for _, stop := range slices.Backward(n.stops) {
		stop()
	}
}

// serveHTTP starts a service that calls the next one, or is the last if that is nil.
func (n *network) serveHTTP(l *bufconn.Listener, self link, next client) {
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if next == nil {
			n.end.http(w)
			return
		}
		err := next(req.Context())
		code := http.StatusServiceUnavailable
		if self.relays {
			if n.wraps {
				err = fmt.Errorf("orders: %w", err)
			}
			code = retryhttp.Relay(w.Header(), err)
		}
		http.Error(w, "no", code)
	})}
	n.serve(func() { _ = s.Serve(l) }, func() { s.Close() })
}

func (n *network) serveGRPC(l *bufconn.Listener, self link, next client) {
	var opts []grpc.ServerOption
	if self.relays && n.wraps {
		opts = retrygrpc.ServerOptions()
	}
	g := grpc.NewServer(opts...)
	g.RegisterService(&grpc.ServiceDesc{ServiceName: "t.S", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "One",
		Handler: func(_ any, ctx context.Context, decode func(any) error, between grpc.UnaryServerInterceptor) (any, error) {
			in := new(emptypb.Empty)
			if err := decode(in); err != nil {
				return nil, err
			}
			handle := func(ctx context.Context, _ any) (any, error) {
				if next == nil {
					return nil, n.end.grpc(ctx)
				}
				switch err := next(ctx); {
				case !self.relays:
					return nil, status.Error(codes.Unavailable, "down")
				case n.wraps:
					return nil, fmt.Errorf("orders: %w", err)
				default:
					return nil, retrygrpc.Status(ctx, err, "orders are down")
				}
			}
			if between == nil {
				return handle(ctx, in)
			}
			return between(ctx, in, &grpc.UnaryServerInfo{FullMethod: "/t.S/One"}, handle)
		}}}}, struct{}{})
	n.serve(func() { _ = g.Serve(l) }, g.Stop)
}

func (n *network) serve(serve, stop func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		serve()
	}()
	n.stops = append(n.stops, func() { stop(); <-done })
}

// clientHTTP returns the client of the service at l, which is number i.
func (n *network) clientHTTP(l *bufconn.Listener, i int) client {
	base := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return l.DialContext(ctx) }}
	n.stops = append(n.stops, base.CloseIdleConnections)
	c := &http.Client{Transport: &retryhttp.Transport{Policy: n.policy, Base: tripper(func(req *http.Request) (*http.Response, error) {
		if i == len(n.chain)-1 {
			n.calls.Add(1)
		}
		return base.RoundTrip(req)
	})}}
	return func(ctx context.Context) error {
		method := http.MethodGet
		if n.once {
			method = http.MethodPost
		}
		req, _ := http.NewRequestWithContext(ctx, method, "http://next/", nil)
		_, err := retryhttp.JSON[string](ctx, n.policy, c, req)
		return err
	}
}

func (n *network) clientGRPC(l *bufconn.Listener, i int) client {
	c := &retrygrpc.Client{Policy: n.policy, Idempotent: func(string) bool { return !n.once }}
	cc, err := grpc.NewClient("passthrough:///next", append(c.DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if i == len(n.chain)-1 {
				n.calls.Add(1)
			}
			return invoke(ctx, method, req, reply, cc, opts...)
		}))...)
	if err != nil {
		panic(err)
	}
	n.stops = append(n.stops, func() { cc.Close() })
	return func(ctx context.Context) error {
		return cc.Invoke(ctx, "/t.S/One", new(emptypb.Empty), new(emptypb.Empty))
	}
}
