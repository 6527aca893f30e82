package storm_test

import (
	"testing"
	"time"

	"github.com/goretry/retry/retrysim/internal/storm"
)

// An edit makes a provider, or the processes that share its quota, other than the documented.
type edit func(*storm.Provider)

func processes(n int) edit { return func(p *storm.Provider) { p.Processes = n } }

// load is how much of the quota calls come for.
func load(share float64) edit { return func(p *storm.Provider) { p.Load = share } }

// quota is so many requests in a second, ten seconds saved up at most.
func quota(rate float64) edit {
	return func(p *storm.Provider) {
		p.Requests = storm.Quota{Rate: rate, Burst: 10 * rate}
		p.Tokens = storm.Quota{Rate: 2000 * rate, Burst: 20_000 * rate}
	}
}

// strays are a share of requests that is refused whatever the rate.
func strays(share float64) edit { return func(p *storm.Provider) { p.Stray = share } }

func backlog(calls int) edit { return func(p *storm.Provider) { p.Backlog = calls } }

func burst(n float64) edit { return func(p *storm.Provider) { p.Requests.Burst = n } }

func peaks(p *storm.Provider) { p.Load, p.Peaks = .8, true }

func refusedCount(p *storm.Provider) { p.Counts = true }

func noHints(p *storm.Provider) { p.NoHints = true }

func longHints(p *storm.Provider) { p.StrayHint = 20 * time.Second }

func minutes(p *storm.Provider) {
	p.Requests = storm.Quota{Rate: 25, Burst: 1500, Window: time.Minute}
}

func tokens(p *storm.Provider) {
	p.Requests, p.Tokens = storm.Quota{Rate: 100, Burst: 1000}, storm.Quota{Rate: 25_000, Burst: 250_000}
}

// openLoop is a gateway: it makes a call when one comes, whatever the others take.
func openLoop(answer time.Duration) edit {
	return func(p *storm.Provider) {
		p.Processes, p.Calm, p.Fixed, p.Mean, p.Duration = 1, true, true, answer, 3*time.Minute
		p.Requests, p.Tokens = storm.Quota{Rate: 200, Burst: 200}, storm.Quota{Rate: 1e9, Burst: 1e12}
	}
}

// paced are quotas, with what a pace has to reach: waste is the largest share of requests that
// are refused, goodput the smallest share of the quota that gives answers, and failing the
// largest share of calls that fail. Without a word on it, twelve processes make 150 % of the
// calls that a quota of 25 in a second allows.
var paced = []struct {
	name                    string
	short                   bool // not only with RETRY_LONG
	edits                   []edit
	waste, goodput, failing float64
}{
	{"1 process", false, []edit{processes(1)}, .079, .97, .3},
	{"12 processes", true, nil, .064, .97, .34},
	{"50 processes", false, []edit{processes(50)}, .113, .97, .34},
	{"200 processes", false, []edit{processes(200)}, .241, .97, .35},
	{"1000 processes", false, []edit{processes(1000)}, .666, .97, .32},
	{"three times the quota", false, []edit{load(3)}, .078, .96, .75},
	{"as much as the quota", false, []edit{load(1)}, .004, .97, .02},
	{"half of the quota", true, []edit{load(.5)}, .004, .48, .02},
	{"a backlog, 1", false, []edit{processes(1), backlog(20_000)}, .08, .87, .03},
	{"a backlog, 12", false, []edit{backlog(20_000)}, .082, .89, .02},
	{"a backlog, 200", false, []edit{processes(200), backlog(20_000)}, .252, .88, .02},
	{"peaks, 1", false, []edit{processes(1), peaks}, .042, .77, .01},
	{"peaks, 12", true, []edit{peaks}, .037, .78, .01},
	{"peaks, 200", false, []edit{processes(200), peaks}, .26, .77, .03},
	{"refused requests count", true, []edit{refusedCount}, .063, .93, .37},
	{"no hints", false, []edit{noHints}, .065, .97, .34},
	{"windows of a minute, 12", false, []edit{minutes}, .037, .95, .36},
	{"windows of a minute, 1", false, []edit{processes(1), minutes}, .073, .95, .32},
	{"bursts of 25", false, []edit{burst(25)}, .07, .95, .37},
	{"bursts of 1, 12", false, []edit{burst(1)}, .227, .2, .98},
	{"bursts of 1, 1", false, []edit{processes(1), burst(1)}, .064, .87, .41},
	{"2.5 in a second", false, []edit{quota(2.5)}, .172, .97, .34},
	{"250 in a second", false, []edit{quota(250)}, .07, .97, .37},
	{"tokens bind, peaks", false, []edit{tokens, peaks}, .034, .77, .02},
	{"tokens bind, a backlog", false, []edit{tokens, backlog(20_000)}, .082, .89, .02},
	{"1 % strays, 1 at 25 of 50", false, []edit{processes(1), quota(50), load(.5), strays(.01)}, .015, .47, .03},
	{"1 % strays, 1 at 100 of 200", false, []edit{processes(1), quota(200), load(.5), strays(.01)}, .015, .47, .03},
	{"1 % strays, 12 at 100 of 200", false, []edit{quota(200), load(.5), strays(.01)}, .015, .47, .03},
	{"3 % strays, 1 at 25 of 50", false, []edit{processes(1), quota(50), load(.5), strays(.03)}, .038, .47, .03},
	{"3 % strays, 1 at 100 of 200", false, []edit{processes(1), quota(200), load(.5), strays(.03)}, .038, .47, .03},
	{"3 % strays, 12 at 100 of 200", false, []edit{quota(200), load(.5), strays(.03)}, .037, .47, .03},
	{"5 % strays, 1 at 25 of 50", false, []edit{processes(1), quota(50), load(.5), strays(.05)}, .06, .47, .03},
	{"5 % strays, 1 at 100 of 200", false, []edit{processes(1), quota(200), load(.5), strays(.05)}, .06, .47, .03},
	{"5 % strays, 12 at 100 of 200", false, []edit{quota(200), load(.5), strays(.05)}, .06, .45, .07},
	{"8 % strays, 1 at 25 of 50", true, []edit{processes(1), quota(50), load(.5), strays(.08)}, .094, .47, .05},
	{"8 % strays, 1 at 100 of 200", false, []edit{processes(1), quota(200), load(.5), strays(.08)}, .094, .47, .03},
	{"8 % strays, 12 at 100 of 200", false, []edit{quota(200), load(.5), strays(.08)}, .094, .43, .14},
	{"20 % strays, 1 at 25 of 50", false, []edit{processes(1), quota(50), load(.5), strays(.2)}, .228, .47, .08},
	{"20 % strays, 1 at 100 of 200", false, []edit{processes(1), quota(200), load(.5), strays(.2)}, .227, .4, .17},
	{"20 % strays, 12 at 100 of 200", false, []edit{quota(200), load(.5), strays(.2)}, .227, .24, .3},
	{"5 % strays, 1 at 150 % of 50", false, []edit{processes(1), quota(50), load(1.5), strays(.05)}, .126, .97, .3},
	{"5 % strays, 12 at 150 % of 50", false, []edit{quota(50), load(1.5), strays(.05)}, .102, .95, .39},
	{"5 % strays, 200 at 150 % of 50", false, []edit{processes(200), quota(50), load(1.5), strays(.05)}, .16, .97, .34},
	{"5 % strays, 1 at 100 % of 50", false, []edit{processes(1), quota(50), load(1), strays(.05)}, .068, .97, .03},
	{"5 % strays, 12 at 100 % of 50", false, []edit{quota(50), load(1), strays(.05)}, .06, .92, .07},
	{"20 % strays, 1 at 150 % of 50", false, []edit{processes(1), quota(50), load(1.5), strays(.2)}, .27, .55, .52},
	{"20 % strays, 12 at 150 % of 50", false, []edit{quota(50), load(1.5), strays(.2)}, .234, .61, .59},
	{"3 % strays with long hints, 1", false, []edit{processes(1), quota(200), load(.5), strays(.03), longHints}, .037, .47, .03},
	{"5 % strays with long hints, 1", false, []edit{processes(1), quota(200), load(.5), strays(.05), longHints}, .061, .46, .03},
	{"8 % strays with long hints, 1", false, []edit{processes(1), quota(200), load(.5), strays(.08), longHints}, .097, .44, .09},
	{"8 % strays with long hints, 12", false, []edit{quota(200), load(.5), strays(.08), longHints}, .094, .4, .2},
	{"an open loop, answers in 20 ms", false, []edit{openLoop(20 * time.Millisecond)}, .076, .98, .12},
	{"an open loop, answers in 80 ms", true, []edit{openLoop(80 * time.Millisecond)}, .09, .98, .12},
	{"an open loop, answers in 150 ms", false, []edit{openLoop(150 * time.Millisecond)}, .109, .98, .11},
	{"an open loop, answers in 300 ms", false, []edit{openLoop(300 * time.Millisecond)}, .133, .98, .11},
	{"an open loop, answers in 2 s", false, []edit{openLoop(2 * time.Second)}, .14, .98, .11},
	{"an open loop, answers in 5 s", false, []edit{openLoop(5 * time.Second)}, .16, .98, .11},
	{"an open loop, answers in 10 s", false, []edit{openLoop(10 * time.Second)}, .2, .98, .11},
	{"an open loop, answers in 20 s", false, []edit{openLoop(20 * time.Second)}, .25, .95, .11},
	{"an open loop, answers in 60 s", false, []edit{openLoop(time.Minute)}, .4, .85, .45},
}

// The seeds are none of those by which the law was chosen.
func TestPaceUnderQuotas(t *testing.T) {
	for _, q := range paced {
		t.Run(q.name, func(t *testing.T) {
			if !q.short {
				notUnderRace(t)
				long(t)
			}
			p := storm.DocumentedProvider
			p.Seed = 401
			for _, e := range q.edits {
				e(&p)
			}
			r := outcomes(p, "pace")["pace"]
			t.Logf("%d requests, %.1f %% wasted, goodput %.1f %%, %.1f %% fail", r.Sent, 100*r.Waste(), 100*r.Goodput, 100*r.Failing())
			if r.Waste() > q.waste || r.Goodput < q.goodput || r.Failing() > q.failing {
				t.Errorf("%.1f %% of the requests wasted, goodput %.1f %%, %.1f %% fail; want at most %.1f, at least %.1f, at most %.1f",
					100*r.Waste(), 100*r.Goodput, 100*r.Failing(), 100*q.waste, 100*q.goodput, 100*q.failing)
			}
		})
	}
}
