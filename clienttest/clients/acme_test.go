package clients_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	acmez "github.com/mholt/acmez/v3/acme"
	"golang.org/x/crypto/acme"

	"github.com/goretry/retry"
)

// authority is a server of ACME that answers each request for an account by problem, as often as
// told, and then makes the account. It makes no certificates.
func authority(t *testing.T, status int, problem string, times int64) (directory string, asked *atomic.Int64) {
	asked = new(atomic.Int64)
	var base string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Replay-Nonce", fmt.Sprint("nonce", asked.Load()))
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/directory":
			fmt.Fprintf(w, `{"newNonce": "%[1]s/nonce", "newAccount": "%[1]s/account", "newOrder": "%[1]s/order"}`, base)
		case "/account":
			if asked.Add(1) <= times {
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(status)
				fmt.Fprintf(w, `{"type": "urn:ietf:params:acme:error:%s", "status": %d}`, problem, status)
				return
			}
			w.Header().Set("Location", base+"/account/1")
			w.WriteHeader(http.StatusCreated)
			fmt.Fprint(w, `{"status": "valid"}`)
		}
	}))
	t.Cleanup(server.Close)
	base = server.URL
	return base + "/directory", asked
}

// A nonce that a server does not accept is good for no more than a new request: both clients ask
// again themselves, and a run does so if they may not, or no more.
func TestACME(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	register := map[string]func(ctx context.Context, directory string) error{
		"x/crypto's acme": func(ctx context.Context, directory string) error {
			c := &acme.Client{Key: key, DirectoryURL: directory, RetryBackoff: func(int, *http.Request, *http.Response) time.Duration { return -1 }}
			return last(c.Register(ctx, &acme.Account{}, acme.AcceptTOS))
		},
		"acmez": func(ctx context.Context, directory string) error {
			c := &acmez.Client{Directory: directory}
			return last(c.NewAccount(ctx, acmez.Account{PrivateKey: key, TermsOfServiceAgreed: true}))
		},
	}
	for name, call := range register {
		for _, tt := range []struct {
			status   int
			problem  string
			times    int64
			attempts int
		}{
			{400, "badNonce", 7, 0},
			{403, "orderNotReady", 1, 2},
			{400, "badCSR", 100, 1},
			{403, "externalAccountRequired", 100, 1},
			{500, "serverInternal", 1, 0}, // acmez asks again
		} {
			t.Run(name+" "+tt.problem, func(t *testing.T) {
				directory, asked := authority(t, tt.status, tt.problem, tt.times)
				attempts := 0
				err := retry.Run(t.Context(), retry.Policy{MaxAttempts: 10, Backoff: retry.Constant(0)}, func(ctx context.Context) error {
					attempts++
					return call(ctx, directory)
				})
				if (err == nil) != (tt.times < 100) || tt.attempts != 0 && attempts != tt.attempts {
					t.Errorf("%v after %d attempts and %d requests, want %d attempts", err, attempts, asked.Load(), tt.attempts)
				}
			})
		}
	}
	if err := (&acme.OrderError{Status: acme.StatusInvalid}); retry.DefaultClassifier(errors.Join(err)) != retry.Permanent {
		t.Error("an order that is invalid stays so")
	}
}
