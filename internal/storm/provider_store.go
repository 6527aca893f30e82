package storm

import (
	"math"
	"slices"
	"time"

	"github.com/goretry/retry/internal/pacing"
)

// asking is a process that asks a key in the store before each attempt, by GCRA as
// redis_rate does: the key knows the quota, and who is refused asks again when told. While the
// store is away, it sends.
type asking struct {
	*own
	key *buckets // that all such processes share
}

func (s *provision) asking() func(int32) client {
	k := s.left
	return func(process int32) client {
		c := &asking{s.own(), &k}
		c.isPaced = true
		return c
	}
}

func (c *asking) begin(i int32) { c.start(i); c.attempt(i) }

func (c *asking) attempt(i int32) {
	call := &c.calls[i]
	c.out.Store++
	wait, late := time.Duration(0), c.Store.trip()
	if c.away(call.process) {
		late = pacing.Patience
	} else if wait = c.key.wait(c.now, call.tokens); wait <= 0 {
		c.key.take(call.tokens)
	}
	if wait > 0 {
		call.retries-- // it is no retry
		c.again(i, late+wait+time.Millisecond)
		return
	}
	call.try = following(call.try)
	c.schedule(late+travel, arrives, i, call.try)
}

const (
	leaseTime = 5 * time.Second
	someCalls = .01 // that a process wants in a second at least
)

// leasing is a process with a lease of a rate, as Doorman gives it: the store knows the quota,
// and divides it by what the processes want. Each tells that anew every five seconds. While the
// store is away a lease stays what it was.
type leasing struct {
	*own
	wanted  *float64 // calls per second, of all processes
	process int32
	budget  bucket
	wants   float64
	seen    float64 // calls since that was told
	due     time.Duration
	queued  []int32
}

func (s *provision) leasing() func(int32) client {
	wanted := new(float64)
	return func(process int32) client {
		c := &leasing{own: s.own(), wanted: wanted, process: process}
		c.isPaced = true
		return c
	}
}

func (c *leasing) begin(i int32) { c.start(i); c.seen++; c.attempt(i) }

func (c *leasing) attempt(i int32) {
	call := &c.calls[i]
	left := (call.deadline - c.now) / 2
	c.renew()
	c.budget.refill(c.now)
	switch wait := c.budget.wait(float64(len(c.queued) + 1)); {
	case wait <= 0:
		c.budget.level--
		c.send(i)
	case call.deadline < math.MaxInt64 && wait > left:
		c.give(i)
	default:
		c.queue(i)
		c.queued = append(c.queued, i)
		c.wakeProcess(c.process, c.budget.wait(1))
	}
}

func (c *leasing) abandon(i int32) {
	c.queued = slices.DeleteFunc(c.queued, func(q int32) bool { return q == i })
	c.give(i)
}

func (c *leasing) wake() {
	if c.gone(c.process) {
		*c.wanted -= c.wants
		c.wants = 0
		return
	}
	c.renew()
	for c.budget.refill(c.now); len(c.queued) > 0 && c.budget.wait(1) <= 0; c.queued = c.queued[1:] {
		c.budget.level--
		c.send(c.queued[0])
	}
	if len(c.queued) > 0 {
		c.wakeProcess(c.process, c.budget.wait(1))
	}
}

// renew tells what the process wants, and gets its part of the quota.
func (c *leasing) renew() {
	if c.now < c.due {
		return
	}
	c.due = c.now + leaseTime
	c.wakeProcess(c.process, leaseTime)
	if c.out.Store++; c.away(c.process) {
		return
	}
	wants := max((c.wants+(c.seen+float64(len(c.queued)))/leaseTime.Seconds())/2, someCalls)
	*c.wanted += wants - c.wants
	c.wants, c.seen = wants, 0
	c.budget.refill(c.now)
	c.budget.Rate = c.quota() * min(1, wants / *c.wanted)
	c.budget.Burst = max(1, 2*c.budget.Rate)
}
