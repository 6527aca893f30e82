package errtext_test

import (
	"context"
	"errors"
	"expvar"
	"fmt"
	"log"

	"github.com/goretry/retry"
	"github.com/goretry/retry/errtext"
)

// unavailable is the error of a client whose server has answered with a status.
type unavailable struct{ status int }

func (u unavailable) Error() string   { return fmt.Sprint("users: status ", u.status) }
func (u unavailable) StatusCode() int { return u.status }

// Hooks that count failures by their cause, for any telemetry system.
func Example() {
	failures := new(expvar.Map)
	hooks := retry.Hooks{AttemptDone: func(ctx context.Context, a retry.Attempt) {
		if !errtext.Failed(ctx, a) {
			return
		}
		code := errtext.Code(a.Err)
		if code == "" {
			code = "other"
		}
		failures.Add(code, 1)
	}}

	policy := retry.Policy{MaxAttempts: 4, Backoff: retry.Constant(0), Hooks: hooks}
	answers := []error{unavailable{503}, fmt.Errorf("load: %w", unavailable{503}), errors.New("lost"), nil}
	attempt := 0
	err := retry.Run(context.Background(), policy, func(context.Context) error {
		attempt++
		return answers[attempt-1]
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(failures)
	// Output: {"503": 2, "other": 1}
}
