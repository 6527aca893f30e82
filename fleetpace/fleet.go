package fleetpace

import (
	"context"
	"errors"
	"math"
)

// Fleet is where the processes meet: a key in a store, with one [State] for one quota. It must
// be safe for concurrent use.
type Fleet interface {
	// Exchange applies r to the state, as one atomic step, and returns the answer. An error
	// means that the store is away. It returns when ctx ends: whoever waits for a turn waits for it.
	Exchange(ctx context.Context, r Report) (Answer, error)

	// News returns a channel that gets an element when all are to exchange soon, until ctx
	// ends. Some may be lost: each process exchanges now and then anyway.
	News(ctx context.Context) <-chan struct{}
}

// Mode is what a fleet does.
type Mode uint8

const (
	Open     Mode = iota // nobody waits, and nothing is counted
	Counting             // first attempts start, and all count
	Held                 // all wait, and the rate is not known
	Paced                // whoever comes takes a number
)

// Report is what a process tells, and what it asks for. Sizes are costs as multiples of
// Answer.Mean; an attempt without a cost has the size 1. All times are in seconds.
type Report struct {
	Epoch, Round float64 // of the answer that the process goes by
	Rate         float64 // of that answer; a state that was lost begins with it. 0: too old, or there was none

	Counted bool    // it has counted for Answer.Count seconds: Started and Hits are of that time
	Started float64 // attempts since the last report
	Hits    float64 // throttled attempts since the last report
	Fresh   float64 // of them, those that had started in Round
	Hint    float64 // the longest wait for which the server has asked
	Hold    float64 // for so long nobody is to start: a server's word without a refusal

	Returned float64 // size of turns of Epoch that nobody needs
	Take     float64 // size of turns wanted, 0: none
	Patience float64 // for how long they may wait
	Costs    float64 // sum of the costs of attempts that have come since the last report
	Priced   float64 // how many had one
}

// Answer is what a process goes by until the next one.
type Answer struct {
	Epoch       float64 // differs if the state was lost
	Round       float64 // counts the cuts
	Mode        Mode
	Rate        float64 // attempts of average cost that start in a second, 0 unless Paced
	Speed       float64 // by which head grows in a second: more, if turns were given back
	Head, Tail  float64 // now
	Hold        float64 // seconds for which head stands still
	Count       float64 // Counting: seconds for which to count
	First, Size float64 // the turns given are (First, First+Size]; one has come when head is at its end
	Mean        float64 // average cost; 0 before the first
	News        bool    // all are to exchange soon: the store tells them
}

var errAnswer = errors.New("fleetpace: not an answer of the law")

// Check returns an error unless a can be the answer to r. Whoever writes the key of a store
// can stop the fleet, but not make it wait for ever or give away turns that nobody wants.
func (a Answer) Check(r Report) error {
	for _, x := range []float64{a.Epoch, a.Round, a.Rate, a.Speed, a.Head, a.Tail, a.Hold, a.Count, a.First, a.Size, a.Mean} {
		if math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
			return errAnswer
		}
	}
	switch {
	case a.Epoch == 0, a.Mode > Paced, a.Hold > maxHold*(1+spread), a.Count > window,
		a.Mode == Paced && (a.Rate < lowest || a.Rate > highest || a.Speed < a.Rate || a.Speed > (skip+1e-6)*a.Rate), a.Size > r.Take, a.First+a.Size > a.Tail+1e-6*a.Tail+1e-6:
		return errAnswer
	}
	return nil
}
