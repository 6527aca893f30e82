package storm

import "github.com/goretry/retry"

// Layers has a call pass through layers that each retry, down to a server that
// always fails: k attempts in each of n layers are kⁿ requests.
//
// Zero values stand for the experiment of the documentation.
type Layers struct {
	Attempts []int // of each layer; nil: 3 and 4
	Depths   []int // how many layers; nil: 1, 2 and 3
}

// LayersRow is the result for one stack of layers.
type LayersRow struct {
	Attempts int  `json:"attempts"`
	Depth    int  `json:"depth"`
	Guarded  bool `json:"guarded"` // the layers have Classify: retry.AlreadyRetried
	Calls    int  `json:"calls"`   // requests that reach the server
}

// Run returns two rows for each stack, one of them guarded.
func (x Layers) Run() []LayersRow {
	if x.Attempts == nil {
		x.Attempts = []int{3, 4}
	}
	if x.Depths == nil {
		x.Depths = []int{1, 2, 3}
	}
	var rows []LayersRow
	for _, attempts := range x.Attempts {
		for _, depth := range x.Depths {
			for _, guarded := range []bool{false, true} {
				s := stack{policy: retry.Policy{MaxAttempts: attempts}}
				if guarded {
					s.policy.Classify = retry.AlreadyRetried
				}
				_ = s.call(depth)
				rows = append(rows, LayersRow{attempts, depth, guarded, s.calls})
			}
		}
	}
	return rows
}

type stack struct {
	policy retry.Policy
	calls  int
}

// call calls through the layers from the one of that depth down. Waits change
// nothing here, so no time passes.
func (s *stack) call(depth int) error {
	if depth <= 0 {
		s.calls++
		return errFailed
	}
	for loop := s.policy.Start(epoch); ; {
		if _, ok := loop.Next(epoch, s.call(depth-1)); !ok {
			return loop.Err()
		}
	}
}
