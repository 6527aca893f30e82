package main

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Where budgets lose: what the command shows of each row of the table, as the calls that
// are lost, in percent, without retries and with an EarnedBudget. storms.md repeats some of the figures.
func TestWhereTheBudgetLoses(t *testing.T) {
	_, table, _ := strings.Cut(readPage(t, experiments), "\n## Where a budget loses\n")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := regexp.MustCompile("(?m)^\\| [^|]* \\| `(-[^`]*)` \\| (\\d+) \\| (\\d+) \\|$").FindAllStringSubmatch(table, -1)
	if len(rows) != 12 {
		t.Fatalf("%s has %d rows, want 12", experiments, len(rows))
	}
	known := map[string]bool{"42, 41": true} // of two replicas: see EXPERIMENTS.md
	for _, row := range rows {
		known[row[2]+", "+row[3]] = true
	}
	_, text, _ := strings.Cut(readPage(t, storms), "\n## Where it loses\n")
	cells := regexp.MustCompile(`(?m)^\| [^|]* \| (\d+) % \| (\d+) % \|`).FindAllStringSubmatch(text, -1)
	if len(cells) < 8 {
		t.Fatalf("%s has %d rows, want more", storms, len(cells))
	}
	for _, row := range cells {
		if !known[row[1]+", "+row[2]] {
			t.Errorf("%s has a row with %s and %s %%, and %s has none", storms, row[1], row[2], experiments)
		}
	}
	notUnderRace(t)
	long(t)
	for _, row := range rows {
		none, _ := strconv.ParseFloat(row[2], 64)
		earned, _ := strconv.ParseFloat(row[3], 64)
		lost(t, row[1], "earned", none, earned)
	}
}

// Where a limit costs nothing, though attempts time out.
func TestWhereALimitDoesNotLose(t *testing.T) {
	notUnderRace(t)
	long(t)
	lost(t, "-limit 1,1000 -lost 0.35 -outage 0 -failure 0 -rate 100 -duration 10m", "earned + limit", 35, 32)
	lost(t, "-limit 1,1000 -lost 0.05 -outage 0 -failure 0 -processes 1 -rate 1000 -capacity 100000 -latency 100ms", "no retries + limit", 5, 5)
	lost(t, "-limit 1,1000 -replicas 10 -sick 1 -outage 30s -failure 0 -processes 1 -rate 1000 -workers 100 -service 100ms", "no retries + limit", 4, 4)
}

// lost checks which percentages of the calls are lost without retries and in a row.
func lost(t *testing.T, flags, row string, none, with float64) {
	t.Helper()
	doc := decode[tried](t, append([]string{"try", "-seeds", "5", "-policy", "name=earned attempts=4 budget=earned"}, strings.Fields(flags)...)...)
	for policy, want := range map[string]float64{"no retries": none, row: with} {
		if got := 100 * doc.row(policy).LostShare; math.Abs(got-want) > .75 {
			t.Errorf("%s, %s: %.1f %% are lost, want %.0f", flags, policy, got, want)
		}
	}
}

// Runs that are the only ones of their processes, as those of docs/faq.md.
func TestRunsThatAreAloneInTheirProcess(t *testing.T) {
	notUnderRace(t)
	long(t)
	for flags, want := range map[string][3]float64{ // lost without retries, with an EarnedBudget, and without a budget
		"-rate 150":                        {.15, .14, .83},
		"-rate 150 -outage-answer refused": {.06, .05, .05},
		"-rate 40":                         {.06, .05, .02},
		"-rate 60":                         {.07, .06, .80},
	} {
		doc := decode[tried](t, append([]string{"try", "-seeds", "5", "-calls-per-process", "1", "-policy", "name=earned attempts=4 budget=earned",
			"-policy", "name=unlimited attempts=4"}, strings.Fields(flags)...)...)
		for i, policy := range []string{"no retries", "earned", "unlimited"} {
			row := doc.row(policy)
			if math.Round(100*row.LostShare) != math.Round(100*want[i]) {
				t.Errorf("%s: %.3f are lost with %s, want %v", flags, row.LostShare, policy, want[i])
			}
			if (row.StaysDown > 0) != (want[i] > .5) {
				t.Errorf("%s: %s stays down in %v of the runs", flags, policy, row.StaysDown)
			}
		}
	}
}
