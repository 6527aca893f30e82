// Package sqlite3, in a folder of another name, has an error that differs from mattn's
// only in its fields.
package sqlite3

// Error has mattn's name, and no field.
type Error int

func (e Error) Error() string { return "odd" }
