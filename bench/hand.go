package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
)

// hand is the floor: the loop that people write instead of taking a library. It
// passes the context, looks at it before each call and in each wait, and returns
// a typed value. It has no limit on the retries of many calls: beside libraries
// that do it shows what this costs.
var hand = Peer{
	Name: "by hand",
	New: func(s Spec) Call {
		sleep := sleepOf(s)
		return func(ctx context.Context, op Op) (Row, error) {
			return byHand(ctx, s.Attempts, s.Wait, s.Max, sleep, s.Listener, op)
		}
	},
	Inline: func(ctx context.Context, op Op) (Row, error) {
		return byHand(ctx, 4, 100*time.Millisecond, 10*time.Second, handSleep, nil, op)
	},
}

// promises is what a first try costs that keeps this library's promises: it is
// handed a policy by value, looks at the context and at the attempt's number in it,
// and reads the clock once, so that an error can tell how long the first attempt
// took. After a failure it goes on by hand.
var promises = Peer{
	Name: "floor of our promises",
	New: func(s Spec) Call {
		p, sleep := policy(s), sleepOf(s)
		return func(ctx context.Context, op Op) (Row, error) { return promised(ctx, p, s, sleep, op) }
	},
	Inline: func(ctx context.Context, op Op) (Row, error) {
		return promised(ctx, retry.Policy{
			MaxAttempts: 4,
			Backoff:     retry.Exponential{Base: 100 * time.Millisecond, Max: 10 * time.Second},
		}, inline, handSleep, op)
	},
	Note: "a loop by hand that gets a policy, checks the context and reads the clock before the first attempt",
}

var epoch = time.Now()

type numberKey struct{}

//go:noinline
func promised(ctx context.Context, p retry.Policy, s Spec, sleep func(context.Context, time.Duration) error, op Op) (v Row, err error) {
	if ctx.Err() != nil {
		return v, context.Cause(ctx)
	}
	if retry.AttemptNumber(ctx) != 1 {
		ctx = context.WithValue(ctx, numberKey{}, 1)
	}
	since := time.Since(epoch)
	if v, err = op(ctx); err == nil {
		return v, nil
	}
	if v, err = goOn(ctx, s, sleep, op); err != nil {
		err = fmt.Errorf("%s: gave up after %v: %w", p.Name, time.Since(epoch)-since, err)
	}
	return v, err
}

// goOn is byHand after the first attempt has failed.
//
//go:noinline
func goOn(ctx context.Context, s Spec, sleep func(context.Context, time.Duration) error, op Op) (v Row, err error) {
	if s.Listener != nil {
		s.Listener()
	}
	wait := s.Wait
	if wait > 0 {
		if err := sleep(ctx, wait); err != nil {
			return v, err
		}
		if s.Max > 0 {
			wait = min(2*wait, s.Max)
		}
	}
	return byHand(ctx, max(s.Attempts-1, 0), wait, s.Max, sleep, s.Listener, op)
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

// sleepOf returns how a loop by hand waits.
func sleepOf(s Spec) func(context.Context, time.Duration) error {
	if s.Virtual {
		return clockx.NewVirtual(time.Unix(0, 0)).Sleep
	}
	return handSleep
}
