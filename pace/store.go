package pace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/goretry/retry/internal/pacing"
)

// A Store is where processes that share a quota meet, for [Pace.Share]: one key of a Redis, for
// instance. It keeps a [State], and lets nobody else in while it applies [State.Reserve].
type Store interface {
	// Reserve applies a to the State of the quota, at the store's own time, as one step that no
	// other can come between. An error means that nothing is known to be reserved. It returns when ctx ends: until then
	// no attempt of the process starts.
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
	Held  float64 // seconds for which a hold delays all slots from now on; less than Ask.Hold: it is not kept, since others pass
}

// State is what a [Store] keeps of a quota. The zero State is that of a quota of which nothing is known yet, or any more: a
// process that meets it waits for nobody. See [State.Keep] for when it may be lost. States can be compared.
type State struct{ state pacing.State }

// Keep returns for how long a store keeps s at least, from when a was applied last. Then it says no more than the zero State.
func (s *State) Keep(a Ask) time.Duration { return s.state.Keep(pacing.Ask(a)) }

// Reserve applies an Ask at now, a time in seconds since 1970, and returns the answer. It reports whether that has held all
// processes, so that they are to have news. An Ask of numbers that make no sense is an error, and changes nothing.
func (s *State) Reserve(now float64, a Ask) (answer Slots, held bool, err error) {
	if err := a.check(); err != nil {
		return Slots{}, false, err
	}
	moved := s.state.Moved
	answer = Slots(s.state.Reserve(now, pacing.Ask(a)))
	return answer, answer.Moved > moved, nil
}

// numbers are those of a State as they are stored: seconds since 1970, and slots.
type numbers struct {
	Tat    float64 `json:"tat"`    // when the last slot is that was given: the theoretical arrival time of GCRA
	At     float64 `json:"at"`     // when an Ask was last applied
	Moved  float64 `json:"moved"`  // sum of the delays by holds, less the time when the State began
	Until  float64 `json:"until"`  // when the last hold ends
	Passed float64 `json:"passed"` // when an attempt of any process passed last; 0: not known
	Ahead  float64 `json:"ahead"`  // before which no more slots are given ahead of those that were given
	Free   float64 `json:"free"`   // slots that were given back: they lie evenly between
	Freed  float64 `json:"freed"`  // this time and Tat
}

// MarshalJSON returns s as an object of numbers.
func (s State) MarshalJSON() ([]byte, error) { return json.Marshal(numbers(s.state)) }

var errNoState = errors.New("pace: this is no State that MarshalJSON has returned")

// UnmarshalJSON reads what MarshalJSON has returned. All else is an error.
func (s *State) UnmarshalJSON(text []byte) error {
	var given map[string]float64
	var read numbers
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if json.Unmarshal(text, &given) != nil || len(given) != 8 || d.Decode(&read) != nil {
		return errNoState
	}
	for _, x := range given {
		if math.Abs(x) > 1e12 {
			return errNoState
		}
	}
	s.state = pacing.State(read)
	return nil
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
