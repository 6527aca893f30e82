package migrate

// retryablehttp is hashicorp/go-retryablehttp. No call of it is rewritten.
var retryablehttp = family{"github.com/hashicorp/go-retryablehttp", func(int) *library {
	return &library{
		title:   "hashicorp/go-retryablehttp",
		entries: []string{"NewClient", "Get", "Head", "Post", "PostForm"},
		clients: []string{"Client", "RoundTripper"},
		instead: "use an http.Client whose Transport is a retryhttp.Transport; what becomes of each field: https://github.com/goretry/retry/blob/main/examples/migrate/README.md#hashicorpgo-retryablehttp",
	}
}}
