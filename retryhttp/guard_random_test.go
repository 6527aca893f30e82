package retryhttp_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/retryhttp"
)

// copyID says which copy of which attempt a pass was for.
type copyID struct {
	attempt int
	hedge   bool
}

// ledger is a guard that numbers its passes, and knows how each was left.
type ledger struct {
	mu    sync.Mutex
	enter func() (retry.Pass, error) // nil admits all
	ids   []copyID
	exits map[int]retry.Exit
	twice bool
}

func (l *ledger) Enter(_ context.Context, e retry.Entry) (retry.Pass, error) {
	var p retry.Pass
	var err error
	if l.enter != nil {
		p, err = l.enter()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.ids = append(l.ids, copyID{e.Number, e.Hedge})
		p.Round = uint64(len(l.ids))
	}
	return p, err
}

func (l *ledger) Leave(p retry.Pass, x retry.Exit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.exits[int(p.Round)]; ok || p.Round == 0 {
		l.twice = true
	}
	l.exits[int(p.Round)] = x
}

// Whatever happens to an attempt, each pass is left once, with what became of that copy.
func TestRandomRequestsLeaveEachPassOnce(t *testing.T) {
	const ms = time.Millisecond
	type outcome struct {
		status int  // 0: an error, or none
		ended  bool // its context, before or at the end
		panics bool
	}
	for seed := range uint64(1500) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 9))
			var mu sync.Mutex
			random := func(n int) int {
				mu.Lock()
				defer mu.Unlock()
				return rng.IntN(n)
			}
			made := map[copyID]outcome{}
			guards := []*ledger{{exits: map[int]retry.Exit{}}, {exits: map[int]retry.Exit{}}}
			if random(2) == 0 {
				guards[1].enter = func() (retry.Pass, error) {
					switch random(8) {
					case 0:
						return retry.Pass{}, errReset
					case 1:
						return retry.Pass{Wait: 5 * ms}, nil
					}
					return retry.Pass{}, nil
				}
			}
			base := tripper(func(req *http.Request) (resp *http.Response, err error) {
				id, o := copyID{retry.AttemptNumber(req.Context()), hedge.Number(req.Context()) > 1}, outcome{}
				defer func() {
					mu.Lock()
					made[id] = o
					mu.Unlock()
				}()
				select {
				case <-time.After(time.Duration(random(60)) * ms):
				case <-req.Context().Done():
					if random(2) == 0 {
						o.ended = true
						return nil, context.Cause(req.Context())
					}
				}
				o.ended = req.Context().Err() != nil
				switch random(10) {
				case 0:
					o.panics = true
					panic("base")
				case 1, 2:
					return nil, errReset
				case 3, 4:
					o.status = 503
				case 5:
					o.status = 429
				case 6:
					o.status = 404
				default:
					o.status = 200
				}
				body := io.ReadCloser(io.NopCloser(strings.NewReader("{}")))
				if random(5) == 0 {
					body = http.NoBody
				}
				return &http.Response{StatusCode: o.status, Header: http.Header{}, Body: body, Request: req}, nil
			})
			rt := &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 1 + random(3), Backoff: retry.Constant(ms),
				Guards: []retry.Guard{guards[0], nil, guards[1]}}}
			if random(2) == 0 {
				rt.Policy.AttemptTimeout = time.Duration(20+random(40)) * ms
			}
			if random(2) == 0 {
				rt.Hedge = always(time.Duration(5+random(20)) * ms)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(40+random(200))*ms)
			json, ended := random(3) == 0, make(chan struct{})
			how := random(4)
			go func() {
				defer close(ended)
				defer func() { _ = recover() }()
				req := request(t, "GET", "http://example.com/", nil).WithContext(ctx)
				if json {
					_, _ = retryhttp.JSON[any](ctx, rt.Policy, &http.Client{Transport: rt}, req)
					return
				}
				resp, err := rt.RoundTrip(req)
				if err != nil {
					return
				}
				switch how {
				case 0:
					_, _ = io.Copy(io.Discard, resp.Body)
				case 1:
					resp.Body.Close()
				case 2:
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				} // else its context ends
			}()
			<-ended
			cancel()
			synctest.Wait()
			for i, g := range guards {
				if len(g.exits) != len(g.ids) || g.twice {
					t.Fatalf("seed %d: guard %d admitted %d and was left %d times; twice: %v", seed, i, len(g.ids), len(g.exits), g.twice)
				}
				for n, id := range g.ids {
					x := g.exits[n+1]
					o, sent := made[id]
					if slices.Contains(g.ids[n+1:], id) { // another guard has refused it, and all were called again
						sent = false
					}
					bad := ""
					switch {
					case !sent:
						if x.Ending != retry.NotMade {
							bad = "was not sent"
						}
					case o.panics:
						if x.Ending != retry.Panicked {
							bad = "has panicked"
						}
					case x.Ending == retry.NotMade, x.Ending == retry.Panicked:
						bad = "was made"
					case o.ended:
						if x.Ending == retry.Returned && o.status != 200 && o.status != 404 {
							bad = "was ended"
						}
					case x.Ending == retry.Canceled: // a body, or a race that was decided at the same instant
					case o.status == 503 && x.Ending == retry.Returned && x.Verdict.Class != retry.Transient,
						o.status == 429 && x.Ending == retry.Returned && x.Verdict.Class != retry.Throttled,
						o.status == 200 && x.Ending == retry.Returned && x.Verdict.Err != nil && !json && !errors.Is(x.Verdict.Err, context.Canceled):
						bad = "has another class"
					}
					if bad != "" {
						t.Errorf("seed %d, JSON %v, hedged %v: guard %d: copy %+v, which %s (%+v), came to %+v", seed, json, rt.Hedge != nil, i, id, bad, o, x)
					}
				}
			}
		})
	}
}
