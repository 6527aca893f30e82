// Package storm simulates what a retry policy does to a service: for example how many
// requests thirty processes make in an outage of three seconds, and whether the server
// recovers.
//
// A [Service] is clients, a network and a server, simulated as discrete events in
// virtual time. The policies are the library's own: each call is a [retry.Loop],
// and limits, hedges and paces are decided by packages limit, internal/hedging and
// internal/pacing. This package has no formula for a backoff, a budget or a decision.
// The same seed gives the same result.
//
// What goes wrong is an [Answer] or a field of Service. The flags for it, and what of it
// the command's choose tries, are in scenario.go and choose.go of retrysim.
//
// [Contention], [Amplification], [Collapse], [Herd] and [Layers] are experiments with
// known results, with which bench/EXPERIMENTS.md compares.
package storm
