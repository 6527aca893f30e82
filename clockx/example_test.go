package clockx_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
)

// patient is a Clock of one's own: the real one, which says how long it sleeps. It
// embeds a Clock and changes one method.
type patient struct{ clockx.Clock }

func (c patient) Sleep(ctx context.Context, d time.Duration) error {
	fmt.Println("sleeping for", d.Round(time.Millisecond))
	return c.Clock.Sleep(ctx, d)
}

func ExampleClock() {
	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(time.Millisecond), Clock: patient{clockx.System()}}
	_ = retry.Run(context.Background(), policy, func(context.Context) error { return errors.New("down") })
	// Output:
	// sleeping for 1ms
	// sleeping for 1ms
}

func ExampleVirtual() {
	v := clockx.NewVirtual(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
	ctx, cancel := v.WithTimeoutCause(context.Background(), time.Hour, nil)
	defer cancel()
	fmt.Println(v.Sleep(ctx, 40*time.Minute), v.Now().Format(time.TimeOnly))
	fmt.Println(v.Sleep(ctx, 40*time.Minute), v.Now().Format(time.TimeOnly))
	fmt.Println(v.Pending())
	// Output:
	// <nil> 00:40:00
	// context deadline exceeded 01:00:00
	// 0
}
