// Package pgconn stands in for the package of that name in github.com/jackc/pgx,
// which the root module does not require: an error of it is known by the name of
// its type. It is for tests only.
package pgconn

// ConnClosed returns what pgx returns for a statement on a connection that broke:
// also if the statement broke it, after it was sent.
func ConnClosed() error { return &connLockError{"conn closed"} }

type connLockError struct{ status string }

func (e *connLockError) SafeToRetry() bool { return true }
func (e *connLockError) Error() string     { return e.status }
