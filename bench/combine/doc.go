// Package combine tests the library's packages together: all ways in, with shared
// budgets, limits and hedges, joined hooks of several packages, and cancels, panics and
// runtime.Goexit wherever the library calls code of others. And chains of services over
// HTTP and gRPC, by the number of calls that reach the last one. It has only tests.
//
// It is in this module because that requires all that it needs: the telemetry of
// package otel, and gRPC.
package combine
