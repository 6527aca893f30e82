package main

import (
	"time"

	"google.golang.org/grpc"

	"github.com/goretry/retry"
	"github.com/goretry/retry/examples/payments/ledgerpb"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/retrydebug"
	"github.com/goretry/retry/retrygrpc"
)

// clients are the ways in which the gateway calls ledgers.
var clients = map[string]func(retry.Hooks, *retrydebug.Recorder) []grpc.DialOption{
	"retry": func(hooks retry.Hooks, page *retrydebug.Recorder) []grpc.DialOption {
		return withRetry(&retry.EarnedBudget{}, true, hooks, page)
	},
}

// observed is a budget that a page shows.
type observed interface {
	retry.Budget
	Balance() float64
}

// withRetry retries by this library. A transfer waits for a connection, in place of failing
// while a ledger restarts. A balance is hedged. Each method has a limit of its own, because
// what fills the ledgers with transfers must not keep balances out.
func withRetry(budget observed, limited bool, hooks retry.Hooks, page *retrydebug.Recorder) []grpc.DialOption {
	places := &retry.PerKey[limit.Adaptive]{New: func(method string) *limit.Adaptive {
		l := &limit.Adaptive{Min: 8, Max: 512}
		page.ObserveLimit(method, l)
		return l
	}}
	transfer := retry.Policy{Name: "transfer", Hooks: hooks, Budget: budget, MaxAttempts: 4, AttemptTimeout: 700 * time.Millisecond,
		Backoff: retry.Exponential{Base: 20 * time.Millisecond, Max: 300 * time.Millisecond}}
	balance := retry.Policy{Name: "balance", Hooks: hooks, Budget: budget, MaxAttempts: 3, AttemptTimeout: 300 * time.Millisecond,
		Backoff: retry.Exponential{Base: 10 * time.Millisecond, Max: 100 * time.Millisecond}}
	slow := &hedge.Hedge{}
	page.ObserveBudget("ledger", budget)
	page.ObserveHedge("balance", slow)

	client := &retrygrpc.Client{
		Policy: transfer,
		ForMethod: func(method string, p retry.Policy) retry.Policy {
			if method == ledgerpb.Ledger_Balance_FullMethodName {
				p = balance
			}
			if limited {
				p.Guards = []retry.Guard{places.For(method)}
			}
			return p
		},
		Hedge: func(method string) *hedge.Hedge {
			if method == ledgerpb.Ledger_Balance_FullMethodName {
				return slow
			}
			return nil
		},
	}
	return append(client.DialOptions(), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
}
