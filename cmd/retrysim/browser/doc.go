// Package browser looks at the page of retrysim serve in a real browser, and at the
// same page as static files. It is a module of its own for what drives the browser.
//
//	go test -run FirstSight ./cmd/retrysim/browser -pictures "$PWD/pictures"
//
// makes playground-light.png, which docs/storms.md shows as playground.png.
package browser
