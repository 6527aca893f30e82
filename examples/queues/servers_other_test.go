//go:build !linux

package queues_test

import "testing"

func startRedis(t *testing.T) string {
	t.Helper()
	t.Skip("needs the package redis-server of Debian")
	return ""
}

func startRabbit(t *testing.T) string {
	t.Helper()
	t.Skip("needs the package rabbitmq-server of Debian")
	return ""
}
