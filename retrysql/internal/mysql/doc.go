// Package mysql replaces github.com/go-sql-driver/mysql in tests. Its errors are
// recognized by the name of their type.
package mysql

// MySQLError has the driver's field.
type MySQLError struct{ Number uint16 }

func (e *MySQLError) Error() string { return "mysql" }
