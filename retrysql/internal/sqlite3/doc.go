// Package sqlite3 replaces github.com/mattn/go-sqlite3 in tests. Its errors are
// recognized by the name of their type.
package sqlite3

// ErrNo is a primary code.
type ErrNo int

// Error has the driver's field.
type Error struct{ Code ErrNo }

func (e Error) Error() string { return "sqlite3" }
