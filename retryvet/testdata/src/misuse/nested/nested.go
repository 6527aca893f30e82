package nested

import (
	"context"
	"net/http"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrybatch"
	"github.com/goretry/retry/retryhttp"
)

func op(context.Context) error { return nil }

var inner = retry.Policy{MaxAttempts: 4}

func wrong(ctx context.Context) error {
	return retry.Run(ctx, retry.Policy{}, func(ctx context.Context) error {
		return retry.Run(ctx, inner, op) // want `retries within retries multiply`
	})
}

func batches(ctx context.Context, items []int) error {
	_ = retrybatch.Run(ctx, retry.Policy{}, items, func(ctx context.Context, open []int) error {
		return retry.Run(ctx, inner, op) // want `retries within retries multiply`
	})
	return retry.Run(ctx, retry.Policy{}, func(ctx context.Context) error {
		return retrybatch.Run(ctx, inner, items, func(context.Context, []int) error { return nil }) // want `retries within retries multiply`
	})
}

func client(ctx context.Context) (*http.Response, error) {
	client := &http.Client{Transport: &retryhttp.Transport{}}
	return retry.Do(ctx, retry.Policy{}, func(ctx context.Context) (*http.Response, error) {
		return client.Get("http://localhost") // want `this client's retryhttp.Transport retries`
	})
}

func right(ctx context.Context, unknown retry.Policy) error {
	_ = retry.Run(ctx, retry.Policy{Classify: retry.AlreadyRetried}, func(ctx context.Context) error {
		return retry.Run(ctx, inner, op)
	})
	_ = retry.Run(ctx, unknown, func(ctx context.Context) error {
		return retry.Run(ctx, inner, op)
	})
	_ = retry.Run(ctx, retry.Policy{}, func(ctx context.Context) error {
		return retry.Run(ctx, retry.Policy{MaxAttempts: 1}, op)
	})
	_ = retry.Run(ctx, retry.Policy{MaxAttempts: 1}, func(ctx context.Context) error {
		return retry.Run(ctx, inner, op)
	})
	_ = retry.Run(ctx, retry.Policy{}, func(ctx context.Context) error {
		go func() { _ = retry.Run(ctx, inner, op) }()
		return nil
	})
	_, err := retry.Do(ctx, retry.Policy{}, func(ctx context.Context) (*http.Response, error) {
		return http.DefaultClient.Get("http://localhost") // want `a 503 is a success`
	})
	once := &http.Client{Transport: &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 1}}}
	_, err = retry.Do(ctx, retry.Policy{}, func(ctx context.Context) (*http.Response, error) {
		return once.Get("http://localhost") // want `a 503 is a success`
	})
	return retry.Supervise(ctx, retry.Policy{}, 0, func(ctx context.Context) error {
		if err != nil {
			return err
		}
		return retry.Run(ctx, inner, op)
	})
}
