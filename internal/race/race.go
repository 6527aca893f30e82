//go:build race

// Package race tells tests whether the race detector watches them.
package race

// Enabled reports that it does. It makes stack frames larger, allocates, drops what is in a
// sync.Pool, and slows programs down unequally.
const Enabled = true
