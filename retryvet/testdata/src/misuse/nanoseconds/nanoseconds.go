package nanoseconds

import (
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/hedge"
)

var hedges = []hedge.Hedge{
	{Delay: 20}, // want `Delay is 20 ns here`
	{Delay: hedge.Never},
}

const five = 5

var wrong = []retry.Policy{
	{Backoff: retry.Constant(5)},                         // want `Constant is 5 ns here`
	{Backoff: retry.Exponential{Base: 100, Max: 2 * 10}}, // want `Base is 100 ns here` `Max is 20 ns here`
	{Backoff: retry.Linear{Base: five}},                  // want `Base is 5 ns here`
	{MaxElapsed: 30, AttemptTimeout: 10},                 // want `MaxElapsed is 30 ns here` `AttemptTimeout is 10 ns here`
	{Backoff: retry.Schedule{1, time.Second}},            // want `this wait is 1 ns here`
}

var mark = retry.After(nil, 30) // want `After's wait is 30 ns`

const unit = 5 * time.Nanosecond

var right = []retry.Policy{
	{Backoff: retry.Constant(0)},
	{Backoff: retry.Constant(5 * time.Second)},
	{Backoff: retry.Constant(unit)},
	{Backoff: retry.Exponential{Base: 5_000_000, Factor: 3}},
	{MaxElapsed: -1, MaxAttempts: 5},
}

func variable(n int64) retry.Backoff { return retry.Constant(n) }
