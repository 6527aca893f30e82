package retrygrpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrygrpc"
)

// The service of these tests. Its proto file is made here and linked in, so that it
// has methods of each idempotency_level.
const (
	get   = "/retrygrpc.test.Test/Get"  // NO_SIDE_EFFECTS
	put   = "/retrygrpc.test.Test/Put"  // IDEMPOTENT
	pay   = "/retrygrpc.test.Test/Pay"  // says nothing
	list  = "/retrygrpc.test.Test/List" // a server stream, NO_SIDE_EFFECTS
	send  = "/retrygrpc.test.Test/Send" // a server stream, says nothing
	chat  = "/retrygrpc.test.Test/Chat" // both stream
	plain = "/retrygrpc.unlinked.Test/Get"
)

func init() {
	level := func(l descriptorpb.MethodOptions_IdempotencyLevel) *descriptorpb.MethodOptions {
		return &descriptorpb.MethodOptions{IdempotencyLevel: &l}
	}
	method := func(name string, server, client bool, o *descriptorpb.MethodOptions) *descriptorpb.MethodDescriptorProto {
		return &descriptorpb.MethodDescriptorProto{
			Name: &name, InputType: proto.String(".google.protobuf.StringValue"), OutputType: proto.String(".google.protobuf.StringValue"),
			ServerStreaming: &server, ClientStreaming: &client, Options: o,
		}
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name:       proto.String("retrygrpc/test.proto"),
		Package:    proto.String("retrygrpc.test"),
		Dependency: []string{"google/protobuf/wrappers.proto"},
		Syntax:     proto.String("proto3"),
		Service: []*descriptorpb.ServiceDescriptorProto{{
			Name: proto.String("Test"),
			Method: []*descriptorpb.MethodDescriptorProto{
				method("Get", false, false, level(descriptorpb.MethodOptions_NO_SIDE_EFFECTS)),
				method("Put", false, false, level(descriptorpb.MethodOptions_IDEMPOTENT)),
				method("Pay", false, false, nil),
				method("List", true, false, level(descriptorpb.MethodOptions_NO_SIDE_EFFECTS)),
				method("Send", true, false, nil),
				method("Chat", true, true, level(descriptorpb.MethodOptions_IDEMPOTENT)),
			},
		}},
	}, protoregistry.GlobalFiles)
	if err != nil {
		panic(err)
	}
	if err := protoregistry.GlobalFiles.RegisterFile(file); err != nil {
		panic(err)
	}
}

// handler answers the nth call that a server sees, from 1 on. It is given the stream
// and what the client sent first.
type handler func(n int, s grpc.ServerStream, in string) error

// server is a real one on loopback, for any method.
type server struct {
	addr string
	stop func()
	mu   sync.Mutex
	seen []metadata.MD // of each call
}

func (s *server) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.seen)
}

func (s *server) metadata() []metadata.MD {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

func serve(t testing.TB, h handler, opts ...grpc.ServerOption) *server {
	t.Helper()
	l := listen(t)
	s := &server{addr: l.Addr().String()}
	opts = append(opts, grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		md, _ := metadata.FromIncomingContext(stream.Context())
		s.mu.Lock()
		s.seen = append(s.seen, md)
		n := len(s.seen)
		s.mu.Unlock()
		in := new(wrapperspb.StringValue)
		if err := stream.RecvMsg(in); err != nil && err != io.EOF {
			return err
		}
		return h(n, stream, in.GetValue())
	}))
	g := grpc.NewServer(opts...)
	s.stop = g.Stop
	go g.Serve(l)
	t.Cleanup(g.Stop)
	return s
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func dial(t testing.TB, addr string, c *retrygrpc.Client, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	opts = append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if c != nil {
		opts = append(opts, c.DialOptions()...)
	}
	cc, err := grpc.NewClient("passthrough:///"+addr, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return cc
}

// ready waits until cc is connected.
func ready(t testing.TB, cc *grpc.ClientConn) *grpc.ClientConn {
	t.Helper()
	cc.Connect()
	for state := cc.GetState(); state != connectivity.Ready; state = cc.GetState() {
		if !cc.WaitForStateChange(within(t), state) {
			t.Fatalf("the connection is still %v", state)
		}
	}
	return cc
}

// four is a policy of four attempts that does not wait.
func four() retry.Policy { return retry.Policy{MaxAttempts: 4, Backoff: retry.Constant(0)} }

// with is an edit that leaves nothing of the Client's policy.
func with(p retry.Policy) func(retry.Policy) retry.Policy {
	return func(retry.Policy) retry.Policy { return p }
}

// within is a context that ends what hangs.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// call makes a unary call, whose reply is the server's text.
func call(ctx context.Context, cc *grpc.ClientConn, method string, opts ...grpc.CallOption) (string, error) {
	out := new(wrapperspb.StringValue)
	err := cc.Invoke(ctx, method, wrapperspb.String("hello"), out, opts...)
	return out.GetValue(), err
}

// open begins a server stream as generated code does.
func open(ctx context.Context, cc *grpc.ClientConn, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := cc.NewStream(ctx, &grpc.StreamDesc{StreamName: "List", ServerStreams: true}, method, opts...)
	if err != nil {
		return nil, err
	}
	if err := s.SendMsg(wrapperspb.String("hello")); err != nil {
		return nil, err
	}
	return s, s.CloseSend()
}

// recv receives one message.
func recv(s grpc.ClientStream) (string, error) {
	m := new(wrapperspb.StringValue)
	err := s.RecvMsg(m)
	return m.GetValue(), err
}

// all receives messages until the stream ends.
func all(s grpc.ClientStream) (got []string, err error) {
	for {
		m, err := recv(s)
		if err == io.EOF {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		got = append(got, m)
	}
}

// reply sends a message.
func reply(s grpc.ServerStream, text string) error { return s.SendMsg(wrapperspb.String(text)) }

// fail is a handler's status error.
func fail(c codes.Code) error { return status.Error(c, "no") }

// always is a handler that always ends so.
func always(err error) handler {
	return func(int, grpc.ServerStream, string) error { return err }
}

// failing is a handler that fails so many times, then replies with what it was sent.
func failing(times int, err error) handler {
	return func(n int, s grpc.ServerStream, in string) error {
		if n <= times {
			return err
		}
		return reply(s, in)
	}
}

// hinted is a status error with RetryInfo.
func hinted(c codes.Code, wait time.Duration) error {
	return informed(c, &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
}

// emptyInfo is a status whose RetryInfo asks for nothing.
func emptyInfo(c codes.Code) error { return informed(c, &errdetails.RetryInfo{}) }

func informed(c codes.Code, info *errdetails.RetryInfo) error {
	st, err := status.New(c, "no").WithDetails(info)
	if err != nil {
		panic(err)
	}
	return st.Err()
}

// pushing is a handler that fails with pushback.
func pushing(c codes.Code, values ...string) handler {
	return func(_ int, s grpc.ServerStream, _ string) error {
		s.SetTrailer(metadata.MD{"grpc-retry-pushback-ms": values})
		return fail(c)
	}
}

// told records what hooks are told.
type told struct {
	mu       sync.Mutex
	starts   int
	open     int
	attempts []retry.Attempt
	waits    []retry.Attempt
	done     []retry.Summary
}

func (r *told) hooks() retry.Hooks {
	return retry.Hooks{
		Start: func(ctx context.Context, _ retry.Policy) context.Context {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.starts++
			return ctx
		},
		Attempt: func(ctx context.Context, _ retry.Attempt) context.Context {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.open++
			return ctx
		},
		AttemptDone: func(_ context.Context, a retry.Attempt) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.open--
			r.attempts = append(r.attempts, a)
		},
		Wait: func(_ context.Context, a retry.Attempt) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.waits = append(r.waits, a)
		},
		Done: func(_ context.Context, s retry.Summary) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.done = append(r.done, s)
		},
	}
}

func (r *told) classes() (cs []retry.Class) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.attempts {
		cs = append(cs, a.Class)
	}
	return cs
}

func (r *told) summaries() []retry.Summary {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.done
}

// reason returns why the retries that err tells of ended; "bare" for an error that
// tells of none.
func reason(err error) string {
	if err == nil {
		return "success"
	}
	if e, ok := errors.AsType[*retry.Error](err); ok {
		return e.Reason.String()
	}
	return "bare"
}

// eventually waits for a condition, and fails after a minute.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not: %s", what)
		}
	}
}
