package helpers

import (
	"log"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

type limits struct {
	tries           int
	shortest, limit time.Duration
}

func client(l limits, c *http.Client, verbose bool) *http.Client {
	rc := retryablehttp.NewClient() // want `other code may know its type; POST and PATCH are sent again only on proof that they did nothing, or with an idempotency key; the new client needs the other fields of c; what becomes of CheckRetry, Logger: https://github.com/goretry/retry/blob/main/examples/migrate/README.md#hashicorpgo-retryablehttp. By hand:\n\trc := &http.Client{Transport: &retryhttp.Transport{Base: c.Transport, Policy: retry.Policy{\n\t\tMaxAttempts:    l.tries \+ 1,\n\t\tBackoff:        retry.Exponential{Base: l.shortest, Max: l.limit, Jitter: retry.NoJitter},\n\t\tAttemptTimeout: time.Minute,\n\t}}}$`
	rc.HTTPClient = c
	rc.RetryMax = l.tries
	rc.RetryWaitMin, rc.RetryWaitMax = l.shortest, l.limit
	rc.HTTPClient.Timeout = time.Minute
	rc.Logger = nil
	rc.CheckRetry = retryablehttp.ErrorPropagatedRetryPolicy
	rc.Backoff = retryablehttp.DefaultBackoff
	rc.ErrorHandler = retryablehttp.PassthroughErrorHandler
	if verbose {
		rc.Logger = log.Default()
	}
	return rc.StandardClient()
}

func atOnce() *http.Client {
	rc := retryablehttp.NewClient() // want `they got an error. By hand:\n\trc := &http.Client{Transport: &retryhttp.Transport{Policy: retry.Policy{\n\t\tMaxAttempts: 1,\n\t\tBackoff:     retry.Constant\(0\),\n`
	rc.RetryMax = 0
	rc.RetryWaitMin = 0
	rc.RetryWaitMax = 0
	return rc.StandardClient()
}

type service struct{ client *retryablehttp.Client }

func field() *service {
	s := &service{}
	s.client = retryablehttp.NewClient() // want `not rewritten: use an http.Client whose Transport is a retryhttp.Transport; what becomes of each field: https://`
	s.client.RetryMax = 2
	return s
}
