// Package sqlite3, in a folder of another name, has an error that is told from
// mattn's only by what it is.
package sqlite3

// Error has mattn's name, and no field.
type Error int

func (e Error) Error() string { return "odd" }
