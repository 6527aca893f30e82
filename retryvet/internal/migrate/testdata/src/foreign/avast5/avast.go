package avast5

import "context"
import "time"
import again "github.com/avast/retry-go/v5"

func call(context.Context) error           { return nil }
func load(context.Context) (string, error) { return "", nil }

func plain(ctx context.Context) error {
	return again.New().Do(func() error { return call(ctx) }) // want `avast/retry-go v5: -fix makes this a retry.Run`
}

func fixed(ctx context.Context) (string, error) {
	return again.NewWithData[string](again.Context(ctx), again.Delay(time.Second), again.DelayType(again.FixedDelay), again.UntilSucceeded()).Do(func() (string, error) { // want `-fix makes this a retry.Do`
		return load(ctx)
	})
}

func jitter(ctx context.Context) error {
	_ = again.New(again.Context(ctx), again.DelayType(again.FullJitterBackoffDelay), again.OnRetry(func(n uint, err error) { println(n+1, 10+n, err) })).Do(func() error { return call(ctx) }) // want `-fix makes this a retry.Run`
	return again.New(again.Context(ctx), again.MaxJitter(0), again.Attempts(4)).Do(func() error { return call(ctx) })                                                                          // want `-fix makes this a retry.Run`
}
