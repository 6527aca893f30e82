package benbjohnson_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx/benbjohnson"
)

// A minute's wait on a Mock takes milliseconds.
func Example() {
	mock := clock.NewMock()
	policy := retry.Policy{
		Clock:   benbjohnson.New(mock),
		Backoff: retry.Constant(time.Minute),
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		user, err := retry.Do(context.Background(), policy, func(ctx context.Context) (string, error) {
			n := retry.AttemptNumber(ctx)
			fmt.Println("attempt", n)
			if n < 3 {
				return "", errors.New("connection reset")
			}
			return "ann", nil
		})
		fmt.Println(user, err)
	}()

	// An Add that comes before the wait has begun does not count for it: add
	// until the work is done.
	for {
		select {
		case <-done:
			return
		default:
			mock.Add(time.Minute)
		}
	}
	// Output:
	// attempt 1
	// attempt 2
	// attempt 3
	// ann <nil>
}
