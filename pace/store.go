package pace

import (
	"context"
	"errors"
	"math"
	"time"
)

// A Store is where processes that share a quota meet, for [Pace.Share]: one key of a Redis, for
// instance. It keeps a [State], and lets nobody else in while it applies [State.Reserve].
type Store interface {
	// Reserve applies a to the State of the quota, at the store's own time, as one step that no
	// other can come between. An error means that nothing is known to be reserved.
	Reserve(ctx context.Context, a Ask) (Slots, error)

	// News returns a channel that gets an element when a process has held the quota: when
	// Slots.Moved has grown. Some may be lost, also all: nil is a Store without news. When ctx
	// ends, so does the subscription, and then the channel is closed: Share waits for that, for
	// half a second, so that what it uses can be closed after Share.
	News(ctx context.Context) <-chan struct{}
}

// Ask is what a process asks of a [Store].
type Ask struct {
	Rate     float64 // slots per second that the quota allows
	Burst    float64 // slots that may be used at once after a pause, at least 1
	Want     float64 // slots that its callers need
	Least    float64 // of them, what it needs before any of them can start; 0 if one can already
	Unused   float64 // slots of before that it gives back
	Hold     float64 // seconds for which the server asks all to wait, 0 if it does not
	Patience float64 // seconds for which the most patient of its callers waits
}

// Slots are the answer of a [Store]. The slots come one by one: the first in Wait seconds, and each
// of the others 1/Rate seconds after the one before.
type Slots struct {
	N     float64 // how many there are; 0 if Wait is longer than the patience, or if none is free
	Wait  float64 // seconds until the first one, negative if it has come before; if there is none, until Least would have come
	Moved float64 // grows by the seconds by which holds delay all slots. Less than before: the State was lost, and began anew
}

// State is what a [Store] keeps of a quota: four numbers of seconds. The zero State is that of a
// quota of which nothing is known yet, or any more: a process that meets it waits for nobody.
type State struct {
	Tat   float64 `json:"tat"`   // when the last slot is that was given, by the store's clock: the theoretical arrival time of GCRA
	At    float64 `json:"at"`    // when Reserve was last applied
	Moved float64 `json:"moved"` // sum of the delays by holds, less the time when the State began
	Until float64 `json:"until"` // when the last hold ends
}

const (
	horizon  = .5   // seconds: a process may take half of the slots that are free within it
	longHold = 75   // seconds that a hold may last
	still    = 5    // seconds: a clock that was set back by so much stands still instead
	farAhead = 3600 // seconds without a step after which the clock counts as set
	kept     = 600  // seconds ahead that a slot may be after the clock was set
)

// Forget is how long a store keeps a State that nobody uses: it says then no more than the zero one.
const Forget = kept * time.Second

// Reserve applies an Ask at now, a time in seconds since 1970, and returns the answer. An Ask of
// numbers that make no sense is an error, and changes nothing. The formula is GCRA's (ITU-T I.371),
// with slots that are given before their time.
func (s *State) Reserve(now float64, a Ask) (Slots, error) {
	if err := a.check(); err != nil {
		return Slots{}, err
	}
	gap := 1 / a.Rate
	bucket := a.Burst * gap
	switch {
	case s.At == 0: // nothing is known
		*s = State{Tat: now - bucket, Moved: -now}
	case now < s.At-still || now > s.At+farAhead: // the clock was set: what lies ahead keeps its distance
		s.Tat = now + min(max(s.Tat-s.At, -bucket), kept)
		s.Until += now - s.At
	default: // clocks that differ a little must not make time pass twice
		now = max(now, s.At)
	}
	s.At = now
	s.Tat = max(s.Tat-a.Unused*gap, now-bucket)
	if until := now + min(a.Hold, longHold); until > s.Until && a.Hold > 0 { // the slots that were given come later too
		by := until - max(s.Until, now)
		s.Tat, s.Moved, s.Until = max(s.Tat, now)+by, s.Moved+by, until
	}
	n := min(a.Want, max(math.Floor((now+horizon-s.Tat)*a.Rate/2), a.Least))
	first, ready := s.Tat+gap, s.Tat+max(a.Least, 1)*gap
	if n > 0 && ready-now > a.Patience {
		n = 0
	}
	if n == 0 {
		return Slots{Wait: max(ready-now, 0), Moved: s.Moved}, nil
	}
	s.Tat += n * gap
	return Slots{N: n, Wait: first - now, Moved: s.Moved}, nil
}

// check returns an error if a makes no sense.
func (a Ask) check() error {
	for _, x := range []float64{a.Rate, a.Burst, a.Want, a.Least, a.Unused, a.Hold, a.Patience} {
		if !(x >= 0 && x <= most) {
			return errors.New("pace: a number of the Ask is negative, too large, or none")
		}
	}
	if a.Rate < 1/most || a.Burst < 1 {
		return errors.New("pace: the Ask is of a quota of nothing")
	}
	return nil
}

// most is the largest number of an Ask.
const most = 1e9
