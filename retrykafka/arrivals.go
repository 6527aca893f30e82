package retrykafka

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// arrivals are the records of a partition that have arrived and are not finished. While there are many
// the partition pauses. A poll adds them, and the worker drops them.
type arrivals struct {
	place
	grown chan struct{} // has an element if there are new ones

	mu      sync.Mutex
	records []*kgo.Record // the first is under way
	paused  bool
}

// mostArrived is at how many the partition pauses, and twice at how many it goes on. A fetch may bring more.
const mostArrived = 500

func (a *arrivals) add(rs []*kgo.Record) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.records) == 0 {
		a.records = nil // what was finished is garbage
	}
	a.records = append(a.records, rs...)
	if len(a.records) >= mostArrived && !a.paused {
		a.paused = true
		a.client.PauseFetchPartitions(a.parts())
	}
	select {
	case a.grown <- struct{}{}:
	default:
	}
}

// more waits for new records.
func (a *arrivals) more(ctx context.Context) error {
	select {
	case <-a.grown:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// first returns the first record, or nil.
func (a *arrivals) first() *kgo.Record {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.records) == 0 {
		return nil
	}
	return a.records[0]
}

// drop removes the first record.
func (a *arrivals) drop() {
	a.mu.Lock()
	a.records[0] = nil
	a.records = a.records[1:]
	a.mu.Unlock()
	a.resume(mostArrived / 2)
}

// resume has the client fetch the partition again if there are so many records or fewer.
func (a *arrivals) resume(most int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.paused && len(a.records) <= most {
		a.paused = false
		a.client.ResumeFetchPartitions(a.parts())
	}
}
