package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/budget"
	"github.com/goretry/retry/retryconf"
	"github.com/goretry/retry/retrysim/internal/storm"
)

// other is a policy's result in another disturbance.
type other struct {
	Disturbance string  `json:"disturbance"`
	Seeds       int     `json:"seeds"`
	StaysDown   float64 `json:"stays_down"`
	LostShare   float64 `json:"lost_share"`
}

// tally sums up a row and its others.
type tally struct {
	runs, bad int     // bad ones do not recover
	lost      float64 // the share of the calls, in the mean disturbance
}

// judge runs all policies with all seeds, and with a few of them in the other
// disturbances. An interrupt may leave these out.
func (x *scenario) judge(ctx context.Context, policies []retry.Policy) []tryRow {
	rows := x.compare(ctx, policies)
	for i := range rows {
		row := &rows[i]
		row.all = tally{row.Seeds, row.Seeds - row.ended(storm.Recovered), row.LostShare}
	}
	others := x.others()
	for i, y := range others {
		found := y.compare(ctx, policies)
		if len(found) < len(policies) || ctx.Err() != nil {
			return rows
		}
		for j, f := range found {
			row := &rows[j]
			row.Others = append(row.Others, other{y.what, f.Seeds, f.StaysDown, f.LostShare})
			row.all.runs += f.Seeds
			row.all.bad += f.Seeds - f.ended(storm.Recovered)
			row.all.lost += (f.LostShare - row.all.lost) / float64(i+2)
		}
	}
	return rows
}

// others returns the disturbances that a policy should withstand besides this one:
// outages of other kinds, as long; and no outage, with failures at random, answers that
// get lost, or rejections that cost as much as the work.
func (x *scenario) others() (all []scenario) {
	long := cmp.Or(x.outage, 3*time.Second)
	for _, d := range []struct {
		answer string
		outage time.Duration
		set    func(*scenario) (what string) // "" if it cannot be, or if x has it
	}{
		{"hang", long, nil},
		{"refused", long, nil},
		{"slow", long, nil},
		{"hang", 0, failing},
		{"hang", 0, losing},
		{"hang", long, behindGateway},
		{"hang", long, oneReplica},
		{"hang", 0, rejecting},
	} {
		y := *x
		y.answer, y.outage, y.spike, y.seeds = d.answer, d.outage, 0, min(x.seeds, fewSeeds)
		what := ""
		if d.set != nil {
			if what = d.set(&y); what == "" {
				continue
			}
		}
		y.disturb(d.outage)
		if d.set == nil && y.what == x.what {
			continue
		}
		y.what = cmp.Or(what, y.what)
		y.extended = y.end <= longest-visible // whatever -duration says, since what is chosen is printed as given
		y.Duration = max(y.enough(), y.end+10*time.Second)
		if y.settle() == nil {
			all = append(all, y)
		}
	}
	return all
}

// The following change what is not an outage, and say what goes wrong then: nothing if it
// cannot, or if they change nothing.

// quiet reports whether there is neither an outage nor a spike.
func (x *scenario) quiet() bool { return len(x.Outages)+len(x.Spikes) == 0 }

// failing lets a tenth of the requests fail at random.
func failing(y *scenario) string {
	if y.quiet() && y.Failure >= .1 {
		return ""
	}
	y.Failure = max(y.Failure, .1)
	return fmt.Sprintf("no outage, and %.3g %% of the requests fail at random", 100*y.Failure)
}

// losing lets a twentieth of the answers get lost.
func losing(y *scenario) string {
	if y.quiet() && y.Lost >= .05 {
		return ""
	}
	y.Lost = max(y.Lost, .05)
	return fmt.Sprintf("no outage, and %.3g %% of the answers get lost at random", 100*y.Lost)
}

// behindGateway puts a gateway before the server, which gives up sooner than a client.
func behindGateway(y *scenario) string {
	if y.Gateway > 0 {
		return ""
	}
	y.Gateway = y.Timeout * 4 / 5
	return fmt.Sprintf("an outage of %v behind a gateway that answers 503 after %v", y.outage, y.Gateway)
}

// oneReplica makes the server up to ten replicas, which can do as much together, and one
// of them has the outage.
func oneReplica(y *scenario) string {
	n := 10
	for y.Capacity == 0 && n > 1 && y.Workers%n > 0 {
		n--
	}
	if y.Servers > 1 || y.sick > 0 || n == 1 || y.Slowdown > 0 || y.Workers == 0 && y.Capacity == 0 {
		return ""
	}
	y.Servers, y.sick = n, 1
	y.Workers, y.Capacity = y.Workers/n, y.Capacity/float64(n)
	return fmt.Sprintf("an outage of %v of one of %d replicas behind a balancer", y.outage, n)
}

// rejecting makes the server's times random, and its queue one that is full now and then.
// To reject a request takes a worker as long as to serve it.
func rejecting(y *scenario) string {
	if y.Workers == 0 || y.Refusing > 0 {
		return ""
	}
	y.Queue, y.Full, y.Refusing, y.Exponential = 2*y.Workers, storm.TooMany, y.Latency, true
	return fmt.Sprintf("no outage, and a queue of %d whose rejections cost as much as the work", y.Queue)
}

// fewSeeds are enough to see whether a policy withstands another disturbance.
const fewSeeds = 5

// beside sums up the other disturbances for a cell of the table.
func (row *tryRow) beside() string {
	if len(row.Others) == 0 {
		return ""
	}
	down, runs, lost := 0.0, 0, 0.0
	for _, o := range row.Others {
		down, runs, lost = down+o.StaysDown*float64(o.Seeds), runs+o.Seeds, lost+o.LostShare/float64(len(row.Others))
	}
	return fmt.Sprintf("%.0f of %d down, %.1f %% lost", down, runs, 100*lost)
}

// choose returns which policy to choose, and why: the one that recovers in most runs,
// then loses the fewest calls, with this disturbance and the others. Policies that
// differ by less than a hundredth of the calls count as equal: then the given ones
// come first, those without a budget later, and no retries last. It never chooses a
// policy that a remark warns about.
func (x *scenario) choose(rows []tryRow) string {
	if x.spare() <= 0 {
		return "more capacity or less load: no policy helps a server that gets more calls than it can do"
	}
	once := rows[0]
	switch {
	case once.Policy != noRetries: // an interrupt came before it was run
		return "none of these: without a run of no retries there is nothing to compare them with"
	case once.asked == 0:
		return "a higher -rate or a longer -duration: no calls were made"
	case once.failing():
		return "a longer timeout or a faster server: most calls fail even without a disturbance"
	}
	candidates := append(slices.Clone(rows[1:]), once)
	candidates = slices.DeleteFunc(candidates, func(r tryRow) bool { return r.danger != "" })
	slices.SortStableFunc(candidates, func(a, b tryRow) int {
		switch {
		case a.budget != nil && b.budget == nil:
			return -1
		case a.budget == nil && b.budget != nil:
			return 1
		}
		return 0
	})
	fewest := slices.MinFunc(candidates, func(a, b tryRow) int { return cmp.Compare(a.all.bad, b.all.bad) }).all.bad
	candidates = slices.DeleteFunc(candidates, func(r tryRow) bool { return r.all.bad > fewest })
	least := slices.MinFunc(candidates, func(a, b tryRow) int { return cmp.Compare(a.all.lost, b.all.lost) }).all.lost
	best := candidates[slices.IndexFunc(candidates, func(r tryRow) bool { return r.all.lost <= least+.01 })]
	if 20*best.all.bad > best.all.runs {
		return fmt.Sprintf("none of these: even %s is not back in %d of %d; retry less, or have the server drop what nobody waits for "+
			"(-abandoned dropped), serve the newest first, or hold a shorter queue (-queue)", best.Policy, best.all.bad, best.all.runs)
	}
	var beside []string
	for _, row := range rows {
		if row.Policy != best.Policy && (row.Policy == noRetries || row.all.bad > 0) {
			beside = append(beside, fmt.Sprintf("%s recovers in %d and loses %.2f %%", row.Policy, row.all.runs-row.all.bad, 100*row.all.lost))
		}
	}
	why := fmt.Sprintf("%s: it recovers in %d of %d runs, and loses %.2f %% of the calls", best.Policy, best.all.runs-best.all.bad, best.all.runs, 100*best.all.lost)
	if len(best.Others) > 0 {
		why += ", in the mean of this disturbance and the others"
	}
	if len(beside) > 0 {
		why += " (" + strings.Join(beside, "; ") + ")"
	}
	return why
}

// danger returns why a policy does not protect the server, whatever these runs show,
// or "".
func (x *scenario) danger(p retry.Policy) string {
	spare := x.spare()
	if spare <= 0 || math.IsInf(spare, 0) || x.Limit != nil {
		return ""
	}
	switch b := p.Budget.(type) {
	case nil:
		if n := p.AttemptLimit(); n > 1 && float64(n)*x.Rate > x.MaxRate() {
			most := fmt.Sprintf("%.4g requests per second", float64(n)*x.Rate)
			if p.MaxAttempts <= 0 && n > (retry.Policy{}).AttemptLimit() { // only time limits them
				most = "requests without end"
			}
			return fmt.Sprintf("it has no budget. While all attempts fail it makes %s, and the server can do %.4g/s: it does not protect the server.", most, x.MaxRate())
		}
	case *budget.Ratio:
		budgets := float64(x.Processes)
		if x.Shared {
			budgets = 1
		}
		if x.Apart {
			budgets *= float64(x.shards)
		}
		if floor := b.MinPerSecond * budgets; floor > spare {
			return fmt.Sprintf("its floor of %g retries per second, times %g budgets, is %g/s, and the server has %.4g/s to spare: it does not protect the server.", b.MinPerSecond, budgets, floor, spare)
		}
	}
	return ""
}

// remarks returns what to know of these inputs.
func (x *scenario) remarks(rows []tryRow) (all []string) {
	unclear := 0
	for _, row := range rows {
		unclear += row.ended(storm.Unclear)
		if row.Why != "" && x.given(row.Text) {
			all = append(all, row.Policy+" stays down: "+row.Why+".")
		}
	}
	if simulated := fmt.Sprintf("Simulated %v", x.Duration); unclear == 0 {
		all = append(all, simulated+", enough to settle the outcome.")
	} else {
		all = append(all, fmt.Sprintf("%s, too short to settle the outcome of %d of the runs.", simulated, unclear))
	}
	if others := rows[0].Others; len(others) > 0 {
		var what []string
		for _, o := range others {
			what = append(what, o.Disturbance)
		}
		all = append(all, fmt.Sprintf("The others (runs of each: %d): %s.", others[0].Seeds, strings.Join(what, "; ")))
	}
	for _, row := range rows {
		if row.danger != "" {
			all = append(all, row.Policy+": "+row.danger)
		}
	}
	if x.shown() < 1 {
		all = append(all, fmt.Sprintf("Only calls to the %s that has the outage are counted here, of %d.", map[bool]string{true: "shard", false: "shards"}[x.sick == 1], x.shards))
	}
	if wait := float64(x.Queue) / x.MaxRate(); x.Queue > 0 && wait > x.Timeout.Seconds() {
		all = append(all, fmt.Sprintf("A full queue of %d takes %.1f s, longer than the timeout of %v: then every answer comes too late.", x.Queue, wait, x.Timeout))
	}
	return all
}

// given reports whether a policy is one that was given.
func (x *scenario) given(text string) bool {
	return slices.ContainsFunc(x.policies, func(p retry.Policy) bool { return retryconf.Policy{Policy: p}.String() == text })
}
