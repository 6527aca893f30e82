package storm

import (
	"fmt"
	"time"
)

// Cell is a case in which budgets are compared: who calls, which server answers, and what
// goes wrong.
type Cell struct {
	Kind, Name string
	Service
}

// cells is a list of them that grows.
type cells []Cell

// add adds a cell at a load, a share of what the server can do. If it has no Duration, it
// lasts as long as a budget may take to recover.
func (all *cells) add(x Service, load float64, kind, name string, values ...any) {
	x.Rate = load * x.MaxRate()
	if x.Duration == 0 {
		x.Duration = time.Duration(55+2.5*3*load/(1-load)) * time.Second
	}
	name = fmt.Sprintf(name+", load %.2f, %d processes", append(values, load, max(x.Processes, 1))...)
	*all = append(*all, Cell{kind, name, x})
}

// What goes wrong in a Cell that is no outage all the time does so from from to to.
const from, to = 10 * time.Second, 13 * time.Second

var disturbances = []struct {
	name string
	Outage
}{
	{"hang", Outage{From: from, To: to}},
	{"refused", Outage{From: from, To: to, Answer: Refused}},
	{"503", Outage{From: from, To: to, Answer: Unavailable}},
	{"three times slower", Outage{From: from, To: to, Answer: Slow, Factor: 3}},
}

var servers = []struct {
	kind, name string
	set        func(x *Service)
}{
	{"outages", "oldest first", func(*Service) {}},
	{"outages", "newest first", func(x *Service) { x.Discipline = LIFO }},
	{"outages", "a queue of 100", func(x *Service) { x.Queue = 100 }},
	{"outages", "abandoned dropped", func(x *Service) { x.Drop = true }},
	{"random order", "any first", func(x *Service) { x.Discipline = Random }},
	{"random order", "shared", func(x *Service) { x.Discipline = Sharing }},
}

// Cells are those of bench/EXPERIMENTS.md. A server does 200 requests per second, and
// clients wait for a second, if nothing else is said.
func Cells() []Cell {
	const ms = time.Millisecond
	var all cells
	base := Service{Processes: 30, Workers: 10, Latency: 50 * ms, Timeout: time.Second, Failure: .01}
	fleets := []int{1, 30, 300}
	for _, server := range servers {
		for _, d := range disturbances {
			x := base
			server.set(&x)
			x.Outages = []Outage{d.Outage}
			for _, x.Processes = range fleets {
				for _, load := range []float64{.45, .75, .9, .97} {
					all.add(x, load, server.kind, "%s, %s", server.name, d.name)
				}
			}
		}
	}
	minute := base
	minute.Duration = time.Minute
	for _, processes := range fleets {
		x := minute
		x.Processes = processes
		for _, x.Failure = range []float64{.01, .05, .1, .2, .3} {
			all.add(x, .45, "failures", "%.0f %%", 100*x.Failure)
		}
		x.Failure = 0
		for _, x.Lost = range []float64{.01, .05, .1, .2} {
			kind := "lost answers"
			if x.Lost == .2 && processes == 30 {
				kind = "20 % lost"
			}
			all.add(x, .45, kind, "%.0f %%", 100*x.Lost)
		}
		x.Duration = 15 * time.Minute
		x.Outages = []Outage{disturbances[0].Outage}
		for _, x.Lost = range []float64{.01, .1} {
			all.add(x, .45, "lost answers", "%.0f %%, long after a hang", 100*x.Lost)
		}
	}
	for _, load := range []float64{.45, .75, .9} {
		for _, d := range disturbances {
			x := base
			x.Outages = []Outage{d.Outage}
			for _, x.CallsPerProcess = range []int{1, 3, 10, 100} {
				all.add(x, load, "young processes", "%d calls each, %s", x.CallsPerProcess, d.name)
			}
			x = base
			x.Workers, x.Latency, x.Sharded = 2, 100*ms, true
			x.Outages = []Outage{d.Outage}
			x.Outages[0].Servers = 1
			for _, x.Servers = range []int{10, 50} {
				all.add(x, load, "shards", "one of %d, %s", x.Servers, d.name)
				apart := x
				apart.Apart = true
				all.add(apart, load, "a budget per shard", "one of %d, %s", x.Servers, d.name)
			}
		}
		x := base
		x.Outages, x.Gateway = []Outage{disturbances[0].Outage}, 800*ms
		for _, x.Exponential = range []bool{false, true} {
			all.add(x, load, "gateway", "hang, random times %v", x.Exponential)
		}
		x = minute
		x.Queue, x.Full, x.Exponential = 20, TooMany, true
		for _, x.Refusing = range []time.Duration{10 * ms, 25 * ms, 50 * ms} {
			all.add(x, load, "costly rejections", "%v each", x.Refusing)
		}
	}
	for _, load := range []float64{.6, .75, .85} {
		x := minute
		x.Servers, x.Failure = 10, 0
		x.Outages = []Outage{{From: from, To: 40 * time.Second, Servers: 1}}
		for _, x.Exponential = range []bool{false, true} {
			for _, x.Workers = range []int{1, 2, 4, 10} {
				all.add(x, load, "dead replica", "%d workers each, random times %v", x.Workers, x.Exponential)
			}
		}
	}
	return all
}
