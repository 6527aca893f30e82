package storm_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/goretry/retry/internal/storm"
)

// outcomes runs clients against a provider, and returns the mean of three seeds each.
func outcomes(p storm.Provider, names ...string) map[string]storm.ProviderResult {
	return storm.CompareClients(p, names, 3)
}

// quotas are what providers do to a pace, and what it has to reach. waste is the largest
// share of requests answered 429, goodput the smallest share of the quota, failing the
// largest share of calls that fail, beyond that of one queue which knows the quota.
var quotas = []struct {
	name                    string
	long                    bool
	edit                    func(*storm.Provider)
	waste, goodput, failing float64
}{
	{"12 processes at 150 %", false, func(p *storm.Provider) {}, .08, .97, .03},
	{"12 processes, peaks at 80 % on average", false, func(p *storm.Provider) { p.Load, p.Peaks = .8, true }, .05, .77, .02},
	{"12 processes, rejected requests count", false, func(p *storm.Provider) { p.Counts = true }, .07, .93, .05},
	{"1 process at 150 %", true, func(p *storm.Provider) { p.Processes = 1 }, .07, .97, .01},
	{"200 processes at 150 %", true, func(p *storm.Provider) { p.Processes = 200 }, .24, .97, .04},
	{"200 processes, peaks", true, func(p *storm.Provider) { p.Processes, p.Load, p.Peaks = 200, .8, true }, .26, .77, .03},
	{"12 processes at 50 %", true, func(p *storm.Provider) { p.Load = .5 }, 0, .47, .01},
	{"12 processes at 100 %", true, func(p *storm.Provider) { p.Load = 1 }, .02, .95, .02},
	{"12 processes at 300 %", true, func(p *storm.Provider) { p.Load = 3 }, .08, .97, .02},
	{"tokens bind", true, func(p *storm.Provider) { p.Tokens = storm.Quota{Rate: 10_000, Burst: 100_000} }, .09, .97, .15},
	{"no hints", true, func(p *storm.Provider) { p.NoHints = true }, .08, .97, .03},
	{"a backlog, 1 process", true, func(p *storm.Provider) { p.Processes, p.Backlog = 1, 50_000 }, .1, .9, 1},
	{"a backlog, 12 processes", true, func(p *storm.Provider) { p.Backlog = 50_000 }, .085, .9, .01},
	{"a backlog, 200 processes", true, func(p *storm.Provider) { p.Processes, p.Backlog = 200, 50_000 }, .24, .9, .02},
}

func TestPaceInProcessesThatShareAQuota(t *testing.T) {
	for _, q := range quotas {
		t.Run(q.name, func(t *testing.T) {
			if q.long {
				notUnderRace(t)
				long(t)
			}
			p := storm.DocumentedProvider
			q.edit(&p)
			all := outcomes(p, "pace", "one queue")
			r, best := all["pace"], all["one queue"]
			t.Logf("%d requests, %.1f %% wasted, goodput %.1f %%, %.1f %% fail; one queue: %d, %.1f %%, %.1f %%",
				r.Sent, 100*r.Waste(), 100*r.Goodput, 100*r.Failing(), best.Sent, 100*best.Goodput, 100*best.Failing())
			if r.Waste() > q.waste {
				t.Errorf("%.1f %% of the requests wasted, want at most %.1f", 100*r.Waste(), 100*q.waste)
			}
			if r.Goodput < q.goodput {
				t.Errorf("goodput %.1f %%, want at least %.1f", 100*r.Goodput, 100*q.goodput)
			}
			if f := r.Failing() - best.Failing(); f > q.failing {
				t.Errorf("%.1f %% of the calls fail, want at most %.1f more than the %.1f of one queue", 100*r.Failing(), 100*q.failing, 100*best.Failing())
			}
			if p.Backlog > 0 && p.Processes == 12 && float64(r.Sent) > 1.1*float64(best.Sent) {
				t.Errorf("%d requests, want at most 1.1 times the %d of one queue", r.Sent, best.Sent)
			}
		})
	}
}

// strays is one process at 100 calls in a second, half of its quota, of which a share
// is answered 429 whatever the rate.
func strays(share float64) storm.Provider {
	p := storm.DocumentedProvider
	p.Processes, p.Load, p.Calm, p.Stray = 1, .5, true, share
	p.Requests, p.Tokens = storm.Quota{Rate: 200, Burst: 2000}, storm.Quota{Rate: 400_000, Burst: 4_000_000}
	return p
}

// What is refused for other reasons than the rate must not slow a process down: after
// every loss of a fixed share it would.
func TestPaceAndUnrelatedRefusals(t *testing.T) {
	for share, goodput := range map[float64]float64{.01: .499, .05: .495} {
		if r := outcomes(strays(share), "pace")["pace"]; r.Goodput < goodput {
			t.Errorf("with %.0f %% of unrelated 429s goodput is %.1f %%, want at least %.1f", 100*share, 100*r.Goodput, 100*goodput)
		}
	}
}

// What others do is worse, as published: the model is not made for the pace.
func TestOtherClientsOfAProvider(t *testing.T) {
	notUnderRace(t)
	long(t)
	p := storm.DocumentedProvider
	load := outcomes(p)
	for name, want := range map[string][2]float64{ // waste, within 3 points
		"policy": {.45}, "openai-go": {.61}, "go-retryablehttp": {.77}, "AWS adaptive": {.14}, "one queue": {0},
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

// The table of docs/llm.md is what the model gives: load, peaks, rejected requests that
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
		table = append(table, cells(name, tenths(a[name].Waste()), tenths(a[name].Failing()), tenths(b[name].Failing()), tenths(c[name].Goodput), d[name].Sent))
	}
	const page = "../../docs/llm.md"
	doc, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(doc), "<!-- quotas -->\n")
	old, after, found := strings.Cut(rest, "<!-- end -->")
	switch {
	case !ok || !found:
		t.Fatalf("%s has no place for the table", page)
	case old == markdown(table):
	case *update:
		if err := os.WriteFile(page, []byte(before+"<!-- quotas -->\n"+markdown(table)+"<!-- end -->"+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s: the table is not what the model gives: run RETRY_LONG=1 go test ./internal/storm -update", page)
	}
}

func tenths(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }
