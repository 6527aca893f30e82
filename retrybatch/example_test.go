package retrybatch_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrybatch"
)

// A mark around a Partial holds for each of its items: here the wait that the server
// asks for beside the items that it did not take.
func ExamplePartial() {
	policy := retry.Policy{
		Backoff: retry.Constant(0),
		Hooks: retry.Hooks{Wait: func(_ context.Context, a retry.Attempt) {
			fmt.Println(a.Class, a.Hint, a.Err)
		}},
	}
	err := retrybatch.Run(context.Background(), policy, []string{"a", "b", "c"}, func(ctx context.Context, open []string) error {
		if retry.AttemptNumber(ctx) > 1 {
			return nil
		}
		notTaken := retrybatch.Partial(map[int]error{1: errors.New("busy"), 2: errors.New("busy")})
		return retry.After(notTaken, 20*time.Millisecond)
	})
	fmt.Println(err)
	// Output:
	// throttled 20ms 2 of 3 items failed: item 1: busy
	// <nil>
}

// Each item that failed says why, and where it stands in the input.
func ExampleError() {
	orders := []string{"ann", "ben", "cem", "dee"}
	policy := retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(time.Millisecond)}
	err := retrybatch.Run(context.Background(), policy, orders, func(ctx context.Context, open []string) error {
		failed := map[int]error{}
		for i, order := range open {
			switch order {
			case "ben":
				failed[i] = retry.Stop(errors.New("malformed"))
			case "dee":
				failed[i] = errors.New("busy")
			}
		}
		return retrybatch.Partial(failed)
	})
	if e, ok := errors.AsType[*retrybatch.Error](err); ok {
		for _, f := range e.Failed {
			fmt.Printf("%s: %v after %d: %v\n", orders[f.Index], f.Err.Reason, f.Err.Attempts, f.Err.Last())
		}
	}
	// Output:
	// ben: permanent after 1: malformed
	// dee: max_attempts after 2: busy
}
