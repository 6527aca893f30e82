package retrygrpc_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrygrpc"
)

// full is a compressor that cannot compress.
type full struct{}

func (full) Compress(io.Writer) (io.WriteCloser, error) { return nil, errors.New("full") }
func (full) Decompress(r io.Reader) (io.Reader, error)  { return r, nil }
func (full) Name() string                               { return "full" }

func init() { encoding.RegisterCompressor(full{}) }

// A request that cannot be encoded never reaches a server, and fails at once.
func TestUnencodedRequestIsTriedOnce(t *testing.T) {
	notUTF8, good := wrapperspb.String("\xff"), wrapperspb.String("hello")
	for _, tt := range []struct {
		name, method, text string
		request            any
		opts               []grpc.CallOption
	}{
		{"not UTF-8", get, "grpc: error while marshaling:", notUTF8, nil},
		{"not UTF-8, on a method that may not run twice", pay, "grpc: error while marshaling:", notUTF8, nil},
		{"no message of protobuf", get, "grpc: error while marshaling:", "hello", nil},
		{"a codec that fails", get, "grpc: error while marshaling:", make(chan int), []grpc.CallOption{grpc.CallContentSubtype("plainjson")}},
		{"a compressor that fails", get, "grpc: error while compressing:", good, []grpc.CallOption{grpc.UseCompressor("full")}},
	} {
		r := new(told)
		p := four()
		p.Hooks = r.hooks()
		s := serve(t, failing(0, nil))
		cc := dial(t, s.addr, &retrygrpc.Client{Policy: p})
		err := cc.Invoke(within(t), tt.method, tt.request, new(wrapperspb.StringValue), tt.opts...)
		if st, _ := status.FromError(err); st.Code() != codes.Internal || !strings.Contains(st.Message(), tt.text) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if all := r.summaries(); len(all) != 1 || all[0].Attempts != 1 || all[0].Reason != retry.ReasonPermanent {
			t.Errorf("%s: %+v, want one run of one attempt", tt.name, all)
		}
	}
}

// So it is with the first message of a stream.
func TestUnencodedMessageOfAStreamIsTriedOnce(t *testing.T) {
	var r told
	p := four()
	p.Hooks = r.hooks()
	cc := dial(t, serve(t, failing(0, nil)).addr, &retrygrpc.Client{Policy: p})
	stream, err := cc.NewStream(within(t), &grpc.StreamDesc{ServerStreams: true}, list)
	if err == nil {
		if err = stream.SendMsg(wrapperspb.String("\xff")); err == nil || err == io.EOF {
			err = stream.RecvMsg(new(wrapperspb.StringValue))
		}
	}
	if status.Code(err) != codes.Internal {
		t.Error(err)
	}
	if all := r.summaries(); len(all) != 1 || all[0].Attempts != 1 || all[0].Reason != retry.ReasonPermanent {
		t.Errorf("%+v, want one run of one attempt", all)
	}
}

// A server that cannot encode its answer has run the call.
func TestUnencodedAnswerIsAnAnswer(t *testing.T) {
	s := serve(t, failing(9, status.Error(codes.Internal, "grpc: error while marshaling: string field contains invalid UTF-8")))
	cc := dial(t, s.addr, &retrygrpc.Client{Policy: four()})
	if _, err := call(within(t), cc, get); status.Code(err) != codes.Internal || s.calls() != 1 {
		t.Errorf("%v after %d calls, want one", err, s.calls())
	}
}

// tokens fails as often as it says.
type tokens struct{ failures int }

func (t *tokens) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if t.failures--; t.failures >= 0 {
		return nil, errors.New("token endpoint: 503")
	}
	return map[string]string{"authorization": "x"}, nil
}

func (*tokens) RequireTransportSecurity() bool { return false }

// A call without its token was not made: it is repeated, whatever its method.
func TestCallWithoutATokenIsRepeated(t *testing.T) {
	for name, with := range map[string]func(credentials.PerRPCCredentials) ([]grpc.DialOption, []grpc.CallOption){
		"of the connection": func(c credentials.PerRPCCredentials) ([]grpc.DialOption, []grpc.CallOption) {
			return []grpc.DialOption{grpc.WithPerRPCCredentials(c)}, nil
		},
		"of the call": func(c credentials.PerRPCCredentials) ([]grpc.DialOption, []grpc.CallOption) {
			return nil, []grpc.CallOption{grpc.PerRPCCredentials(c)}
		},
	} {
		s := serve(t, failing(0, nil))
		dialing, calling := with(&tokens{failures: 2})
		cc := dial(t, s.addr, &retrygrpc.Client{Policy: four()}, dialing...)
		if err := cc.Invoke(within(t), pay, wrapperspb.String("x"), new(wrapperspb.StringValue), calling...); err != nil || s.calls() != 1 {
			t.Errorf("%s: %v after %d calls, want one that succeeds", name, err, s.calls())
		}
	}
	for _, code := range []codes.Code{codes.Unauthenticated, codes.Internal} { // a server's, which may have done some of the work
		s := serve(t, failing(9, status.Error(code, "transport: per-RPC creds failed due to error: x")))
		cc := dial(t, s.addr, &retrygrpc.Client{Policy: four()})
		if err := cc.Invoke(within(t), pay, wrapperspb.String("x"), new(wrapperspb.StringValue)); status.Code(err) != code || s.calls() != 1 {
			t.Errorf("from a server: %v after %d calls, want one", err, s.calls())
		}
	}
}
