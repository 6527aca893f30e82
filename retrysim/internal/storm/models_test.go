package storm_test

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/retrysim/internal/storm"
)

// The models of this package are compared with others here: the article's
// simulation written down once more, and formulas of queueing theory.

// message is one of the article's: at the server or the client that it is for.
type message struct {
	at     float64 // ms
	client int
	do     func(m message) *message
}

type messages []message

func (q messages) Len() int           { return len(q) }
func (q messages) Less(i, j int) bool { return q[i].at < q[j].at }
func (q messages) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *messages) Push(x any)        { *q = append(*q, x.(message)) }
func (q *messages) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// articleContention is the simulation of "Exponential Backoff And Jitter" as its
// authors describe it, with a backoff of its own: the mean of so many trials.
func articleContention(n, trials int, backoff func(r *rand.Rand, attempt int, sleep *float64) float64) (calls, ms float64) {
	r := rand.New(rand.NewPCG(99, uint64(n)))
	delay := func() float64 { return math.Abs(10 + 2*r.NormFloat64()) }
	for range trials {
		version, now := 0, 0.
		known, attempt, sleep := make([]int, n), make([]int, n), make([]float64, n)
		var read, write func(m message) *message
		read = func(m message) *message {
			known[m.client] = version
			return &message{now + delay(), m.client, func(m message) *message {
				return &message{now + delay(), m.client, write}
			}}
		}
		write = func(m message) *message {
			calls++
			ok := known[m.client] == version
			if ok {
				version++
			}
			return &message{now + delay(), m.client, func(m message) *message {
				if ok {
					return nil
				}
				attempt[m.client]++
				return &message{now + delay() + backoff(r, attempt[m.client], &sleep[m.client]), m.client, read}
			}}
		}
		q := &messages{}
		for i := range n {
			sleep[i] = 5
			heap.Push(q, message{delay(), i, read})
		}
		for q.Len() > 0 {
			m := heap.Pop(q).(message)
			now = m.at
			if next := m.do(m); next != nil {
				heap.Push(q, *next)
			}
		}
		ms += now
	}
	return calls / float64(trials), ms / float64(trials)
}

func TestContentionIsTheArticlesModel(t *testing.T) {
	notUnderRace(t)
	long(t)
	window := func(attempt int) float64 { return min(2000, 5*math.Pow(2, float64(attempt))) }
	backoffs := map[string]func(r *rand.Rand, attempt int, sleep *float64) float64{
		"none":        func(*rand.Rand, int, *float64) float64 { return 0 },
		"exponential": func(_ *rand.Rand, n int, _ *float64) float64 { return window(n) },
		"equal":       func(r *rand.Rand, n int, _ *float64) float64 { return window(n)/2 + r.Float64()*window(n)/2 },
		"full":        func(r *rand.Rand, n int, _ *float64) float64 { return r.Float64() * window(n) },
		"decorrelated": func(r *rand.Rand, _ int, sleep *float64) float64 {
			*sleep = min(2000, 5+r.Float64()*(3**sleep-5))
			return *sleep
		},
	}
	for n, trials := range map[int]int{15: 400, 35: 150, 70: 60, 150: 25, 200: 20} {
		x := storm.PublishedContention
		x.Clients, x.Trials, x.Seed = []int{n}, trials, 5
		for _, row := range x.Run() {
			calls, ms := articleContention(n, trials, backoffs[row.Policy])
			if !within(row.Calls, calls, .03) || !within(row.TimeMS, ms, .08) {
				t.Errorf("%+v, the article's model has %.1f calls in %.0f ms", row, calls, ms)
			}
		}
	}
}

func TestContentionWithParametersOfOnesOwn(t *testing.T) {
	// Alone, a client reads and writes: four messages.
	for _, tt := range []struct{ delay, spread, want time.Duration }{{10 * time.Millisecond, 0, 40 * time.Millisecond}, {25 * time.Millisecond, 0, 100 * time.Millisecond}, {0, 0, 0}} {
		x := storm.PublishedContention
		x.Clients, x.Trials, x.Delay, x.Spread = []int{1}, 1, tt.delay, tt.spread
		rows := x.Run()
		if got := rows[0]; got.Calls != 1 || got.TimeMS != tt.want.Seconds()*1000 {
			t.Errorf("delay %v: %+v, want 1 call in %v", tt.delay, got, tt.want)
		}
	}
	// Two clients in step: both write version 0 at 30 ms, one fails at 40 ms, and reads again at 50 ms + 2·base.
	for _, tt := range []struct {
		base, max time.Duration
		want      float64
	}{{5 * time.Millisecond, 2 * time.Second, 90}, {time.Second, 2 * time.Second, 2080}, {time.Second, 3 * time.Second, 2080}, {time.Second, time.Second, 1080}} {
		x := storm.PublishedContention
		x.Clients, x.Trials, x.Spread, x.Base, x.Max = []int{2}, 1, 0, tt.base, tt.max
		rows := x.Run()
		if got := rows[1]; got.Calls != 3 || got.TimeMS != tt.want {
			t.Errorf("base %v, max %v: %+v, want 3 calls in %v ms", tt.base, tt.max, got, tt.want)
		}
	}
}

func TestAmplificationFollowsItsFormula(t *testing.T) {
	notUnderRace(t)
	long(t)
	for _, x := range []struct {
		processes, attempts int
		ratio               float64
	}{{10, 2, .1}, {200, 6, .3}, {50, 4, .05}} {
		s := storm.Service{Processes: x.processes, Shared: true, Rate: 1000, Seed: 11, Duration: 40 * time.Second}
		for _, row := range storm.Amplification(s, []float64{0, .03, .25, .7, .9, 1}, x.attempts, x.ratio) {
			load, success := 0., 1-math.Pow(row.Failure, float64(x.attempts))
			for i := range x.attempts {
				load += math.Pow(row.Failure, float64(i))
			}
			switch row.Policy {
			case "none":
				load, success = 1, 1-row.Failure
			case "ratio":
				most := ratioLoad(row.Failure, x.ratio)
				if row.Load > min(load, most)*1.01 {
					t.Errorf("%+v: %+v, want a load of at most %.3f", x, row, most)
				}
				continue
			}
			if !within(row.Load, load, .01) || math.Abs(row.Success-success) > .01 {
				t.Errorf("%+v: %+v, want a load of %.3f and a success of %.3f", x, row, load, success)
			}
		}
	}
}

// A tenth of the calls that succeed, whoever shares the budget: of calls that fail half
// of the time that is 1/19 of all. A fresh budget has one retry besides, and floors add
// up.
func TestOneBudgetEach(t *testing.T) {
	notUnderRace(t)
	load := func(clients int, each bool, floor float64) float64 {
		x := storm.Service{Rate: 1000, Processes: clients, Shared: !each, Failure: .5, Duration: 100 * time.Second}
		return x.Run(retry.Policy{MaxAttempts: 4, Budget: &budget.Ratio{MinPerSecond: floor}}).Load()
	}
	const want = 1 + 1/19.
	for _, clients := range []int{10, 1000} {
		for _, each := range []bool{false, true} {
			if got := load(clients, each, 0); !within(got, want, .006) {
				t.Errorf("%d clients, a budget each %v: the load is %.4f, want %.4f", clients, each, got, want)
			}
		}
	}
	if few, many := load(10, true, .1), load(1000, true, .1); few > want+.01 || many < want+.03 {
		t.Errorf("with floors the load is %.4f with 10 clients and %.4f with 1000, want it to grow from %.4f", few, many, want)
	}
}

// A server that slows down by s for each request holds N = λ(l+sN) of them.
func TestSlowdownHoldsWhatLittlesLawSays(t *testing.T) {
	for _, rate := range []float64{10, 40, 70} {
		r := storm.Service{Rate: rate, Duration: 300 * time.Second, Latency: time.Second, Slowdown: 10 * time.Millisecond}.Run(retry.Policy{})
		held := rate / (1 - rate*.01)
		if got := mean(r.Held, 50, 300); !within(got, held, .05) {
			t.Errorf("at %v/s the server holds %.1f requests, want %.1f", rate, got, held)
		}
		if got, want := r.Quantile(.5).Seconds(), 1+.01*held; !within(got, want, .05) {
			t.Errorf("at %v/s a request takes %.2f s, want %.2f", rate, got, want)
		}
	}
}

// A queue with random arrivals and equal requests (M/D/1) is ρ²/2(1-ρ) long, and
// as many are being served as the server's share of the time, ρ.
func TestCapacityHoldsWhatQueueingTheorySays(t *testing.T) {
	notUnderRace(t)
	for _, load := range []float64{.3, .6, .8} {
		r := storm.Service{Rate: 100 * load, Capacity: 100, Duration: 1000 * time.Second, Seed: 3}.Run(retry.Policy{})
		want := load*load/(2*(1-load)) + load
		if got := mean(r.Held, 10, 1000); !within(got, want, .06) {
			t.Errorf("at a load of %v the server holds %.3f requests, want %.3f", load, got, want)
		}
	}
}

// mean returns the mean of a function of time between two seconds.
func mean(f func(time.Duration) float64, from, to int) float64 {
	sum, n := 0., 0
	for at := time.Duration(from) * time.Second; at < time.Duration(to)*time.Second; at += 5 * 100 * time.Millisecond {
		sum += f(at)
		n++
	}
	return sum / float64(n)
}

// Closed clients that think for Z and wait for R make N/(Z+R) calls per second.
func TestClosedClientsWaitForTheirCalls(t *testing.T) {
	for _, latency := range []time.Duration{0, time.Second, 4 * time.Second} {
		s := storm.Service{Clients: 200, Closed: true, Rate: 100, Latency: latency, Duration: 200 * time.Second}
		want := 200 / (2 + latency.Seconds())
		if got := float64(s.Run(retry.Policy{}).Asked) / 200; !within(got, want, .03) {
			t.Errorf("latency %v: %.1f calls per second, want %.1f", latency, got, want)
		}
	}
}

// A message each way is exponentially distributed: both take an Erlang(2) time.
func TestNetworkIsExponentialEachWay(t *testing.T) {
	r := storm.Service{Rate: 500, Network: 100 * time.Millisecond}.Run(retry.Policy{})
	for q, want := range map[float64]float64{.5: .1678, .9: .389, .99: .6638} {
		if got := r.Quantile(q).Seconds(); !within(got, want, .03) {
			t.Errorf("quantile %v is %.3f s, want %.3f", q, got, want)
		}
	}
}

func TestSpikesChangeTheRate(t *testing.T) {
	const s = time.Second
	for _, closed := range []bool{false, true} {
		r := storm.Service{Clients: 1000, Closed: closed, Rate: 50, Duration: 400 * s, Spikes: []storm.Spike{{100 * s, 200 * s, 150}, {300 * s, 320 * s, 0}}}.Run(retry.Policy{})
		for _, w := range []struct {
			from, to time.Duration
			want     float64
		}{{0, 100 * s, 50}, {100 * s, 200 * s, 150}, {200 * s, 300 * s, 50}, {300 * s, 320 * s, 0}, {320 * s, 400 * s, 50}} {
			if got, _ := r.Rate(w.from, w.to); math.Abs(got-w.want) > 4 {
				t.Errorf("closed %v: %.1f calls per second from %v to %v, want %v", closed, got, w.from, w.to, w.want)
			}
		}
		if len(r.Buckets) != 4000 {
			t.Errorf("%d buckets, want 4000", len(r.Buckets))
		}
	}
}

// Peaks of the herd against what throwing clients into a window at random gives.
func TestHerdIsBallsInBins(t *testing.T) {
	notUnderRace(t)
	const ms = time.Millisecond
	for clients, trials := range map[int]int{10: 1000, 60: 250, 200: 100, 1000: 30} {
		for _, base := range []time.Duration{50 * ms, 400 * ms} {
			want := map[string]float64{"none": float64(clients)}
			r := rand.New(rand.NewPCG(1, 2))
			for name, w := range map[string][2]float64{"plusminus20": {.8, 1.2}, "equal": {.5, 1}, "full": {0, 1}, "decorrelated": {1, 3}} {
				for range trials {
					bins, most := map[int]int{}, 0
					for range clients {
						at := int((w[0] + r.Float64()*(w[1]-w[0])) * float64(base) / float64(10*ms))
						bins[at]++
						most = max(most, bins[at])
					}
					want[name] += float64(most) / float64(trials)
				}
			}
			for _, row := range (storm.Herd{Clients: clients, Base: base, Bucket: 10 * ms, Retries: 1, Trials: trials, Seed: 9}).Run() {
				if !within(row.Peak, want[row.Policy], .06) {
					t.Errorf("%d clients, base %v: %+v, want a peak of %.1f", clients, base, row, want[row.Policy])
				}
			}
		}
	}
}

// articleCollapse is the published simulation of a collapse, with retries at once:
// the share of the trials that are down from 60 to 80 s.
func articleCollapse(trials int) (down float64) {
	r := rand.New(rand.NewPCG(7, 7))
	leg := func() float64 { return .1 * r.ExpFloat64() }
	for range trials {
		q := &messages{}
		now, held, begun, good := 0., 0., 0, 0
		at := func(t float64, do func()) {
			heap.Push(q, message{at: t, do: func(message) *message { do(); return nil }})
		}
		var try func(state *int, attempt int)
		try = func(state *int, attempt int) { // state is the attempt whose answer the client waits for
			at(now+3, func() {
				if *state == attempt {
					if *state++; *state < 3 {
						try(state, *state)
					}
				}
			})
			at(now+leg(), func() {
				held++
				at(now+1+.01*held, func() {
					held--
					at(now+leg(), func() {
						if *state == attempt {
							*state = 9
							if now >= 60 {
								good++
							}
						}
					})
				})
			})
		}
		var arrive func()
		arrive = func() {
			if now >= 60 {
				begun++
			}
			try(new(int), 0)
			rate := 40.
			if 20 <= now && now < 25 {
				rate = 80
			}
			at(now+r.ExpFloat64()/rate, arrive)
		}
		for at(0, arrive); now < 80; {
			m := heap.Pop(q).(message)
			now = m.at
			m.do(m)
		}
		if good*2 < begun {
			down += 1 / float64(trials)
		}
	}
	return down
}

func TestCollapseIsThePublishedModel(t *testing.T) {
	notUnderRace(t)
	long(t)
	const trials = 100
	x := storm.PublishedCollapse
	x.Trials, x.Seed = trials, 12
	ours, published := x.Run()[1].Down, articleCollapse(trials)
	if chance := 3 * math.Sqrt(2*.75*.25/trials); math.Abs(ours-published) > chance {
		t.Errorf("%.3f of the trials end down, and %.3f of those of the published model", ours, published)
	}
}

func TestTrialsAreSummedUp(t *testing.T) {
	x := storm.PublishedCollapse
	x.Seed, x.Trials = 0, 1
	one := x.Run()[0].Result
	x.Trials = 3
	three := x.Run()[0].Result
	if three.Runs != 3 || three.Asked < 2*one.Asked || three.Sent != three.Asked || three.Ended[retry.ReasonNone] != three.Succeeded ||
		three.Ended[retry.ReasonNone]+three.Ended[retry.ReasonMaxAttempts] != three.Asked {
		t.Errorf("three trials: %d runs, asked %d, sent %d, ended %v; one: asked %d", three.Runs, three.Asked, three.Sent, three.Ended, one.Asked)
	}
	if median, longest := three.Quantile(.5), three.Quantile(1); !within(median.Seconds(), 1.9, .05) || !within(longest.Seconds(), 3, .02) {
		t.Errorf("the median call took %v, the longest %v; want about 1.9 s, and the timeout of 3 s", median, longest)
	}
}

func TestCollapseWithParametersOfOnesOwn(t *testing.T) {
	notUnderRace(t)
	long(t)
	const s = time.Second
	for name, tt := range map[string]struct {
		edit func(x *storm.Collapse)
		want string // of the policies that are down at the end
	}{
		"as published":                          {func(*storm.Collapse) {}, "[naive]"},
		"a request takes 2.5 s at 60/s":         {func(x *storm.Collapse) { x.Rate = 20 }, "[]"},
		"nothing to speak of":                   {func(x *storm.Collapse) { x.Spikes = []storm.Spike{{20 * s, 21 * s, 45}} }, "[]"},
		"5 s at 80/s, longer than clients wait": {func(x *storm.Collapse) { x.Attempts = 2 }, "[naive]"},
		"more attempts":                         {func(x *storm.Collapse) { x.Attempts, x.Rate = 6, 35 }, "[naive]"},
		"nobody gives up":                       {func(x *storm.Collapse) { x.Timeout = 20 * s }, "[]"},
		"ten times the capacity":                {func(x *storm.Collapse) { x.Latency, x.Slowdown = s/10, s/1000 }, "[]"},
		"a short backoff is none":               {func(x *storm.Collapse) { x.Base = 10 * time.Millisecond }, "[naive backoff]"},
		"600 calls come back in 20 s":           {func(x *storm.Collapse) { x.Spikes = []storm.Spike{{20 * s, 25 * s, 120}} }, "[naive backoff]"},
	} {
		x := storm.PublishedCollapse
		tt.edit(&x)
		x.Trials, x.Seed = 15, 4
		var down []string
		for _, row := range x.Run() {
			if row.Windows[len(row.Windows)-1].Goodput < .5 {
				down = append(down, row.Policy)
			}
		}
		if got := fmt.Sprint(down); got != tt.want {
			t.Errorf("%s: %v stay down, want %v", name, got, tt.want)
		}
	}
}
