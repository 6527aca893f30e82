//go:build race

package clockx_test

const raceEnabled = true
