package migrate_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// likeNewClient returns what docs/migrating.md has for retryablehttp.NewClient.
func likeNewClient() *http.Client {
	client := &http.Client{Transport: &retryhttp.Transport{Policy: retry.Policy{
		MaxAttempts: 5,
		Backoff:     retry.Exponential{Base: time.Second, Max: 30 * time.Second, Jitter: retry.NoJitter},
	}}}
	return client
}

// unavailable answers 503, and notes when it was asked.
type unavailable struct{ at []time.Time }

func (u *unavailable) RoundTrip(req *http.Request) (*http.Response, error) {
	u.at = append(u.at, time.Now())
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody, Request: req}, nil
}

// Five attempts, as with RetryMax 4, and the waits of RetryWaitMin and RetryWaitMax.
func TestLikeNewClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := &unavailable{}, likeNewClient()
		client.Transport.(*retryhttp.Transport).Base = server
		resp, err := client.Get("http://users.test/")
		if err != nil || resp.StatusCode != http.StatusServiceUnavailable {
			t.Fatalf("%v, %v, want the last response", resp, err)
		}
		resp.Body.Close()
		var waits []time.Duration
		for i := 1; i < len(server.at); i++ {
			waits = append(waits, server.at[i].Sub(server.at[i-1]))
		}
		equal(t, "waits", waits, seconds(1, 2, 4, 8))
	})
}
