package retryhttp_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"os"
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

// outcome is in percent: of the requests those that were refused, of the quota what was used, and of the calls those
// that failed.
type outcome struct{ refused, used, failed float64 }

func (o outcome) String() string {
	return fmt.Sprintf("%.1f %% refused, %.0f %% used, %.1f %% failed", o.refused, o.used, o.failed)
}

// use lets five workers of each process call p for a time, each process with a pace of its own if byHeaders is
// set, else with none.
func (q provides) use(t *testing.T, processes int, d time.Duration, byHeaders bool) (o outcome) {
	p := provider{provides: q}
	var calls, failed float64
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		var wg sync.WaitGroup
		var transport *retryhttp.Transport
		for i := range 5 * processes {
			if i%5 == 0 {
				transport = &retryhttp.Transport{Base: &p, PaceByHeaders: byHeaders, Policy: retry.Policy{MaxAttempts: 5, MaxRetryAfter: 2 * time.Minute}}
				if byHeaders {
					transport.Policy.Guards = []retry.Guard{new(pace.Pace)}
				}
			}
			client := &http.Client{Transport: transport}
			wg.Go(func() {
				for ctx.Err() == nil {
					call, end := context.WithTimeout(ctx, 2*time.Minute)
					req, _ := http.NewRequestWithContext(call, "GET", "http://model.example/", nil)
					resp, err := client.Do(req)
					if err == nil {
						resp.Body.Close()
					}
					end()
					if ctx.Err() != nil {
						break // the test is over
					}
					p.mu.Lock()
					calls++
					if err != nil || resp.StatusCode != 200 {
						failed++
					}
					p.mu.Unlock()
					if err != nil {
						time.Sleep(time.Second)
					}
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
	return outcome{100 * float64(p.bad) / float64(p.ok+p.bad), 100 * float64(p.ok) / all, 100 * failed / calls}
}

// A pace without a Quota takes it from the headers of a provider. In one process hardly a request is refused. Two
// and ten, each with five callers and a pace that knows nothing of the others, are compared with no pace at all.
func TestQuotasOfHeaders(t *testing.T) {
	const minute = time.Minute
	for _, tt := range []struct {
		name string
		p    provides
		most float64 // of the requests of one process, in percent, that may be refused
	}{
		{"OpenAI, 60", provides{limit: 60, per: minute, says: saysOpenAI}, .5},
		{"OpenAI, 500", provides{limit: 500, per: minute, says: saysOpenAI}, .5},
		{"a day", provides{limit: 1440, per: 24 * time.Hour, says: saysOpenAI}, .5},
		{"Anthropic", provides{limit: 50, per: minute, says: saysAnthropic}, .5},
		{"GitHub", provides{limit: 500, per: time.Hour, window: true, says: saysGitHub}, 2},
		{"the draft", provides{limit: 500, per: minute, window: true, says: saysDraft}, 1},
	} {
		one := tt.p.use(t, 1, 8*minute, true)
		t.Logf("%s, one process: %v", tt.name, one)
		if one.refused > tt.most || one.used < 99 {
			t.Errorf("%s: %v", tt.name, one)
		}
		if os.Getenv("RETRY_LONG") != "1" && tt.name != "Anthropic" {
			continue
		}
		for _, n := range []int{1, 2, 10} {
			with, without := tt.p.use(t, n, 8*minute, true), tt.p.use(t, n, 8*minute, false)
			t.Logf("%s, %d: %v; without: %v", tt.name, n, with, without)
			if with.refused > without.refused || with.used < min(99, without.used) || with.failed > without.failed {
				t.Errorf("%s, %d: %v; without: %v", tt.name, n, with, without)
			}
		}
	}
}
