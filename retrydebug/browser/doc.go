// Package browser looks at the page of package retrydebug in a real browser. It is a
// module of its own for what drives the browser.
package browser
