// Package retryablehttp has the declarations of hashicorp/go-retryablehttp that the
// samples use.
package retryablehttp

import "net/http"

type Client struct{ RetryMax int }

type RoundTripper struct{ Client *Client }

func (*RoundTripper) RoundTrip(*http.Request) (*http.Response, error) { return nil, nil }

func NewClient() *Client { return nil }

func (*Client) Get(string) (*http.Response, error) { return nil, nil }

func Get(string) (*http.Response, error) { return nil, nil }
