package storm

import (
	"context"
	"math"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/hedging"
	"github.com/goretry/retry/internal/pacing"
	"github.com/goretry/retry/limit"
)

// guards are what stands around each attempt, in every process one, and what a call
// must remember of it: beside the calls, since most runs have none.
type guards struct {
	limits  []*limit.Adaptive
	hedgers []*hedging.Rules
	pacers  []*pacing.Pacer
	guarded []guarded // the calls; nil without guards
}

// guarded is a call's guards, and what its attempt is, with hedges.
type guarded struct {
	limit  *limit.Adaptive
	passes [2]retry.Pass // of the limit: the attempt's, and the hedge's
	pacer  *pacing.Pacer
	turn   *pacing.Turn
	hedger *hedging.Rules
	hedging.Call
	running [2]bool
	second  int32 // the hedge's request at the server, or none
}

func (s *service) guard() {
	if s.Limit != nil {
		s.limits = make([]*limit.Adaptive, s.Processes)
	}
	if s.Hedge {
		s.hedgers = make([]*hedging.Rules, s.Processes)
	}
	if s.Pace {
		s.pacers = make([]*pacing.Pacer, s.Processes)
	}
	for i := range s.Processes {
		s.guardProcess(i)
	}
}

// guardProcess gives a process guards that nobody has used.
func (s *service) guardProcess(process int) {
	if s.limits != nil {
		s.limits[process] = &limit.Adaptive{Min: s.Limit.Min, Max: s.Limit.Max}
	}
	if s.pacers != nil {
		s.pacers[process] = new(pacing.Pacer)
		part := 1 / float64(s.Processes)
		s.pacers[process].Know(s.Now(), part*s.Quota.Rate, part*s.Quota.Burst)
	}
	if s.hedgers != nil {
		h := hedging.Rules{Delay: max(s.HedgeDelay, 0), Shared: new(hedging.Shared), PolicyBudget: s.policies[s.budget(process, 0)].Budget, Clock: s.kernel}.Resolve()
		s.hedgers[process] = &h
	}
}

// guardCall lets a call have the guards of its process, which it keeps if the process is
// replaced.
func (s *service) guardCall(i int32, process int) {
	if s.limits != nil {
		s.guarded[i].limit = s.limits[process]
	}
	if s.pacers != nil {
		s.guarded[i].pacer = s.pacers[process]
	}
	if s.hedgers != nil {
		s.guarded[i].hedger = s.hedgers[process]
	}
}

// admitted reports whether the guards let a call make its next attempt now. If not, the call waits
// for its turn or for another try, or is over.
func (s *service) admitted(i int32) bool { return (s.pacers == nil || s.takeTurn(i)) && s.takePlace(i) }

// takeTurn reports whether a call's next attempt may start now.
func (s *service) takeTurn(i int32) bool {
	c, g := s.call(i), &s.guarded[i]
	patience := time.Duration(math.MaxInt64)
	if most := s.policies[0].MaxElapsed; most > 0 {
		patience = (most - (s.now - c.began)) / 2
	}
	g.turn = &pacing.Turn{Owner: i}
	wait, ok := g.pacer.Enter(s.Now(), g.turn, patience)
	switch most := s.policies[0].MaxElapsed; {
	case !ok:
		s.endLate(i)
		return false
	case wait > 0:
		s.sleep(i)
		if most > 0 {
			s.schedule(most-(s.now-c.began), turns, i, c.try)
		}
	}
	s.stir(g.pacer)
	return wait == 0
}

// sleep has a call that waits for its turn look again when that may have come, if only time decides that.
func (s *service) sleep(i int32) {
	if wait, timed := s.guarded[i].pacer.Sleep(s.guarded[i].turn); timed {
		s.schedule(wait, turns, i, s.call(i).try)
	}
}

// stir has a call look again whose turn comes earlier than it knows.
func (s *service) stir(p *pacing.Pacer) {
	if t := p.Stirred(); t != nil {
		i := t.Owner.(int32)
		s.schedule(0, turns, i, s.call(i).try)
	}
}

// endLate ends a call whose turn comes too late.
func (s *service) endLate(i int32) {
	s.guarded[i].turn = new(pacing.Turn) // events of the old one are out of date
	s.call(i).loop.Close()
	s.conclude(i, retry.ReasonGuard)
}

// reachTurn makes the attempt of a call that may be the first to wait, or ends a call
// that has waited until MaxElapsed.
func (s *service) reachTurn(i int32) {
	g := &s.guarded[i]
	switch c, most := s.call(i), s.policies[0].MaxElapsed; {
	case g.turn.Late > 0:
		s.endLate(i)
	case !g.turn.Waits():
	case most > 0 && s.now-c.began >= most:
		g.pacer.Leave(g.turn)
		s.stir(g.pacer)
		s.endLate(i)
	case g.pacer.TryStart(s.Now(), g.turn):
		pacer := g.pacer
		if s.takePlace(i) {
			s.attempt(i)
		}
		s.stir(pacer)
	case g.turn.Late > 0:
		s.stir(g.pacer)
		s.endLate(i)
	default:
		s.sleep(i)
	}
}

// takePlace reports whether the limit admits a call's next attempt, whose turn it is. If
// not, the call tries again later, or is over.
func (s *service) takePlace(i int32) bool {
	if s.limits == nil {
		return true
	}
	g := &s.guarded[i]
	pass, err := g.limit.Enter(context.Background(), retry.Entry{Clock: s})
	if err == nil {
		g.passes[0] = pass
		return true
	}
	s.attempts++ // so that a flood of them is given up too
	if s.pacers != nil {
		g.pacer.Return(g.turn, true)
	}
	c := s.call(i)
	c.try = following(c.try)
	v := s.policies[0].Judge(err)
	v.Undone = true
	if wait, more := c.loop.Judged(s.Now(), free(v)); more {
		s.schedule(max(wait, time.Millisecond), sends, i, c.try)
	} else {
		s.conclude(i, retry.ReasonGuard)
	}
	return false
}

// free returns v as a Loop must get it if the retry that follows takes nothing from the
// budget: a Loop knows of no guards.
func free(v retry.Verdict) retry.Verdict {
	v.Answered = true
	return v
}

// release gives the place of a request back that has ended so: n is 1 if it was a hedge.
func (s *service) release(i int32, n int, outcome kind) {
	if s.limits == nil {
		return
	}
	x := retry.Exit{Ending: retry.Returned, Took: s.now - s.call(i).sent, Allowed: s.timeout, Clock: s, Verdict: s.means[outcome]}
	switch {
	case outcome == lost:
		x.Ending = retry.Canceled
	case outcome == timesOut && !s.gateway:
		x.Ending = retry.Expired
	}
	s.guarded[i].limit.Leave(s.guarded[i].passes[n], x)
}

// race begins an attempt that may be hedged.
func (s *service) race(i int32, try uint32) {
	r := &s.guarded[i]
	*r = guarded{limit: r.limit, passes: r.passes, hedger: r.hedger, Call: r.hedger.Begin(s.Now()), running: [2]bool{true}, second: none}
	s.schedule(r.Delay, passes, i, try)
	if s.timeout > 0 {
		s.schedule(s.timeout, timesOut, i, try)
	}
}

// pass starts a hedge, if it may.
func (s *service) pass(i int32, try uint32) {
	g := &s.guarded[i]
	wanted, refused := g.DelayOver(s.Now(), false)
	if !wanted {
		return
	}
	entered := s.limits != nil && refused == nil
	if entered {
		var err error
		if g.passes[1], err = g.limit.Enter(context.Background(), retry.Entry{Hedge: true, Clock: s}); err != nil {
			entered, refused = false, &hedging.Guarded{Err: err}
		}
	}
	if start, _ := g.Start(refused, false); start {
		g.running[1] = true
		s.launch(i, try|1)
	} else if entered {
		g.limit.Leave(g.passes[1], retry.Exit{Clock: s})
	}
}

// settled takes how a request ended, and reports whether the attempt has ended with
// it. The other request of the attempt is lost then, if it still runs.
func (s *service) settled(i int32, try uint32, outcome kind) bool {
	n := int(try & 1)
	if s.hedgers != nil && !s.guarded[i].running[n] {
		n = 1 // a timeout is the attempt's: of the hedge, if no other request runs
	}
	s.release(i, n, outcome)
	if s.hedgers == nil {
		return true
	}
	r, how := &s.guarded[i], hedging.Failed
	if outcome == succeeds {
		how = hedging.Succeeded
	}
	r.running[n] = false
	decided := r.Done(n+1, s.Now(), how, 0, false) == hedging.Decides || outcome == timesOut
	if other := 1 - n; r.running[other] {
		if !decided {
			return false
		}
		if outcome != timesOut {
			outcome = lost
		}
		r.Done(other+1, s.Now(), hedging.Failed, 0, outcome == lost)
		s.release(i, other, outcome)
		if other == 0 {
			s.lose(s.call(i).request)
		}
	}
	s.lose(r.second)
	r.End()
	return true
}

// lose lets the server know that nobody waits for a request any more.
func (s *service) lose(n int32) {
	if n < 0 {
		return
	}
	s.request(n).wasted = true
	if s.Drop {
		s.abandon(n)
	}
}
