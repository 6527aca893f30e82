package retryablehttp

import (
	"net/http"

	"github.com/hashicorp/go-retryablehttp"
)

func calls() {
	client := retryablehttp.NewClient() // want `hashicorp/go-retryablehttp: not rewritten: other code may know its type; POST .*; after the last attempt callers get its response: they got an error. By hand:\n\tclient := &http.Client{Transport: &retryhttp.Transport{Policy: retry.Policy{\n\t\tMaxAttempts: 4,\n\t\tBackoff:     retry.Exponential{Base: time.Second, Max: 30 \* time.Second, Jitter: retry.NoJitter},\n\t}}}$`
	client.RetryMax = 3
	_, _ = client.Get("http://localhost")
	_, _ = retryablehttp.Get("http://localhost") // want `hashicorp/go-retryablehttp: not rewritten: use an http.Client whose Transport is a retryhttp.Transport`
}

// A client that is written as a literal.
func literals() (*http.Client, *retryablehttp.Client) {
	client := &retryablehttp.Client{RetryMax: 3}                                                           // want `use an http.Client whose Transport is a retryhttp.Transport`
	return &http.Client{Transport: &retryablehttp.RoundTripper{Client: client}}, new(retryablehttp.Client) // want `use an http.Client whose Transport is a retryhttp.Transport`
}
