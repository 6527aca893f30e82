//go:build race

package limit_test

const raceEnabled = true
