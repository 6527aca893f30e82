package pacing

import (
	"math"
	"time"

	"github.com/goretry/retry/fleetpace"
)

const (
	Patience = 500 * time.Millisecond // for the store: nobody waits longer for it
	Gap      = 50 * time.Millisecond  // between two exchanges of a process
	probing  = time.Second            // and for a random part of twice as long, while the store is away
	freshFor = time.Second            // an answer may be older when nothing comes of it
	hearIn   = 15 * time.Second       // all that wait hear of another rate
	slack    = 2                      // turns too many that are kept
	doubtful = 2                      // throttled attempts of a process while all count, from which on its retries wait
	ownTime  = 30.                    // seconds over which the own rate is averaged
	reported = .25                    // seconds after counting, until all have reported
	shared   = 1 << 63                // in the Round of an attempt of a fleet: the fleet's, not the law's
)

// member is a Pacer's part in a fleet: what it was told, and what it has to tell. While the
// fleet answers, its law takes the place of the Pacer's.
type member struct {
	joined   bool // Join was called
	asked    bool // the first answer, or none in time, has come
	away     bool // the fleet does not answer: the Pacer's own law counts
	since    time.Time
	turned   time.Time // when it began to answer, or not to
	last     fleetpace.Answer
	at       time.Time // of last
	turns    []span    // that were given, and have not been taken
	counted  time.Time // when what was counted is to be told; zero: nothing is counted
	settled  time.Time // when all have told what they counted; zero: an answer since then says that they go on
	struck   int       // attempts that were throttled since all was open
	told     bool      // there is news
	stale    bool      // the first waits for a newer answer
	started  float64   // to be told
	hits     float64
	fresh    float64
	hint     time.Duration
	held     time.Duration
	costs    float64
	priced   float64
	recent   float64 // attempts, that fade in ownTime
	recentAt time.Time
	recentOf time.Time // since when they are counted: not while all is open
}

// span is the turns (from, to].
type span struct{ from, to float64 }

// asks reports whether the first answer is awaited.
func (m *member) asks() bool { return m.leads() && !m.asked }

// leads reports whether the fleet's law counts.
func (m *member) leads() bool { return m.joined && !m.away }

// Join makes p a member of a fleet. Until the fleet has answered first, or for Patience,
// attempts wait.
func (p *Pacer[T]) Join(now time.Time) {
	p.advance(now)
	p.fleet = member{joined: true, since: now, turned: now}
	p.renew()
}

// Joined reports whether p is a member of a fleet.
func (p *Pacer[T]) Joined() bool { return p.fleet.joined }

// Shared reports whether p is a member of a fleet that answers, and since when it is or is not;
// the zero time if p is no member.
func (p *Pacer[T]) Shared() (shared bool, since time.Time) {
	m := &p.fleet
	return m.leads() && !m.at.IsZero(), m.turned
}

// Part ends p's part in a fleet.
func (p *Pacer[T]) Part(now time.Time) {
	p.Alone(now)
	p.fleet = member{}
}

// mode is what the fleet does, as far as p knows.
func (m *member) mode() fleetpace.Mode { return m.last.Mode }

// passes reports whether attempts start without a Turn.
func (m *member) passes() bool { return m.asked && m.mode() == fleetpace.Open }

// admits reports whether attempts start at once. While all count, first attempts do, and so do
// retries, unless this process has seen that several are throttled: one alone may be chance, and
// costs its call no more than its own backoff.
func (m *member) admits(retry bool) bool {
	return m.passes() || m.counting() && !(retry && m.suspects())
}

// counting reports whether all count.
func (m *member) counting() bool { return m.asked && m.mode() == fleetpace.Counting }

// suspects reports whether retries wait until all have told what they counted.
func (m *member) suspects() bool {
	return m.counting() && !m.settled.IsZero() && m.struck >= doubtful
}

// defers reports whether an attempt waits for no turn, but to learn whether it needs one. It does
// not wait for longer than its patience.
func (m *member) defers(retry bool) bool { return m.asks() || m.leads() && retry && m.suspects() }

// head is the number up to which turns have come.
func (m *member) head(now time.Time) float64 {
	return m.last.Head + max(now.Sub(m.at).Seconds()-m.last.Hold, 0)*m.last.Speed
}

// size returns how much of the turns has not been taken.
func (m *member) size() (n float64) {
	for _, s := range m.turns {
		n += s.to - s.from
	}
	return n
}

// beyond reports whether m has turns that were never given: the store has come back with an
// older state.
func (m *member) beyond(a fleetpace.Answer) bool {
	n := len(m.turns)
	return n > 0 && m.turns[n-1].to > (a.Tail-a.Size)*(1+1e-9)+1e-6
}

// end returns the number of the turn of the last part of a size, of the turns that p has, and
// then of the fleet's next.
func (m *member) end(size float64) float64 {
	for _, s := range m.turns {
		if d := s.to - s.from; size <= d+1e-9 {
			return s.from + size
		} else {
			size -= d
		}
	}
	return m.last.Tail + size
}

// take uses up turns of a size.
func (m *member) take(size float64) {
	for len(m.turns) > 0 && size > 1e-9 {
		s := &m.turns[0]
		if d := s.to - s.from; size < d-1e-9 {
			s.from += size
			return
		} else {
			size -= d
		}
		m.turns = m.turns[1:]
	}
}

// giveBack takes turns of a size from the last ones.
func (m *member) giveBack(size float64) {
	for n := len(m.turns); n > 0 && size > 1e-9; n-- {
		s := &m.turns[n-1]
		if d := s.to - s.from; size < d-1e-9 {
			s.to -= size
			return
		} else {
			size -= d
		}
		m.turns = m.turns[:n-1]
	}
}

// untilShared returns how long an attempt has to wait, as far as is known, for turns of a size
// that has those before it.
func (p *Pacer[T]) untilShared(size float64) time.Duration {
	m := &p.fleet
	hold := max(inSeconds(m.last.Hold)-p.now.Sub(m.at), p.hold.Sub(p.now), 0)
	switch {
	case !m.asked:
		return max(m.since.Add(Patience).Sub(p.now), 1)
	case m.mode() == fleetpace.Counting:
		return max(m.settled.Sub(p.now), 1)
	case m.mode() == fleetpace.Held:
		return hold + 1
	}
	wait := m.end(size) - m.head(p.now)
	if wait <= 1e-9 && hold <= 0 && m.size() >= size-1e-9 && p.now.Sub(m.at) <= freshFor {
		return 0
	}
	return 1 + hold + inSeconds(min(max(wait, 0)/m.last.Speed, 1e9))
}

// price notes a cost, and returns the average: the fleet's, if it is known.
func (m *member) price(cost float64) float64 {
	m.costs, m.priced = m.costs+cost, m.priced+1
	return m.last.Mean
}

// unsent takes back that an attempt has started.
func (m *member) unsent() { m.started, m.recent = max(m.started-1, 0), max(m.recent-1, 0) }

// returnShared gives the turns back that t has used up: the next may start in its place.
func (p *Pacer[T]) returnShared(t *Turn[T]) {
	m := &p.fleet
	head := m.head(p.now)
	m.turns = append([]span{{head - t.size, head}}, m.turns...)
}

// readyShared returns how long the first has to wait, Never if only an answer tells.
func (p *Pacer[T]) readyShared(t *Turn[T]) time.Duration {
	m := &p.fleet
	switch {
	case !m.asked: // whatever the store does, nobody waits for longer
		wait := m.since.Add(Patience).Sub(p.now)
		if wait <= 0 {
			m.asked = true
		}
		return max(min(wait, t.left(p.now)), 0)
	case m.admits(t.Retry):
		return 0
	case m.mode() == fleetpace.Counting:
		return max(t.left(p.now), 0)
	case m.mode() != fleetpace.Paced, m.size() < t.size-1e-9:
		return Never
	}
	wait, old := p.untilShared(t.size), p.now.Sub(m.at)
	if wait <= 1 && old > freshFor || old >= hearIn {
		m.stale = true
		return Never
	}
	return min(wait, hearIn)
}

// startShared notes that an attempt starts.
func (p *Pacer[T]) startShared(t *Turn[T]) {
	m := &p.fleet
	m.started++
	m.recent = m.faded(p.now) + 1
	m.recentAt = p.now
	if t.Round = shared; m.mode() == fleetpace.Paced {
		t.Round |= uint64(m.last.Round)
		t.paid, t.term = true, p.term
		m.take(t.size)
	}
	m.counts(p.now)
}

// counts lets what has come while the fleet counts be told a second later.
func (m *member) counts(now time.Time) {
	if m.mode() == fleetpace.Counting && m.counted.IsZero() {
		m.counted = now.Add(time.Second)
	}
}

// own is the rate of p's own attempts. They have been counted for less than ownTime if all was
// open before.
func (m *member) own(now time.Time) float64 {
	seconds := max(now.Sub(m.recentOf).Seconds(), 1)
	return m.faded(now) / (ownTime * (1 - math.Exp(-seconds/ownTime)))
}

func (m *member) faded(now time.Time) float64 {
	return m.recent * math.Exp(-now.Sub(m.recentAt).Seconds()/ownTime)
}

// throttledShared notes that an attempt was throttled.
func (p *Pacer[T]) throttledShared(round uint64, hint time.Duration) {
	m := &p.fleet
	if m.mode() == fleetpace.Paced && round&^shared == 0 {
		return // it had started before
	}
	m.hits++
	m.struck++
	if float64(round&^shared) == m.last.Round {
		m.fresh++
	}
	m.hint = max(m.hint, hint)
	m.counts(p.now)
}

// Report returns what the fleet is to be told, and true, if anything is. Otherwise it returns
// when to ask again.
func (p *Pacer[T]) Report(now time.Time) (r fleetpace.Report, due bool, next time.Duration) {
	p.advance(now)
	m := &p.fleet
	waits := p.Len() > 0
	want := 0.
	if m.asked && m.mode() >= fleetpace.Held || m.at.IsZero() { // the first report may well ask for turns
		want = p.size() - m.size()
	}
	next = time.Hour
	until := func(t time.Time) bool { next = min(next, t.Sub(now)); return next <= 0 }
	if m.started == 0 && m.hits == 0 && !now.Before(m.counted) { // others have counted
		m.counted = time.Time{}
	}
	counted := !m.counted.IsZero() && until(m.counted)
	switch {
	case m.at.IsZero() || m.away, m.told, m.stale, m.held > 0, counted, want > 1e-9, want < -slack-1e-9:
		due = true
	case m.mode() == fleetpace.Counting:
		due = m.counted.IsZero() && m.hits > 0 || !m.settled.IsZero() && m.struck > 0 && until(m.settled)
	case m.hits > 0, m.mode() == fleetpace.Held && until(m.at.Add(inSeconds(m.last.Hold))), waits && until(m.at.Add(hearIn)):
		due = true
	}
	if !due {
		return r, false, max(next, time.Millisecond)
	}
	r = fleetpace.Report{
		Epoch: m.last.Epoch, Round: m.last.Round, Counted: counted, Started: m.started, Hits: m.hits, Fresh: m.fresh,
		Hint: m.hint.Seconds(), Hold: m.held.Seconds(), Costs: m.costs, Priced: m.priced, Take: max(want, 0),
	}
	if m.mode() == fleetpace.Paced && now.Sub(m.at) < known {
		r.Rate = m.last.Rate
	}
	if want < 0 {
		r.Returned = -want
		m.giveBack(-want)
	}
	if want > 0 {
		r.Patience = p.longest().Seconds()
	}
	if m.mode() == fleetpace.Counting && !counted && !m.away { // all of a second is told at once
		r.Started, r.Hits, r.Fresh = 0, 0, 0
	} else {
		m.started, m.hits, m.fresh, m.counted = 0, 0, 0, time.Time{}
	}
	m.hint, m.held, m.costs, m.priced = 0, 0, 0, 0
	m.told, m.stale = false, false
	return r, true, 0
}

// longest is the longest time that an attempt which waits still has.
func (p *Pacer[T]) longest() (d time.Duration) {
	for i := range p.queues {
		for e := p.queues[i].turns.Front(); e != nil; e = e.Next() {
			d = max(d, e.Value.(*Turn[T]).left(p.now))
		}
	}
	return d
}

// left is how long t may still wait.
func (t *Turn[T]) left(now time.Time) time.Duration {
	if t.until.IsZero() {
		return 1000 * time.Hour
	}
	return t.until.Sub(now)
}

// News notes that the fleet has news.
func (p *Pacer[T]) News() { p.fleet.told = true }

// Answered takes the fleet's answer to a report. It returns the attempts whose turns would
// come too late: they wait no more.
func (p *Pacer[T]) Answered(now time.Time, r fleetpace.Report, a fleetpace.Answer) (late []*Turn[T]) {
	p.advance(now)
	m := &p.fleet
	if a.Mode == fleetpace.Counting && (m.mode() != fleetpace.Counting || a.Round != m.last.Round || m.away) {
		m.started, m.hits, m.fresh = 0, 0, 0 // before all began to
		m.counted = now.Add(inSeconds(a.Count))
		m.settled = m.counted.Add(inSeconds(reported))
	} else if !m.settled.After(now) {
		m.settled = time.Time{}
	}
	if m.away || m.at.IsZero() {
		m.turned = now
	}
	if m.away || m.at.IsZero() || m.passes() {
		m.recent, m.recentAt, m.recentOf = 0, now, now
	}
	if a.Epoch != m.last.Epoch || a.Mode < fleetpace.Held || m.away || m.beyond(a) {
		p.renew()
	}
	if m.away {
		p.open()
	}
	m.asked, m.away, m.last, m.at = true, false, a, now
	if a.Size > 0 {
		m.turns = append(m.turns, span{a.First, a.First + a.Size})
	}
	if a.Mode != fleetpace.Counting {
		m.counted, m.settled, m.struck = time.Time{}, time.Time{}, 0
	}
	if a.Size < r.Take && a.Mode >= fleetpace.Held {
		late = p.late()
	}
	return late
}

// late takes those from the queue that have no turns, and whose turns would come too late.
func (p *Pacer[T]) late() (late []*Turn[T]) {
	ahead, has := 0., p.fleet.size()
	for i := range p.queues {
		for e := p.queues[i].turns.Front(); e != nil; {
			t := e.Value.(*Turn[T])
			e = e.Next()
			if ahead+t.size > has+1e-9 && p.untilShared(ahead+t.size) > t.left(p.now) {
				p.remove(t)
				late = append(late, t)
				continue
			}
			ahead += t.size
		}
	}
	return late
}

// Probe returns how long to wait before the next exchange while the fleet does not answer.
func (p *Pacer[T]) Probe() time.Duration {
	return probing + time.Duration(p.Chance()*float64(2*probing))
}

// Alone notes that the fleet does not answer: p goes on by its own law, from its own rate of
// late.
func (p *Pacer[T]) Alone(now time.Time) {
	p.advance(now)
	m := &p.fleet
	if !m.leads() {
		return
	}
	was, own := m.mode(), m.own(now)
	if !m.at.IsZero() {
		m.turned = now
	}
	m.asked, m.away, m.counted = true, true, time.Time{}
	m.last.Hold = 0
	p.renew()
	p.resume(now, own, was == fleetpace.Paced)
}
