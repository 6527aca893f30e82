// Package retryablehttp has the declarations of hashicorp/go-retryablehttp that the
// samples use.
package retryablehttp

import (
	"context"
	"net/http"
	"time"
)

type Client struct {
	HTTPClient   *http.Client
	Logger       any
	RetryWaitMin time.Duration
	RetryWaitMax time.Duration
	RetryMax     int
	CheckRetry   func(context.Context, *http.Response, error) (bool, error)
	Backoff      func(min, max time.Duration, n int, resp *http.Response) time.Duration
	ErrorHandler func(*http.Response, error, int) (*http.Response, error)
}

type RoundTripper struct{ Client *Client }

func (*RoundTripper) RoundTrip(*http.Request) (*http.Response, error) { return nil, nil }

func NewClient() *Client { return nil }

func (*Client) Get(string) (*http.Response, error) { return nil, nil }
func (*Client) StandardClient() *http.Client       { return nil }

func Get(string) (*http.Response, error) { return nil, nil }

func DefaultRetryPolicy(context.Context, *http.Response, error) (bool, error) { return false, nil }
func ErrorPropagatedRetryPolicy(context.Context, *http.Response, error) (bool, error) {
	return false, nil
}
func DefaultBackoff(min, max time.Duration, n int, resp *http.Response) time.Duration   { return 0 }
func PassthroughErrorHandler(*http.Response, error, int) (resp *http.Response, e error) { return }
