package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/goretry/retry/clockx"
)

// hand is the floor: the loop that people write instead of taking a library. It
// passes the context, looks at it before each call and in each wait, and returns
// a typed value. It has no limit on the retries of many calls: beside libraries
// that do it shows what this costs.
var hand = Peer{
	Name: "by hand",
	New: func(s Spec) Call {
		sleep := handSleep
		if s.Clock != nil {
			sleep = clockOf(s.Clock).Sleep
		}
		return func(ctx context.Context, op Op) (Row, error) {
			return byHand(ctx, s.Attempts, s.Wait, s.Max, sleep, s.Listener, op)
		}
	},
	Inline: func(ctx context.Context, op Op) (Row, error) {
		return byHand(ctx, 4, 100*time.Millisecond, 10*time.Second, handSleep, nil, op)
	},
}

// handTimed also knows how long it took, for the error of a call that fails.
var handTimed = Peer{
	Name: "by hand, timed",
	New: func(s Spec) Call {
		call, now := hand.New(s), time.Now
		if s.Clock != nil {
			now = s.Clock.Now
		}
		return func(ctx context.Context, op Op) (Row, error) { return timed(ctx, now, call, op) }
	},
	Inline: func(ctx context.Context, op Op) (Row, error) { return timed(ctx, time.Now, hand.Inline, op) },
}

//go:noinline
func byHand(
	ctx context.Context, attempts int, wait, most time.Duration, sleep func(context.Context, time.Duration) error, listener func(), op Op,
) (v Row, err error) {
	for attempt := 1; ; attempt++ {
		if ctx.Err() != nil {
			return v, context.Cause(ctx)
		}
		if v, err = op(ctx); err == nil || attempt == attempts {
			return v, err
		}
		if listener != nil {
			listener()
		}
		if wait > 0 {
			if err := sleep(ctx, wait); err != nil {
				return v, err
			}
			if most > 0 {
				wait = min(2*wait, most)
			}
		}
	}
}

func handSleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func timed(ctx context.Context, now func() time.Time, call Call, op Op) (Row, error) {
	start := now()
	v, err := call(ctx, op)
	if err != nil {
		err = fmt.Errorf("after %v: %w", now().Sub(start), err)
	}
	return v, err
}

// clockOf returns a clock for this library and for the floor.
func clockOf(c Clock) clockx.Clock {
	switch c := c.(type) {
	case nil:
		return nil
	case *jump:
		return clockx.NewVirtual(c.now)
	}
	return sleeper{clockx.System(), c}
}

// sleeper is a clock that also sleeps.
type sleeper struct {
	clockx.Clock
	clock Clock
}

func (s sleeper) Now() time.Time { return s.clock.Now() }

func (s sleeper) Sleep(ctx context.Context, d time.Duration) error {
	if d > 0 {
		select {
		case <-s.clock.After(d):
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}
