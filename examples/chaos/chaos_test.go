package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
)

func TestProgram(t *testing.T) {
	for _, seed := range []uint64{0, 7} {
		var out strings.Builder
		if err := run(&out, seed); err != nil {
			t.Errorf("seed %d: %v\n%s", seed, err, out.String())
		}
	}
}

// One seed injects the same faults each time, near the shares. Each has the effect that it
// promises.
func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var first Counts
		for round := range 2 {
			c, done, failed := New(7, shares), 0, 0
			late := map[time.Duration]int{}
			op := Op(c, func(context.Context) (int, error) { done++; return 1, nil })
			for range 1000 {
				begin := time.Now()
				_, err := op(t.Context())
				if late[time.Since(begin)]++; errors.Is(err, ErrInjected) {
					failed++
				} else if err != nil {
					t.Fatal(err)
				}
			}
			n := c.Counts()
			if round == 0 {
				first = n
			}
			if n != first || n.Attempts != 1000 || n.Failed != failed || done != 1000-failed || late[shares.Wait] != n.Delayed+n.Late {
				t.Errorf("%+v, then %+v; %d failed, %d done, %v", first, n, failed, done, late)
			}
			if min(n.Failed, n.Delayed, n.Late) < 80 || max(n.Failed, n.Delayed, n.Late) > 120 {
				t.Errorf("%+v, want about a hundred each", n)
			}
		}
	})
}

// An attempt that is answered after its time has failed, but was made; one that is sent too late was not.
func TestLateAttempts(t *testing.T) {
	for name, tt := range map[string]struct {
		shares Shares
		made   int
	}{
		"sent late":     {Shares{Delay: 1, Wait: time.Second}, 0},
		"answered late": {Shares{Late: 1, Wait: time.Second}, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			made := 0
			p := retry.Policy{MaxAttempts: 3, AttemptTimeout: 10 * time.Millisecond}
			err := retry.Run(t.Context(), p, func(ctx context.Context) error {
				_, err := Op(New(1, tt.shares), func(context.Context) (int, error) { made++; return 1, nil })(ctx)
				return err
			})
			if !errors.Is(err, context.DeadlineExceeded) || made != tt.made {
				t.Errorf("%s: %v, made %d times, want %d", name, err, made, tt.made)
			}
		})
	}
}

// Base keeps the promises of a RoundTripper.
func TestBaseClosesBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, s := range map[string]Shares{"failed": {Fail: 1}, "answered late": {Late: 1, Wait: time.Second}} {
			sent, got := new(body), new(body)
			base := New(1, s).Base(roundTripper(func(req *http.Request) (*http.Response, error) {
				req.Body.Close()
				return &http.Response{StatusCode: 200, Body: got, Request: req}, nil
			}))
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://example.com/", sent)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := base.RoundTrip(req)
			if err == nil || resp != nil || !sent.closed || got.closed != (s.Late > 0) {
				t.Errorf("%s: %v, %v; closed are the request's body: %v, the response's: %v", name, resp, err, sent.closed, got.closed)
			}
		}
	})
}

type body struct{ closed bool }

func (*body) Read([]byte) (int, error) { return 0, io.EOF }
func (b *body) Close() error           { b.closed = true; return nil }

// Without a seed there is no Chaos, and nothing is put around anything.
func TestOffInProduction(t *testing.T) {
	c := New(0, Shares{Fail: 1})
	base := http.DefaultTransport
	if c != nil || c.Base(base) != base || c.DialOptions() != nil || c.Counts() != (Counts{}) {
		t.Error("a Chaos without a seed does something")
	}
	if v, err := Op(c, func(context.Context) (int, error) { return 7, nil })(t.Context()); v != 7 || err != nil {
		t.Errorf("%d, %v", v, err)
	}
}
