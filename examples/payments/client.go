//go:build !failsafe

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

// ledgerOptions are how the gateway calls ledgers. A transfer waits for a connection, in
// place of failing while a ledger restarts. A balance is hedged. Transfers share a limit,
// for they are what an overload consists of.
func ledgerOptions(hooks retry.Hooks, page *retrydebug.Recorder) []grpc.DialOption {
	budget, places := &retry.EarnedBudget{}, &limit.Limit{Start: 64, Min: 8, Max: 512}
	transfer := retry.Policy{Name: "transfer", Hooks: hooks, Budget: budget, MaxAttempts: 4, AttemptTimeout: 700 * time.Millisecond,
		Backoff: retry.Exponential{Base: 20 * time.Millisecond, Max: 300 * time.Millisecond}, Guards: []retry.Guard{places}}
	balance := retry.Policy{Name: "balance", Hooks: hooks, Budget: budget, MaxAttempts: 3, AttemptTimeout: 300 * time.Millisecond,
		Backoff: retry.Exponential{Base: 10 * time.Millisecond, Max: 100 * time.Millisecond}}
	slow := &hedge.Hedge{}
	page.ObserveBudget("ledger", budget)
	page.ObserveLimit("ledger", places)
	page.ObserveHedge("balance", slow)

	client := &retrygrpc.Client{
		Policy: transfer,
		ForMethod: func(method string, p retry.Policy) retry.Policy {
			if method == ledgerpb.Ledger_Balance_FullMethodName {
				return balance
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
