package loadlab

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
)

// World is callers and a server.
type World struct {
	Name string

	length    time.Duration                  // for which calls begin
	rate      func(t time.Duration) float64  // calls per second of all processes
	burst     int                            // or so many at once
	every     time.Duration                  // and again
	processes int                            // 0: one
	attempts  int                            // of a call, at most; 0: five
	timeout   func(r *request) time.Duration // of an attempt; 0: none
	deadline  func(r *request) time.Duration // of a call; nil: a minute
	kind      func(r *rand.Rand) int         // of a call; nil: all are alike
	server    func() server                  // a new one
	budget    bool                           // each process has a retry.EarnedBudget
	hedge     time.Duration                  // after which a second copy of an attempt starts; 0: none
	from      time.Duration                  // the calls from then on are Figures.Late
}

// HeldOut reports whether a world is kept from who tunes a law, and is only for who judges it.
func (w *World) HeldOut() bool { return mix(0, w.Name)%3 == 0 }

// Limiter is what stands around the attempts of one process.
type Limiter interface {
	// Enter admits an attempt, or says that none is, and for how long not at least.
	Enter(hedge bool) (token any, wait time.Duration, admitted bool)
	Leave(token any, x retry.Exit)
}

// None limits nothing.
type None struct{}

func (None) Enter(bool) (any, time.Duration, bool) { return nil, 0, true }
func (None) Leave(any, retry.Exit)                 {}

// Guard is a [retry.Guard] as a Limiter.
type Guard struct{ retry.Guard }

func (g Guard) Enter(hedge bool) (any, time.Duration, bool) {
	p, err := g.Guard.Enter(context.Background(), retry.Entry{Hedge: hedge, Patience: math.MaxInt64})
	if err != nil {
		return nil, retry.Policy{}.Judge(err).Hint, false
	}
	return p, 0, true
}

func (g Guard) Leave(token any, x retry.Exit) { g.Guard.Leave(token.(retry.Pass), x) }

// Count is of calls.
type Count struct{ Calls, Lost int }

// Percent is how many of a hundred are lost.
func (c Count) Percent() float64 { return 100 * float64(c.Lost) / float64(max(c.Calls, 1)) }

func (c *Count) add(lost bool) {
	c.Calls++
	if lost {
		c.Lost++
	}
}

// Figures are what became of the calls of a world.
type Figures struct {
	All, Early, Late Count           // Early: of the first half minute; Late: when the world has settled
	Took             []time.Duration // the calls that succeeded
	Refused          int             // attempts
}

// Quantile returns that of the time that calls took which succeeded.
func (f *Figures) Quantile(q float64) time.Duration {
	if len(f.Took) == 0 {
		return 0
	}
	return f.Took[int(q*float64(len(f.Took)-1))].Round(time.Millisecond)
}

// Seconds is called each second, for who wants to see what a Limiter does.
type Seconds func(now time.Duration, f *Figures, limiters []Limiter)

// Run plays a world with so many seeds. It repeats a world of few calls with more of them, until the
// first half minutes have two hundred calls.
func (w *World) Run(t *testing.T, seeds int, fresh func() Limiter, watch Seconds) *Figures {
	f := new(Figures)
	for seed := 0; seed < seeds || f.Early.Calls < 200; seed++ {
		synctest.Test(t, func(*testing.T) { w.play(uint64(seed), fresh, watch, f) })
	}
	slices.Sort(f.Took)
	return f
}

// mix is FNV-1a, with a finalizer.
func mix(seed uint64, name string) uint64 {
	h := seed ^ 14695981039346656037
	for _, c := range []byte(name) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// play adds to f what one seed gives.
func (w *World) play(seed uint64, fresh func() Limiter, watch Seconds, f *Figures) {
	p := &play{World: w, sim: sim{rand: rand.New(rand.NewPCG(seed, 1))}, seed: seed, server: w.server(), Figures: f}
	for range max(w.processes, 1) {
		p.limiters = append(p.limiters, fresh())
		p.budgets = append(p.budgets, new(retry.EarnedBudget))
	}
	arrivals := rand.New(rand.NewPCG(seed, 2))
	var arrive func()
	arrive = func() {
		if p.now >= w.length {
			return
		}
		if w.burst > 0 {
			for range w.burst {
				p.begin(arrivals)
			}
			p.after(w.every, arrive)
			return
		}
		p.begin(arrivals)
		p.after(time.Duration(arrivals.ExpFloat64()/w.rate(p.now)*float64(time.Second)), arrive)
	}
	p.after(0, arrive)
	if watch != nil {
		var look func()
		look = func() {
			watch(p.now, f, p.limiters)
			if p.now < w.length {
				p.after(time.Second, look)
			}
		}
		p.after(0, look)
	}
	p.run()
}

// play is one run of a world.
type play struct {
	*World
	sim
	seed     uint64
	server   server
	limiters []Limiter
	budgets  []*retry.EarnedBudget
	calls    uint64
	*Figures
}

// call is one call.
type call struct {
	*play
	number   uint64
	process  int
	kind     int
	began    time.Duration
	deadline time.Duration
	rand     *rand.Rand // for its backoffs
	tries    int        // attempts, and what was refused
	retries  int        // that the budget has paid for
}

func (p *play) begin(arrivals *rand.Rand) {
	p.calls++
	c := &call{play: p, number: p.calls, process: arrivals.IntN(len(p.limiters)), began: p.now, rand: p.luck(p.calls, 0)}
	if p.kind != nil {
		c.kind = p.kind(c.rand)
	}
	c.deadline = c.began + time.Minute
	if p.World.deadline != nil {
		c.deadline = c.began + p.World.deadline(c.request(c.rand))
	}
	c.try()
}

// luck returns random numbers that are the same whatever else happens.
func (p *play) luck(call uint64, attempt int) *rand.Rand {
	return rand.New(rand.NewPCG(p.seed<<40+call, uint64(attempt)+3))
}

func (c *call) request(r *rand.Rand) *request { return &request{r, c.now, c.kind} }

func (c *call) end(good bool) {
	if c.budget {
		c.budgets[c.process].End(retry.Outcome{Retries: c.retries, Sent: c.retries, OK: good, Retried: retry.Transient})
	}
	c.All.add(!good)
	if c.began < 30*time.Second {
		c.Early.add(!good)
	}
	if c.began >= c.from {
		c.Late.add(!good)
	}
	if good {
		c.Took = append(c.Took, c.now-c.began)
	}
}

// again makes another try after the backoff, if there may be one.
func (c *call) again(wait time.Duration, sent bool) {
	most := c.attempts
	if most == 0 {
		most = 5
	}
	backoff := .1 * math.Pow(2, float64(c.tries-1)) * c.rand.Float64()
	wait += time.Duration(min(backoff, 20) * float64(time.Second))
	if c.tries >= most || c.now+wait >= c.deadline {
		c.end(false)
		return
	}
	if c.budget && sent {
		if !c.budgets[c.process].Withdraw(retry.Withdrawal{Class: retry.Transient, Retry: c.retries + 1}) {
			c.end(false)
			return
		}
		c.retries++
	}
	c.after(wait, c.try)
}

// try makes an attempt, if it is admitted.
func (c *call) try() {
	c.tries++
	a := &attempt{call: c, open: true}
	if wait, admitted := a.start(false); !admitted {
		c.Refused++
		c.again(wait, false)
	} else if c.hedge > 0 {
		c.after(c.hedge, func() {
			if a.open && a.copies > 0 {
				a.start(true)
			}
		})
	}
}

// attempt is an attempt with its hedge.
type attempt struct {
	*call
	open   bool // nothing has come of it yet
	copies int
}

// start starts one copy of it, if it is admitted.
func (a *attempt) start(hedge bool) (wait time.Duration, admitted bool) {
	l := a.limiters[a.process]
	token, wait, admitted := l.Enter(hedge)
	if !admitted {
		return wait, false
	}
	a.copies++
	luck := 2 * a.tries
	if hedge {
		luck++
	}
	r := a.request(a.luck(a.number, luck))
	began, allowed := a.now, a.deadline-a.now
	if d := a.timeout(r); d > 0 {
		allowed = min(allowed, d)
	}
	ended := false
	end := func(o outcome) {
		if ended {
			return
		}
		ended = true
		a.copies--
		if !a.open {
			o = canceled // the other copy was faster
		}
		l.Leave(token, exit(o, a.now-began, allowed))
		switch {
		case !a.open:
		case o == ok:
			a.open = false
			a.end(true)
		case a.copies == 0:
			a.open = false
			a.again(0, true)
		}
	}
	a.after(allowed, func() { end(expired) })
	a.server.serve(&a.sim, r, end)
	return 0, true
}

var (
	busy  = retry.Policy{}.Judge(retry.After(errors.New("429"), 0))
	wrong = retry.Policy{}.Judge(errors.New("503"))
	late  = retry.Verdict{Err: context.DeadlineExceeded}
)

// exit is what a guard gets.
func exit(o outcome, took, allowed time.Duration) retry.Exit {
	x := retry.Exit{Ending: retry.Returned, Took: took, Allowed: allowed}
	switch o {
	case throttled:
		x.Verdict = busy
	case failed:
		x.Verdict = wrong
	case expired:
		x.Ending, x.Verdict = retry.Expired, late
	case canceled:
		x.Ending = retry.Canceled
	}
	return x
}
