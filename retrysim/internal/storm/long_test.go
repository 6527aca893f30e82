package storm_test

import (
	"os"
	"testing"

	"github.com/goretry/retry/internal/race"
)

// long skips a long simulation unless RETRY_LONG is 1. CI sets it.
func long(t *testing.T) {
	t.Helper()
	if os.Getenv("RETRY_LONG") != "1" {
		t.Skip("a long simulation: RETRY_LONG=1 runs it")
	}
}

// notUnderRace skips what the race detector makes ten times as slow and cannot find
// anything in: a simulation is one goroutine.
func notUnderRace(t *testing.T) {
	t.Helper()
	if race.Enabled {
		t.Skip("a simulation is one goroutine")
	}
}
