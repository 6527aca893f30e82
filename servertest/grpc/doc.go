// Package grpc tests package retrygrpc on connections that go silent or are dropped.
package grpc
