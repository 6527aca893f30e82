//go:build !linux

package sql_test

import "testing"

// server is a database server that these tests do not start here.
type server struct {
	addr string
	dsn  func(addr string) (driver, source string)
}

var postgres, standby, mariadb server

func (*server) start(t *testing.T) string {
	t.Helper()
	t.Skip("needs the packages postgresql and mariadb-server of Debian")
	return ""
}
