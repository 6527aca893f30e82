// Package storm simulates what a retry policy does to a service: for example how many
// requests thirty processes make in an outage of three seconds, and whether the server
// recovers.
//
// A [Service] is clients, a network and a server, simulated as discrete events in
// virtual time. The policies are the library's own: each call is a [retry.Loop],
// and limits and hedges are decided by packages limit and internal/hedging. This
// package has no formula for a backoff, a budget or a decision. The same seed gives
// the same result.
//
// [Contention], [Amplification], [Collapse], [Herd] and [Layers] are experiments with
// known results, with which docs/experiments.md compares.
package storm
