// Package browser looks at the page of package retrydebug in a real browser. It is a
// module of its own for what drives the browser. With Debian's chromium,
//
//	go test -run TestPage ./retrydebug/browser -pictures "$PWD/pictures"
//
// makes the picture in docs/debug.md.
package browser
