// Start is the program of docs/start.md. It gets a URL whose answer is a user as JSON, and
// prints the name:
//
//	go run ./examples/start https://api.github.com/users/octocat
//
// Its tests are those of docs/testing.md.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

var users = retry.Policy{
	Name:           "get-user",
	MaxAttempts:    4,
	AttemptTimeout: 2 * time.Second,
}

type User struct{ Name string }

func load(ctx context.Context, policy retry.Policy, client *http.Client, url string) (User, error) {
	req, err := http.NewRequest("GET", url, nil)
	if err != nil {
		return User{}, err
	}
	return retryhttp.JSON[User](ctx, policy, client, req)
}

func main() {
	user, err := load(context.Background(), users, http.DefaultClient, os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(user.Name)
}
