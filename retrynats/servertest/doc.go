// Package servertest tests package retrynats on real NATS servers, which the tests
// start themselves: in this process, or in others that can be killed. It is a module of
// its own, so that package retrynats does not require the server.
package servertest
