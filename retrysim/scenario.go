package main

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/limit"
	"github.com/goretry/retry/retryconf"
	"github.com/goretry/retry/retrysim/internal/storm"
)

// scenario is what try, find and live have in common: who calls, which server
// answers, and what goes wrong.
type scenario struct {
	storm.Service
	texts    []string // of the policies
	policies []retry.Policy

	service, latency        time.Duration
	outage, at, spikeFor    time.Duration
	spike                   float64
	shards, replicas, sick  int
	spread, discipline      string
	abandoned, full, answer string
	factor                  float64 // of a brown-out
	seeds                   int
	end                     time.Duration // of the disturbance
	what, band              string        // it is, in words and in one
	extended                bool          // the duration is chosen, and not given
	most                    float64       // calls that a run may have
	limits                  []int         // MIN,MAX
	hedge                   string        // a time, or adaptive
	paced                   bool
	guards                  []guard
	progress                *progress
	beside                  string // a guard's name behind the rows', if there is one
}

// name returns what a policy is called: by its text if it has no name.
func name(p retry.Policy) string { return cmp.Or(p.Name, retryconf.Policy{Policy: p}.String()) }

// guard is something around each attempt beside the policy.
type guard struct {
	name string
	set  func(s *storm.Service)
}

var answers = map[string]storm.Answer{"hang": storm.Hang, "503": storm.Unavailable, "429": storm.TooMany, "refused": storm.Refused, "slow": storm.Slow}

var disciplines = map[string]storm.Discipline{"fifo": storm.FIFO, "lifo": storm.LIFO, "random": storm.Random, "sharing": storm.Sharing}

// groups are the flags of a scenario. The page of serve has the same.
var groups = []group{
	{"Your policy", "policy limit pace hedge"},
	{"What goes wrong", "outage outage-answer outage-factor at spike spike-for failure lost gateway sick"},
	{"Your fleet", "processes calls-per-process rate timeout shared budget-per-shard closed clients network"},
	{"Your server", "workers service queue full refusing abandoned discipline spread slowdown capacity latency quota shards replicas"},
	{"The simulation", "duration seeds seed"},
	{"Output", "format o"},
}

// newScenario adds the flags of a scenario, which has outages like this one.
func newScenario(o *options) *scenario {
	x := &scenario{
		Service: storm.Service{Processes: 30, Rate: 150, Failure: .01, Workers: 10, Timeout: time.Second, Clients: 1000, Seed: 1},
		service: 50 * time.Millisecond,
		outage:  3 * time.Second, at: 10 * time.Second, spikeFor: 2 * time.Second,
		spread: "fixed", discipline: "fifo", abandoned: "served", full: "503", answer: "hang", factor: 3,
		seeds: 20, most: many, progress: &o.progress,
	}
	x.Ran = o.progress.step
	o.groups = groups
	o.add(
		param{"policy", &x.texts, 0, 0, "", "a `policy`, such as '" + policyExample + "'; repeat the flag to compare several"},
		param{"processes", &x.Processes, 1, 1e6, "", "`number` of processes that call, with a budget each"},
		param{"shared", &x.Shared, 0, 0, "", "all processes share one budget"},
		param{"calls-per-process", &x.CallsPerProcess, 0, many, "", "`number` of calls after which a process ends, and a new one takes its place; 0: never"},
		param{"rate", &x.Rate, 1e-3, fast, "", "calls of all processes together, a `rate`: 150/s or 150"},
		param{"closed", &x.Closed, 0, 0, "", "clients make one call at a time and think in between; they would make -rate calls if every answer came at once"},
		param{"clients", &x.Clients, 1, many, "", "`number` of clients, with -closed"},
		param{"failure", &x.Failure, 0, 1, "", "`share` of requests that fail at any time"},
		param{"lost", &x.Lost, 0, 1, "", "`share` of the other requests that the server does, but whose answer gets lost"},
		param{"shards", &x.shards, 0, 1e4, "", "`number` of servers, each with these workers or this capacity; a call belongs to one of them"},
		param{"replicas", &x.replicas, 0, 1e4, "", "in place of -shards: `number` of servers behind a balancer, which sends each request to any of them"},
		param{"sick", &x.sick, 0, 1e4, "", "`number` of the shards or replicas that have the outage; 0: all"},
		param{"budget-per-shard", &x.Apart, 0, 0, "", "each process has a budget for each shard"},
		param{"workers", &x.Workers, 0, 1e6, "", "`number` of requests that the server works on at once"},
		param{"service", &x.service, 0, 3600, "", "`time` that a worker takes for a request"},
		param{"capacity", &x.Capacity, 0, fast, "", "in place of -workers and -service: requests that the server can do, a `rate`"},
		param{"latency", &x.latency, 0, 3600, "", "with -capacity: `time` that a request takes besides"},
		param{"spread", &x.spread, 0, 0, "fixed exponential", "`kind` of random times that the server takes for requests"},
		param{"slowdown", &x.Slowdown, 0, 3600, "", "`time` added for each request that the server works on"},
		param{"discipline", &x.discipline, 0, 0, "fifo lifo random sharing", "which of the waiting requests is next, or that all share the workers, a `word`"},
		param{"abandoned", &x.abandoned, 0, 0, "served dropped", "what becomes of requests that nobody waits for, a `word`"},
		param{"queue", &x.Queue, -1, many, "", "`number` of requests that may wait; 0: no limit; -1: none may"},
		param{"full", &x.full, 0, 0, "503 429 refused", "`answer` of a full queue"},
		param{"refusing", &x.Refusing, 0, 3600, "", "`time` of a worker that the answer of a full queue costs"},
		param{"outage", &x.outage, 0, 86400, "", "`time` for which the server does no work, or works slowly; 0: none"},
		param{"outage-answer", &x.answer, 0, 0, "hang 503 429 refused slow", "`answer` in the outage"},
		param{"outage-factor", &x.factor, 1, 1e6, "", "how many `times` as long work takes in a brown-out, which is -outage-answer slow"},
		param{"at", &x.at, 2, 86400, "", "`time` at which outage and spike begin"},
		param{"spike", &x.spike, 0, fast, "", "calls of all processes in a spike, a `rate`; then no outage unless -outage is given; 0: no spike"},
		param{"spike-for", &x.spikeFor, 1e-3, 86400, "", "`time` that the spike lasts"},
		param{"timeout", &x.Timeout, 1e-6, 86400, "", "`time` that a client waits if its policy has no attempt_timeout"},
		param{"gateway", &x.Gateway, 0, 86400, "", "`time` after which a gateway before the server answers 503; 0: there is none"},
		param{"network", &x.Network, 0, 3600, "", "mean `time` of a message, each way"},
		param{"limit", &x.limits, 0, 65535, "", "each process has a limit.Adaptive around its attempts: `MIN,MAX` places; equal ones are a limit.Limit, and a MAX of 0 is no bound"},
		param{"quota", &x.Quota.Rate, 0, fast, "", "requests allowed, as many at once as in a second; beyond it 429: a `rate`; 0: no quota"},
		param{"pace", &x.paced, 0, 0, "", "each process has a pace.Pace around its attempts, which is told its part of -quota"},
		param{"hedge", &x.hedge, 0, 0, "", "a second request runs beside one that takes longer than a `delay`, or than most: adaptive"},
		param{"duration", &x.Duration, 0, 86400, "", "`time` simulated; 0: as long as it takes to tell"},
		param{"seeds", &x.seeds, 1, 1e6, "", "`number` of runs, each with other random numbers"},
		param{"seed", &x.Seed, 0, 0, "", "`number` that the random numbers of the first run follow from"},
	)
	return x
}

// check makes the flags a Service.
func (x *scenario) check(o *options) error {
	switch {
	case o.given("clients") && !x.Closed:
		return wrong("-clients: wants -closed: without it calls come at -rate, whoever makes them")
	case o.given("capacity") && (o.given("workers") || o.given("service")):
		return wrong("-capacity: want it or -workers and -service, from which it follows")
	case o.given("latency") && !o.given("capacity"):
		return wrong("-latency: wants -capacity; with -workers it is -service")
	case x.shards > 0 && x.replicas > 0:
		return wrong("-shards: want it or -replicas")
	case x.sick > max(x.shards, x.replicas, 1):
		return wrong("-sick: want at most as many as there are -shards or -replicas")
	case x.Apart && x.shards == 0:
		return wrong("-budget-per-shard: wants -shards")
	case x.Apart && float64(x.Processes)*float64(x.shards) > many:
		return wrong("-budget-per-shard: want at most %.0e budgets", many)
	case x.Shared && x.CallsPerProcess > 0:
		return wrong("-shared: a budget that outlives its process is none of -calls-per-process")
	case x.discipline == "sharing" && (x.Capacity > 0 || x.Workers == 0):
		return wrong("-discipline: sharing wants -workers")
	case x.paced && x.Quota.Rate == 0:
		return wrong("-pace: wants -quota, of which each process is told its part")
	case x.paced && x.hedge != "":
		return wrong("-pace: want it or -hedge")
	case x.spike > 0 && !o.given("outage"):
		x.outage = 0
	}
	x.Quota.Burst = max(x.Quota.Rate, 1)
	x.Latency = x.service
	if x.Capacity > 0 {
		x.Workers, x.service, x.Latency = 0, 0, x.latency
	}
	if !x.Closed {
		x.Clients = 0
	}
	if len(x.limits) > 0 {
		if len(x.limits) != 2 || x.limits[0] > x.limits[1] && x.limits[1] > 0 {
			return wrong("-limit: want MIN,MAX places, with MIN ≤ MAX, such as 1,1000, or a MAX of 0")
		}
		l := limit.Adaptive{Min: x.limits[0], Max: x.limits[1]}
		x.guards = append(x.guards, guard{"limit", func(s *storm.Service) { s.Limit = &l }})
	}
	if x.paced {
		x.guards = append(x.guards, guard{"pace", func(s *storm.Service) { s.Pace = true }})
	}
	if x.hedge != "" {
		delay, err := time.ParseDuration(x.hedge)
		if x.hedge != "adaptive" && (err != nil || delay <= 0) {
			return wrong("-hedge: want a delay, such as 200ms, or adaptive")
		}
		x.guards = append(x.guards, guard{"hedge", func(s *storm.Service) { s.Hedge, s.HedgeDelay = true, delay }})
	}
	x.Exponential, x.Drop, x.Full = x.spread == "exponential", x.abandoned == "dropped", answers[x.full]
	x.Discipline = disciplines[x.discipline]
	x.Servers, x.Sharded = max(x.shards, x.replicas), x.shards > 0
	if len(x.texts) == 0 {
		x.texts = []string{policyDefault}
	}
	for _, text := range x.texts {
		p, err := parse(text)
		if err != nil {
			return wrong("-policy: %w", err)
		}
		x.policies = append(x.policies, p)
	}
	x.extended = x.Duration == 0
	x.disturb(x.outage)
	return x.settle()
}

// disturb sets what goes wrong, with an outage as long as this.
func (x *scenario) disturb(outage time.Duration) {
	var what []string
	x.outage, x.Outages, x.Spikes = outage, nil, nil
	x.end, x.band = x.at+outage, "outage"
	if outage > 0 {
		what = append(what, map[string]string{
			"hang":    fmt.Sprintf("an outage of %v", outage),
			"503":     fmt.Sprintf("an outage of %v in which it answers 503", outage),
			"429":     fmt.Sprintf("an outage of %v in which it answers 429", outage),
			"refused": fmt.Sprintf("an outage of %v in which it refuses connections", outage),
			"slow":    fmt.Sprintf("a brown-out of %v in which work takes %g times as long", outage, x.factor),
		}[x.answer])
		x.Outages = []storm.Outage{{From: x.at, To: x.at + outage, Answer: answers[x.answer], Factor: x.factor, Servers: x.sick}}
		if x.sick > 0 {
			what[0] += fmt.Sprintf(" of %d of them", x.sick)
		}
	}
	if x.spike > 0 {
		x.Spikes = []storm.Spike{{From: x.at, To: x.at + x.spikeFor, Rate: x.spike}}
		x.end, x.band = max(x.end, x.at+x.spikeFor), "spike"
		what = append(what, fmt.Sprintf("a spike to %g/s for %v", x.spike, x.spikeFor))
	}
	x.what = cmp.Or(strings.Join(what, " and "), "no outage")
}

// settle chooses a duration, if none was given. It returns an error if the duration is
// too short for the disturbance, or so long that there are too many calls.
func (x *scenario) settle() error {
	switch least := x.end + 10*time.Second; {
	case x.extended && x.end > longest-visible:
		return wrong("-%s: it is over after %v, and without a -duration it must be by %v", x.band, x.end, longest-visible)
	case x.extended:
		x.Duration = x.enough()
	case x.Duration < least:
		return wrong("-duration: want at least %v, 10s more than it takes until the %s is over", least, x.band)
	}
	flag, calls := x.calls(x.Duration)
	return bounded(flag, calls, x.most)
}

// calls returns how many calls a run has that is as long as this, and the flag that
// most of them come from.
func (x *scenario) calls(duration time.Duration) (flag string, calls float64) {
	steady, spike := x.Rate*duration.Seconds(), x.spike*min(x.spikeFor, duration).Seconds()
	if spike > steady {
		return "spike", steady + spike
	}
	return "rate", steady + spike
}

// panel returns one without lines, over the seconds of a run.
func (x *scenario) panel(y string, rule float64, ruleName string) panel {
	return panel{y: y, x: "seconds", rule: rule, ruleName: ruleName, from: x.at.Seconds(), to: x.end.Seconds(), band: x.band}
}

// shown returns which share of the calls the results are of: those to the shards that
// have the outage.
func (x *scenario) shown() float64 {
	if x.shards > 0 && x.sick > 0 && x.outage > 0 {
		return float64(x.sick) / float64(x.shards)
	}
	return 1
}

// limit returns how many requests per second the server can do; 0 if there is no limit.
func (x *scenario) limit() float64 {
	if math.IsInf(x.MaxRate(), 0) {
		return 0
	}
	return x.MaxRate()
}

// spare returns what the server can do beyond the calls, per second.
func (x *scenario) spare() float64 { return x.MaxRate() - x.Rate }

// longest is how long a run is made at most where -duration does not say it, and
// visible how much of that comes after the disturbance at least.
const longest, visible = 10 * time.Minute, 30 * time.Second

// enough returns how long a run without retries takes until it has recovered: what
// has piled up is worked off by what the server has to spare. Half of that and 30 s
// more are left to see it.
func (x *scenario) enough() time.Duration {
	slow := 0.0 // what the server does in the outage, per second
	if x.answer == "slow" {
		slow = min(x.MaxRate()/x.factor, x.Rate)
	}
	backlog := (x.Rate - slow) * x.outage.Seconds()
	if x.spike > 0 {
		backlog += max(x.spike-x.MaxRate(), 0) * x.spikeFor.Seconds()
	}
	seconds := (x.end + visible).Seconds()
	if spare := x.spare(); spare > 0 {
		seconds += 1.5 * (backlog / spare)
	}
	return time.Duration(math.Ceil(min(seconds, longest.Seconds())/10)) * 10 * time.Second
}

// parse returns the policy of a text.
func parse(text string) (retry.Policy, error) {
	var p retryconf.Policy
	err := p.UnmarshalText([]byte(text))
	return p.Policy, err
}
