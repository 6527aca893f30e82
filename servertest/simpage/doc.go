// Package simpage looks at the page of retrysim serve in a real browser, and at the same
// page as static files.
//
//	go test -run FirstSight ./servertest/simpage -pictures "$PWD/pictures"
//
// makes playground-light.png, which README.md shows as docs/playground.png.
package simpage
