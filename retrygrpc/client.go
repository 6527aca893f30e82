package retrygrpc

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
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
	// and the opening of other streams. Classify goes before the rules of this package,
	// but not before a server that refuses a retry by pushback. NonIdempotent is ignored:
	// the method decides that.
	Policy retry.Policy

	// ForMethod returns the policy for a method, "/pkg.Service/Method". It gets Policy,
	// with NonIdempotent unset. If NonIdempotent is set in the result, the method is not
	// idempotent. Nil means Policy for all methods.
	ForMethod func(method string, p retry.Policy) retry.Policy

	// Idempotent reports whether a method may run twice. If it is nil or returns false,
	// the option idempotency_level of the method's proto file decides, if that is linked
	// into the program.
	Idempotent func(method string) bool

	// Budget returns the budget that limits the retries to a target, which is
	// grpc.ClientConn.Target. Nil, or nil from it, means the policy's. It must return the
	// same budget for the same target.
	Budget func(target string) retry.Budget
}

// DialOptions returns the options for [grpc.NewClient]. Pass them where retries belong
// in the chain of interceptors: interceptors before them run once per call, those
// after them once per attempt. The options include [grpc.WithDisableRetry], because
// the retries of a service config would multiply with these.
func (c *Client) DialOptions() []grpc.DialOption {
	if c == nil {
		c = &Client{}
	}
	return []grpc.DialOption{
		grpc.WithDisableRetry(),
		grpc.WithChainUnaryInterceptor(c.unary),
		grpc.WithChainStreamInterceptor(c.stream),
	}
}

// WithPolicy makes a call with p, including its Hooks, instead of Client.Policy,
// ForMethod and Budget. If p.NonIdempotent is set, the method must not run twice.
// Otherwise that is decided as without this option. If there are several, the last one
// counts.
func WithPolicy(p retry.Policy) grpc.CallOption { return policyOption{policy: &p} }

// Idempotent says whether one call may run twice, whatever its method. If there are
// several, the last one counts.
func Idempotent(yes bool) grpc.CallOption { return idempotentOption{yes: yes} }

type policyOption struct {
	grpc.EmptyCallOption
	policy *retry.Policy
}

type idempotentOption struct {
	grpc.EmptyCallOption
	yes bool
}

// unary is a [grpc.UnaryClientInterceptor].
func (c *Client) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	k := c.call(cc, method, opts)
	if system(k.ticks) {
		k.timeout = 0 // Do sets it as the context's deadline, which grpc tells the server
		k.until, _ = ctx.Deadline()
	} else {
		k.policy.AttemptTimeout = 0 // grpc cannot use a deadline of another clock
	}
	_, err := retry.Do(ctx, k.policy, func(ctx context.Context) (none struct{}, _ error) { // Run would make another func
		a := k.begin(ctx)
		defer a.close()
		into := reply
		if retry.AttemptNumber(ctx) > 1 {
			into = another(reply)
		}
		if err := invoke(a.ctx, method, req, into, cc, a.opts...); err != nil {
			return none, a.end(err)
		}
		if into != reply {
			reflect.ValueOf(reply).Elem().Set(reflect.ValueOf(into).Elem())
		}
		return none, nil
	})
	return k.result(ctx, err)
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

// call is what the attempts of one call share.
type call struct {
	cc      *grpc.ClientConn
	opts    []grpc.CallOption
	policy  retry.Policy     // of the run
	ask     retry.Classifier // the user's Policy.Classify
	ticks   clockx.Clock     // the user's Policy.Clock
	timeout time.Duration    // of an attempt, unless the run sets it
	until   time.Time        // the caller's deadline, if the run sets the timeout
	class   retry.Class      // of the latest attempt's error
	answer  error            // the server's, which the run takes for a success
	first   attempt          // with the rest, most calls are one allocation
}

// call gathers the facts about a call before its first attempt.
func (c *Client) call(cc *grpc.ClientConn, method string, opts []grpc.CallOption) *call {
	var own *retry.Policy
	var said *bool
	for _, opt := range opts {
		switch opt := opt.(type) {
		case policyOption:
			own = opt.policy
		case idempotentOption:
			said = &opt.yes
		}
	}
	k := &call{cc: cc, opts: opts}
	p := &k.policy
	if own != nil {
		*p = *own
	} else {
		*p = c.Policy
		p.NonIdempotent = false
		if c.ForMethod != nil {
			*p = c.ForMethod(method, *p)
		}
		if c.Budget != nil {
			if b := c.Budget(cc.Target()); b != nil {
				p.Budget = b
			}
		}
	}
	if p.Name == "" {
		p.Name = strings.TrimPrefix(method, "/")
	}
	switch {
	case p.NonIdempotent:
	case said != nil:
		p.NonIdempotent = !*said
	default:
		p.NonIdempotent = !(c.Idempotent != nil && c.Idempotent(method)) && !declaredIdempotent(method)
	}
	k.ask, p.Classify = p.Classify, k.latest
	k.ticks, p.Clock = p.Clock, (*waiting)(k)
	k.timeout = p.AttemptTimeout
	return k
}

// latest is the run's Policy.Classify: the error has been judged already.
func (k *call) latest(error) retry.Class { return k.class }

// result returns what the caller gets for the run's error.
func (k *call) result(ctx context.Context, err error) error {
	e, ok := errors.AsType[*retry.Error](err)
	if !ok {
		return k.answer // nil after a success
	}
	last := e.Last()
	st, _ := status.FromError(last)
	switch {
	case e.Reason == retry.ReasonCanceled:
		st = status.FromContextError(context.Canceled)
	case e.Reason == retry.ReasonDeadline && ctx.Err() != nil:
		st = status.FromContextError(context.DeadlineExceeded)
	case e.Reason == retry.ReasonPermanent, e.Reason == retry.ReasonRefused:
		if f, ok := last.(*failure); ok {
			last = f.error
		} else if _, ok := statusOf(last); !ok { // otherwise it is marked
			break
		}
		if e.Reason == retry.ReasonRefused {
			return &refusal{retry.Refuse(last), st}
		}
		return last
	}
	return &gaveUp{e, st}
}

// gaveUp is a *[retry.Error] with a status.
type gaveUp struct {
	err    *retry.Error
	status *status.Status
}

func (g *gaveUp) Error() string              { return g.err.Error() }
func (g *gaveUp) Unwrap() error              { return g.err }
func (g *gaveUp) GRPCStatus() *status.Status { return g.status }

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
