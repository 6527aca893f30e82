package retryablehttp

import "github.com/hashicorp/go-retryablehttp"

func calls() {
	client := retryablehttp.NewClient() // want `hashicorp/go-retryablehttp: not rewritten: use an http.Client whose Transport is a retryhttp.Transport`
	client.RetryMax = 3
	_, _ = client.Get("http://localhost")
	_, _ = retryablehttp.Get("http://localhost") // want `hashicorp/go-retryablehttp: not rewritten: use an http.Client whose Transport is a retryhttp.Transport`
}
