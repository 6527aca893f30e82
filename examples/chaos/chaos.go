package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Chaos injects faults into attempts: a share of them fails, a share is sent late, and a share is
// answered late. A nil *Chaos injects nothing, and puts nothing around what it gets: so it
// costs nothing in production. It is safe for concurrent use.
//
// Put it where one call is one attempt: around the op of a run, below a retryhttp.Transport, or
// after the interceptors of a retrygrpc.Client. A retry.Guard is no place for it, because an
// error of Enter is a refusal: nothing is sent, and no budget pays for the retry.
type Chaos struct {
	mu     sync.Mutex
	random *rand.Rand
	shares Shares
	counts Counts
}

// Shares says how many of all attempts meet which fault: .1 is a tenth. Wait is how late the
// second and the third are.
type Shares struct {
	Fail, Delay, Late float64
	Wait              time.Duration
}

// Counts is how many attempts there were, and what was done to them.
type Counts struct{ Attempts, Failed, Delayed, Late int }

// ErrInjected is the error of an attempt that was made to fail.
var ErrInjected = errors.New("chaos: injected")

// New returns a Chaos that does the same with each run of the program that makes its attempts
// in the same order. For seed 0, the default of the flag, it returns nil: nobody turns it on by
// accident.
func New(seed uint64, s Shares) *Chaos {
	if seed == 0 {
		return nil
	}
	return &Chaos{random: rand.New(rand.NewPCG(seed, 0)), shares: s}
}

// Counts returns what c has done so far.
func (c *Chaos) Counts() Counts {
	if c == nil {
		return Counts{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts
}

// Op returns op with faults, for retry.Do.
func Op[T any](c *Chaos, op func(context.Context) (T, error)) func(context.Context) (T, error) {
	if c == nil {
		return op
	}
	return func(ctx context.Context) (v T, err error) {
		err = c.attempt(ctx, func() error {
			v, err = op(ctx)
			return err
		})
		return v, err
	}
}

// Base returns base with faults, for the Base of a retryhttp.Transport.
func (c *Chaos) Base(base http.RoundTripper) http.RoundTripper {
	if c == nil {
		return base
	}
	return roundTripper(func(req *http.Request) (resp *http.Response, err error) {
		sent := false
		err = c.attempt(req.Context(), func() error {
			sent = true
			resp, err = base.RoundTrip(req)
			return err
		})
		switch {
		case !sent && req.Body != nil:
			req.Body.Close() // as a RoundTripper must
		case err != nil && resp != nil: // the answer came too late
			resp.Body.Close()
			resp = nil
		}
		return resp, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// DialOptions returns an interceptor with faults. Append it to the DialOptions of a
// retrygrpc.Client: interceptors after these run once per attempt.
func (c *Chaos) DialOptions() []grpc.DialOption {
	if c == nil {
		return nil
	}
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			err := c.attempt(ctx, func() error { return invoke(ctx, method, req, reply, cc, opts...) })
			switch {
			case err == ErrInjected:
				return status.Error(codes.Unavailable, err.Error())
			case err != nil && err == ctx.Err():
				return status.FromContextError(err).Err()
			}
			return err
		})}
}

// attempt makes an attempt, or not.
func (c *Chaos) attempt(ctx context.Context, make func() error) error {
	fail, before, after := c.draw()
	if fail {
		return ErrInjected
	}
	if err := sleep(ctx, before); err != nil {
		return err
	}
	if err := make(); err != nil {
		return err
	}
	return sleep(ctx, after) // what the attempt has done stays done
}

// draw decides what becomes of the next attempt.
func (c *Chaos) draw() (fail bool, before, after time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts.Attempts++
	switch r, s := c.random.Float64(), c.shares; {
	case r < s.Fail:
		c.counts.Failed++
		return true, 0, 0
	case r < s.Fail+s.Delay:
		c.counts.Delayed++
		return false, s.Wait, 0
	case r < s.Fail+s.Delay+s.Late:
		c.counts.Late++
		return false, 0, s.Wait
	}
	return false, 0, 0
}

// sleep sleeps for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
