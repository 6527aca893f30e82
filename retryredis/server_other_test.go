//go:build !linux

package retryredis_test

import "testing"

type server struct{ port string }

func start(t testing.TB, args ...string) *server {
	t.Skip("needs the package redis-server of Debian")
	return nil
}

func (s *server) run() bool           { return false }
func (s *server) addr() string        { return "" }
func (s *server) kill()               {}
func (s *server) halt() (goOn func()) { return func() {} }
