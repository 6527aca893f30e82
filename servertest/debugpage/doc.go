// Package debugpage looks at the page of package retrydebug in a real browser. With
// Debian's chromium,
//
//	go test -run TestPage ./servertest/debugpage -pictures "$PWD/pictures"
//
// makes debug-light.png, which docs/debug.md shows as debug.png.
package debugpage
