package limit_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/goretry/retry"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/limit"
)

// One Limit for all calls to a dependency, around what a run retries.
func ExampleOp() {
	users := &limit.Limit{}
	policy := retry.Policy{Name: "fetch-user"}

	fetchUser := limit.Op(users, policy, func(context.Context) (string, error) { return "ada", nil })

	user, err := retry.Do(context.Background(), policy, fetchUser)
	fmt.Println(user, err)
	// Output: ada <nil>
}

// Do knows that an attempt without a place has done nothing. So it repeats that even for
// a call that must not be made twice.
func ExampleDo() {
	payments := &limit.Limit{Start: 1}
	payments.Acquire() // by a payment that is underway
	policy := retry.Policy{Name: "pay", NonIdempotent: true, Hooks: retry.Hooks{
		Wait: func(_ context.Context, a retry.Attempt) {
			fmt.Println(a.Err)
			payments.Release(limit.Answer) // meanwhile it has ended
		},
	}}

	receipt, err := limit.Do(context.Background(), policy, payments, func(context.Context) (string, error) { return "paid", nil })
	fmt.Println(receipt, err)
	// Output:
	// limit: too many attempts in flight
	// paid <nil>
}

var (
	users  hedge.Hedge // one for all calls of a kind to one dependency
	places limit.Limit // one for all calls to it
)

func user(ctx context.Context) (string, error) {
	policy := retry.Policy{Name: "fetch-user", MaxAttempts: 3}
	return hedge.Do(ctx, policy, &users, limit.Op(&places, policy, fetchUser))
}

// With a hedge around it, each attempt needs a place, the hedge's too.
func ExampleOp_hedge() {
	fmt.Println(user(context.Background()))
	// Output: ada <nil>
}

func fetchUser(context.Context) (string, error) { return "ada", nil }

// Around code that is no op: take a place, give it back, and say how it went.
func ExampleLimit_Acquire() {
	ctx := context.Background()
	jobs := &limit.Limit{Start: 1}
	run := func(job func() error) error {
		if !jobs.Acquire() {
			return limit.ErrLimited
		}
		sign := limit.NoSign // if job panics, too
		defer func() { jobs.Release(sign) }()
		err := job()
		sign = limit.SignOf(ctx, retry.Policy{}, err)
		return err
	}

	err := run(func() error {
		fmt.Println(jobs.InFlight(), "of", jobs.Places())
		return run(func() error { return nil }) // the only place is taken
	})
	fmt.Println(err)
	// Output:
	// 1 of 1
	// limit: too many attempts in flight
}

// One backend hangs, and its calls hold the places of that backend only.
func ExamplePerKey() {
	backends := limit.PerKey{New: func(string) *limit.Limit { return &limit.Limit{Max: 1} }}
	policy := retry.Policy{Name: "fetch-user", MaxAttempts: 1}
	backends.For("10.0.0.1").Acquire() // by a call that hangs

	for _, address := range []string{"10.0.0.1", "10.0.0.2"} {
		_, err := limit.Do(context.Background(), policy, backends.For(address), fetchUser)
		fmt.Println(address, errors.Is(err, limit.ErrLimited))
	}
	for address, l := range backends.All() {
		fmt.Println(address, l.InFlight(), "of", l.Places())
	}
	// Output:
	// 10.0.0.1 true
	// 10.0.0.2 false
	// 10.0.0.1 1 of 1
	// 10.0.0.2 0 of 1
}
