// Package simpage looks at the page of retrysim serve in a real browser, and at the same
// page as static files.
//
//	go test -run FirstSight ./servertest/simpage -pictures "$PWD/pictures"
//
// makes pictures of its first screen, light and dark.
package simpage
