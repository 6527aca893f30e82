package pace

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/goretry/retry/internal/pacing"
)

// A Store is where processes that share a quota meet, for [Pace.Share]: one key of a Redis, for
// instance. It keeps a [State], and lets nobody else in while it applies [State.Reserve].
type Store interface {
	// Reserve applies a to the State of the quota, at the store's own time, as one step that no
	// other can come between. An error means that nothing is known to be reserved.
	Reserve(ctx context.Context, a Ask) (Slots, error)

	// News returns a channel that gets an element when a process has held the quota: when Slots.Moved has grown. Some
	// may be lost, also all: nil is a Store without news. When ctx ends, so does the subscription, and then the channel
	// is closed: Share waits for that, for half a second, so that what it uses can be closed after Share.
	News(ctx context.Context) <-chan struct{}
}

// Ask is what a process asks of a [Store].
type Ask struct {
	Rate     float64 // slots per second that the quota allows
	Burst    float64 // slots that may be used at once after a pause, at least 1
	Want     float64 // slots that its callers need
	Least    float64 // of them, what it needs before any of them can start; 0 if one can already
	Unused   float64 // slots of before that it gives back
	Spent    float64 // slots that its attempts have used beyond those that it was given; below 0: that they have used less
	Hold     float64 // seconds for which the server asks all to wait, 0 if it does not
	Row      float64 // seconds ago when the row of throttled attempts began for which it wants a Hold
	Passed   float64 // seconds ago when an attempt of it passed last; 0 if none has since the Ask before
	Patience float64 // seconds for which the caller waits that is to start next
}

// Slots are the answer of a [Store]. The slots come one by one: the first in Wait seconds, and each
// of the others 1/Rate seconds after the one before.
type Slots struct {
	N     float64 // how many there are; 0 if Wait is longer than the patience, or if none is free
	Wait  float64 // seconds until the first one, negative if it has come before; if there is none, until Least would have come
	Moved float64 // grows by the seconds by which holds delay all slots. Less than before: the State was lost, and began anew
}

// State is what a [Store] keeps of a quota: numbers of seconds, and of slots. The zero State is that of a quota of which
// nothing is known yet, or any more: a process that meets it waits for nobody. See [State.Keep] for when it may be lost.
type State struct {
	Tat    float64 `json:"tat"`              // when the last slot is that was given, by the store's clock: the theoretical arrival time of GCRA
	At     float64 `json:"at"`               // when Reserve was last applied
	Moved  float64 `json:"moved"`            // sum of the delays by holds, less the time when the State began
	Until  float64 `json:"until"`            // when the last hold ends
	Passed float64 `json:"passed,omitempty"` // when an attempt of any process passed last; 0: not known
	Ahead  float64 `json:"ahead,omitempty"`  // before which no more slots are given ahead of those that were given
	Free   float64 `json:"free,omitempty"`   // slots that were given back: they lie evenly between
	Freed  float64 `json:"freed,omitempty"`  // this time and Tat
}

// Keep returns for how long from At on a store keeps s at least, if a was applied last. Then it says no more than the
// zero State.
func (s *State) Keep(a Ask) time.Duration { return (*pacing.State)(s).Keep(pacing.Ask(a)) }

// Reserve applies an Ask at now, a time in seconds since 1970, and returns the answer. An Ask of
// numbers that make no sense is an error, and changes nothing.
func (s *State) Reserve(now float64, a Ask) (Slots, error) {
	if err := a.check(); err != nil {
		return Slots{}, err
	}
	return Slots((*pacing.State)(s).Reserve(now, pacing.Ask(a))), nil
}

// check returns an error if a makes no sense.
func (a Ask) check() error {
	for _, x := range []float64{a.Rate, a.Burst, a.Want, a.Least, a.Unused, math.Abs(a.Spent), a.Hold, a.Row, a.Passed, a.Patience} {
		if !(x >= 0 && x <= pacing.Most) {
			return errors.New("pace: a number of the Ask is negative, above 1e9, or not a number")
		}
	}
	if a.Rate < 1/pacing.Most || a.Burst < 1 {
		return errors.New("pace: the Ask has a Rate of zero, or a Burst below one")
	}
	return nil
}
