// Package nats tests package retrynats on real NATS servers, which the tests start
// themselves: in this process, or in others that can be killed.
package nats
