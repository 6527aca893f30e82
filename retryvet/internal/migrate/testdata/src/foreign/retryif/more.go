package retryif

import (
	"context"
	"fmt"

	"github.com/avast/retry-go/v4"
)

func isTransient(err error) bool { return temporary(err) }

func again(ctx context.Context) error {
	return retry.Do(func() error { return call(ctx) }, retry.Context(ctx), retry.DelayType(retry.FixedDelay), retry.RetryIf(temporary)) // want `-fix makes this a retry.Run; waits that errors ask for are obeyed now: to ignore them return an error without a method RetryAfter$`
}

func transient(ctx context.Context) error {
	return retry.Do(func() error { return call(ctx) }, retry.Context(ctx), retry.DelayType(retry.FixedDelay), retry.RetryIf(isTransient)) // want `-fix makes this a retry.Run; waits that errors ask for are obeyed now: to ignore them return an error without a method RetryAfter$`
}

func transientToo(ctx context.Context) error {
	return retry.Do(func() error { return call(ctx) }, retry.Context(ctx), retry.Attempts(3), retry.DelayType(retry.FixedDelay), retry.RetryIf(isTransient)) // want `-fix makes this a retry.Run; waits that errors ask for are obeyed now: to ignore them return an error without a method RetryAfter$`
}

// A number needs its type where something asks for it.
func progress(ctx context.Context, every uint) error {
	return retry.Do(func() error { return call(ctx) }, retry.Context(ctx), retry.DelayType(retry.FixedDelay), // want `-fix makes this a retry.Run; OnRetry`
		retry.OnRetry(func(n uint, err error) {
			switch {
			case n%10 == 0 && n > 0:
				fmt.Printf("attempt %d of %v: %v\n", n+1, every, err)
			case n == 3, n+1 >= 5, n*2 == 8, n/2 == 7, 1 < n:
				fmt.Println(n, n+2)
			case n%every == 0, n-1 > 5:
				fmt.Print(max(n, every), []any{n})
			}
		}))
}
