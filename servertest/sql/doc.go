// Package sql tests package retrysql on real databases: SQLite, which needs nothing,
// PostgreSQL and MariaDB, which the tests start themselves in a temporary folder, on a
// port of the loopback interface:
//
//	apt-get install postgresql mariadb-server
//	go test ./servertest/sql
//
// Without these packages their tests are skipped, but fail where CI=true is set.
package sql
