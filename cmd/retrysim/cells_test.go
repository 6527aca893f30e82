package main

import (
	"strings"
	"testing"
)

// Where budgets and limits lose: what the command shows of each case, as the share of the
// calls that are lost, without retries and with an EarnedBudget or a limit. The table of
// docs/storms.md has these figures.
func TestWhereTheBudgetLoses(t *testing.T) {
	notUnderRace(t)
	long(t)
	for _, tt := range []struct {
		name, flags  string
		row          string
		none, earned float64 // within a tenth of it, and one percent
	}{
		{"processes of one call", "-calls-per-process 1", "earned", .15, .14},
		{"one of fifty shards", "-shards 50 -sick 1 -workers 2 -service 100ms -rate 750", "earned", .11, .30},
		{"one of fifty shards, a budget each", "-shards 50 -sick 1 -workers 2 -service 100ms -rate 750 -budget-per-shard", "earned", .20, .20},
		{"one dead replica of ten", "-replicas 10 -sick 1 -workers 2 -service 100ms -rate 170 -outage 30s", "earned", .068, .12},
		{"a queue in random order", "-discipline random -rate 184 -duration 2m", "earned", .15, .165},
		{"lost answers", "-lost 0.2 -outage 0 -failure 0 -rate 100", "earned", .20, .11},
		{"a gateway", "-gateway 900ms -duration 2m", "earned", .08, .095},
		{"rejections that cost", "-queue 20 -refusing 50ms -full 429 -outage 0 -rate 180 -spread exponential -duration 1m", "earned", .036, .345},
		{"a limit, and lost answers", "-limit 200,1,1000 -lost 0.05 -outage 0 -failure 0 -processes 1 -rate 1000 -capacity 100000 -latency 100ms", "no retries + limit", .05, .05},
		{"a limit, and a dead replica", "-limit 200,1,1000 -replicas 10 -sick 1 -outage 30s -failure 0 -processes 1 -rate 1000 -workers 100 -service 100ms", "no retries + limit", .041, .04},
	} {
		doc := decode[tried](t, append([]string{"try", "-seeds", "5", "-policy", "name=earned attempts=4 budget=earned"}, strings.Fields(tt.flags)...)...)
		near := func(got, want float64) bool { return got > .9*want-.01 && got < 1.1*want+.01 }
		if none, earned := doc.row("no retries").LostShare, doc.row(tt.row).LostShare; !near(none, tt.none) || !near(earned, tt.earned) {
			t.Errorf("%s: %.3f are lost without retries, and %.3f with %s; want %v and %v", tt.name, none, earned, tt.row, tt.none, tt.earned)
		}
	}
}
