package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
)

// shops make payments, and remember what they were told.
type shops struct {
	url    string
	client http.Client
	once   bool

	mu       sync.Mutex
	made     int
	requests int
	cut, bad int                // connections that were cut, answers 500
	firsts   []first            // requests of payments
	told     map[string]payment // by id: the gateway said that it was applied
}

// first is the first request of a payment, of a client that did not hang up.
type first struct {
	at, took time.Duration // since the load began
	ok       bool
}

// newShops returns shops of which each request has a connection of its own, as those of many
// have. So net/http never hides by a request of its own that a connection was cut.
func newShops(url string, once bool) *shops {
	return &shops{url: url, client: http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, once: once, told: map[string]payment{}}
}

// open returns once the gateway and a ledger behind it answer.
func (s *shops) open(ctx context.Context) error {
	return retry.Run(ctx, retry.Policy{Name: "open", MaxElapsed: time.Minute, MaxAttempts: retry.Unlimited, Backoff: retry.Constant(100 * time.Millisecond)},
		func(ctx context.Context) error { return s.get(ctx, "/accounts/1/balance", nil) })
}

// ready is a balancer's probe.
func (s *shops) ready(ctx context.Context) error { return s.get(ctx, "/ready", nil) }

func (s *shops) get(ctx context.Context, path string, v any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		return err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	if v == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(v)
}

// pay makes payments for length, whether others are answered or not, and returns once it
// knows what became of each, or a minute later.
func (s *shops) pay(ctx context.Context, length time.Duration, rate int) {
	ctx, cancel := context.WithTimeout(ctx, length+time.Minute)
	defer cancel()
	var all sync.WaitGroup
	defer all.Wait()
	for began, n := time.Now(), 0; ; n++ {
		at := time.Duration(n) * time.Second / time.Duration(max(rate, 1))
		if at >= length || ctx.Err() != nil {
			return
		}
		time.Sleep(time.Until(began.Add(at)))
		s.made++
		all.Go(func() { s.one(ctx, fmt.Sprint("payment-", n), at) })
	}
}

var errNotApplied = errors.New("the payment may not be applied")

// one repeats a payment with its key until there is an answer. The person before the
// screen is no policy: this loop only stands for them.
func (s *shops) one(ctx context.Context, id string, at time.Duration) {
	from := rand.Int64N(accounts)
	p := payment{From: 1 + from, To: 1 + (from+1+rand.Int64N(accounts-1))%accounts, Amount: 1 + rand.Int64N(20)}
	a := retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Exponential{Base: 200 * time.Millisecond, Max: 2 * time.Second}}.Attempts(ctx)
	defer a.Close()
	for a.Next() {
		began := time.Now()
		ok, patient := s.ask(ctx, id, p)
		if a.Number() == 1 && patient {
			s.mu.Lock()
			s.firsts = append(s.firsts, first{at, time.Since(began), ok})
			s.mu.Unlock()
		}
		if ok || s.once {
			a.Done(nil)
			return
		}
		a.Done(errNotApplied)
	}
}

// ask makes a request, and reports whether the payment was applied, and whether the
// client was patient.
func (s *shops) ask(ctx context.Context, id string, p payment) (ok, patient bool) {
	patience := 3 * time.Second
	if patient = rand.IntN(10) > 0; !patient { // it hangs up
		patience = time.Duration(1+rand.IntN(15)) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	body, _ := json.Marshal(p)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/payments", bytes.NewReader(body))
	if err != nil {
		return false, patient
	}
	req.Header.Set("Idempotency-Key", `"`+id+`"`)
	req.Header.Set("X-Timeout-Ms", fmt.Sprint(patience.Milliseconds()))
	req.Header.Set("traceparent", traceOf(id))
	resp, err := s.client.Do(req)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	switch {
	case err != nil && ctx.Err() == nil:
		s.cut++
		logger(os.Stderr).Error("cut", "error", err)
	case err == nil && resp.StatusCode == http.StatusInternalServerError:
		s.bad++
	case err == nil && resp.StatusCode == http.StatusOK:
		s.told[id] = p
		return true, patient
	}
	return false, patient
}

// traceOf returns the trace that a payment belongs to.
func traceOf(id string) string { return fmt.Sprintf("00-%x-0000000000000001-01", md5.Sum([]byte(id))) }

// thirdParty is a webhook that fails now and then.
type thirdParty struct {
	server *httptest.Server
	away   atomic.Bool

	mu       sync.Mutex
	requests int
	cut      int               // callers that left
	notified map[string]string // the trace of each payment
}

func newThirdParty() *thirdParty {
	t := &thirdParty{notified: map[string]string{}}
	t.server = httptest.NewServer(t)
	return t
}

func (t *thirdParty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	time.Sleep(20 * time.Millisecond)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requests++
	if r.Context().Err() != nil {
		t.cut++
	}
	switch dice := rand.IntN(20); {
	case t.away.Load(), dice == 0:
		http.Error(w, "away", http.StatusServiceUnavailable)
	case dice == 1:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many", http.StatusTooManyRequests)
	default:
		t.notified[strings.Trim(r.Header.Get("Idempotency-Key"), `"`)] = r.Header.Get("traceparent")
	}
}

// figure is what one number says.
type figure struct {
	Name  string
	Value float64
}

// check waits until the queue is empty, and counts.
func (s *shops) check(ctx context.Context, c config, third *thirdParty) ([]figure, error) {
	var notified map[string]string
	count, err := retry.Do(ctx, retry.Policy{Name: "drain", MaxElapsed: time.Minute, MaxAttempts: retry.Unlimited, Backoff: retry.Constant(200 * time.Millisecond)},
		func(ctx context.Context) (count, error) {
			third.mu.Lock()
			notified = maps.Clone(third.notified)
			third.mu.Unlock()
			n, err := query(ctx, c.Postgres)
			if err == nil && (n.outbox > 0 || len(notified) < len(n.payments)) {
				err = fmt.Errorf("%d payments, %d in the outbox, %d notified", len(n.payments), n.outbox, len(notified))
			}
			return n, err
		})
	if err != nil {
		return nil, err
	}
	var sent [2]float64
	if err := s.get(ctx, "/debug/sent", &sent); err != nil {
		return nil, err
	}
	third.mu.Lock()
	defer third.mu.Unlock()
	var lost, ghosts, astray int
	for id, p := range s.told {
		if count.payments[id] != p {
			lost++
		}
	}
	for id, trace := range notified {
		if _, ok := count.payments[id]; !ok {
			ghosts++
		}
		if len(trace) < 35 || trace[:35] != traceOf(id)[:35] {
			astray++
		}
	}
	if len(s.firsts) == 0 {
		return nil, errors.New("no payment was made")
	}
	figures := append(s.figures(),
		figure{"transfers sent to ledgers", sent[0]}, figure{"of these retries", sent[1]},
		figure{"payments applied", float64(len(count.payments))}, figure{"that shops were told of lost or changed", float64(lost)},
		figure{"in all accounts", float64(count.sum)}, figure{"accounts differ from their payments", float64(count.wrong)},
		figure{"notified", float64(len(notified))}, figure{"in requests", float64(third.requests)}, figure{"of nothing", float64(ghosts)},
		figure{"with another trace", float64(astray)}, figure{"cut while the third party worked", float64(third.cut)})
	switch {
	case lost > 0 || ghosts > 0 || astray > 0 || count.wrong > 0 || count.sum != accounts*opening:
		err = errors.New("the books are wrong")
	case !s.once && (len(s.told) != s.made || len(count.payments) != s.made):
		err = fmt.Errorf("%d payments were made, shops were told of %d, and %d are in the books", s.made, len(s.told), len(count.payments))
	}
	return figures, err
}

// figures says what clients saw.
func (s *shops) figures() []figure {
	slices.SortFunc(s.firsts, func(a, b first) int { return cmp.Compare(a.at, b.at) })
	var succeeded, failed []first
	late, third := 0, s.firsts[2*len(s.firsts)/3:]
	for _, f := range s.firsts {
		if f.ok {
			succeeded = append(succeeded, f)
		} else {
			failed = append(failed, f)
		}
	}
	for _, f := range third {
		if f.ok {
			late++
		}
	}
	var span time.Duration
	if len(failed) > 0 {
		last := failed[len(failed)-1]
		span = last.at + last.took - failed[0].at
	}
	p99 := func(of []first) float64 {
		if len(of) == 0 {
			return 0
		}
		slices.SortFunc(of, func(a, b first) int { return cmp.Compare(a.took, b.took) })
		return math.Round(of[len(of)*99/100].took.Seconds() * 1000)
	}
	return []figure{
		{"payments", float64(s.made)}, {"requests", float64(s.requests)}, {"connections cut", float64(s.cut)}, {"answers 500", float64(s.bad)},
		{"first requests, of clients that did not hang up", float64(len(s.firsts))}, {"of these succeeded", float64(len(succeeded))},
		{"failed", float64(len(failed))}, {"% succeeded in the last third", math.Round(1000*float64(late)/float64(len(third))) / 10},
		{"seconds from the first failure to the last", math.Round(span.Seconds()*10) / 10},
		{"ms p99 of those that succeeded", p99(succeeded)}, {"ms p99 of those that failed", p99(failed)},
	}
}
