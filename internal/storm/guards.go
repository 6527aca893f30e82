package storm

import (
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
	limits  []*limit.Limit
	hedgers []*hedging.Hedger
	pacers  []*pacing.Pacer[int32]
	guarded []guarded // the calls; nil without guards
}

// guarded is a call's guards, and what its attempt is, with hedges.
type guarded struct {
	limit  *limit.Limit
	pacer  *pacing.Pacer[int32]
	turn   *pacing.Turn[int32]
	hedger *hedging.Hedger
	hedging.Call
	running [2]bool
	second  int32 // the hedge's request at the server, or none
}

func (s *service) guard() {
	if s.Limit != nil {
		s.limits = make([]*limit.Limit, s.Processes)
	}
	if s.Hedge {
		s.hedgers = make([]*hedging.Hedger, s.Processes)
	}
	if s.Pace {
		s.pacers = make([]*pacing.Pacer[int32], s.Processes)
	}
	for i := range s.Processes {
		s.guardProcess(i)
	}
}

// guardProcess gives a process guards that nobody has used.
func (s *service) guardProcess(process int) {
	if s.limits != nil {
		s.limits[process] = &limit.Limit{Start: s.Limit.Start, Min: s.Limit.Min, Max: s.Limit.Max}
	}
	if s.pacers != nil {
		s.pacers[process] = &pacing.Pacer[int32]{Rand: s.rand.Float64}
	}
	if s.hedgers != nil {
		h := hedging.Hedger{Delay: max(s.HedgeDelay, 0), Shared: new(hedging.Shared), Policy: s.policies[s.budget(process, 0)].Budget}.Resolve()
		h.Budget = h.Shared.Budget(s.kernel)
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

// takeTurn reports whether a call's next attempt may start now. If not, the call waits
// for its turn, or is over because that would come too late.
func (s *service) takeTurn(i int32) bool {
	c, g := s.call(i), &s.guarded[i]
	patience := time.Duration(math.MaxInt64)
	if most := s.policies[0].MaxElapsed; most > 0 {
		patience = (most - (s.now - c.began)) / 2
	}
	g.turn = &pacing.Turn[int32]{Owner: i, Retry: c.loop.Attempts() > 0}
	wait, ok := g.pacer.Enter(s.Now(), g.turn, patience)
	switch {
	case !ok:
		c.loop.Close()
		s.conclude(i, retry.ReasonMaxElapsed)
		return false
	case wait > 0 && g.pacer.First() == g.turn:
		s.schedule(wait, turns, i, c.try)
	}
	if most := s.policies[0].MaxElapsed; wait > 0 && most > 0 {
		s.schedule(most-(s.now-c.began), turns, i, c.try)
	}
	return wait == 0
}

// reachTurn makes the attempt of a call that may be the first to wait, or ends a call
// that has waited until MaxElapsed.
func (s *service) reachTurn(i int32) {
	g := &s.guarded[i]
	if !g.turn.Waits() {
		return
	}
	if c, most := s.call(i), s.policies[0].MaxElapsed; most > 0 && s.now-c.began >= most {
		g.pacer.Leave(g.turn)
		s.wakeFirst(g.pacer)
		c.loop.Close()
		s.conclude(i, retry.ReasonMaxElapsed)
		return
	}
	switch wait := g.pacer.Ready(s.Now(), g.turn); wait {
	case pacing.Never: // a retry has gone before it, and wakes it
	case 0:
		pacer := g.pacer
		s.attempt(i)
		s.wakeFirst(pacer)
	default:
		s.schedule(wait, turns, i, s.call(i).try)
	}
}

func (s *service) wakeFirst(p *pacing.Pacer[int32]) {
	if next := p.First(); next != nil {
		s.schedule(0, turns, next.Owner, s.call(next.Owner).try)
	}
}

// release gives the place of a request back that has ended so.
func (s *service) release(i int32, outcome kind) {
	if s.limits == nil || outcome == limited {
		return
	}
	sign := limit.NoSign
	switch {
	case outcome == succeeds && 2*(s.now-s.call(i).sent) <= s.timeout:
		sign = limit.Prompt
	case outcome == succeeds:
		sign = limit.Answer
	case outcome == timesOut && !s.gateway:
		sign = limit.Timeout
	case outcome == tooMany:
		sign = limit.Overload
	}
	s.guarded[i].limit.Release(sign)
}

// race begins an attempt that may be hedged.
func (s *service) race(i int32, try uint32) {
	r := &s.guarded[i]
	*r = guarded{limit: r.limit, hedger: r.hedger, Call: r.hedger.Begin(s.Now()), running: [2]bool{true}, second: none}
	s.schedule(r.Delay, passes, i, try)
	if s.timeout > 0 {
		s.schedule(s.timeout, timesOut, i, try)
	}
}

// pass starts a hedge, if it may.
func (s *service) pass(i int32, try uint32) {
	if start, _ := s.guarded[i].Passed(s.Now(), false); start {
		s.guarded[i].running[1] = true
		s.launch(i, try|1)
	}
}

// settled takes how a request ended, and reports whether the attempt has ended with
// it. The other request of the attempt is lost then, if it still runs.
func (s *service) settled(i int32, try uint32, outcome kind) bool {
	s.release(i, outcome)
	if s.hedgers == nil {
		return true
	}
	r, n, how := &s.guarded[i], int(try&1), hedging.Failed
	if !r.running[n] {
		n = 1 // a timeout is the attempt's: of the hedge, if no other request runs
	}
	if outcome == succeeds {
		how = hedging.Succeeded
	}
	r.running[n] = false
	decided := r.Done(n+1, s.Now(), how, 0, false) || outcome == timesOut
	if other := 1 - n; r.running[other] {
		if !decided {
			return false
		}
		if outcome != timesOut {
			outcome = lost
		}
		r.Done(other+1, s.Now(), hedging.Failed, 0, outcome == lost)
		s.release(i, outcome)
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
