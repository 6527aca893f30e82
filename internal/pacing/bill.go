package pacing

import "sync"

// Bill is what the attempts of a call cost. A nil Bill says nothing. It is safe for concurrent use.
type Bill struct {
	Cost float64 // of each, as far as is known before; it does not change

	mu   sync.Mutex
	last float64 // what the latest of which that was said has cost
	said int     // how often that was said
}

// Say notes what an attempt has cost.
func (b *Bill) Say(cost float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last, b.said = cost, b.said+1
}

// Said returns how often that was said, and what was said last.
func (b *Bill) Said() (times int, cost float64) {
	if b == nil {
		return 0, 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.said, b.last
}
