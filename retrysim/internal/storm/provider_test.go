package storm_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/goretry/retry/retrysim/internal/storm"
)

// outcomes runs clients against a provider, and returns the mean of three seeds each.
func outcomes(p storm.Provider, names ...string) map[string]storm.ProviderResult {
	return storm.CompareClients(p, names, 3)
}

// What others do is worse, as published: the model is not made for the pace.
func TestOtherClientsOfAProvider(t *testing.T) {
	notUnderRace(t)
	long(t)
	p := storm.DocumentedProvider
	load := outcomes(p)
	for name, want := range map[string][2]float64{ // waste, within 3 points
		"policy": {.40}, "openai-go": {.61}, "go-retryablehttp": {.77}, "AWS adaptive": {.14}, "one queue": {0},
	} {
		if got := load[name].Waste(); got < want[0]-.03 || got > want[0]+.03 {
			t.Errorf("%s wastes %.1f %%, want %.0f", name, 100*got, 100*want[0])
		}
	}
	p.Backlog = 50_000
	for name, want := range map[string]float64{"openai-go": 4.0e6, "go-retryablehttp": 403e3, "AWS adaptive": 62e3, "one queue": 52e3} {
		if got := float64(outcomes(p, name)[name].Sent); got < .9*want || got > 1.1*want {
			t.Errorf("%s makes %.0f requests for a backlog, want %.0f", name, got, want)
		}
	}
}

func TestProviderIsReproducible(t *testing.T) {
	p := storm.DocumentedProvider
	p.Duration = 2 * time.Minute
	for name, r := range outcomes(p) {
		if again := outcomes(p, name)[name]; again != r {
			t.Errorf("%s: %+v, then %+v", name, r, again)
		}
	}
}

// The table of bench/EXPERIMENTS.md is what the model gives: load, peaks, rejected requests that
// count, and a backlog, each with 12 processes.
func TestTableOfQuotas(t *testing.T) {
	notUnderRace(t)
	long(t)
	load := storm.DocumentedProvider
	peaks, counts, backlog := load, load, load
	peaks.Load, peaks.Peaks = .8, true
	counts.Counts = true
	backlog.Backlog = 50_000
	table := [][]string{{"12 processes", "requests that get a 429, at 150 % load", "calls that fail, at 150 % load", "calls that fail in peaks, at 80 % load on average", "share of the quota that gives answers, if each 429 uses quota too", "requests for a backlog of 50 000"}}
	a, b, c, d := outcomes(load), outcomes(peaks), outcomes(counts), outcomes(backlog)
	for _, client := range storm.ProviderClients {
		name := client.Name
		table = append(table, cells(name, inPercent(a[name].Waste()), inPercent(a[name].Failing()), inPercent(b[name].Failing()), inPercent(c[name].Goodput), rounded(d[name].Sent)))
	}
	compareTable(t, "quotas", table)
}

// inPercent and rounded write as many digits as a reader compares.
func inPercent(share float64) string {
	if share < .0995 {
		return fmt.Sprintf("%.1f %%", 100*share)
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}

func rounded(n int) string {
	if n < 1e6 {
		return fmt.Sprintf("%.0f 000", float64(n)/1000)
	}
	return fmt.Sprintf("%.1f million", float64(n)/1e6)
}
