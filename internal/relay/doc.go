// Package relay decides what a server that retries says to its caller when it has
// failed: whether the caller must not ask again, since retries of several layers
// multiply. HTTP and gRPC each say it in their own way.
package relay
