// Package batches has the examples of docs/batches.md, and runs them with the real
// clients against a server on the loopback that fails some items.
package batches
