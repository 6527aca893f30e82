// Package examples is the module of the programs a newcomer runs.
//
// What may live here: one directory per program, whose package comment says what
// the program shows and the command that runs it. A program ends by itself, with
// exit code 0 only if it saw what it set out to show, and has a test that runs
// it. The package migrate is tests alone: they compare this library with others.
// It is a module of its own so that what it imports stays out of the library's
// go.mod. What fits in a few lines is an Example in a test file of the package
// that it explains instead.
package examples
