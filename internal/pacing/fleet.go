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
	ofFleet  = 1 << 63                // in the Round of an attempt: the round is the fleet's, not the law's
)

// part says what a Pacer is in a fleet.
type part uint8

const (
	none     part = iota // no member
	awaiting             // the first answer is awaited, by all attempts
	led                  // the fleet's law counts. No answer in time means that it is open
	away                 // the fleet does not answer: the Pacer's own law counts
)

// member is a Pacer's part in a fleet: what it was told, and what it has to tell. While the
// fleet answers, its law takes the place of the Pacer's.
type member struct {
	part   part
	since  time.Time // when Join was called
	turned time.Time // when the fleet began to answer, or not to

	last  fleetpace.Answer // the latest; the zero Answer is that of an open fleet
	at    time.Time        // when it came; zero: none has
	turns turns            // that were given, and have not been used up

	news  bool // all are to exchange soon
	stale bool // the first attempt waits for a newer answer
	tell  tell
	count count
	own   ownRate

	untold  time.Time // nobody is to start before, and the fleet has not been told; zero: it knows all
	telling time.Time // untold, of the report that has not been answered
}

// tell is what the fleet is to be told, since it was the last time.
type tell struct {
	started float64       // attempts
	hits    float64       // throttled ones
	fresh   float64       // of them, those of the latest round
	hint    time.Duration // the longest of theirs
	costs   float64       // the sum of those of attempts that have come,
	priced  float64       // and how many had one
}

// count is how far the process is while all count.
type count struct {
	ends     time.Time // the second in which this process counts; zero: none is underway
	settled  time.Time // when all have told what they counted; zero: an answer since then says that they go on
	refusals int       // attempts that were throttled since all was open
	hinted   time.Time // when the longest wait ends for which the server has asked since then
}

// leads reports whether the fleet's law counts.
func (m *member) leads() bool { return m.part == awaiting || m.part == led }

// asks reports whether the first answer is awaited.
func (m *member) asks() bool { return m.part == awaiting }

// answered reports whether the fleet has ever answered.
func (m *member) answered() bool { return !m.at.IsZero() }

// mode is what the fleet does, as far as the process knows.
func (m *member) mode() fleetpace.Mode { return m.last.Mode }

// passes reports whether attempts start without a Turn.
func (m *member) passes() bool { return !m.asks() && m.mode() == fleetpace.Open }

// counting reports whether all count.
func (m *member) counting() bool { return !m.asks() && m.mode() == fleetpace.Counting }

// admits reports whether attempts start at once. While all count, first attempts do, and so do
// retries, unless this process has seen that several are throttled: one alone may be chance, and
// costs its call no more than its own backoff.
func (m *member) admits(retry bool) bool {
	return m.passes() || m.counting() && !(retry && m.suspects())
}

// suspects reports whether retries wait until all have told what they counted.
func (m *member) suspects() bool {
	return m.counting() && !m.count.settled.IsZero() && m.count.refusals >= doubtful
}

// defers reports whether an attempt waits for no turn, but to learn whether it needs one. It does
// not wait for longer than its patience.
func (m *member) defers(retry bool) bool { return m.asks() || m.leads() && retry && m.suspects() }

// backTo notes that the clock was put back to now: nothing lies further ahead than it can.
func (m *member) backTo(now time.Time) {
	m.since, m.turned, m.at = earlier(m.since, now), earlier(m.turned, now), earlier(m.at, now)
	m.own.at, m.own.since = earlier(m.own.at, now), earlier(m.own.since, now)
	m.count.ends = earlier(m.count.ends, now.Add(time.Second))
	m.count.settled = earlier(m.count.settled, now.Add(time.Second+inSeconds(reported)))
	m.untold = earlier(m.untold, now.Add(maxHold))
	m.telling = earlier(m.telling, now.Add(maxHold))
}

// age is that of the latest answer.
func (m *member) age(now time.Time) time.Duration { return now.Sub(m.at) }

// head is the number up to which turns have come.
func (m *member) head(now time.Time) float64 {
	return m.last.Head + max(m.age(now).Seconds()-m.last.Hold, 0)*m.last.Speed
}

// holds returns for how long nothing starts, whatever its turn: for the fleet, and until held.
func (m *member) holds(now, held time.Time) time.Duration {
	return max(inSeconds(m.last.Hold)-m.age(now), held.Sub(now), 0)
}

// missing returns how far head is from the end of turns of a size, of those that the process has,
// and then of the fleet's next.
func (m *member) missing(now time.Time, size float64) float64 {
	return m.turns.end(size, m.last.Tail) - m.head(now)
}

// comesIn returns how long it takes, as far as is known, until such turns have come.
func (m *member) comesIn(now, held time.Time, size float64) time.Duration {
	return m.holds(now, held) + inSeconds(min(max(m.missing(now, size), 0)/m.last.Speed, 1e9))
}

// until returns how long an attempt has to wait, as far as is known, for turns of a size that
// has those before it. It is 0 only if the attempt may start now.
func (m *member) until(now, held time.Time, size float64) time.Duration {
	switch {
	case m.asks():
		return max(m.since.Add(Patience).Sub(now), 1)
	case m.mode() == fleetpace.Counting:
		return max(m.count.settled.Sub(now), 1)
	case m.mode() == fleetpace.Held:
		return m.holds(now, held) + 1
	}
	hasCome := m.missing(now, size) <= tiny && m.holds(now, held) <= 0
	if hasCome && m.turns.size() >= size-tiny && m.age(now) <= freshFor {
		return 0
	}
	return m.comesIn(now, held, size) + 1
}

// ready returns how long the first attempt has to wait, which has some time left; Never if only
// an answer tells.
func (m *member) ready(now, held time.Time, size float64, retry bool, left time.Duration) time.Duration {
	if m.asks() && !now.Before(m.since.Add(Patience)) {
		m.part = led // whatever the store does, nobody waits for longer
		return 0
	}
	switch {
	case m.asks():
		return max(min(m.since.Add(Patience).Sub(now), left), 0)
	case m.admits(retry):
		return 0
	case m.mode() == fleetpace.Counting:
		return max(left, 0)
	case m.mode() == fleetpace.Held, m.turns.size() < size-tiny:
		return Never
	}
	if m.age(now) >= hearIn || m.age(now) > freshFor && m.comesIn(now, held, size) <= 0 {
		m.stale = true
		return Never
	}
	return min(m.until(now, held, size), hearIn)
}

// start notes that an attempt starts. It returns its round, and whether it has used up turns.
func (m *member) start(now time.Time, size float64) (round uint64, paid bool) {
	m.own.add(now)
	m.countFrom(now)
	m.tell.started++
	if m.mode() != fleetpace.Paced {
		return ofFleet, false
	}
	m.turns.take(size)
	return ofFleet | uint64(m.last.Round), true
}

// unsent takes back that an attempt has started.
func (m *member) unsent() {
	m.tell.started = max(m.tell.started-1, 0)
	m.own.attempts = max(m.own.attempts-1, 0)
}

// putBack gives turns of a size to the next attempt: they have come.
func (m *member) putBack(now time.Time, size float64) {
	head := m.head(now)
	m.turns.putBack(span{head - size, head})
}

// throttled notes that an attempt was throttled which had started in a round of the fleet's, 0 if
// in none.
func (m *member) throttled(now time.Time, round uint64, hint time.Duration) {
	if m.mode() == fleetpace.Paced && round == 0 {
		return // it had started before
	}
	m.countFrom(now)
	m.count.refusals++
	m.count.hinted = later(m.count.hinted, now.Add(hint))
	m.tell.hits++
	if float64(round) == m.last.Round {
		m.tell.fresh++
	}
	m.tell.hint = max(m.tell.hint, hint)
}

// countFrom begins a second of counting with what comes now, if all count and none is underway.
func (m *member) countFrom(now time.Time) {
	idle := m.count.ends.IsZero() || !m.counted() && !now.Before(m.count.ends)
	if m.mode() == fleetpace.Counting && idle {
		m.count.ends = now.Add(time.Second)
	}
}

// counted reports whether there is anything to tell of a second of counting.
func (m *member) counted() bool { return m.tell.started > 0 || m.tell.hits > 0 }

// completes reports whether what was counted in a second is to be told now.
func (m *member) completes(now time.Time) bool {
	return !m.count.ends.IsZero() && m.counted() && !now.Before(m.count.ends)
}

// price notes a cost, and returns the average: the fleet's, if it is known.
func (m *member) price(cost float64) float64 {
	m.tell.costs, m.tell.priced = m.tell.costs+cost, m.tell.priced+1
	return m.last.Mean
}

// wants returns the size of the turns that are missing for attempts of a size that wait. It is
// negative if there are too many. The first report may well ask for some.
func (m *member) wants(waiting float64) float64 {
	if !m.asks() && m.mode() >= fleetpace.Held || !m.answered() {
		return waiting - m.turns.size()
	}
	return 0
}

// due reports whether the fleet is to be asked or told anything now. Otherwise it returns when to
// look again.
func (m *member) due(now time.Time, want float64, waits bool) (due bool, next time.Duration) {
	switch {
	case !m.answered(), m.part == away, m.news, m.stale, m.untold.After(now), m.completes(now):
		return true, 0
	case want > tiny, want < -slack-tiny:
		return true, 0
	case m.mode() != fleetpace.Counting && m.tell.hits > 0:
		return true, 0
	}
	next = time.Hour
	look := func(at time.Time) { next = min(next, at.Sub(now)) }
	if m.count.ends.After(now) {
		look(m.count.ends)
	}
	if m.mode() == fleetpace.Counting && !m.count.settled.IsZero() && m.count.refusals > 0 {
		look(m.count.settled)
	}
	if m.mode() == fleetpace.Held {
		look(m.at.Add(inSeconds(m.last.Hold)))
	}
	if m.mode() != fleetpace.Counting && waits {
		look(m.at.Add(hearIn))
	}
	return next <= 0, max(next, time.Millisecond)
}

// report returns what there is to tell, which is told then. Attempts that want turns wait for
// patience at most.
func (m *member) report(now time.Time, want float64, patience time.Duration) fleetpace.Report {
	r := fleetpace.Report{
		Epoch: m.last.Epoch, Round: m.last.Round, Counted: m.completes(now),
		Hint: m.tell.hint.Seconds(), Hold: max(m.untold.Sub(now), 0).Seconds(), Costs: m.tell.costs, Priced: m.tell.priced,
	}
	if m.mode() == fleetpace.Paced && m.age(now) < known {
		r.Rate = m.last.Rate
	}
	if m.counting() { // whose report decides is not known: each has the hint
		r.Hint = max(r.Hint, m.count.hinted.Sub(now).Seconds())
	}
	switch {
	case want > 0:
		r.Take, r.Patience = want, patience.Seconds()
	case want < 0:
		r.Returned = -want
		m.turns.drop(-want)
	}
	var rest tell
	if m.counting() && !r.Counted && m.part != away { // all of a second is told at once
		rest = tell{started: m.tell.started, hits: m.tell.hits, fresh: m.tell.fresh}
	} else {
		r.Started, r.Hits, r.Fresh = m.tell.started, m.tell.hits, m.tell.fresh
		m.count.ends = time.Time{}
	}
	m.tell, m.news, m.stale = rest, false, false
	m.telling, m.untold = m.untold, time.Time{}
	return r
}

// beginCounting counts from now on, for as long as the fleet says: what was before all began to is
// not counted.
func (m *member) beginCounting(now time.Time, a fleetpace.Answer) {
	m.tell.started, m.tell.hits, m.tell.fresh = 0, 0, 0
	m.count.ends = now.Add(inSeconds(a.Count))
	m.count.settled = m.count.ends.Add(inSeconds(reported))
}

// forgets reports whether an answer shows that the turns of before are worth nothing: those of a
// state that was lost, of a time when all waited, or that were never given, because the store has
// come back with an older state.
func (m *member) forgets(a fleetpace.Answer) bool {
	given := a.Tail - a.Size
	return a.Epoch != m.last.Epoch || a.Mode < fleetpace.Held || m.part == away ||
		m.turns.last() > given*(1+tiny)+1e-6
}

// ownRate is the rate of the process's own attempts.
type ownRate struct {
	attempts float64   // that fade in ownTime
	at       time.Time // of the latest
	since    time.Time // from when on they are counted: not while all is open
}

func (r *ownRate) faded(now time.Time) float64 {
	return r.attempts * math.Exp(-now.Sub(r.at).Seconds()/ownTime)
}

func (r *ownRate) add(now time.Time) {
	r.attempts = r.faded(now) + 1
	r.at = now
}

// perSecond returns the rate. What has been counted for less than ownTime counts for that time.
func (r *ownRate) perSecond(now time.Time) float64 {
	seconds := max(now.Sub(r.since).Seconds(), 1)
	return r.faded(now) / (ownTime * (1 - math.Exp(-seconds/ownTime)))
}

// Join makes p a member of a fleet. Until the fleet has answered first, or for Patience,
// attempts wait.
func (p *Pacer[T]) Join(now time.Time) {
	p.advance(now)
	p.fleet = member{part: awaiting, since: now, turned: now}
	p.renew()
}

// Joined reports whether p is a member of a fleet.
func (p *Pacer[T]) Joined() bool { return p.fleet.part != none }

// Shared reports whether p is a member of a fleet that answers, and since when it is or is not;
// the zero time if p is no member.
func (p *Pacer[T]) Shared() (shared bool, since time.Time) {
	return p.fleet.leads() && p.fleet.answered(), p.fleet.turned
}

// News notes that the fleet has news.
func (p *Pacer[T]) News() { p.fleet.news = true }

// Report returns what the fleet is to be told, and true, if anything is. Otherwise it returns
// when to ask again.
func (p *Pacer[T]) Report(now time.Time) (r fleetpace.Report, due bool, next time.Duration) {
	p.advance(now)
	want := p.fleet.wants(p.size())
	if due, next = p.fleet.due(now, want, p.Len() > 0); !due {
		return r, false, next
	}
	return p.fleet.report(now, want, p.longest()), true, 0
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

// Answered takes the fleet's answer to a report. It returns the attempts whose turns would
// come too late: they wait no more.
func (p *Pacer[T]) Answered(now time.Time, r fleetpace.Report, a fleetpace.Answer) (late []*Turn[T]) {
	p.advance(now)
	m := &p.fleet
	wasAway, wasFirst, old := m.part == away, !m.answered(), m.last
	wasOpen := m.passes()
	if m.forgets(a) {
		p.renew()
	}
	if wasAway {
		p.open()
	}
	m.part, m.last, m.at, m.telling = led, a, now, time.Time{}
	if wasAway || wasFirst {
		m.turned = now
	}
	if wasAway || wasFirst || wasOpen {
		m.own = ownRate{at: now, since: now}
	}
	switch {
	case a.Mode != fleetpace.Counting:
		m.count = count{}
	case old.Mode != fleetpace.Counting || a.Round != old.Round || wasAway:
		m.beginCounting(now, a)
	case !m.count.settled.After(now):
		m.count.settled = time.Time{}
	}
	if a.Size > 0 {
		m.turns.add(span{a.First, a.First + a.Size})
	}
	if a.Size < r.Take && a.Mode >= fleetpace.Held {
		late = p.late()
	}
	return late
}

// late takes those from the queue that have no turns, and whose turns would come too late.
func (p *Pacer[T]) late() (late []*Turn[T]) {
	m, ahead := &p.fleet, 0.
	has := m.turns.size()
	for i := range p.queues {
		for e := p.queues[i].turns.Front(); e != nil; {
			t := e.Value.(*Turn[T])
			e = e.Next()
			if ahead+t.size > has+tiny && m.until(p.now, p.hold, ahead+t.size) > t.left(p.now) {
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
// late. A hold goes on too, of the fleet's or of its own: what waits for its end starts at a rate
// then.
func (p *Pacer[T]) Alone(now time.Time) {
	p.advance(now)
	m := &p.fleet
	m.untold, m.telling = later(m.untold, m.telling), time.Time{}
	if !m.leads() {
		return
	}
	if m.answered() {
		m.turned = now
	}
	holds := m.holds(now, p.hold)
	m.part, m.count.ends = away, time.Time{}
	p.renew()
	p.law.resume(now, m.own.perSecond(now), m.mode() == fleetpace.Paced)
	p.hold = now.Add(holds)
	if p.law.state == open && (holds > 0 || m.mode() == fleetpace.Held) {
		p.law.hold(now)
	}
}

// Part ends p's part in a fleet.
func (p *Pacer[T]) Part(now time.Time) {
	p.Alone(now)
	p.fleet = member{}
}
