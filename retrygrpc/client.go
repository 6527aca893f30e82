package retrygrpc

import (
	"context"
	"reflect"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/goretry/retry"
	"github.com/goretry/retry/hedge"
)

// Client is what the calls of one [grpc.ClientConn] share. The zero value retries with
// the zero [retry.Policy], and so does a nil pointer. Set the fields before the first
// use. A Client is safe for concurrent use, and its funcs must be, too.
//
// The package documentation says which calls are retried, and what the caller
// sees.
type Client struct {
	// Policy decides. A run is named after the method, "pkg.Service/Method", unless Name
	// is set. AttemptTimeout, on Policy.Clock, covers all of a unary call; a server
	// stream up to its first message, or up to its header if the caller waits for that;
	// and the opening of other streams. Classify goes before the rules of this package.
	// With NonIdempotent no method may run twice, whatever else says that it may.
	Policy retry.Policy

	// ForMethod returns the policy for a method, "/pkg.Service/Method". It gets Policy.
	// Nil means Policy for all methods.
	ForMethod func(method string, p retry.Policy) retry.Policy

	// Idempotent reports whether a method may run twice. If it is nil or returns false,
	// the option idempotency_level of the method's proto file decides, if that is linked
	// into the program.
	Idempotent func(method string) bool

	// Budget returns the budget that limits the retries to a target, which is
	// grpc.ClientConn.Target. Nil, or nil or a nil pointer from it, means the policy's. It
	// must return the same budget for the same target, as a [retry.PerKey] does:
	//
	//	var targets retry.PerKey[retry.EarnedBudget] // in a package variable
	//
	//	Budget: func(target string) retry.Budget { return targets.For(target) },
	//
	// For methods with pools of their own set Policy.Budget in ForMethod, with the For of
	// another one.
	Budget func(target string) retry.Budget

	// Guards returns guards for the calls to a target, which is grpc.ClientConn.Target, such as
	// the limit of a backend. They go before Policy.Guards. It must return the same guards for
	// the same target, so keep the slices too, since it is called for each call, maybe
	// concurrently. Nil, or none from it, means Policy.Guards. Which peer a balancer picks is
	// not known before: guards for one peer need a connection for that peer alone.
	//
	// An attempt with a stream that goes on is held by its guards until the stream ends: see
	// [grpc.OnFinish]. So a place of a limit is taken for as long as the server is at work.
	Guards func(target string) []retry.Guard

	// Hedge returns the [hedge.Hedge] for a method, or nil for none: a unary call that takes
	// too long gets a second copy, and the first reply or answer counts. Return it only for
	// methods that read: a copy that lost may still have an effect. A method that must not
	// run twice gets none. Use one Hedge for all calls of a method to a dependency. Policy's
	// AttemptTimeout covers all copies. They go to different peers with [Balancer].
	// Each copy enters the guards, and is not sent if one has it wait. Nil means no hedges. As [hedge.Race], a call with
	// hedges panics if Policy.Clock is a *clockx.Virtual.
	Hedge func(method string) *hedge.Hedge
}

// DialOptions returns the options for [grpc.NewClient]. Pass them where retries belong
// in the chain of interceptors: interceptors before them run once per call, those
// after them once per attempt. The options include [grpc.WithDisableRetry], because
// the retries of a service config would multiply with these.
//
// They also include [grpc.WithKeepaliveParams] with a Time of five minutes, which no server
// objects to, and a Timeout of half of Policy.AttemptTimeout, but at least half a second, and
// 20 seconds without AttemptTimeout. On Linux grpc then ends a connection whose peer's system
// has acknowledged nothing for a Timeout, so that the next attempt makes another one. A slow
// server is not affected. For other parameters pass WithKeepaliveParams after these options:
// the last one counts.
func (c *Client) DialOptions() []grpc.DialOption {
	if c == nil {
		c = &Client{}
	}
	return []grpc.DialOption{
		grpc.WithDisableRetry(),
		grpc.WithKeepaliveParams(c.keepalive()),
		grpc.WithChainUnaryInterceptor(c.unary),
		grpc.WithChainStreamInterceptor(c.stream),
	}
}

// keepalive returns parameters for the sake of the Timeout, which grpc makes TCP_USER_TIMEOUT:
// an attempt on a connection that has died ends early enough for the next one. It leaves time
// for a lost packet to be sent again, which takes Linux 200 ms.
func (c *Client) keepalive() keepalive.ClientParameters {
	p := keepalive.ClientParameters{Time: 5 * time.Minute, Timeout: 20 * time.Second}
	if t := c.Policy.AttemptTimeout; t > 0 {
		p.Timeout = max(t/2, 500*time.Millisecond)
	}
	return p
}

// WithPolicy makes a call with the policy that edit returns. edit gets the policy that
// the call would use otherwise: the Client's for the method, with its Name, Budget and
// Guards. Use it for a call that must not be retried, or may take longer. Several edits
// apply in the order of the options. A nil edit changes nothing.
func WithPolicy(edit func(retry.Policy) retry.Policy) grpc.CallOption {
	return policyOption{edit: edit}
}

// Idempotent says whether one call may run twice, whatever its method. If there are
// several, the last one counts. Policy.NonIdempotent overrides Idempotent(true).
func Idempotent(yes bool) grpc.CallOption { return idempotentOption{yes: yes} }

type policyOption struct {
	grpc.EmptyCallOption
	edit func(retry.Policy) retry.Policy
}

type idempotentOption struct {
	grpc.EmptyCallOption
	yes bool
}

// unary is a [grpc.UnaryClientInterceptor].
func (c *Client) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	k := c.call(ctx, method, cc, opts)
	defer k.finishFailed()
	defer k.close()
	if !system(k.clock) {
		k.limitAttempts() // else the run sets the context's deadline, which grpc tells the server
	}
	for k.run.Next() {
		a, into := k.begin(), reply
		if k.hedged != nil && blank(reply) != nil {
			r := &race{attempt: a, method: method, req: req, reply: reply, invoke: invoke}
			k.settle(r.run(k.hedged.policy, k.hedged.hedge))
			continue
		}
		if k.run.Number() > 1 {
			into = another(reply)
		}
		err := invoke(a.ctx, method, req, into, cc, a.opts...)
		if err == nil && into != reply {
			reflect.ValueOf(reply).Elem().Set(reflect.ValueOf(into).Elem())
		}
		k.settle(a.end(err))
	}
	err := k.result()
	k.finishing.with(err)
	return err
}

// another returns the value into which a further attempt decodes its reply. A failed
// attempt may have received a message, and codecs other than protobuf's may keep
// fields that a second message does not have.
func another(reply any) any {
	v := reflect.ValueOf(reply)
	if _, ok := reply.(proto.Message); ok || v.Kind() != reflect.Pointer || v.IsNil() {
		return reply
	}
	return reflect.New(v.Type().Elem()).Interface()
}

// declaredIdempotent reports whether the method's proto file, if it is linked, has an
// idempotency_level that allows a second run. Nothing is cached, since a proxy may see
// any number of methods.
func declaredIdempotent(method string) bool {
	service, name, ok := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	if !ok {
		return false
	}
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		return false
	}
	s, ok := d.(protoreflect.ServiceDescriptor)
	if !ok {
		return false
	}
	m := s.Methods().ByName(protoreflect.Name(name))
	if m == nil {
		return false
	}
	o, _ := m.Options().(*descriptorpb.MethodOptions)
	return o.GetIdempotencyLevel() != descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN
}
