package guards

import (
	"context"
	"slices"
	"sync"

	"github.com/goretry/retry"
	"github.com/goretry/retry/limit"
)

// Queue is a limit whose attempts wait for a place, first come, first served. A hedge does
// not wait: it is refused.
type Queue struct {
	mu    sync.Mutex
	free  int
	turns []chan struct{} // of those that wait; closed when one gets a place
}

func NewQueue(places int) *Queue { return &Queue{free: places} }

func (q *Queue) Enter(_ context.Context, e retry.Entry) (retry.Pass, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.free > 0 {
		q.free--
		return retry.Pass{}, nil
	}
	if e.Hedge {
		return retry.Pass{}, limit.ErrLimited
	}
	turn := make(chan struct{})
	q.turns = append(q.turns, turn)
	return retry.Pass{Wake: turn, Held: turn}, nil
}

func (q *Queue) Leave(p retry.Pass, _ retry.Exit) {
	q.mu.Lock()
	defer q.mu.Unlock()
	turn, _ := p.Held.(chan struct{})
	if i := slices.Index(q.turns, turn); i >= 0 { // it has waited for nothing
		q.turns = slices.Delete(q.turns, i, i+1)
		return
	}
	if len(q.turns) == 0 {
		q.free++
		return
	}
	close(q.turns[0]) // the place goes to the next
	q.turns = slices.Delete(q.turns, 0, 1)
}
