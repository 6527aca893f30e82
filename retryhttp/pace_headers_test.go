package retryhttp_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retryhttp"
)

type provides struct {
	limit  float64
	per    time.Duration
	window bool // or a bucket that fills evenly
	says   func(p *provider, h http.Header)
}

// provider counts requests as providers document it, and says so in the headers of each answer.
type provider struct {
	provides
	mu      sync.Mutex
	left    float64
	at      time.Time // of left
	ends    time.Time // the window
	ok, bad int
}

func (p *provider) RoundTrip(req *http.Request) (*http.Response, error) {
	time.Sleep(20 * time.Millisecond)
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	switch {
	case p.at.IsZero(), p.window && !now.Before(p.ends):
		p.left, p.ends = p.limit, now.Truncate(p.per).Add(p.per)
	case !p.window:
		p.left = min(p.left+p.limit*now.Sub(p.at).Seconds()/p.per.Seconds(), p.limit)
	}
	p.at = now
	resp := response(req, 200, "")
	if p.left < 1 {
		p.bad++
		resp = response(req, 429, "", "Retry-After", strconv.Itoa(int(math.Ceil(max(p.full().Seconds()/p.limit, 1)))))
		if p.window {
			resp = response(req, 429, "", "Retry-After", strconv.Itoa(int(math.Ceil(p.ends.Sub(now).Seconds()))))
		}
	} else {
		p.ok++
		p.left--
	}
	p.says(p, resp.Header)
	return resp, nil
}

// full is when all of the quota may be used.
func (p *provider) full() time.Duration {
	if p.window {
		return p.ends.Sub(p.at)
	}
	return time.Duration((p.limit - p.left) / p.limit * float64(p.per))
}

func set(h http.Header, pairs ...any) {
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i].(string), fmt.Sprint(pairs[i+1]))
	}
}

func saysOpenAI(p *provider, h http.Header) {
	set(h, "X-Ratelimit-Limit-Requests", p.limit, "X-Ratelimit-Remaining-Requests", int(p.left), "X-Ratelimit-Reset-Requests", p.full().Round(time.Millisecond))
}

func saysAnthropic(p *provider, h http.Header) {
	set(h, "Anthropic-Ratelimit-Requests-Limit", p.limit, "Anthropic-Ratelimit-Requests-Remaining", int(p.left), "Anthropic-Ratelimit-Requests-Reset", p.at.Add(p.full()).UTC().Format(time.RFC3339))
}

func saysGitHub(p *provider, h http.Header) {
	set(h, "X-Ratelimit-Resource", "core", "X-Ratelimit-Limit", p.limit, "X-Ratelimit-Remaining", int(p.left), "X-Ratelimit-Reset", p.ends.Unix())
}

func saysDraft(p *provider, h http.Header) {
	set(h, "Ratelimit-Policy", fmt.Sprintf(`"a";q=%v;w=%v`, p.limit, p.per.Seconds()), "Ratelimit", fmt.Sprintf(`"a";r=%d;t=%d`, int(p.left), int(p.full().Seconds())))
}

// use lets five workers of each process call p for a time, each process with a pace of its own, and
// returns how many percent of the requests were refused, and of the quota used.
func (q provides) use(t *testing.T, processes int, d time.Duration, byHeaders bool) (refused, used float64) {
	p := provider{provides: q}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		var wg sync.WaitGroup
		var transport *retryhttp.Transport
		for i := range 5 * processes {
			if i%5 == 0 {
				transport = &retryhttp.Transport{
					Base: &p, PaceByHeaders: byHeaders,
					Policy: retry.Policy{MaxAttempts: 5, Guards: []retry.Guard{new(pace.Pace)}, MaxRetryAfter: 2 * time.Minute},
				}
			}
			client := &http.Client{Transport: transport}
			wg.Go(func() {
				for ctx.Err() == nil {
					call, end := context.WithTimeout(ctx, 2*time.Minute)
					req, _ := http.NewRequestWithContext(call, "GET", "http://model.example/", nil)
					if resp, err := client.Do(req); err == nil {
						resp.Body.Close()
					} else {
						time.Sleep(time.Second)
					}
					end()
				}
			})
		}
		wg.Wait()
	})
	all := p.limit * d.Seconds() / p.per.Seconds()
	if p.window {
		all = p.limit * math.Ceil(d.Seconds()/p.per.Seconds())
	} else {
		all += p.limit
	}
	return 100 * float64(p.bad) / float64(p.ok+p.bad), 100 * float64(p.ok) / all
}

// A pace without a Quota takes it from the headers of a provider. Where other processes use it too,
// it learns.
func TestQuotasOfHeaders(t *testing.T) {
	for _, tt := range []struct {
		name      string
		p         provides
		processes int
		most      float64 // of the requests that may be refused: more than without PaceByHeaders, if several processes use it
	}{
		{"OpenAI", provides{limit: 60, per: time.Minute, says: saysOpenAI}, 1, 1},
		{"OpenAI, 500", provides{limit: 500, per: time.Minute, says: saysOpenAI}, 1, .2},
		{"a day", provides{limit: 1440, per: 24 * time.Hour, says: saysOpenAI}, 1, .5},
		{"Anthropic", provides{limit: 50, per: time.Minute, says: saysAnthropic}, 1, 1.2},
		{"GitHub", provides{limit: 500, per: time.Hour, window: true, says: saysGitHub}, 1, 4},
		{"the draft", provides{limit: 100, per: time.Minute, window: true, says: saysDraft}, 1, 1},
		{"OpenAI, ten", provides{limit: 500, per: time.Minute, says: saysOpenAI}, 10, 25},
		{"the draft, ten", provides{limit: 500, per: time.Minute, window: true, says: saysDraft}, 10, 15},
	} {
		refused, used := tt.p.use(t, tt.processes, 8*time.Minute, true)
		if tt.processes > 1 {
			without, _ := tt.p.use(t, tt.processes, 8*time.Minute, false)
			t.Logf("%s: %.1f %% without", tt.name, without)
			refused -= without
		}
		if refused > tt.most || used < 90 {
			t.Errorf("%s: %.1f %% refused, %.0f %% of the quota used", tt.name, refused, used)
		}
	}
}
