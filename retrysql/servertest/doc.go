// Package servertest tests package retrysql on real databases: SQLite, which needs
// nothing, PostgreSQL and MariaDB, which the tests start themselves in a temporary
// folder, on a port of the loopback interface:
//
//	apt-get install postgresql mariadb-server
//	go test ./retrysql/servertest
//
// Without these packages their tests are skipped, but fail where CI=true is set.
//
// What may live here: tests of retrysql that need a database or a driver. It is a
// module of its own so that the drivers stay out of the library's go.mod.
package servertest
