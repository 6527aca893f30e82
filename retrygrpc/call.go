package retrygrpc

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/hedge"
)

// call is one call and its run.
type call struct {
	cc        *grpc.ClientConn
	opts      []grpc.CallOption // the caller's, but for OnFinish
	finishing *finishing        // nil without OnFinish
	run       *retry.Attempts
	classify  retry.Classifier // the policy's
	clock     clockx.Clock     // the policy's; nil is the system's
	timeout   time.Duration    // the policy's AttemptTimeout
	guarded   bool             // the policy has guards
	untimed   bool             // the attempts have to keep it, not the run
	once      bool             // the method may run twice only if an attempt did nothing; the run knows the policy's NonIdempotent
	answer    error            // the server's, which the run takes for a success
	hedged    *hedged          // nil without hedges
	tried     tried            // for Balancer
	last      *attempt         // nil if it needs no end
	first     attempt          // with the rest, most calls are one allocation
}

// absent reports whether b is nil, or a nil pointer: what the For of a nil [retry.PerKey]
// returns.
func absent(b retry.Budget) bool {
	v := reflect.ValueOf(b)
	return b == nil || v.Kind() == reflect.Pointer && v.IsNil()
}

// call gathers the facts about a call before its first attempt. The call must be
// closed.
func (c *Client) call(ctx context.Context, method string, cc *grpc.ClientConn, opts []grpc.CallOption) *call {
	p := c.Policy
	if c.ForMethod != nil {
		p.Guards = slices.Clone(p.Guards) // else it would change those of all calls
		p = c.ForMethod(method, p)
	}
	if c.Budget != nil {
		if b := c.Budget(cc.Target()); !absent(b) {
			p.Budget = b
		}
	}
	if c.Guards != nil {
		if own := c.Guards(cc.Target()); len(own) > 0 {
			p.Guards = append(slices.Clip(own), p.Guards...)
		}
	}
	if p.Name == "" {
		p.Name = strings.TrimPrefix(method, "/")
	}
	k := &call{cc: cc}
	k.opts, k.finishing = finishOnce(opts)
	k.once = !(c.Idempotent != nil && c.Idempotent(method)) && !declaredIdempotent(method)
	for _, opt := range opts {
		switch opt := opt.(type) {
		case policyOption:
			if opt.edit != nil {
				p.Guards = slices.Clone(p.Guards)
				p = opt.edit(p)
			}
		case idempotentOption:
			k.once = !opt.yes
		}
	}
	if c.Hedge != nil && !k.once { // with NonIdempotent a Hedge starts nothing
		if h := c.Hedge(method); h != nil {
			k.hedged = &hedged{p, h}
		}
	}
	k.classify, k.clock, k.timeout, k.guarded = p.Classify, p.Clock, p.AttemptTimeout, len(p.Guards) > 0
	k.run = p.Attempts(context.WithValue(ctx, triedKey{}, &k.tried))
	return k
}

// finishing calls what the caller has set by [grpc.OnFinish]: once for a call, whatever its attempts,
// as grpc does with its own retries.
type finishing struct {
	once  sync.Once
	funcs []func(error)
}

// finishOnce returns opts without OnFinish, and nil if there is none.
func finishOnce(opts []grpc.CallOption) ([]grpc.CallOption, *finishing) {
	isFinish := func(opt grpc.CallOption) bool { _, ok := opt.(grpc.OnFinishCallOption); return ok }
	if !slices.ContainsFunc(opts, isFinish) {
		return opts, nil
	}
	f := new(finishing)
	for _, opt := range opts {
		if opt, ok := opt.(grpc.OnFinishCallOption); ok {
			f.funcs = append(f.funcs, opt.OnFinish)
		}
	}
	return slices.DeleteFunc(slices.Clone(opts), isFinish), f
}

// with says that the call, or its stream, is over with err.
func (f *finishing) with(err error) {
	if f != nil {
		f.once.Do(func() {
			for _, finish := range f.funcs {
				finish(err)
			}
		})
	}
}

// finishFailed says so if the run has not come to a reply or to a stream: after a panic too.
func (k *call) finishFailed() {
	if k.finishing != nil {
		if err := k.result(); err != nil {
			k.finishing.with(err)
		}
	}
}

// hedged says how a call gets hedges.
type hedged struct {
	policy retry.Policy
	hedge  *hedge.Hedge
}

// limitAttempts makes AttemptTimeout a matter of the attempts themselves.
func (k *call) limitAttempts() {
	k.untimed = true
	k.run.Untimed()
}

// settle ends an attempt, and then waits until the next one is due, or until the program
// closes the connection. That ends the run without a further attempt, which could still
// reach the server while Close is underway.
func (k *call) settle(v retry.Verdict) {
	v.Once = k.once && v.Err != nil
	again := k.run.Judged(v)
	if v.Err == nil {
		k.last = nil // a stream goes on in it, or it has ended
	}
	if !again || k.run.Delay() <= 0 {
		return
	}
	k.wait()
	if k.closed() {
		k.run.Cancel(errClosing)
	}
}

// errClosing is what grpc returns for a call on a closed connection.
var errClosing = status.Error(codes.Canceled, "grpc: the client connection is closing")

// wait sleeps until the next attempt is due, or the connection is closed. A context of
// the run that ends with the connection would do too, but would cost something in every
// call. This costs something only in calls that wait.
func (k *call) wait() {
	awake, wake := context.WithCancel(k.run.RunContext())
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		defer wake()
		for state := k.cc.GetState(); state != connectivity.Shutdown; state = k.cc.GetState() {
			if !k.cc.WaitForStateChange(awake, state) {
				return
			}
		}
	}()
	defer func() {
		wake()
		<-watching
	}()
	_ = orSystem(k.clock).Sleep(awake, k.run.Delay()) // Next sleeps for the rest if it fails
}

// closed reports whether the program has closed the connection: no attempt will ever
// succeed again.
func (k *call) closed() bool { return k.cc.GetState() == connectivity.Shutdown }

// close ends what is open: after a panic, or runtime.Goexit.
func (k *call) close() {
	if k.last != nil {
		k.last.abandon()
	}
	k.run.Close()
}

// result returns what the caller gets once the run is over.
func (k *call) result() error {
	e, ok := k.run.Err().(*retry.Error)
	if !ok {
		return k.answer // nil after a success
	}
	var last error // of the attempts
	if len(e.Errs) > 0 {
		last = e.Last()
	}
	st, isStatus := statusOf(last)
	switch {
	case e.Reason == retry.ReasonCanceled:
		st = status.FromContextError(context.Canceled)
	case e.Reason == retry.ReasonDeadline && k.run.RunContext().Err() != nil:
		st = status.FromContextError(context.DeadlineExceeded)
	case e.Reason == retry.ReasonPanic:
		st = status.New(codes.Internal, "retrygrpc: a func of the policy did not return")
	case e.Reason == retry.ReasonPermanent && isStatus:
		return final(last, st)
	case e.Reason == retry.ReasonRefused && isStatus:
		if f, ok := last.(*failure); ok {
			last = f.error
		}
		return final(retry.Refuse(last), st)
	case last == nil: // a guard has refused the first attempt, or would have admitted it too late
		if st, isStatus = statusOf(e.Cause); !isStatus || st.Code() == codes.OK {
			st = status.New(codes.ResourceExhausted, e.Cause.Error())
		}
	case !isStatus:
		st, _ = status.FromError(last)
	}
	return &gaveUp{e, st}
}
