package retryhttp_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// BenchmarkFirstTry compares transports that differ only in the retries, on a
// request that succeeds at once: without a network, where the difference can be
// seen, and over a loopback connection, where it has to be looked for.
func BenchmarkFirstTry(b *testing.B) {
	s := serve(b, statuses(200))
	for _, network := range []struct {
		name string
		base http.RoundTripper
	}{{"canned", canned}, {"loopback", s.base}} {
		for _, row := range []struct {
			name, method string
			rt           http.RoundTripper
		}{
			{"GET/plain", "GET", network.base},
			{"GET/retryhttp", "GET", &retryhttp.Transport{Base: network.base}},
			{"GET/AttemptTimeout", "GET", &retryhttp.Transport{Base: network.base, Policy: retry.Policy{AttemptTimeout: time.Minute}}},
			{"POST/plain", "POST", network.base},
			{"POST/retryhttp", "POST", &retryhttp.Transport{Base: network.base}},
		} {
			b.Run(network.name+"/"+row.name, func(b *testing.B) {
				req := request(b, row.method, s.URL, nil)
				b.ReportAllocs()
				for b.Loop() {
					resp, err := row.rt.RoundTrip(req)
					if err != nil {
						b.Fatal(err)
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			})
		}
	}
}
