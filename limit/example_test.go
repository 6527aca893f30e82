package limit_test

import (
	"context"
	"fmt"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/limit"
)

var places = limit.Limit{Max: 100} // one for all calls to a server

func user(ctx context.Context) (string, error) {
	policy := retry.Policy{Name: "fetch-user", AttemptTimeout: time.Second, Guards: []retry.Guard{&places}}
	return retry.Do(ctx, policy, fetchUser)
}

// One Limit for all calls to a server, in the policies of all of them.
func ExampleLimit() {
	fmt.Println(user(context.Background()))
	// Output: ada <nil>
}

func fetchUser(context.Context) (string, error) { return "ada", nil }

var server = limit.Adaptive{Min: 2, Max: 100} // one for all calls to a server

func profile(ctx context.Context) (string, error) {
	policy := retry.Policy{Name: "fetch-profile", AttemptTimeout: time.Second, Guards: []retry.Guard{&server}}
	return retry.Do(ctx, policy, fetchProfile)
}

func fetchProfile(context.Context) (string, error) { return "ada", nil }

// An Adaptive needs attempts that have a deadline.
func ExampleAdaptive() {
	fmt.Println(profile(context.Background()))
	fmt.Println(server.Places(), "places")
	// Output:
	// ada <nil>
	// 100 places
}

// An attempt without a place has done nothing. So the run tries again even if the call must
// not be made twice.
func ExampleLimit_nonIdempotent() {
	payments := &limit.Limit{Max: 1}
	policy := retry.Policy{Name: "pay", NonIdempotent: true, Guards: []retry.Guard{payments}}

	underway, _ := policy.Admit(context.Background(), retry.Entry{}) // another payment
	policy.Hooks.Guard = func(_ context.Context, h retry.Held) {
		fmt.Println(h.Err)
		underway(retry.Exit{Ending: retry.Returned}) // meanwhile it has ended
	}

	receipt, err := retry.Do(context.Background(), policy, func(context.Context) (string, error) { return "paid", nil })
	fmt.Println(receipt, err)
	// Output:
	// limit: too many attempts in flight
	// paid <nil>
}

// With a hedge each copy of an attempt needs a place.
func ExampleLimit_hedge() {
	policy := retry.Policy{Name: "fetch-user", AttemptTimeout: time.Second, Guards: []retry.Guard{&places}}
	fmt.Println(hedge.Do(context.Background(), policy, &hedge.Hedge{}, fetchUser))
	// Output: ada <nil>
}

// Around code that no run calls: Admit takes a place, and leave gives it back and says how
// it went.
func ExampleLimit_admit() {
	ctx := context.Background()
	jobs := &limit.Limit{Max: 1}
	policy := retry.Policy{Guards: []retry.Guard{jobs}}
	run := func(job func() error) error {
		leave, err := policy.Admit(ctx, retry.Entry{})
		if err != nil {
			return err
		}
		x := retry.Exit{Ending: retry.Panicked}
		defer func() { leave(x) }()
		err = job()
		x = retry.Exit{Ending: retry.Returned, Verdict: policy.Judge(err)}
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
