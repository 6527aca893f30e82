package bench

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// HTTPPeer is a library that retries HTTP requests. All of them are used as an
// http.Client, with up to three attempts.
type HTTPPeer struct {
	Name, Module string
	Client       func(base http.RoundTripper, wait, most time.Duration) *http.Client

	// Timed is Client without waits and with a minute for each attempt.
	Timed func(base http.RoundTripper) *http.Client
	Note  string // what a reader of its figures with Timed must know
}

// HTTPPeers are the libraries, the floor, which does not retry, first and ours
// second.
var HTTPPeers = []HTTPPeer{
	{
		Name: "http.Client",
		Client: func(base http.RoundTripper, _, _ time.Duration) *http.Client {
			return &http.Client{Transport: base}
		},
		Timed: func(base http.RoundTripper) *http.Client {
			return &http.Client{Transport: base}
		},
		Note: "has no timeout",
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
		Timed: func(base http.RoundTripper) *http.Client {
			p := retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(0), AttemptTimeout: time.Minute}
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
		Timed: func(base http.RoundTripper) *http.Client {
			c := retryablehttp.NewClient()
			c.HTTPClient = &http.Client{Transport: base, Timeout: time.Minute}
			c.Logger, c.RetryMax, c.RetryWaitMin, c.RetryWaitMax = nil, 2, 0, 0
			return c.StandardClient()
		},
		Note: "its timeout is the Timeout of its inner http.Client, which covers the body too",
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
		Timed: func(base http.RoundTripper) *http.Client {
			b := failsafehttp.NewRetryPolicyBuilder()
			return &http.Client{Transport: failsafehttp.NewRoundTripper(base, b.Build(), timeout.New[*http.Response](time.Minute))}
		},
		Note: "its timeout is a Timeout policy inside the retries, as its documentation recommends",
	},
}

// The names of the items of HTTP.
const (
	getAtOnce   = "200"
	getTimed    = "200, timeout"
	getTwice503 = "503, 503, 200"
	getLoopback = "loopback"
)

// HTTP is what a request costs beside one by http.Client: without a socket, where
// only what the libraries themselves do can be seen, and with one, where it has to
// be looked for.
func HTTP() []Item {
	plain := func(p HTTPPeer, base http.RoundTripper) *http.Client { return p.Client(base, 0, 0) }
	timed := func(p HTTPPeer, base http.RoundTripper) *http.Client { return p.Timed(base) }
	const table = "A GET"
	items := []Item{
		{table, getAtOnce, "needs no retry. The body is read and closed. The server is a function.", requests(1, plain)},
		{table, getTimed, "the same with a minute for each attempt.", requests(1, timed)},
		{table, getTwice503, "gets two 503s before a 200, without waits. http.Client makes three requests.", requests(3, plain)},
		{table, getLoopback, "needs no retry, over a connection that is reused, to a server in the same process.", overLoopback()},
	}
	for i, p := range HTTPPeers {
		items[1].Cases[i].Note = p.Note
	}
	return items
}

// requests returns cases in which one request in so many succeeds.
func requests(each int, client func(HTTPPeer, http.RoundTripper) *http.Client) []Case {
	var all []Case
	for i, p := range HTTPPeers {
		calls := 0
		client := client(p, roundTrip(func(*http.Request) (*http.Response, error) {
			if calls++; calls%each != 0 {
				return response(http.StatusServiceUnavailable), nil
			}
			return response(http.StatusOK), nil
		}))
		more := 1
		if i == floor {
			more = each
		}
		all = append(all, Case{Name: p.Name, Run: func(n int) { get(client, "http://server.test/greeting", n*more) }})
	}
	return all
}

// overLoopback returns cases that share a server, and have a connection each.
func overLoopback() []Case {
	var all []Case
	for _, p := range HTTPPeers {
		client := p.Client(&http.Transport{}, 0, 0)
		all = append(all, Case{Name: p.Name, Run: func(n int) { get(client, loopback().URL, n) }})
	}
	return all
}

// loopback is a server that ends with the process.
var loopback = sync.OnceValue(func() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "hello")
	}))
})

// get makes n requests, one after the other.
func get(client *http.Client, url string, n int) {
	for range n {
		resp, err := client.Get(url)
		if err != nil {
			panic(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
}

// httpGoals are what was promised for HTTP.
func (r Report) httpGoals() (all []goal) {
	add := func(text string, met bool, format string, args ...any) {
		all = append(all, goal{text, fmt.Sprintf(format, args...), met, whyHTTP})
	}
	result := func(item string, i int) Result {
		x, _ := r.find(item, HTTPPeers[i].Name)
		return x
	}
	own, plain := result(getAtOnce, library), result(getAtOnce, floor)
	add("GET, “"+getAtOnce+"” takes at most 1.5 × http.Client and 3 allocations more", own.Ratio <= 1.5 && own.Allocs <= plain.Allocs+3.5,
		"%.2f ×, %.0f more", own.Ratio, own.Allocs-plain.Allocs)
	own, plain = result(getTimed, library), result(getTimed, floor)
	add("GET, “"+getTimed+"” takes at most 2.4 × http.Client and 10 allocations more", own.Ratio <= 2.4 && own.Allocs <= plain.Allocs+10.5,
		"%.2f ×, %.0f more", own.Ratio, own.Allocs-plain.Allocs)
	own = result(getTwice503, library)
	best, fewest := result(getTwice503, library+1), result(getTwice503, library+1).Allocs
	for i := library + 2; i < len(HTTPPeers); i++ {
		x := result(getTwice503, i)
		if x.NS < best.NS {
			best = x
		}
		fewest = min(fewest, x.Allocs)
	}
	add("GET, “"+getTwice503+"” takes at most 1.05 × the better of the others, with fewer allocations than both",
		own.NS <= 1.05*best.NS && own.Allocs < fewest, "%.0f ns, %.0f allocations; %s %.0f ns, at least %.0f", own.NS, own.Allocs, best.Name, best.NS, fewest)
	return all
}

const whyHTTP = "a copy of the request and the state of a run have to be allocated, and a timer while a discarded body is drained"

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
