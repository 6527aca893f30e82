package bench

import (
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// HTTPPeer is a library that retries HTTP requests. All of them are used as an
// http.Client, with up to three attempts.
type HTTPPeer struct {
	Name, Module string
	Client       func(base http.RoundTripper, wait, most time.Duration) *http.Client
}

// HTTPPeers are the libraries, the floor, which does not retry, first and ours
// second.
var HTTPPeers = []HTTPPeer{
	{
		Name: "http.Client",
		Client: func(base http.RoundTripper, _, _ time.Duration) *http.Client {
			return &http.Client{Transport: base}
		},
	},
	{
		// As in its package comment: a Transport with a Policy.
		Name:   "goretry/retryhttp",
		Module: "github.com/goretry/retry",
		Client: func(base http.RoundTripper, wait, most time.Duration) *http.Client {
			p := retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(wait)}
			if wait > 0 {
				p.Backoff = retry.Exponential{Base: wait, Max: most}
			}
			return &http.Client{Transport: &retryhttp.Transport{Base: base, Policy: p}}
		},
	},
	{
		// As in the README: the client's fields, and StandardClient for an http.Client.
		Name:   "hashicorp/go-retryablehttp",
		Module: "github.com/hashicorp/go-retryablehttp",
		Client: func(base http.RoundTripper, wait, most time.Duration) *http.Client {
			c := retryablehttp.NewClient()
			c.HTTPClient = &http.Client{Transport: base}
			c.Logger, c.RetryMax, c.RetryWaitMin, c.RetryWaitMax = nil, 2, wait, most
			return c.StandardClient()
		},
	},
	{
		// As in its documentation: NewRetryPolicyBuilder, which makes three attempts,
		// and a RoundTripper.
		Name:   "failsafehttp",
		Module: "github.com/failsafe-go/failsafe-go",
		Client: func(base http.RoundTripper, wait, most time.Duration) *http.Client {
			b := failsafehttp.NewRetryPolicyBuilder()
			if wait > 0 {
				b.WithBackoff(wait, most)
			}
			return &http.Client{Transport: failsafehttp.NewRoundTripper(base, b.Build())}
		},
	},
}

// HTTP is what a request costs beside one by http.Client. The server is a
// function: no socket, only what the libraries themselves do.
func HTTP() []Item {
	return []Item{
		{"GET, 200 at once", "One request that needs no retry, body read and closed. The server is a function.", requests(1), 0},
		{"GET, 503 twice, then 200", "The same after two answers that say to try again, without waits. http.Client makes three requests.", requests(3), 0},
	}
}

func requests(each int) []Case {
	var all []Case
	for i, p := range HTTPPeers {
		calls := 0
		client := p.Client(roundTrip(func(*http.Request) (*http.Response, error) {
			if calls++; calls%each != 0 {
				return response(http.StatusServiceUnavailable), nil
			}
			return response(http.StatusOK), nil
		}), 0, 0)
		more := 1
		if i == floor {
			more = each
		}
		all = append(all, Case{Name: p.Name, Run: func(n int) {
			for range n * more {
				resp, err := client.Get("http://server.test/greeting")
				if err != nil {
					panic(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		}})
	}
	return all
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func response(status int) *http.Response {
	return &http.Response{
		StatusCode: status,
		Status:     http.StatusText(status),
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{},
		Body:   io.NopCloser(strings.NewReader("hello")),
	}
}
