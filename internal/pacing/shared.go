package pacing

import "time"

const idle = time.Hour // until Share looks at a store again, unless there is a reason before

// Join lets attempts wait for slots of a store, which hears of what has just started without it. Know has said what the
// quota is.
func (p *Pacer) Join(now time.Time) {
	p.advance(now)
	p.store.join(p.now)
	if p.mode == limited {
		p.store.spent += p.debt + p.quota.burst
	}
	p.become(reserving)
}

// Part ends that. If there is something to tell, such as spare slots, a tells it to the store. Others still use the quota, so p
// goes on at the rate of its own starts.
func (p *Pacer) Part(now time.Time) (a Ask, tells bool) {
	p.advance(now)
	p.store.unused += p.store.slots.cut(p.now, p.store.slots.count())
	a, tells = p.store.news(p.now, p.quota, p.holds()), p.store.owes()
	p.Alone(now)
	return a, tells || a.Hold > 0
}

// Alone notes that the store does not answer.
func (p *Pacer) Alone(now time.Time) {
	p.advance(now)
	p.store.unused, p.store.spent = 0, 0 // nobody knows whether it was told
	if p.mode != alone {
		p.store.changed = p.now
		p.own.begin(p.now, p.quota.rate)
		p.become(alone)
	}
}

// Shared reports whether slots come from a store, and since when, or since when it fails.
func (p *Pacer) Shared() (ok bool, since time.Time) {
	return p.mode == reserving && !p.store.heard.IsZero(), p.store.changed.Add(-p.setBack)
}

// News notes that another process may have held all.
func (p *Pacer) News() { p.store.called = true }

// Due reports whether there is something to ask the store.
func (p *Pacer) Due() bool {
	switch p.mode {
	case alone:
		return true
	case reserving:
		first := p.First()
		return p.store.due(p.now, p.need(), p.holds()) || first != nil && p.firstWait(first) == Never
	}
	return false
}

// Ask returns what to ask the store now, if anything is due. Otherwise it returns when to look again,
// unless Due reports true before.
func (p *Pacer) Ask(now time.Time) (a Ask, due bool, next time.Duration) {
	p.advance(now)
	if early := p.store.gap - p.now.Sub(p.store.asked); early > 0 {
		return Ask{}, false, early
	}
	if !p.Due() {
		return Ask{}, false, idle
	}
	return p.store.ask(p.now, p.quota, p.need(), p.holds(), p.queue.longest), true, 0
}

// need returns what those that wait need of a store: nothing while they may not start anyway, and nothing alone, since
// slots that come too late for p are lost for all. Who has to know first is the first, or an urgent one behind it.
func (p *Pacer) need() need {
	first := p.First()
	if first == nil || p.mode == alone || p.health.Ready(p.now) > 0 {
		return need{}
	}
	t, ahead := first, 0.
	if head := p.queue.head(); head.urgent && head != first {
		t, ahead = head, first.size
	}
	return need{turn: t, next: t.size, all: p.queue.size, ahead: ahead, left: t.left(p.now)}
}

// holds returns the hold that the other processes are to keep, too: the longer of Hold's and health's.
func (p *Pacer) holds() hold {
	if ends := p.now.Add(p.health.Left(p.now)); ends.After(p.hold) && p.row.Before(p.now) {
		return hold{ends, p.row}
	}
	return hold{ends: p.hold}
}

// Answered notes the answer to a. It returns those that have left the queue, since their turns would come too late.
func (p *Pacer) Answered(now time.Time, a Ask, s Slots) (late []*Turn) {
	p.advance(now)
	if p.mode == alone || p.store.heard.IsZero() { // it begins to answer
		p.store.changed = p.now
		p.become(reserving)
	}
	if p.store.answered(p.now, a, s) {
		p.health.Hold(p.now, 0) // others pass
		p.row = time.Time{}     // the next row begins after that
	}
	if s.N > tiny || a.Least <= tiny {
		return nil
	}
	n := p.need()
	own := func(t *Turn) time.Duration { // if its slots were the next
		ahead := 0.
		if t == n.turn {
			ahead = n.ahead
		}
		if wait, reserved := p.store.slot(p.now, ahead+t.size); reserved {
			return wait
		}
		return inSeconds(s.Wait - max(a.Least-t.size, 0)/a.Rate)
	}
	late = p.queue.removeIf(func(t *Turn) bool { return own(t) > t.left(p.now) && (a.urgent() || !t.urgent) })
	for _, t := range late {
		t.Late = own(t)
	}
	return late
}
