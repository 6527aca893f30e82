package harm_test

import (
	"flag"
	"os"
	"runtime"
	"testing"

	"github.com/goretry/retry/internal/harm"
	"github.com/goretry/retry/internal/race"
)

func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1) // a bubble runs one goroutine at a time; more only look for work
	os.Exit(m.Run())
}

var update = flag.Bool("update", false, "write owed.txt and the section of bench/EXPERIMENTS.md")

// Whatever of ours may delay, refuse or withhold does no harm where there is nothing to gain by it. What does
// is in owed.txt. With -v it prints the whole table:
//
//	RETRY_LONG=1 go test -count=1 -run TestHarm -v ./internal/harm
//
// With -update it writes owed.txt and bench/EXPERIMENTS.md.
func TestHarm(t *testing.T) {
	if race.Enabled {
		t.Skip("simulations, which other tests of these packages make with the race detector")
	}
	table := harm.Measure(t, subjects, os.Getenv("RETRY_LONG") == "1", "owed.txt")
	if *update {
		table.Update(t, "owed.txt")
		table.Summarize(t, "../../bench/EXPERIMENTS.md", "harm")
	}
	table.Check(t, "owed.txt")
}
