package storm

import (
	"slices"
	"time"

	"github.com/goretry/retry/fleetpace"
	"github.com/goretry/retry/internal/pacing"
)

// Store is where the processes of a fleet meet.
type Store struct {
	Trip             time.Duration // there and back; 0 means a millisecond
	AwayFrom, AwayTo time.Duration // from and to when it answers nobody,
	Half             bool          // or only every second process
	Emptied          time.Duration // then it forgets all; 0: never
	Skew             time.Duration // if not 0, each process's clock counts, and is off by up to so much
	Deaf             bool          // news is lost
}

// meeting is a fleet's store during a run.
type meeting struct {
	*provision
	state   fleetpace.State
	members []*fleetClient
	emptied bool
}

// fleetClient is a process whose Pace is shared.
type fleetClient struct {
	*pacedClient
	*meeting
	skew    float64
	flies   bool // an exchange is underway
	report  fleetpace.Report
	answer  fleetpace.Answer
	ok      bool
	arrives time.Duration // of the answer
	next    time.Duration // the next exchange is not before
	hears   time.Duration // of news; 0: there is none
}

func (s *provision) fleet(byTokens bool) func(int32) client {
	m := &meeting{provision: s}
	return func(process int32) client {
		c := &fleetClient{pacedClient: s.paced(process, byTokens), meeting: m}
		c.skew = (2*s.rand.Float64() - 1) * s.Store.Skew.Seconds()
		c.pacer.Join(c.Now())
		m.members = append(m.members, c)
		c.wakeIn(0)
		return c
	}
}

func (c *fleetClient) begin(i int32) { c.start(i); c.attempt(i) }

func (c *fleetClient) attempt(i int32) {
	c.pacedClient.attempt(i)
	c.exchange()
}

func (c *fleetClient) abandon(i int32) {
	c.pacedClient.abandon(i)
	c.exchange()
}

func (c *fleetClient) answered(i int32, answer kind) {
	c.pacedClient.answered(i, answer)
	c.exchange()
}

func (c *fleetClient) wake() {
	if c.gone(c.process) {
		return
	}
	if c.hears > 0 {
		if c.now >= c.hears {
			c.hears = 0
			c.pacer.News()
		} else {
			c.wakeIn(c.hears - c.now)
		}
	}
	if c.flies && c.now >= c.arrives {
		c.land()
	}
	c.pacedClient.wake()
	c.exchange()
}

// land takes the answer to an exchange.
func (c *fleetClient) land() {
	if c.flies = false; !c.ok {
		c.pacer.Alone(c.Now())
		c.next = c.now + c.pacer.Probe()
		return
	}
	for _, t := range c.pacer.Answered(c.Now(), c.report, c.answer) {
		c.give(t.Owner)
	}
	c.next = c.now + pacing.Gap
}

// exchange makes an exchange with the store if one is due.
func (c *fleetClient) exchange() {
	if c.flies {
		c.wakeIn(c.arrives - c.now)
		return
	}
	if c.now < c.next {
		c.wakeIn(c.next - c.now)
		return
	}
	r, due, next := c.pacer.Report(c.Now())
	if !due {
		c.wakeIn(next)
		return
	}
	c.flies, c.report = true, r
	c.answer, c.ok = c.apply(c, r)
	wait := pacing.Patience
	if c.ok {
		wait = c.Store.trip()
	}
	c.arrives = c.now + wait
	c.wakeIn(wait)
}

// trip is how long a request to the store takes.
func (s *Store) trip() time.Duration { return max(s.Trip, time.Millisecond) }

// away reports whether the store does not answer a process.
func (s *provision) away(process int32) bool {
	away := s.now >= s.Store.AwayFrom && s.now < s.Store.AwayTo
	return away && !(s.Store.Half && s.processes[process].place%2 == 0)
}

// apply lets the store apply a report.
func (m *meeting) apply(c *fleetClient, r fleetpace.Report) (fleetpace.Answer, bool) {
	m.out.Store++
	if m.away(c.process) || m.Store.trip() > pacing.Patience {
		return fleetpace.Answer{}, false
	}
	if m.Store.Emptied > 0 && m.now >= m.Store.Emptied && !m.emptied {
		m.emptied, m.state = true, fleetpace.State{}
	}
	a := m.state.Apply(1e6+m.now.Seconds()+c.skew, m.rand.Float64(), r)
	if err := a.Check(r); err != nil {
		panic(err) // the law gives no such answer
	}
	if a.News && !m.Store.Deaf {
		m.members = slices.DeleteFunc(m.members, func(c *fleetClient) bool { return m.gone(c.process) })
		for _, other := range m.members {
			if other != c && !m.away(other.process) {
				other.hears = m.now + m.Store.trip()
				other.wakeIn(m.Store.trip())
			}
		}
	}
	return a, true
}
