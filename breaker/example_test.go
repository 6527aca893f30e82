package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/breaker"
	"github.com/goretry/retry/clockx"
)

var users breaker.Breaker // one for all calls to a dependency

// One Breaker for all calls to a dependency, in the policies of all of them. While it is down, calls
// end at once.
func ExampleBreaker() {
	clock := clockx.NewVirtual(time.Unix(0, 0)) // so that this example does not wait
	policy := retry.Policy{Name: "fetch-user", MaxAttempts: 1, Guards: []retry.Guard{&users}, Clock: clock}
	down := true
	fetch := func(context.Context) (string, error) {
		if down {
			return "", errors.New("503")
		}
		return "Gopher", nil
	}

	for range 20 {
		_, _ = retry.Do(context.Background(), policy, fetch)
	}
	_, err := retry.Do(context.Background(), policy, fetch)
	fmt.Println(errors.Is(err, breaker.ErrOpen))

	clock.Advance(1200 * time.Millisecond) // a second, and up to a fifth
	down = false
	fmt.Println(retry.Do(context.Background(), policy, fetch))
	// Output:
	// true
	// Gopher <nil>
}
