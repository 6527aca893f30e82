package storm_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysim/internal/storm"
)

// EarnedBudget is one of the laws, but for a token now and then: its tokens fade in steps.
// Where chance decides what is served next, one token changes all that follows: these
// cells say nothing.
func TestEarnedBudgetIsALaw(t *testing.T) {
	notUnderRace(t)
	earnedLaw := storm.Earned()
	law := budgeted("law", &earnedLaw)
	for i, c := range storm.Cells() {
		if !selected(i) || c.Duration > 10*time.Minute || slices.Contains([]string{"random order", "shards", "a budget per shard", "costly rejections", "dead replica"}, c.Kind) {
			continue
		}
		if a, b := c.Run(earned), c.Run(law); !within(float64(a.Sent), float64(b.Sent), .002) || math.Abs(a.Success()-b.Success()) > .002 {
			t.Errorf("%s, %s: %d requests with EarnedBudget, %d with the law; %.4f and %.4f succeed", c.Kind, c.Name, a.Sent, b.Sent, a.Success(), b.Success())
		}
	}
}

// In no cell does the server stay down with EarnedBudget where it recovers without
// retries, a shared budget of fifty shards and a fleet of commands included; but for a queue in
// random order at a load of .97, when three hundred processes come back from refused connections
// or 503s: those two cells are the same calls. Of a fifth of lost answers at most 12 % are lost calls.
func TestEarnedBudgetKeepsNoCellDown(t *testing.T) {
	notUnderRace(t)
	x := storm.Budgets{Policies: []retry.Policy{atOnce(1), earned}, Every: 43, Seed: 1}
	if os.Getenv("RETRY_LONG") == "1" {
		x.Every = 1
	}
	rows := x.Run(t.Context())
	for _, kind := range rows[1].Kinds {
		most := 0
		if kind.Kind == "random order" {
			most = 2
		}
		if kind.Down > most {
			t.Errorf("%s: down in %d of %d cells", kind.Kind, kind.Down, kind.Cells)
		}
		if kind.Kind == "20 % lost" && kind.Lost > .12 {
			t.Errorf("of 20 %% lost answers %.3f of the calls are lost", kind.Lost)
		}
	}
	if none, row := rows[0], rows[1]; x.Every == 1 && row.Lost > none.Lost || row.Cells != none.Cells || none.Down+none.Worse > 0 {
		t.Errorf("in %d cells %.4f are lost on average, and %.4f without retries", row.Cells, row.Lost, none.Lost)
	}
}

// One cell of each kind in which EarnedBudget lost nearly all calls before it started with
// nine tokens, and before prices doubled.
func TestWhereEarlierRulesLost(t *testing.T) {
	notUnderRace(t)
	before := budgeted("before", &storm.Law{Start: 10, Price: 1, TimedOut: 10, First: .1, Back: 2})
	for kind, name := range map[string]string{
		"young processes": "3 calls each, hang, load 0.75, 30 processes",
		"shards":          "one of 50, hang, load 0.75, 30 processes",
	} {
		for _, c := range storm.Cells() {
			if c.Kind != kind || c.Name != name {
				continue
			}
			if was, is := 1-c.Run(before).Success(), 1-c.Run(earned).Success(); was < .8 || is > .45 {
				t.Errorf("%s, %s: %.3f are lost, and %.3f before; want .45 at most, and .8", kind, name, is, was)
			}
		}
	}
}

// With a budget for each shard, up to three quarters of what it can do, a sick shard loses
// no more calls than without retries, whatever has made it sick. With more load it may
// recover later, by as many seconds as its processes make retries beyond what it has to
// spare; but not later than with a budget for all shards.
func TestABudgetForEachShard(t *testing.T) {
	notUnderRace(t)
	for i, c := range storm.Cells() {
		if c.Kind != "a budget per shard" || !selected(i) && c.Name != "one of 50, hang, load 0.75, 30 processes" {
			continue
		}
		lost := func(p retry.Policy) float64 {
			return 1 - storm.Merge(c.Trials(t.Context(), []retry.Policy{p}, 5)[0]).Success()
		}
		none, apart := lost(atOnce(1)), lost(earned)
		c.Apart = false
		if one := lost(earned); apart > one+.01 || apart > none+.001 && c.Rate < .8*c.MaxRate() || one < .4 && strings.HasPrefix(c.Name, "one of 50, hang, load 0.75") {
			t.Errorf("%s: %.3f are lost with a budget for each shard, %.3f with one for all, and %.3f without retries", c.Name, apart, one, none)
		}
	}
}

func TestBudgetsEndWithTheirContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if rows := storm.DocumentedBudgets.Run(ctx); rows != nil {
		t.Errorf("%d rows after an interrupt, want none", len(rows))
	}
}

// The table of budgets in bench/EXPERIMENTS.md has a row for each of them. It takes
// minutes, so only -update runs the experiment.
func TestTableOfBudgets(t *testing.T) {
	_, old, _ := tableOf(t, "budgets")
	for _, p := range storm.DocumentedBudgets.Policies {
		if !*update && !strings.Contains(old, "| "+p.Name+" |") {
			t.Errorf("%s has no row for %q: run go test ./retrysim/internal/storm -run TestTableOfBudgets -update", experiments, p.Name)
		}
	}
	if !*update {
		return
	}
	rows := storm.DocumentedBudgets.Run(t.Context())
	table := [][]string{cells("rule", "lost", "down", "worse")}
	// The table of TestEarnedBudgetForTenMinutes has failures at random and lost answers, that of
	// TestWhereTheBudgetLoses a budget for each shard.
	leftOut := []string{"failures", "lost answers", "20 % lost", "a budget per shard"}
	for _, k := range rows[0].Kinds {
		if !slices.Contains(leftOut, k.Kind) {
			table[0] = append(table[0], k.Kind)
		}
	}
	for _, row := range rows {
		line := cells(row.Policy, percent(row.Lost), row.Down, row.Worse)
		for _, k := range row.Kinds {
			if !slices.Contains(leftOut, k.Kind) {
				line = append(line, percent(k.Lost))
			}
		}
		table = append(table, line)
	}
	compareTable(t, "budgets", table)
}

func percent(share float64) string { return fmt.Sprintf("%.1f", 100*share) }
