package unreadstatus

import (
	"context"
	"net/http"

	"github.com/goretry/retry"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/retryhttp"
)

func wrong(ctx context.Context, p retry.Policy, c *http.Client, req *http.Request) (*http.Response, error) {
	return retry.Do(ctx, p, func(ctx context.Context) (*http.Response, error) {
		return c.Do(req.WithContext(ctx)) // want `to retry.Do a 503 is a success`
	})
}

func wrongAfterwards(ctx context.Context, p retry.Policy, req *http.Request) (int, error) {
	resp, err := retry.Do(ctx, p, func(ctx context.Context) (*http.Response, error) {
		resp, err := http.DefaultClient.Do(req.WithContext(ctx)) // want `to retry.Do a 503 is a success`
		if err != nil {
			if resp != nil {
				resp.Body.Close()
			}
			return nil, err
		}
		return resp, nil
	})
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close() // too late
}

func wrongGet(ctx context.Context, p retry.Policy, h *hedge.Hedge, url string) (resp *http.Response, err error) {
	get := func(context.Context) (*http.Response, error) {
		return http.Get(url) // want `to hedge.DoValue a 503 is a success`
	}
	return hedge.DoValue(ctx, p, h, get, hedge.Value[*http.Response]{Hold: func(r *http.Response, _ context.CancelFunc) *http.Response { return r }})
}

func right(ctx context.Context, p retry.Policy, c *http.Client, req *http.Request) (*http.Response, error) {
	return retry.Do(ctx, p, func(ctx context.Context) (*http.Response, error) {
		resp, err := c.Do(req.WithContext(ctx))
		if err == nil && resp.StatusCode >= 400 {
			return nil, retryhttp.Failure(resp)
		}
		return resp, err
	})
}

func rightElsewhere(ctx context.Context, p retry.Policy, c *http.Client, req *http.Request, check func(*http.Response) error) (*http.Response, error) {
	return retry.Do(ctx, p, func(ctx context.Context) (*http.Response, error) {
		resp, err := c.Do(req.WithContext(ctx))
		if err == nil {
			err = check(resp)
		}
		return resp, err
	})
}

func rightPoll(ctx context.Context, p retry.Policy, c *http.Client, req *http.Request) (*http.Response, error) {
	return retry.Do(ctx, p, retry.Until(func(ctx context.Context) (*http.Response, error) {
		return c.Do(req.WithContext(ctx))
	}, func(resp *http.Response) bool { return resp.StatusCode != 202 }))
}

func rightOnce(ctx context.Context, c *http.Client, req *http.Request) (*http.Response, error) {
	return retry.Do(ctx, retry.Policy{MaxAttempts: 1}, func(ctx context.Context) (*http.Response, error) {
		return c.Do(req.WithContext(ctx))
	})
}

func rightKind(ctx context.Context, p retry.Policy, rt http.RoundTripper, req *http.Request) (*http.Response, error) {
	return retry.Do(ctx, p, func(ctx context.Context) (*http.Response, error) {
		return rt.RoundTrip(req.WithContext(ctx)) // of the reader's own, which may fail by a status
	})
}
