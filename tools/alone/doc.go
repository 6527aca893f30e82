// Package alone has a test: each Example of the packages that users import is a
// program of its own. That is how pkg.go.dev shows it and the Go Playground runs it,
// and how readers copy it. Run it with -count=1: go test does not notice what has
// changed outside of this module.
package alone
