package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
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

	mu       sync.Mutex
	made     int
	requests int
	first    int                // payments that the first request has made
	took     []time.Duration    // by the first requests of payments
	told     map[string]payment // by id: the gateway said that it was applied
}

// open returns once the gateway and a ledger behind it answer.
func (s *shops) open(ctx context.Context) error {
	return retry.Run(ctx, retry.Policy{Name: "open", MaxElapsed: time.Minute, MaxAttempts: retry.Unlimited, Backoff: retry.Constant(100 * time.Millisecond)},
		func(ctx context.Context) error {
			resp, err := s.client.Get(s.url + "/accounts/1/balance")
			if err != nil {
				return err
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				return errors.New(resp.Status)
			}
			return nil
		})
}

// pay makes payments for length, and returns once it knows what became of each.
func (s *shops) pay(ctx context.Context, length time.Duration, rate int) {
	var all sync.WaitGroup
	defer all.Wait()
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for end := time.After(length); ; {
		select {
		case <-tick.C:
		case <-end:
			return
		case <-ctx.Done():
			return
		}
		s.made++
		id := fmt.Sprint("payment-", s.made)
		all.Go(func() { s.one(ctx, id) })
	}
}

// one repeats a payment with its key until there is an answer. The person before the
// screen is no policy: this loop only stands for them.
func (s *shops) one(ctx context.Context, id string) {
	from := rand.Int64N(accounts)
	p := payment{From: 1 + from, To: 1 + (from+1+rand.Int64N(accounts-1))%accounts, Amount: 1 + rand.Int64N(20)}
	for n := range retry.Ticks(ctx, retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Exponential{Base: 200 * time.Millisecond, Max: 2 * time.Second}}) {
		began := time.Now()
		ok, patient := s.ask(ctx, id, p)
		if n == 1 && patient {
			s.note(ok, time.Since(began))
		}
		if ok {
			return
		}
	}
}

// note counts the first request of a payment, of a client that has not hung up.
func (s *shops) note(ok bool, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = append(s.took, took)
	if ok {
		s.first++
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
	resp, err := s.client.Do(req)
	ok = err == nil && resp.StatusCode == http.StatusOK
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	if ok {
		s.told[id] = p
	}
	return ok, patient
}

// thirdParty is a webhook that fails now and then.
type thirdParty struct {
	server *httptest.Server
	away   atomic.Bool

	mu       sync.Mutex
	requests int
	notified map[string]bool
}

func newThirdParty() *thirdParty {
	t := &thirdParty{notified: map[string]bool{}}
	t.server = httptest.NewServer(t)
	return t
}

func (t *thirdParty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requests++
	switch dice := rand.IntN(20); {
	case t.away.Load(), dice == 0:
		http.Error(w, "away", http.StatusServiceUnavailable)
	case dice == 1:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many", http.StatusTooManyRequests)
	default:
		t.notified[strings.Trim(r.Header.Get("Idempotency-Key"), `"`)] = true
	}
}

// check waits until the queue is empty, and counts.
func (s *shops) check(ctx context.Context, w io.Writer, c config, third *thirdParty) error {
	count, err := retry.Do(ctx, retry.Policy{Name: "drain", MaxElapsed: time.Minute, MaxAttempts: retry.Unlimited, Backoff: retry.Constant(200 * time.Millisecond)},
		func(ctx context.Context) (count, error) {
			n, err := query(ctx, c.Postgres)
			third.mu.Lock()
			defer third.mu.Unlock()
			if err == nil && (n.outbox > 0 || len(third.notified) < len(n.payments)) {
				err = fmt.Errorf("%d payments, %d in the outbox, %d notified", len(n.payments), n.outbox, len(third.notified))
			}
			return n, err
		})
	if err != nil {
		return err
	}
	third.mu.Lock()
	defer third.mu.Unlock()
	lost, ghosts := 0, 0
	for id, p := range s.told {
		if count.payments[id] != p {
			lost++
		}
	}
	for id := range third.notified {
		if _, ok := count.payments[id]; !ok {
			ghosts++
		}
	}
	if len(s.took) == 0 {
		return errors.New("no payment was made")
	}
	slices.Sort(s.took)
	fmt.Fprintf(w, `
%d payments in %d requests
%d of %d first requests succeeded, of clients that did not hang up; p99 %v
%d applied, %d that shops were told of lost or changed
%d in all accounts, %d accounts differ from their payments
%d notified in %d requests, %d of them of nothing
`, s.made, s.requests, s.first, len(s.took), s.took[len(s.took)*99/100].Round(time.Millisecond), len(count.payments), lost, count.sum, count.wrong, len(third.notified), third.requests, ghosts)
	switch {
	case lost > 0 || ghosts > 0 || count.wrong > 0 || count.sum != accounts*opening:
		return errors.New("the books are wrong")
	case len(s.told) != s.made || len(count.payments) != s.made:
		return fmt.Errorf("%d payments were made, shops were told of %d, and %d are in the books", s.made, len(s.told), len(count.payments))
	}
	return nil
}
