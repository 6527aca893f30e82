package pacing

import (
	"math"
	"time"
)

// sharing is what a process knows of a quota that is told and that others use too. A store gives
// out slots of it. While it does not answer, the process goes on alone, at the rate of what it has
// started itself.
type sharing struct {
	joined bool
	asked  time.Time // when the store was asked the last time,
	heard  time.Time // and when it has answered; zero: it has not yet
	news   bool      // it is to be asked whether there was a hold
	fails  bool      // it does not answer
	since  time.Time // when it began to answer, or to fail

	slots    []batch // that are reserved and not used up, in order
	got      float64 // how many came the last time,
	flow     float64 // and how many a second that was, with the wait for them; +Inf: nobody has waited since
	spare    float64 // slots to give back
	toReport float64 // seconds for which the store is to hold all

	moved    float64 // Slots.Moved of the latest answer,
	reported float64 // and of the answer to the last hold of this process

	own    float64   // units in a second of this process, while the store does not answer,
	was    float64   // and when it failed
	starts float64   // units that have started, which fade
	faded  time.Time // up to here
	began  time.Time // when the first of them may have started
}

// batch is slots of a store: n of them, the first at a time, each of the others a gap later. Of
// {12:00:00, 100ms, 3} the second unit may start 100 ms after noon: an attempt of size 2 that is next
// starts then.
type batch struct {
	at  time.Time
	gap time.Duration
	n   float64
}

// Ask is what a store is asked, and Slots are its answer: see package pace.
type (
	Ask   struct{ Rate, Burst, Want, Least, Unused, Hold, Patience float64 }
	Slots struct{ N, Wait, Moved float64 }
)

const (
	Gap     = 50 * time.Millisecond  // between two exchanges with a store, at least
	Timeout = 500 * time.Millisecond // of one

	confirmed = time.Second            // after an answer its slots are used without another one
	late      = 250 * time.Millisecond // after its time a slot is lost
	horizon   = 500 * time.Millisecond // for which slots are good after the store has lost its state
	halfLife  = 30                     // seconds in which the starts of a process fade by the factor e
	backOff   = .7                     // of the own rate is left after a second in which attempts were throttled
	backOn    = 1.05                   // times the own rate follows after another second, up to what it was at first,
	upOn      = 1.01                   // and above
	newcomer  = 1                      // a second: the own rate of a process that has not started anything yet
	ages      = 3600                   // seconds: no number of a store that is larger counts
)

// Join lets attempts wait for slots of a store, if p is told its quota.
func (p *Pacer[T]) Join(now time.Time) {
	p.advance(now)
	k := &p.told.sharing
	if !k.joined {
		k.faded, k.began, k.starts = now, now, 0
	}
	k.joined, k.fails, k.news, k.heard, k.since, k.flow, k.toReport = true, false, false, time.Time{}, now, math.Inf(1), 0
	p.renew()
}

// Part ends that. The store is to be asked a, if there are slots to be given back. The quota is
// still that of others too, so p goes on at the rate of its own starts.
func (p *Pacer[T]) Part(now time.Time) (a Ask, spare bool) {
	p.advance(now)
	k := p.told
	k.release(now, k.have())
	a = Ask{Rate: k.rate, Burst: k.burst, Unused: k.spare}
	p.Alone(now)
	return a, a.Unused > tiny
}

// Shared reports whether slots come from a store, and since when, or since when it fails.
func (p *Pacer[T]) Shared() (ok bool, since time.Time) {
	if p.told == nil {
		return false, time.Time{}
	}
	return p.told.reserves() && !p.told.heard.IsZero(), p.told.since
}

// News notes that another process may have held all.
func (p *Pacer[T]) News() {
	if p.told != nil {
		p.told.news = true
	}
}

// reserves reports whether attempts wait for slots of a store.
func (k *sharing) reserves() bool { return k.joined && !k.fails }

// reports reports whether a hold is one for all. A process none of whose attempts pass may have a
// wrong key: it holds itself, unless another process has reported a hold too.
func (k *told) reports() bool { return k.reserves() && (k.passedSince || k.moved > k.reported) }

// have returns how many slots are left.
func (k *sharing) have() (n float64) {
	for _, b := range k.slots {
		n += b.n
	}
	return n
}

// slot returns when n more units may have started, which is when the n-th slot comes, and whether
// it is reserved. If not, the wait is what to expect.
func (k *told) slot(now time.Time, n float64) (wait time.Duration, reserved bool) {
	last := now
	for _, b := range k.slots {
		if n <= b.n+tiny {
			return max(b.at.Add(times(b.gap, math.Ceil(n-tiny)-1)).Sub(now), 0), true
		}
		n -= b.n
		last = later(last, b.at.Add(times(b.gap, b.n-1)))
	}
	return last.Sub(now) + Soon + inSeconds(min(n/k.flow, ages)), false
}

func times(d time.Duration, n float64) time.Duration { return time.Duration(float64(d) * max(n, 0)) }

// use uses up n slots, and notes the start.
func (k *sharing) use(now time.Time, n float64) {
	k.fade(now)
	k.starts += n
	if k.reserves() {
		k.drop(n)
	}
}

// drop takes the first n slots away.
func (k *sharing) drop(n float64) {
	for len(k.slots) > 0 && n > tiny {
		b := &k.slots[0]
		if n < b.n-tiny {
			b.n -= n
			b.at = b.at.Add(times(b.gap, n))
			return
		}
		n -= b.n
		k.slots = k.slots[1:]
	}
}

// lapse drops slots whose time is over, but for those that the next attempt collects: one that is
// larger than a slot starts when its last slot comes.
func (k *sharing) lapse(now time.Time, collects float64) {
	over := -collects
	for _, b := range k.slots {
		past := now.Sub(b.at) - late
		if past < 0 {
			break
		}
		n := b.n
		if b.gap > 0 {
			n = min(math.Floor(float64(past)/float64(b.gap))+1, b.n)
		}
		over += n
	}
	k.drop(over)
}

// shift moves all times, since the clock was set back.
func (k *sharing) shift(by time.Duration) {
	for _, t := range []*time.Time{&k.asked, &k.heard, &k.since, &k.faded, &k.began} {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
	for i := range k.slots {
		k.slots[i].at = k.slots[i].at.Add(by)
	}
}

// release takes the last n slots, to give back those that are yet to come.
func (k *sharing) release(now time.Time, n float64) {
	for len(k.slots) > 0 && n > tiny {
		b := &k.slots[len(k.slots)-1]
		part := min(n, b.n)
		if last := b.at.Add(times(b.gap, b.n-1)); !last.Before(now) {
			k.spare += part
		}
		n -= part
		if b.n -= part; b.n <= tiny {
			k.slots = k.slots[:len(k.slots)-1]
		}
	}
}

func (k *sharing) fade(now time.Time) {
	if d := now.Sub(k.faded).Seconds(); d > 0 {
		k.starts *= math.Exp(-d / halfLife)
		k.faded = now
	}
}

// Alone notes that the store does not answer.
func (p *Pacer[T]) Alone(now time.Time) {
	p.advance(now)
	k := p.told
	k.spare = 0 // nobody knows whether they were given back
	if k.fails {
		return
	}
	p.hold = later(p.hold, now.Add(inSeconds(k.toReport)))
	k.fade(now)
	age := max(now.Sub(k.began).Seconds(), 1)
	k.own = min(max(k.starts/(halfLife*(1-math.Exp(-age/halfLife))), 1./halfLife), k.rate)
	if k.starts < 1 {
		k.own = min(newcomer, k.rate)
	}
	k.fails, k.since, k.was, k.toReport = true, now, k.own, 0
	p.renew()
}

// adapt changes the own rate after a second in which attempts have ended, and some without any.
func (k *told) adapt(seconds float64) {
	switch {
	case !k.fails || k.ended[0] == 0:
	case k.refused[0] > 0:
		k.own = max(k.own*backOff, min(k.own, lowestRate))
	case k.own < k.was: // by time: at a low rate few attempts end
		k.own = min(k.own*math.Pow(backOn, seconds), k.was)
	default:
		k.own = min(k.own*upOn, k.rate)
	}
}

// Ask returns what the store is to be asked, if it is, or when to look again, unless Due reports
// true before. Slots that nobody waits for are given back.
func (p *Pacer[T]) Ask(now time.Time) (a Ask, due bool, next time.Duration) {
	p.advance(now)
	k := p.told
	if early := Gap - now.Sub(k.asked); early > 0 && early <= Gap {
		return Ask{}, false, early
	}
	if !p.Due() {
		return Ask{}, false, ages * time.Second
	}
	need := p.size()
	k.release(now, k.have()-need)
	a = Ask{Rate: k.rate, Burst: k.burst, Hold: k.toReport, Unused: k.spare}
	if a.Want, a.Least = p.wants(); a.Want > 0 {
		a.Patience = p.patience().Seconds()
	}
	k.asked, k.news = now, false
	return a, true, 0
}

// Due reports whether there is something to ask the store.
func (p *Pacer[T]) Due() bool {
	k := p.told
	if k == nil || !k.joined {
		return false
	}
	if k.heard.IsZero() || k.fails || k.news || k.spare > tiny || k.toReport > 0 || k.have() > p.size()+tiny {
		return true
	}
	if want, _ := p.wants(); want > 0 {
		return true
	}
	first := p.First()
	return first != nil && p.ready(first) == Never
}

// wants returns how many slots those that wait need, if it is time to ask for them, and of these
// how many before any of them can start.
func (p *Pacer[T]) wants() (want, least float64) {
	first := p.First()
	if first == nil {
		return 0, 0
	}
	have := p.told.have()
	if least = first.size - have; least <= tiny {
		least = 0
		if have >= p.told.got/2 {
			return 0, 0
		}
	}
	if want = p.size() - have; want <= tiny {
		return 0, 0
	}
	return want, least
}

// patience returns for how long the most patient one of those that wait does.
func (p *Pacer[T]) patience() (longest time.Duration) {
	for i := range p.queues {
		for e := p.queues[i].turns.Front(); e != nil; e = e.Next() {
			longest = max(longest, e.Value.(*Turn[T]).left(p.now))
		}
	}
	return min(longest, ages*time.Second)
}

// left returns for how long t waits yet: Never if its patience has no end.
func (t *Turn[T]) left(now time.Time) time.Duration {
	if t.deadline.IsZero() {
		return Never
	}
	return max(t.deadline.Sub(now), 0)
}

// Answered notes the answer to a. Those whose turns would come too late leave the queue, with
// Late set: Answered returns them.
func (p *Pacer[T]) Answered(now time.Time, a Ask, s Slots) (refused []*Turn[T]) {
	p.advance(now)
	k := p.told
	if k.fails || k.heard.IsZero() {
		k.fails, k.since = false, now
		p.renew()
	}
	k.spare = max(k.spare-a.Unused, 0)
	k.follow(now, s.Moved)
	if a.Hold > 0 {
		k.reported, k.passedSince = s.Moved, false
		if k.toReport <= a.Hold { // otherwise a longer one has begun meanwhile
			k.toReport = 0
		}
	}
	k.heard = now
	if s.N > tiny {
		k.add(now, s, a.Rate)
		return nil
	}
	if a.Least <= tiny || a.Want <= tiny {
		return nil
	}
	wait := inSeconds(min(max(s.Wait, 0), ages))
	for i := range p.queues {
		for e := p.queues[i].turns.Front(); e != nil; {
			t := e.Value.(*Turn[T])
			e = e.Next()
			if t.left(now) < wait { // others have come since
				p.remove(t)
				t.Late = wait
				refused = append(refused, t)
			}
		}
	}
	return refused
}

// follow moves the slots that were reserved before as the store has moved all.
func (k *sharing) follow(now time.Time, moved float64) {
	switch by := moved - k.moved; {
	case k.heard.IsZero():
		k.reported = moved
	case by > 0: // a hold
		for i := range k.slots {
			k.slots[i].at = k.slots[i].at.Add(inSeconds(min(by, ages)))
		}
	case by < 0: // the store has lost what it knew
		k.reported = moved
		for i, b := range k.slots {
			if b.at.Sub(now) > horizon {
				k.slots = k.slots[:i]
				break
			}
		}
	}
	k.moved = moved
}

// add takes the slots of an answer. Those whose time has come before may be used now.
func (k *sharing) add(now time.Time, s Slots, rate float64) {
	gap := inSeconds(min(1/rate, ages))
	at, n := now.Add(inSeconds(min(max(s.Wait, -ages), ages))), s.N
	if early := now.Sub(at); early > 0 && gap > 0 {
		past := min(math.Floor(float64(early)/float64(gap))+1, n)
		k.slots = append(k.slots, batch{now, 0, past})
		at, n = at.Add(times(gap, past)), n-past
	}
	if n > tiny {
		k.slots = append(k.slots, batch{at, gap, n})
	}
	k.got = s.N
	k.flow = math.Inf(1) // more slots of before are free
	if until := s.Wait + s.N/rate; until > 0 {
		k.flow = s.N / until
	}
}
