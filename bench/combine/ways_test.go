package combine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/retrybatch"
	"github.com/goretry/retry/retryqueue"
)

// way is a way into the library.
type way struct {
	name  string
	call  func(c *caller) error
	solo  bool // it calls the operation on the caller's goroutine
	many  bool // an operation may follow another one, whatever that has returned
	own   bool // it uses the system's clock, whatever the policy's
	quiet bool // it calls hooks on goroutines of its own, on which a panic ends the process
	http  bool // its operation may end without an error though the server has failed
	grpc  bool // the operation is a server's, which may begin when its caller has left

	queue bool // Wait says that a message waits, whatever has become of this context
	plain bool // a value beside an error, which a later one replaces, could not be closed

	hedged bool
	most   func(p *retry.Policy) int // operations in a call; nil: the policy's limit on attempts
	sites  []string                  // of faults, beside those of all ways
}

// limit returns how many operations a call makes at most; 0 means any number.
func (v way) limit(p *retry.Policy) int {
	if v.most != nil {
		return v.most(p)
	}
	if n := p.AttemptLimit(); n < math.MaxInt {
		return n
	}
	return 0
}

func unlimited(*retry.Policy) int { return 0 }

// outcome is what an operation returns.
type outcome struct {
	err         error
	final       bool // no retry may follow
	long        bool // a wait of an hour was asked for, which only Supervise keeps
	undone      bool // proof that the operation did nothing
	unprocessed bool // proof if the policy's Classify vouches for it
}

func (o outcome) String() string { return fmt.Sprintf("%v", o.err) }

var (
	errDown    = errors.New("down")
	errRunning = errors.New("an operation that has not ended")
)

// listed is an error that cannot be compared.
type listed []string

func (l listed) Error() string { return "listed" }

var outcomes = []outcome{
	{}, {}, {}, {}, {}, {}, {},
	{err: errDown}, {err: errDown}, {err: errDown}, {err: errDown},
	{err: context.DeadlineExceeded},
	{err: context.Canceled},
	{err: listed{"a"}},
	{err: retry.ErrRejected},
	{err: retry.ErrAttemptTimeout},
	{err: retry.Stop(errDown), final: true},
	{err: retry.Refuse(errDown), final: true},
	{err: fmt.Errorf("wrapped: %w", retry.Refuse(listed{"a"})), final: true},
	{err: retry.After(errDown, 30*time.Millisecond)},
	{err: retry.After(errDown, time.Hour), final: true, long: true},
	{err: retry.Undone(errDown), undone: true},
	{err: retry.Undone(retry.After(errDown, 30*time.Millisecond)), undone: true},
	{err: limit.ErrLimited, unprocessed: true},
	{err: &retry.Error{Reason: retry.ReasonMaxAttempts, Attempts: 2, Errs: []error{errDown}}},
	{err: &retry.Error{Reason: retry.ReasonBudget, Attempts: 1, Errs: []error{errDown}, Undone: true}, undone: true},
}

// op is the operation of most ways.
func (c *caller) op(ctx context.Context) (*trackedBody, error) {
	c.enter(ctx)
	var o outcome
	o.err = errDown // if it does not return
	defer func() { c.leave(o) }()
	c.at("op")
	c.pass(ctx)
	o = one(c.world, c.name, outcomes...)
	if o.err != nil && (c.way.plain || c.draw(c.name+" value", 3) > 0) {
		return nil, o.err
	}
	v := c.body("the value of "+c.name, nil)
	v.value = true
	return v, o.err
}

// pass has the operation take some time, or none.
func (c *caller) pass(ctx context.Context) {
	switch c.draw(c.name+" slow", 4) {
	case 0:
	case 1:
		c.sleep(ctx, c.odd(c.name+" long", 900*time.Millisecond))
	default:
		c.sleep(ctx, c.odd(c.name+" time", 60*time.Millisecond))
	}
}

func (c *caller) run(ctx context.Context) error {
	v, err := c.op(ctx)
	c.close(v)
	return err
}

// kept returns op, with the values that its runs replace closed: only hedges close those.
func (c *caller) kept() (op func(ctx context.Context) (*trackedBody, error), end func()) {
	var values []*trackedBody
	return func(ctx context.Context) (*trackedBody, error) {
			v, err := c.op(ctx)
			values = append(values, v)
			return v, err
		}, func() {
			for _, v := range values {
				c.close(v)
			}
		}
}

func (c *caller) close(v *trackedBody) {
	if v != nil {
		v.Close()
	}
}

var ways = []way{
	{name: "Do", solo: true, call: func(c *caller) error {
		op, end := c.kept()
		defer end()
		_, err := retry.Do(c.ctx, c.policy, op)
		return err
	}},
	{name: "Run", solo: true, call: func(c *caller) error { return retry.Run(c.ctx, c.policy, c.run) }},
	{name: "Until", solo: true, sites: []string{"accept"}, call: func(c *caller) error {
		op, end := c.kept()
		defer end()
		_, err := retry.Do(c.ctx, c.policy, retry.Until(op, func(*trackedBody) bool {
			c.at("accept")
			if c.draw(c.name+" accept", 2) == 0 {
				return true
			}
			c.becomes(outcome{err: retry.ErrRejected})
			return false
		}))
		return err
	}},
	{name: "Supervise", solo: true, most: unlimited, call: func(c *caller) error {
		return retry.Supervise(c.ctx, c.policy, 40*time.Millisecond, c.run)
	}},
	{name: "Ticker", many: true, own: true, quiet: true, call: func(c *caller) error {
		t := retry.NewTicker(c.ctx, c.policy)
		defer t.Stop()
		for range t.C {
			if ended, _ := c.ctx.ended(); ended { // a tick may be received just then
				break
			}
			if c.run(c.ctx) == nil {
				break
			}
		}
		return nil
	}},
	{name: "Loop", many: true, own: true, call: func(c *caller) error {
		loop := c.policy.Start(time.Now())
		defer loop.Close()
		for c.ctx.Err() == nil {
			wait, ok := loop.Next(time.Now(), c.run(c.ctx))
			if !ok {
				return loop.Err()
			}
			c.sleep(c.ctx, wait)
		}
		return nil
	}},
	{name: "Attempts", solo: true, sites: []string{"between"}, call: func(c *caller) error {
		a := c.policy.Attempts(c.ctx)
		defer a.Close()
		if c.draw(c.name+" untimed", 3) == 0 {
			a.Untimed()
		}
		for a.Next() {
			err := c.run(a.Context())
			c.at("between")
			if c.draw(c.name+" leaves", 12) == 0 {
				//retryvet:ignore forgottendone: this way ends as after a panic
				return nil
			}
			if c.draw(c.name+" judges", 4) == 0 {
				a.Judged(c.policy.Judge(err))
			} else {
				a.Done(err)
			}
			switch c.draw(c.name+" cancels", 12) {
			case 0:
				a.Cancel(errLeft)
				c.becomes(outcome{err: errLeft, final: true})
			case 1:
				a.Close()
				c.becomes(outcome{err: errLeft, final: true})
			case 2:
				c.sleep(c.ctx, c.odd(c.name+" between", 100*time.Millisecond))
			}
		}
		return a.Err()
	}},
	{name: "nested", solo: true, most: func(p *retry.Policy) int { return squared(p) }, many: true, call: func(c *caller) error {
		inner := c.policy.Named(c.name + " inner")
		return retry.Run(c.ctx, c.policy, func(ctx context.Context) error {
			return retry.Run(ctx, inner, c.run)
		})
	}},
	{name: "hedge.Do", hedged: true, plain: true, own: true, sites: []string{"hedged"}, call: func(c *caller) error {
		v, err := hedge.Do(c.ctx, c.policy, c.hedge, c.op)
		c.close(v)
		return err
	}},
	{name: "hedge.Race", hedged: true, own: true, sites: []string{"hedged", "discard", "hold"}, call: func(c *caller) error {
		var held []context.CancelFunc
		var values []*trackedBody
		defer func() {
			for _, end := range held {
				end()
			}
			for _, v := range values {
				c.close(v)
			}
		}()
		value := hedge.Value[*trackedBody]{
			Discard: func(v *trackedBody) { c.close(v); c.at("discard") },
			Hold: func(v *trackedBody, end context.CancelFunc) *trackedBody {
				c.at("hold")
				held = append(held, end)
				return v
			},
		}
		_, err := retry.Do(c.ctx, c.policy, func(ctx context.Context) (*trackedBody, error) {
			v, err := hedge.Race(ctx, c.policy, c.hedge, c.op, value)
			values = append(values, v)
			return v, err
		})
		return err
	}},
	{name: "retrybatch.Do", solo: true, many: true, sites: []string{"item"}, call: func(c *caller) error {
		b := &batch{caller: c}
		items := b.items()
		values, err := retrybatch.Do(c.ctx, c.policy, items, b.send)
		b.check(values, err)
		for i, item := range items[:len(items)+2] {
			if item != i {
				c.report("%s: send has written into the caller's items: %v", c.name, items[:cap(items)])
			}
		}
		return err
	}},
	{name: "retrybatch.Run", solo: true, many: true, call: func(c *caller) error {
		return retrybatch.Run(c.ctx, c.policy, make([]int, 5), func(ctx context.Context, items []int) error {
			err := c.run(ctx)
			if err == nil || c.draw(c.name+" whole", 2) == 0 {
				return err
			}
			return retrybatch.Partial(map[int]error{c.draw(c.name+" item", len(items)): err})
		})
	}},
	{name: "retryqueue.Handle", queue: true, solo: true, many: true, own: true, sites: []string{"settle"}, call: func(c *caller) error {
		var err error
		d := retryqueue.Delivery{Number: 1, Stored: time.Now()}
		for ; d.Number < 12; d.Number++ {
			var decided retryqueue.Decision
			err = d.Handle(c.ctx, c.policy, c.run, func(_ context.Context, d retryqueue.Decision) error {
				decided = d
				c.at("settle")
				return one(c.world, "settles", nil, nil, nil, errDown)
			})
			if decided.Action == retryqueue.Undecided && c.ctx.Err() == nil {
				c.report("%s: undecided, though its context has not ended", c.name)
			}
			if decided.Action != retryqueue.Retry {
				return err
			}
			c.sleep(c.ctx, decided.Delay)
		}
		return err
	}},
	{name: "retryqueue.After", solo: true, many: true, own: true, call: func(c *caller) error {
		stored := time.Now()
		for n := 1; n < 12 && c.ctx.Err() == nil; n++ {
			d := retryqueue.Delivery{Number: n, Stored: stored}
			if dead, ok := d.Before(c.policy); !ok {
				return dead.Err
			}
			decided := d.After(c.policy, c.run(c.ctx))
			if decided.Action != retryqueue.Retry {
				return nil
			}
			c.sleep(c.ctx, decided.Delay)
		}
		return nil
	}},
}

func squared(p *retry.Policy) int {
	n := p.AttemptLimit()
	if n == math.MaxInt {
		return 0
	}
	return n * n
}

// batch is the operation of retrybatch.
type batch struct {
	*caller
	sent map[int]int  // by item
	done map[int]bool // or failed permanently
}

func (b *batch) items() (items []int) {
	b.sent, b.done = map[int]int{}, map[int]bool{}
	n := 1 + b.draw("items", 6)
	for i := range n + 2 {
		items = append(items, i)
	}
	return items[:n]
}

func (b *batch) send(ctx context.Context, items []int) ([]int, error) {
	b.enter(ctx)
	defer func() { b.leave(outcome{}) }()
	b.at("op")
	b.pass(ctx)
	values := make([]int, len(items))
	for i, item := range items {
		values[i] = 10*item + 1
		b.sent[item]++
		if b.done[item] {
			b.report("%s: item %d was sent again", b.name, item)
		}
	}
	whole := one(b.world, b.name+" call", outcomes...)
	if whole.err != nil && b.draw(b.name+" whole", 3) == 0 {
		return nil, whole.err
	}
	errs := map[int]error{}
	for i, item := range items {
		b.at("item")
		o := one(b.world, b.name+" item", outcomes...)
		if o.err != nil {
			errs[i] = o.err
		}
		b.done[item] = o.err == nil || o.final
	}
	_ = append(items, -1, -1) // into memory of its own
	return values, retrybatch.Partial(errs)
}

func (b *batch) check(values []int, err error) {
	if e, ok := errors.AsType[*retrybatch.Error](err); ok {
		for _, f := range e.Failed {
			if f.Err == nil || len(f.Err.Errs) == 0 && f.Err.Attempts > 0 {
				b.report("%s: Failure %+v", b.name, f)
			}
		}
	} else if err != nil {
		b.report("%s: error %T", b.name, err)
	}
	for i, v := range values {
		if v != 0 && v != 10*i+1 {
			b.report("%s: value %d of item %d", b.name, v, i)
		}
	}
}
