// Package debugpage looks at the page of package retrydebug in a real browser. With
// Debian's chromium,
//
//	go test -run TestPage ./servertest/debugpage -pictures "$PWD/pictures"
//
// makes the picture in docs/debug.md.
package debugpage
