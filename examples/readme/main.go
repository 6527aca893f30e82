// Readme is the README's first example, as a program. It calls a server that speaks as
// GitHub's API does, and shows that the call does what the README says:
//
//	go run ./examples/readme
//
// It takes some seconds, since the server and the waits are real. It exits with code 1 if
// a call did anything else.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/google/go-github/v72/github"
	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

var users = retry.Policy{
	Name:           "get-user",
	MaxAttempts:    4,
	AttemptTimeout: 2 * time.Second,
	Budget:         &retry.EarnedBudget{}, // shared by all calls to this API
}

func getUser(ctx context.Context, client *github.Client, login string) (*github.User, error) {
	return retry.Do(ctx, users, func(ctx context.Context) (*github.User, error) {
		user, _, err := client.Users.Get(ctx, login)
		return user, err
	})
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "readme:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	for _, tt := range []struct {
		about   string
		answers []int // of the server, and then 200
		calls   int
		waits   time.Duration
	}{
		{"200", nil, 1, 0},
		{"404", []int{404}, 1, 0},
		{"503 once", []int{503}, 2, 0},
		{"429 with Retry-After: 1", []int{429}, 2, time.Second},
	} {
		calls := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if calls++; calls > len(tt.answers) {
				fmt.Fprint(w, `{"login":"octocat"}`)
				return
			}
			if tt.answers[calls-1] == http.StatusTooManyRequests {
				w.Header().Set("Retry-After", "1")
			}
			w.WriteHeader(tt.answers[calls-1])
		}))
		began := time.Now()
		_, err := getUser(ctx, to(server.URL, http.DefaultClient), "octocat")
		took := time.Since(began)
		server.Close()
		fmt.Printf("%-24s %d calls, %v\n", tt.about, calls, err)
		if calls != tt.calls || took < tt.waits {
			return fmt.Errorf("%s: %d calls in %v, want %d and a wait of %v", tt.about, calls, took, tt.calls, tt.waits)
		}
	}

	_, err := getUser(ctx, to("http://127.0.0.1:1", http.DefaultClient), "octocat")
	fmt.Println(err)
	if e, ok := errors.AsType[*retry.Error](err); !ok || e.Attempts != 4 || e.Reason != retry.ReasonMaxAttempts {
		return fmt.Errorf("a refused connection: %w", err)
	}
	client := &http.Client{Transport: &retryhttp.Transport{Policy: users}}
	_, _, err = to("http://127.0.0.1:1", client).Users.Get(ctx, "octocat")
	if e, ok := errors.AsType[*retry.Error](err); !ok || e.Attempts != 4 {
		return fmt.Errorf("by a Transport: %w", err)
	}
	return nil
}

// to returns a client of the API at url.
func to(url string, c *http.Client) *github.Client {
	client, err := github.NewClient(c).WithEnterpriseURLs(url, url)
	if err != nil {
		panic(err)
	}
	return client
}
