// Package retryablehttp has the declarations of hashicorp/go-retryablehttp that the
// samples use.
package retryablehttp

import "net/http"

type Client struct{ RetryMax int }

func NewClient() *Client { return nil }

func (*Client) Get(string) (*http.Response, error) { return nil, nil }

func Get(string) (*http.Response, error) { return nil, nil }
