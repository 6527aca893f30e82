// Package sqlite replaces modernc.org/sqlite in tests. Its errors are recognized by
// the name of their type.
package sqlite

// Error has the driver's method.
type Error struct{ Extended int }

func (e *Error) Error() string { return "sqlite" }

// Code returns the extended code.
func (e *Error) Code() int { return e.Extended }
