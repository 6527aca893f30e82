package nanoseconds

import (
	"errors"
	"net/http"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retryhttp"
)

var hedges = []hedge.Hedge{
	{Delay: 20}, // want `Delay is 20 ns here`
	{Delay: hedge.Never},
}

const five = 5

var errBusy = errors.New("busy")

var wrong = []retry.Policy{
	{Backoff: retry.Constant(5)},                         // want `Constant is 5 ns here`
	{Backoff: retry.Exponential{Base: 100, Max: 2 * 10}}, // want `Base is 100 ns here` `Max is 20 ns here`
	{Backoff: retry.Linear{Base: five}},                  // want `Base is 5 ns here`
	{MaxElapsed: 30, AttemptTimeout: 10},                 // want `MaxElapsed is 30 ns here` `AttemptTimeout is 10 ns here`
	{Backoff: retry.Schedule{1, time.Second}},            // want `this wait is 1 ns here`
}

var mark = retry.After(errBusy, 30) // want `After's wait is 30 ns`

const unit = 5 * time.Nanosecond

var right = []retry.Policy{
	{Backoff: retry.Constant(0)},
	{Backoff: retry.Constant(5 * time.Second)},
	{Backoff: retry.Constant(unit)},
	{Backoff: retry.Exponential{Base: 5_000_000, Factor: 3}},
	{MaxElapsed: -1, MaxAttempts: 5},
}

func others(w http.Handler, h *pace.Pace, v *clockx.Virtual) {
	h.Hold(30)                                        // want `Hold's wait is 30 ns here`
	v.Advance(5)                                      // want `Advance's wait is 5 ns here`
	_ = retryhttp.DeadlineHandler(w, "X-Timeout", 10) // want `DeadlineHandler's wait is 10 ns here`
	_ = retry.Plus(5)                                 // want `Plus's wait is 5 ns here`
	_ = pace.Pace{Quota: 5, Per: 60}                  // want `Per is 60 ns here`
	_ = retry.Jitter{Plus: 10}                        // want `Plus is 10 ns here`
	_ = retryhttp.StatusError{Code: 429, Hint: five}  // want `Hint is 5 ns here`
	_ = retryhttp.StatusError{Code: 429, Hint: time.Second}
	h.Hold(0)
}

func variable(n int64) retry.Backoff { return retry.Constant(n) }
