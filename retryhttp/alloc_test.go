package retryhttp_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/internal/race"
	"github.com/goretry/retry/retryhttp"
)

// canned answers without a network: what remains is the price of a Transport.
var canned = tripper(func(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Body: http.NoBody, Request: req}, nil
})

func TestFirstTryAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	for name, tt := range map[string]struct {
		rt   *retryhttp.Transport
		want float64
	}{
		"zero value":     {&retryhttp.Transport{Base: canned}, 1},
		"AttemptTimeout": {&retryhttp.Transport{Base: canned, Policy: retry.Policy{AttemptTimeout: time.Minute}}, 6},
		"all set": {&retryhttp.Transport{Base: canned, AttemptHeader: "Attempt", Policy: retry.Policy{
			Name: "x", Budget: &budget.Token{}, Hooks: retry.SlogHooks(nil)}}, 3}, // two are for Hooks.Wait, before which the response is freed
	} {
		t.Run(name, func(t *testing.T) {
			req := request(t, "GET", "http://example.com/", nil)
			measure := func(rt http.RoundTripper) float64 {
				return testing.AllocsPerRun(1000, func() { _, _ = rt.RoundTrip(req) })
			}
			if got := measure(tt.rt) - measure(canned); got > tt.want {
				t.Errorf("%v allocations more than without, want at most %v", got, tt.want)
			}
		})
	}
}
