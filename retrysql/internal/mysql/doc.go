// Package mysql stands in tests for github.com/go-sql-driver/mysql, whose errors are
// told by the name of their type.
package mysql

// MySQLError has the driver's field.
type MySQLError struct{ Number uint16 }

func (e *MySQLError) Error() string { return "mysql" }
