package storm_test

import (
	"testing"
	"time"

	"github.com/goretry/retry/internal/storm"
)

// each is how many calls a process makes.
func each(calls int) edit { return func(p *storm.Provider) { p.Each = calls } }

func life(d time.Duration) edit { return func(p *storm.Provider) { p.Life = d } }

func store(s storm.Store) edit { return func(p *storm.Provider) { p.Store = s } }

// fleets are quotas that processes share by a store, with what is to be reached: see paced.
var fleets = []struct {
	name                    string
	short                   bool // not only with RETRY_LONG
	edits                   []edit
	waste, goodput, failing float64
}{
	{"1 process", false, []edit{processes(1)}, .04, .98, .3},
	{"12 processes", true, nil, .04, .98, .3},
	{"50 processes", false, []edit{processes(50)}, .04, .98, .3},
	{"200 processes", false, []edit{processes(200)}, .045, .98, .3},
	{"1000 processes", false, []edit{processes(1000)}, .06, .98, .31},
	{"200, of one call each", false, []edit{processes(200), each(1)}, .1, .98, .32},
	{"200, that live for a minute", false, []edit{processes(200), life(time.Minute)}, .05, .98, .3},
	{"half of the quota", false, []edit{processes(200), load(.5)}, .001, .49, .01},
	{"as much as the quota", false, []edit{processes(200), load(1)}, .01, .97, .02},
	{"three times the quota", false, []edit{processes(200), load(3)}, .06, .98, .68},
	{"peaks", true, []edit{processes(200), peaks}, .07, .78, .01},
	{"refused requests count", false, []edit{processes(200), refusedCount}, .07, .94, .33},
	{"no hints", false, []edit{processes(200), noHints}, .05, .98, .3},
	{"2.5 in a second", false, []edit{processes(200), quota(2.5)}, .1, .96, .32},
	{"250 in a second", false, []edit{processes(200), quota(250)}, .05, .98, .3},
	{"a backlog, 200", false, []edit{processes(200), backlog(20_000)}, .06, .88, .02},
	{"a backlog, 1000", false, []edit{processes(1000), backlog(20_000)}, .14, .88, .02},
	{"8 % strays, 12 at 50 % of 50", false, []edit{quota(50), load(.5), strays(.08)}, .09, .48, .03},
	{"8 % strays, 200 at 50 % of 50", false, []edit{processes(200), quota(50), load(.5), strays(.08)}, .09, .48, .03},
	{"20 % strays, 12 at 50 % of 50", false, []edit{quota(50), load(.5), strays(.2)}, .22, .3, .35},
	{"8 % strays, 200 at 150 % of 50", false, []edit{processes(200), quota(50), load(1.5), strays(.08)}, .14, .95, .3},
	{"tokens bind", false, []edit{processes(200), tokens}, .07, .95, .3},
	{"clocks that are off by 5 s", false, []edit{processes(200), store(storm.Store{Skew: 5 * time.Second})}, .1, .98, .3},
	{"half of them cut off", false, []edit{processes(200), store(storm.Store{Half: true, AwayTo: time.Hour})}, .15, .97, .34},
	{"news is lost", false, []edit{processes(200), store(storm.Store{Deaf: true})}, .06, .98, .31},
}

// The seeds are none of those by which the law was chosen.
func TestFleets(t *testing.T) {
	for _, q := range fleets {
		t.Run(q.name, func(t *testing.T) {
			if !q.short {
				notUnderRace(t)
				long(t)
			}
			p := fleetOf(q.edits...)
			r := outcomes(p, "fleet")["fleet"]
			t.Logf("%d requests, %.1f %% wasted, goodput %.1f %%, %.1f %% fail, %.0f exchanges a second",
				r.Sent, 100*r.Waste(), 100*r.Goodput, 100*r.Failing(), float64(r.Store)/r.Took.Seconds())
			if r.Waste() > q.waste || r.Goodput < q.goodput || r.Failing() > q.failing {
				t.Errorf("%.1f %% of the requests wasted, goodput %.1f %%, %.1f %% fail; want at most %.1f, at least %.1f, at most %.1f",
					100*r.Waste(), 100*r.Goodput, 100*r.Failing(), 100*q.waste, 100*q.goodput, 100*q.failing)
			}
			waiting := float64(p.Processes)
			if p.Each == 1 {
				waiting = p.Load * 25 * 60 // nobody waits for longer than half of his time
			}
			if most := 4*float64(r.Sent+r.Failed) + waiting*r.Took.Seconds()/15; float64(r.Store) > most {
				t.Errorf("%d exchanges for %d requests and %d calls that failed, want at most %.0f", r.Store, r.Sent, r.Failed, most)
			}
		})
	}
}

func fleetOf(edits ...edit) storm.Provider {
	p := storm.DocumentedProvider
	p.Seed = 401
	for _, e := range edits {
		e(&p)
	}
	return p
}

// While nothing is throttled a fleet costs the store nothing but the first answer.
func TestOpenFleetLeavesTheStoreAlone(t *testing.T) {
	p := fleetOf(processes(200), load(.5), func(p *storm.Provider) { p.Duration = 2 * time.Minute })
	if r := storm.CompareClients(p, []string{"fleet"}, 1)["fleet"]; r.Throttled > 0 || r.Store > p.Processes {
		t.Errorf("%d exchanges of %d processes, %d requests throttled", r.Store, p.Processes, r.Throttled)
	}
}

// What does not depend on the rate costs a fleet no more than a Pace.
func TestFleetUnderStrays(t *testing.T) {
	notUnderRace(t)
	long(t)
	for _, share := range []float64{.5, 1, 1.5} {
		all := outcomes(fleetOf(processes(200), quota(50), load(share), strays(.05)), "fleet", "pace")
		if fleet, pace := all["fleet"].Goodput, all["pace"].Goodput; fleet < .98*pace {
			t.Errorf("5 %% strays at %.0f %% of the quota: goodput %.1f %%, and %.1f %% by paces alone", 100*share, 100*fleet, 100*pace)
		}
	}
}

// A backlog takes hardly more requests, and hardly longer, than with one queue that knows the
// quota.
func TestBacklogOfAFleet(t *testing.T) {
	notUnderRace(t)
	long(t)
	for _, n := range []int{200, 1000} {
		all := outcomes(fleetOf(processes(n), backlog(20_000)), "fleet", "one queue")
		fleet, ideal := all["fleet"], all["one queue"]
		t.Logf("%d processes: %d requests and %v, ideally %d and %v", n, fleet.Sent, fleet.Took, ideal.Sent, ideal.Took)
		if n == 200 && float64(fleet.Sent) > 1.1*float64(ideal.Sent) {
			t.Errorf("%d requests, ideally %d", fleet.Sent, ideal.Sent)
		}
		if fleet.Took.Seconds() > 1.1*ideal.Took.Seconds() {
			t.Errorf("%d processes take %v, ideally %v", n, fleet.Took, ideal.Took)
		}
	}
}

// A store that takes 200 ms costs at most two points.
func TestSlowStore(t *testing.T) {
	notUnderRace(t)
	long(t)
	for _, n := range []int{12, 200} {
		quick := outcomes(fleetOf(processes(n)), "fleet")["fleet"]
		slow := outcomes(fleetOf(processes(n), store(storm.Store{Trip: 200 * time.Millisecond})), "fleet")["fleet"]
		t.Logf("%d processes: %.1f %% wasted, with a slow store %.1f", n, 100*quick.Waste(), 100*slow.Waste())
		if slow.Waste() > quick.Waste()+.02 || slow.Goodput < .97 {
			t.Errorf("%d processes: %.1f %% wasted, with a slow store %.1f, goodput %.1f %%", n, 100*quick.Waste(), 100*slow.Waste(), 100*slow.Goodput)
		}
	}
}

// tens counts the requests of each ten seconds, and those that were throttled.
type tens struct{ sent, throttled [100]float64 }

func (c *tens) watch(p *storm.Provider) {
	p.Watch = func(at time.Duration, throttled bool) {
		c.sent[at/(10*time.Second)]++
		if throttled {
			c.throttled[at/(10*time.Second)]++
		}
	}
}

// waste is the share of throttled requests from a time on and before another.
func (c *tens) waste(from, to time.Duration) float64 {
	var sent, throttled float64
	for i := from / (10 * time.Second); i < to/(10*time.Second); i++ {
		sent, throttled = sent+c.sent[i], throttled+c.throttled[i]
	}
	return throttled / max(sent, 1)
}

// watched runs a client with three seeds, and returns its requests by time.
func watched(client string, p storm.Provider) *tens {
	c := new(tens)
	c.watch(&p)
	outcomes(p, client)
	return c
}

// While the store is away a fleet is no worse than paces alone, and half a minute after that it
// is one again.
func TestStoreAway(t *testing.T) {
	notUnderRace(t)
	long(t)
	from, to := 3*time.Minute, 4*time.Minute
	for _, n := range []int{12, 200} {
		away := fleetOf(processes(n), store(storm.Store{AwayFrom: from, AwayTo: to}))
		alone := watched("pace", fleetOf(processes(n))).waste(0, to)
		fleet := watched("fleet", away)
		if got := fleet.waste(from, to); got > alone+.02 {
			t.Errorf("%d processes waste %.1f %% while the store is away, and alone %.1f", n, 100*got, 100*alone)
		}
		if got := fleet.waste(to+30*time.Second, to+90*time.Second); got > .1 {
			t.Errorf("%d processes waste %.1f %% after the store is back", n, 100*got)
		}
	}
}

// A store that has lost all learns it from who comes first.
func TestEmptiedStore(t *testing.T) {
	notUnderRace(t)
	long(t)
	for _, n := range []int{12, 200, 1000} {
		at := 3 * time.Minute
		fleet := watched("fleet", fleetOf(processes(n), store(storm.Store{Emptied: at})))
		for ten := at - 10*time.Second; ten < at+2*time.Minute; ten += 10 * time.Second {
			if got := fleet.waste(ten, ten+10*time.Second); got > .15 {
				t.Errorf("%d processes waste %.1f %% from %v on; the store was emptied at %v", n, 100*got, ten, at)
			}
		}
	}
}
