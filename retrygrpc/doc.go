// Package retrygrpc retries gRPC calls.
package retrygrpc
