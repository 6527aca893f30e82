package combine

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/retrygrpc"
)

// reply is what a gRPC server does with a call.
type reply struct {
	code     codes.Code
	pushback string
	late     bool // after a first message of a stream
	final    bool
	undone   bool
}

var replies = []reply{
	{}, {}, {}, {}, {}, {},
	{code: codes.Unavailable}, {code: codes.Unavailable}, {code: codes.Unavailable, late: true},
	{code: codes.ResourceExhausted},
	{code: codes.Aborted},
	{code: codes.Internal},
	{code: codes.InvalidArgument, final: true},
	{code: codes.InvalidArgument, pushback: "-1", final: true},
	{code: codes.Unavailable, pushback: "-1", final: true},
	{code: codes.Unavailable, pushback: "30", undone: true},
	{code: codes.ResourceExhausted, pushback: "0", undone: true},
	{code: codes.Unavailable, pushback: "3600000", final: true},
}

// connect starts a server and returns a connection to it.
func (c *caller) connect() (cc *grpc.ClientConn, stop func()) {
	l := bufconn.Listen(1 << 12)
	g := grpc.NewServer(append(retrygrpc.ServerOptions(), grpc.UnknownServiceHandler(c.serve))...)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = g.Serve(l)
	}()
	idempotent := c.draw(c.name+" idempotent", 2) == 0
	if !idempotent {
		c.policy.NonIdempotent = true
	}
	client := &retrygrpc.Client{Policy: c.policy, Idempotent: func(string) bool { return idempotent }}
	opts := append(client.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			c.at("op")
			return invoke(ctx, method, req, reply, cc, opts...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			c.at("op")
			return open(ctx, desc, cc, method, opts...)
		}))
	if c.way.hedged {
		client.Hedge = func(string) *hedge.Hedge { return c.hedge }
	}
	cc, err := grpc.NewClient("passthrough:///server", opts...)
	if err != nil {
		panic(err)
	}
	return cc, func() {
		cc.Close()
		g.Stop()
		<-served
	}
}

// serve handles calls of every method.
func (c *caller) serve(_ any, s grpc.ServerStream) error {
	c.enter(s.Context())
	o := outcome{err: errDown}
	defer func() { c.leave(o) }()
	method, _ := grpc.MethodFromServerStream(s)
	if method != "/t.S/Both" {
		if err := s.RecvMsg(new(emptypb.Empty)); err != nil {
			return err
		}
	}
	c.pass(s.Context())
	r := one(c.world, c.name+" reply", replies...)
	if r.pushback != "" {
		s.SetTrailer(metadata.Pairs("grpc-retry-pushback-ms", r.pushback))
	}
	if r.code == codes.OK || r.late && method != "/t.S/One" {
		o = outcome{final: true}
		if err := s.SendMsg(new(emptypb.Empty)); err != nil {
			return err
		}
	}
	if r.code == codes.OK {
		return nil
	}
	o = outcome{err: status.Error(r.code, "refused"), final: r.final || o.final, undone: r.undone}
	return o.err
}

func init() {
	for _, v := range []struct {
		name, method string
		desc         grpc.StreamDesc
	}{
		{"retrygrpc server stream", "/t.S/List", grpc.StreamDesc{ServerStreams: true}},
		{"retrygrpc stream", "/t.S/Both", grpc.StreamDesc{ServerStreams: true, ClientStreams: true}},
	} {
		ways = append(ways, way{name: v.name, own: true, quiet: true, grpc: true, call: func(c *caller) error {
			cc, stop := c.connect()
			defer stop()
			ctx, cancel := context.WithCancel(c.ctx)
			defer cancel() // as the documentation of ClientConn.NewStream asks for
			s, err := cc.NewStream(ctx, &v.desc, v.method)
			if err != nil {
				return err
			}
			if err := s.SendMsg(new(emptypb.Empty)); err != nil && err != io.EOF {
				return err
			}
			switch c.draw(c.name+" stream", 6) {
			case 0:
				return nil
			case 1:
				_, _ = s.Header()
			case 2:
				_ = s.Context()
			case 3:
				time.Sleep(c.odd(c.name+" late", 50*time.Millisecond))
			}
			_ = s.CloseSend()
			for err == nil {
				err = s.RecvMsg(new(emptypb.Empty))
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}})
	}
	unary := func(c *caller) error {
		cc, stop := c.connect()
		defer stop()
		return cc.Invoke(c.ctx, "/t.S/One", new(emptypb.Empty), new(emptypb.Empty))
	}
	ways = append(ways,
		way{name: "retrygrpc unary", own: true, grpc: true, call: unary},
		way{name: "hedged retrygrpc unary", own: true, grpc: true, hedged: true, sites: []string{"hedged"}, call: unary})
}
