package combine

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/hedge"
	"github.com/goretry/retry/limit"
	otelretry "github.com/goretry/retry/otel"
	"github.com/goretry/retry/pace"
	"github.com/goretry/retry/retrydebug"
)

var (
	seedFlag = flag.Uint64("seed", 0, "run TestCombinations with this seed only")
	runsFlag = flag.Int("runs", 0, "how many runs TestCombinations makes; 0: 2000, or 100 000 if RETRY_LONG=1")
	wayFlag  = flag.String("way", "", "only ways in whose name contains this")
)

// Random combinations of everything. A failure names its seed, which repeats it:
//
//	go test ./bench/combine -run TestCombinations -seed 123
func TestCombinations(t *testing.T) {
	runs := *runsFlag
	if runs == 0 {
		if runs = 2000; os.Getenv("RETRY_LONG") != "" {
			runs = 100_000
		}
	}
	first := rand.Uint64() >> 1
	if *seedFlag != 0 {
		first, runs = *seedFlag, 1
	}
	t.Logf("%d seeds from %d", runs, first)
	failures := 0
	met := map[string]int{} // ways in, and what has gone wrong where
	for seed := first; seed < first+uint64(runs) && failures < 5; seed++ {
		w := play(t, seed)
		if len(w.problems) > 0 {
			failures++
			t.Errorf("-seed %d: %s", seed, w)
		}
		met[w.way.name]++
		for _, f := range w.fired {
			met[f.site]++
		}
	}
	t.Log(met)
	for _, what := range expected() {
		if met[what] == 0 && runs >= 100_000 && *wayFlag == "" && failures == 0 {
			t.Errorf("%s: nothing has gone wrong there, or no run was made", what)
		}
	}
}

// expected returns all ways in, and all sites of faults.
func expected() []string {
	all := slices.Clone(sites)
	for _, v := range ways {
		all = append(append(all, v.name), v.sites...)
	}
	return all
}

// sites are those of all ways in.
var sites = []string{"op", "start", "attempt", "attemptDone", "wait", "done", "withdraw", "end", "now", "sleep", "timeout", "classify", "backoff", "rand"}

// play makes the run of a seed.
func play(t *testing.T, seed uint64) (w *world) {
	defer func() {
		if r := recover(); r != nil { // goroutines that wait for ever
			t.Fatalf("-seed %d: %v\n%s", seed, r, w)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(seed)
		done := make(chan struct{})
		for _, c := range w.callers {
			go func() {
				time.Sleep(w.odd("begin", 20*time.Millisecond))
				end := w.guard(func() { c.err = w.way.call(c) })
				c.opMu.Lock()
				if end == returned && c.err == nil && c.last.err != nil && c.calls > 0 && w.way.solo && !w.way.many && !w.way.http && w.way.name != "Attempts" {
					w.report("%s: no error, but the operation's last was %v", c.name, c.last)
				}
				c.opMu.Unlock()
				done <- struct{}{}
			}()
		}
		for range w.callers {
			<-done
		}
		w.finish()
	})
	return w
}

func newWorld(seed uint64) *world {
	w := &world{seed: seed, drawn: map[string]int{}, seen: map[string]int{}}
	all := ways
	if *wayFlag != "" {
		all = slices.DeleteFunc(slices.Clone(ways), func(v way) bool { return !strings.Contains(v.name, *wayFlag) })
	}
	w.way = one(w, "way", all...)
	w.budget = newTally(w, "the budget", one[retry.Budget](w, "budget", generous{}, generous{}, new(retry.EarnedBudget), new(budget.Token),
		&budget.Ratio{Ratio: .5, MinPerSecond: 1}, &budget.Token{Capacity: 30}, new(retry.EarnedBudget), (*budget.Token)(nil)))
	w.hedge = &hedge.Hedge{
		Delay:       one(w, "delay", 10*time.Millisecond, 25*time.Millisecond, 0),
		MaxDelay:    50 * time.Millisecond,
		MaxInFlight: one(w, "in flight", 0, 2, 3),
		Hedged:      func(context.Context, hedge.Summary) { w.at("hedged") },
	}
	if w.draw("hedges", 3) > 0 {
		w.hedges = newTally(w, "the hedges' budget", one[retry.Budget](w, "hedges' budget", generous{}, generous{}, new(budget.Token)))
		w.hedge.Budget = w.hedges
	}
	w.limit = &limit.Limit{Max: one(w, "places", 1, 2, 5)}
	switch w.draw("clock", 4) {
	case 0:
		w.clock = &clock{w, clockx.System()}
	case 1:
		if !w.way.own && !w.way.hedged {
			w.virtual = clockx.NewVirtual(time.Now())
			w.clock = &clock{w, w.virtual}
		}
	}
	if w.draw("pace", 3) == 0 {
		w.pace = &pace.Pace{Clock: w.clock}
		if w.draw("held", 3) > 0 {
			w.pace.Hold(w.odd("hold", 200*time.Millisecond))
		}
		w.guards = append(w.guards, w.pace)
	}
	if w.draw("limited", 2) == 0 {
		w.guards = append(w.guards, w.limit)
	}
	callers := one(w, "callers", 1, 1, 2, 3)
	if w.virtual != nil {
		callers = 1
	}
	for i := range callers {
		w.addCaller(fmt.Sprintf("call %d", i+1))
	}
	w.addFaults()
	return w
}

// generous is a budget that grants everything.
type generous struct{}

func (generous) Withdraw(retry.Withdrawal) bool { return true }
func (generous) End(retry.Outcome)              {}

func (w *world) addCaller(name string) {
	c := &caller{world: w, name: name, ctx: newCallerContext()}
	w.callers = append(w.callers, c)
	if w.virtual == nil {
		d := w.odd("leaves", time.Second)
		switch w.draw("end", 5) {
		case 0:
			c.ctx.after(d, context.Canceled, errLeft)
		case 1:
			c.ctx.after(d, context.DeadlineExceeded, context.DeadlineExceeded)
		case 2:
			if w.draw("at once", 10) == 0 {
				c.ctx.cancel(errLeft)
			}
		}
	}
	c.policy = retry.Policy{
		Name:            name,
		MaxAttempts:     one(w, "attempts", 0, 1, 2, 3, 4, 5),
		MaxElapsed:      one(w, "elapsed", 0, 0, 300*time.Millisecond, 2*time.Second),
		AttemptTimeout:  one(w, "timeout", 0, 0, 31*time.Millisecond, 500*time.Millisecond),
		MaxRetryAfter:   one(w, "max retry after", 0, time.Second),
		ThrottleBackoff: one[retry.Backoff](w, "throttle", nil, retry.Constant(20*time.Millisecond)),
		Backoff: one[retry.Backoff](w, "backoff", nil, retry.Constant(0), retry.Constant(10*time.Millisecond), retry.Exponential{Base: 20 * time.Millisecond},
			retry.Decorrelated{}, retry.Schedule{time.Millisecond, -1}, retry.BackoffFunc(func(retry.Step) time.Duration {
				w.at("backoff")
				return w.odd("waits", 30*time.Millisecond)
			})),
		NonIdempotent: w.draw("once", 4) == 0,
		Clock:         w.clock,
		Guards:        w.guards,
	}
	if c.policy.MaxElapsed > 0 && w.draw("any number", 3) == 0 {
		c.policy.MaxAttempts = retry.Unlimited
		c.policy.Backoff = retry.Constant(20 * time.Millisecond)
	}
	if w.way.name == "Supervise" && c.policy.MaxElapsed == 0 { // else it might never end
		c.policy.MaxElapsed = time.Second
	}
	if w.draw("no budget", 6) > 0 {
		c.policy.Budget = w.budget
	}
	if w.draw("rand", 3) == 0 {
		c.policy.Rand = func() float64 { w.at("rand"); return float64(w.draw("rand", 1000)) / 1000 }
	}
	switch w.draw("classify", 4) {
	case 0:
		c.policy.Classify = func(error) retry.Class { w.at("classify"); return retry.Unknown }
	case 1:
		c.vouches = true
		c.policy.Classify = func(err error) retry.Class { w.at("classify"); return retry.DefaultClassifier(err) }
	}
	c.policy.Hooks = w.hooks(c)
}

// hooks joins those of packages with ones that record and ones that fail.
func (w *world) hooks(c *caller) retry.Hooks {
	switch w.draw("hooks", 5) {
	case 0:
		return retry.Hooks{}
	case 1:
		return watch{w, "alone"}.hooks(&c.policy)
	}
	var middle []retry.Hooks
	if w.draw("traces", 2) == 0 {
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(&w.spans), sdktrace.WithResource(nil))
		middle = append(middle, otelretry.Hooks(otelretry.WithTracerProvider(provider), otelretry.WithMeterProvider(meters),
			otelretry.WithAttempts(one(w, "spans", otelretry.AllAttempts, otelretry.RetriedRuns, otelretry.NoAttempts)), otelretry.WithWaits(w.draw("waits' spans", 2) == 0)))
	}
	if w.draw("debug", 4) == 0 {
		middle = append(middle, new(retrydebug.Recorder).Hooks())
	}
	middle = slices.Insert(middle, w.draw("fails", len(middle)+1), failing(w))
	hooks := append([]retry.Hooks{watch{w, "first"}.hooks(&c.policy)}, middle...)
	return retry.JoinHooks(append(hooks, watch{w, "last"}.hooks(&c.policy))...)
}

// meters measures all runs.
var (
	reader = metric.NewManualReader()
	meters = metric.NewMeterProvider(metric.WithReader(reader))
)

// addFaults chooses what goes wrong, mostly little.
func (w *world) addFaults() {
	sites := slices.Concat(sites, []string{"op", "op"}, w.way.sites, w.way.sites)
	for range one(w, "faults", 0, 0, 1, 1, 2, 3) {
		f := fault{site: one(w, "site", sites...), nth: 1 + w.draw("nth", 4), deed: one(w, "deed", panics, panics, exits, cancels)}
		switch {
		case f.site == "now":
			f.nth = 1 + w.draw("nth", 15)
		case slices.Contains(w.way.sites, f.site): // few runs come to some of these
			f.nth = 1 + w.draw("nth", 2)
		}
		if f.deed == panics && w.way.quiet {
			f.deed = exits
		}
		w.faults = append(w.faults, f)
	}
}

func (w *world) String() string {
	if w == nil {
		return "no world"
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d callers, faults %v, budget %T, clock %T, virtual %v, pace %v", w.way.name, len(w.callers), w.faults, w.budget.Budget, w.clock, w.virtual != nil, w.pace != nil)
	for _, p := range w.problems {
		b.WriteString("\n\t" + p)
	}
	if len(w.callers) > 0 {
		p := w.callers[0].policy
		fmt.Fprintf(&b, "\n\tthe first policy: MaxAttempts %d, MaxElapsed %v, AttemptTimeout %v, Backoff %#v, NonIdempotent %v, Budget %v; operations %d, the last %v",
			p.MaxAttempts, p.MaxElapsed, p.AttemptTimeout, p.Backoff, p.NonIdempotent, p.Budget != nil, w.callers[0].calls, w.callers[0].last)
	}
	return b.String()
}
