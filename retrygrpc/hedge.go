package retrygrpc

import (
	"context"
	"reflect"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/goretry/retry"
	"github.com/goretry/retry/hedge"
)

// race is an attempt of a unary call that is made with hedges: copies of it, which have
// replies and evidence of their own.
type race struct {
	*attempt
	method     string
	req, reply any
	invoke     grpc.UnaryInvoker

	mu       sync.Mutex
	failures []*runner
}

// runner is one copy.
type runner struct {
	attempt
	reply   any
	verdict retry.Verdict // zero for a reply and for an answer
}

// run returns the verdict on the whole attempt: that of the copy with the first reply or
// answer. If there is none, it is that of the one that failed last, but refused if one of them
// was, and undone if all were. The guards get those of the copies.
func (r *race) run(p retry.Policy, h *hedge.Hedge) retry.Verdict {
	defer r.close()
	p.Classify = classOfCopy
	first, err := hedge.Race(r.ctx, p, h, r.try, hedge.Value[*runner]{Discard: func(*runner) {}, Take: r.call.run.Hold})
	first.deliver(r.call.opts)
	switch {
	case err == nil:
		set(r.reply, first.reply)
		return retry.Verdict{}
	case first.answer != nil:
		r.call.answer = first.answer
		return retry.Verdict{}
	}
	v := first.verdict
	for _, c := range r.failures {
		v.Refused = v.Refused || c.verdict.Refused
		v.Undone = v.Undone && c.verdict.Undone
		v.Hint, v.Now = max(v.Hint, c.verdict.Hint), v.Now || c.verdict.Now
	}
	return v
}

// try makes a copy.
func (r *race) try(ctx context.Context) (*runner, error) {
	c := &runner{reply: blank(r.reply)}
	c.call, c.ctx = r.call, ctx
	opts := c.room[:0]
	for _, opt := range r.call.opts {
		switch opt.(type) {
		case grpc.HeaderCallOption, grpc.TrailerCallOption, grpc.PeerCallOption: // see deliver
		default:
			opts = append(opts, opt)
		}
	}
	c.gather(opts)
	err := r.invoke(ctx, r.method, r.req, c.reply, r.cc, c.opts...)
	if err == nil {
		return c, nil
	}
	if ctx.Err() != nil && context.Cause(ctx) != retry.ErrAttemptTimeout { // nobody judges it
		c.verdict = retry.Verdict{Err: err, Class: retry.Transient}
		return c, err
	}
	c.verdict = c.failed(err)
	if c.answer != nil || c.verdict.Class == retry.Permanent {
		return c, retry.Stop(&failedCopy{err, c.verdict})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, c)
	return c, &failedCopy{err, c.verdict}
}

// failedCopy is the error of a copy to a hedge: the other copy goes on unless it is permanent.
// The guards get v, which says that an answer is none.
type failedCopy struct {
	error
	v retry.Verdict
}

func (f *failedCopy) Unwrap() error             { return f.error }
func (f *failedCopy) RetryAfter() time.Duration { return f.v.Hint }
func (f *failedCopy) RetryNow() bool            { return f.v.Now }
func (f *failedCopy) Verdict() retry.Verdict    { return f.v } // for [hedge.Race]

// classOfCopy is the Policy.Classify of a race: try has judged the copies.
func classOfCopy(err error) retry.Class {
	if f, ok := err.(*failedCopy); ok {
		return f.v.Class
	}
	return retry.Unknown
}

// blank returns a new reply of the same type, or nil if there can be none.
func blank(reply any) any {
	if m, ok := reply.(proto.Message); ok {
		return m.ProtoReflect().New().Interface()
	}
	if v := reflect.ValueOf(reply); v.Kind() == reflect.Pointer && !v.IsNil() {
		return reflect.New(v.Type().Elem()).Interface()
	}
	return nil
}

// set copies a reply to the caller's.
func set(reply, from any) {
	if m, ok := reply.(proto.Message); ok {
		proto.Reset(m)
		proto.Merge(m, from.(proto.Message))
		return
	}
	reflect.ValueOf(reply).Elem().Set(reflect.ValueOf(from).Elem())
}
