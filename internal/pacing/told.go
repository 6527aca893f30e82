package pacing

import "time"

// told is a quota that is known. In one process it is GCRA: the debt of a Pacer is that of the
// attempts that have started. It falls by the rate, to the burst below zero.
type told struct {
	rate, burst float64 // units of cost in a second, and how many may start at once after a pause
	stated      bool    // by the server: the Pacer learns if that turns out to be wrong

	second      int64      // the one underway
	ended       [2]float64 // attempts of it, and of the one before,
	refused     [2]float64 // and of these those that were throttled
	passedSince bool       // an attempt has passed since this process has held all

	minute, wasted float64 // attempts, and of them those that were throttled, which fade in a minute

	sharing
}

const (
	fewest      = 4                // attempts of two seconds, of which half must be throttled before the server's wait holds all
	maxToldHold = 75 * time.Second // that such a hold may last
	enoughEnded = 20               // attempts, before which it is not known which part is throttled
	isWrong     = .05              // part of the attempts from which on the number of the quota seems to be wrong
)

// tiny is less than any part of a unit that matters: numbers of units are sums.
const tiny = 1e-9

// Tell lets p keep a quota that is known: so many units of cost in a second, and so many at once
// after a pause, at least one. A unit is an attempt without a cost.
func (p *Pacer[T]) Tell(now time.Time, rate, burst float64) {
	p.advance(now)
	burst = max(burst, 1)
	if p.told == nil {
		p.told = new(told)
		p.law.open() // a hold goes on
		p.renew()
		p.debt = -burst
	}
	p.told.rate, p.told.burst = rate, burst
}

// State lets p keep a quota that the server states, and of which so much is left, unless p was told
// one by others. Those that wait already do so by what p has learned: then State changes nothing. If
// the quota turns out to be wrong, since others use it too, p learns from then on.
func (p *Pacer[T]) State(now time.Time, rate, burst, left float64) {
	if p.doubts || p.told == nil && p.Len() > 0 || p.told != nil && !p.told.stated {
		return
	}
	p.Tell(now, rate, burst)
	p.told.stated = true
	p.debt = max(p.debt, -left)
}

// doubt lets p learn, from the rate on that passed in the last two seconds.
func (p *Pacer[T]) doubt() {
	k := p.told
	p.told, p.doubts = nil, true
	p.law.begin(p.now, (k.ended[0]+k.ended[1]-k.refused[0]-k.refused[1])/2)
	p.renew()
}

// Quota returns the units in a second that p was told, 0 if it learns, which part of the attempts of
// the last minute was throttled all the same, and what the quota seems to be.
func (p *Pacer[T]) Quota(now time.Time) (told, throttled, seems float64) {
	k := p.told
	if k == nil {
		return 0, 0, 0
	}
	p.advance(now)
	throttled, seems = k.throttled(), k.rate
	if throttled >= isWrong {
		seems *= 1 - throttled
	}
	return k.rate, throttled, seems
}

// throttled returns the part of the attempts of the last minute that was throttled: 0 if these are
// too few to know it.
func (k *told) throttled() float64 {
	if k.minute < enoughEnded {
		return 0
	}
	return k.wasted / k.minute
}

// pays returns the units that may start in a second in this process without slots of a store, and
// at once.
func (k *told) pays() (rate, burst float64) {
	if k.joined {
		return k.own, 1
	}
	return k.rate, k.burst
}

// wait returns how long an attempt of a size has to wait after so much debt. One that is larger
// than the burst starts when the burst is whole.
func (k *told) wait(debt, size float64) time.Duration {
	rate, burst := k.pays()
	if n := debt + min(size, burst); n > tiny {
		return 1 + inSeconds(min(n/rate, 1e9))
	}
	return 0
}

// Ended notes that an attempt has ended that was sent, and was not throttled. It changes nothing
// for a quota that is learned.
func (p *Pacer[T]) Ended(now time.Time) {
	if k := p.told; k != nil {
		k.tick(now)
		k.ended[0]++
		k.passedSince = true
	}
}

// throttledTold is Throttled for a quota that is told. One attempt that is throttled says nothing
// about it: its own run waits. If half of them are, the server's wait is that of all.
func (p *Pacer[T]) throttledTold(hint time.Duration) {
	k := p.told
	k.tick(p.now)
	k.ended[0]++
	k.refused[0]++
	if k.stated && k.throttled() >= isWrong {
		p.doubt()
		return
	}
	ended, refused := k.ended[0]+k.ended[1], k.refused[0]+k.refused[1]
	if hint > 0 && ended >= fewest && 2*refused >= ended {
		p.holdTold(hint, k.reports())
	}
}

// holdTold holds all who share the quota, or this process alone.
func (p *Pacer[T]) holdTold(d time.Duration, all bool) {
	d = min(d, maxToldHold)
	if all {
		p.told.toReport = max(p.told.toReport, d.Seconds())
	} else {
		p.hold = later(p.hold, p.now.Add(d))
	}
}

// tick begins the second of now, if it is a new one.
func (k *told) tick(now time.Time) {
	second := now.Unix()
	since := second - k.second
	if since == 0 {
		return
	}
	k.adapt(float64(max(since, 1)))
	for ; since > 0 && k.minute > tiny; since-- {
		k.minute, k.wasted = k.minute*59/60, k.wasted*59/60
	}
	k.minute, k.wasted = k.minute+k.ended[0], k.wasted+k.refused[0]
	k.ended[1], k.refused[1] = k.ended[0], k.refused[0]
	if second != k.second+1 {
		k.ended[1], k.refused[1] = 0, 0
	}
	k.second, k.ended[0], k.refused[0] = second, 0, 0
}
