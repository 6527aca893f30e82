package freshstate

import (
	"context"
	"net/http"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/retryhttp"
)

func fetch(ctx context.Context, req *http.Request) (*http.Response, error) {
	client := &http.Client{Transport: &retryhttp.Transport{Policy: retry.Policy{Budget: &budget.Token{}}}} // want `this budget.Token is new for each call`
	return client.Do(req)
}

func get(url string) {
	tr := &retryhttp.Transport{}
	tr.Policy.Guards = []retry.Guard{&limit.Limit{Max: 5}} // want `this limit.Limit is new for each call`
	client := http.Client{}
	client.Transport = tr
	resp, err := client.Get(url)
	_, _ = resp, err
	client.CloseIdleConnections()
}

func roundTrip(req *http.Request) (*http.Response, error) {
	return (&retryhttp.Transport{Policy: retry.Policy{Budget: &budget.Token{}}}).RoundTrip(req) // want `this budget.Token is new for each call`
}

func handler(w http.ResponseWriter, r *http.Request) {
	hosts := retry.PerKey[budget.Token]{} // want `this retry.PerKey\[budget.Token\] is new for each call`
	h := &hedge.Hedge{}                   // want `this hedge.Hedge is new for each call`
	client := &http.Client{Transport: &retryhttp.Transport{
		Budget: func(host string) retry.Budget { return hosts.For(host) },
		Hedge:  func(string) *hedge.Hedge { return h },
	}}
	_, _ = client.Get("http://a")
	_, _ = client.Get("http://b")
}

// An SDK's client, with the http.Client in it.
type sdk struct{ *http.Client }

func NewSDK(c *http.Client) (*sdk, error)     { return &sdk{c}, nil }
func (*sdk) Fetch(context.Context, int) error { return nil }

func usesSDK(w http.ResponseWriter, r *http.Request) {
	s, err := NewSDK(&http.Client{Transport: &retryhttp.Transport{Policy: retry.Policy{Budget: &budget.Token{}}}}) // want `this budget.Token is new for each call`
	if err == nil {
		_ = s.Fetch(r.Context(), 1)
	}
}

func inService(ctx context.Context) error {
	s, err := NewSDK(&http.Client{Transport: &retryhttp.Transport{Policy: retry.Policy{Budget: &budget.Token{}}}})
	if err != nil {
		return err
	}
	return s.Fetch(ctx, 1) // which may make many calls
}

// gin's and echo's contexts have the request.
type ginContext struct{ Request *http.Request }

type echoContext interface{ Request() *http.Request }

func inGin(c *ginContext) { usesBudget(c.Request.Context()) }

func usesBudget(ctx context.Context) {
	_ = retry.Run(ctx, retry.Policy{Budget: &budget.Token{}}, op) // want `is new for each call`
}

func ginHandler(c *ginContext) {
	s, _ := NewSDK(&http.Client{Transport: &retryhttp.Transport{Policy: retry.Policy{Budget: &budget.Token{}}}}) // want `is new for each call`
	_ = s.Fetch(c.Request.Context(), 1)
}

func echoHandler(c echoContext) {
	s, _ := NewSDK(&http.Client{Transport: &retryhttp.Transport{Policy: retry.Policy{Budget: &budget.Token{}}}}) // want `is new for each call`
	_ = s.Fetch(c.Request().Context(), 1)
}

type message interface{ Ack() error }

func onMessage(ctx context.Context, m message) {
	s, _ := NewSDK(&http.Client{Transport: &retryhttp.Transport{Policy: retry.Policy{Budget: &budget.Token{}}}}) // want `is new for each call`
	_ = s.Fetch(ctx, 1)
}

// Right.

func passedIn(tr *retryhttp.Transport, req *http.Request) (*http.Response, error) {
	tr.Policy.Budget = &budget.Token{}
	return tr.RoundTrip(req)
}

func NewClient() *http.Client {
	return &http.Client{Transport: &retryhttp.Transport{Policy: retry.Policy{Budget: &budget.Token{}}}}
}

func newClient() *http.Client {
	return &http.Client{Transport: &retryhttp.Transport{Policy: retry.Policy{Budget: &budget.Token{}}}}
}

var client = newClient()

func all(urls []string) {
	c := newClient()
	for _, url := range urls {
		_, _ = c.Get(url)
	}
}

func mux() *http.ServeMux {
	c := NewClient()
	p := retry.Policy{Budget: &budget.Token{}}
	m := http.NewServeMux()
	m.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		_ = retry.Run(r.Context(), p, op)
		_, _ = c.Get("http://a")
	})
	return m
}

func started(w http.ResponseWriter, r *http.Request) {
	go func() {
		s, _ := NewSDK(&http.Client{Transport: &retryhttp.Transport{Policy: retry.Policy{Budget: &budget.Token{}}}})
		_ = s.Fetch(context.Background(), 1)
	}()
}

func stored(w http.ResponseWriter, r *http.Request) {
	client = &http.Client{Transport: &retryhttp.Transport{Policy: retry.Policy{Budget: &budget.Token{}}}}
}
