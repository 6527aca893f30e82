// Code generated from the pages by go generate ./internal/harm; DO NOT EDIT.

package harm_test

import (
	"errors"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/breaker"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retryhttp"
)

// onPages are the policies and transports that pages show, as they stand there, with all that they use.
var onPages = []struct {
	name  string
	value func() any // a *retry.Policy or a *retryhttp.Transport
}{
	{"README.md 1", func() any {
		value := retry.Policy{
			Name:           "get-user",
			MaxAttempts:    4,
			AttemptTimeout: 2 * time.Second,
			Budget:         &retry.EarnedBudget{}, // shared by all calls to this API
		}
		return &value
	}},
	{"README.md 2", func() any {
		var users = retry.Policy{
			Name:           "get-user",
			MaxAttempts:    4,
			AttemptTimeout: 2 * time.Second,
			Budget:         &retry.EarnedBudget{}, // shared by all calls to this API
		}
		value := retryhttp.Transport{Policy: users}
		return &value
	}},
	{"llm.md 1", func() any {
		var overloaded = func(event, data string) error {
			if event == "error" || strings.HasPrefix(data, `{"error"`) {
				// Transient, not Throttled: it says nothing about the quota.
				return errors.New("the stream begins with an error")
			}
			return nil
		}
		var model = pace.Pace{Quota: 500, Per: time.Minute, Burst: 20}
		value := retryhttp.Transport{
			Check: retryhttp.FirstEvent(overloaded),
			Policy: retry.Policy{
				MaxAttempts:    5,
				AttemptTimeout: 30 * time.Second, // up to the first event: the stream is not cut
				MaxRetryAfter:  time.Minute,
				Budget:         &retry.EarnedBudget{}, // made once, shared by all calls
				Guards:         []retry.Guard{&model},
			},
		}
		return &value
	}},
	{"overload.md 1", func() any {
		var places = limit.Limit{Max: 100}
		value := retry.Policy{Name: "fetch-user", AttemptTimeout: time.Second, Guards: []retry.Guard{&places}}
		return &value
	}},
	{"overload.md 2", func() any {
		var server = limit.Adaptive{Min: 2, Max: 100}
		value := retry.Policy{Name: "fetch-profile", AttemptTimeout: time.Second, Guards: []retry.Guard{&server}}
		return &value
	}},
	{"guards.md 1", func() any {
		var model = pace.Pace{Quota: 500, Per: time.Minute, Burst: 20}
		var places = limit.Limit{Max: 100}
		value := retry.Policy{Name: "fetch-user", Guards: []retry.Guard{&model, &places}}
		return &value
	}},
	{"guards.md 2", func() any {
		var users breaker.Breaker
		value := retry.Policy{
			Name:           "fetch-user",
			AttemptTimeout: 2 * time.Second,
			Guards:         []retry.Guard{&users},
		}
		return &value
	}},
}
