// Package mysql replaces github.com/go-sql-driver/mysql in tests. Its errors are
// recognized by the name of their type.
package mysql

// MySQLError has the driver's fields.
type MySQLError struct {
	Number  uint16
	Message string
}

func (e *MySQLError) Error() string { return "mysql" }
