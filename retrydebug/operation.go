package retrydebug

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
)

const (
	// names is how many names are distinguished, for operations and for each kind of
	// gauge. longest is how many bytes each of them may have.
	names   = 256
	longest = 128

	// texts is how many bytes are shown of an error.
	texts = 256
)

// operation is what the runs of one name have in common.
type operation struct {
	name  string // as it is shown
	index int    // in shard.tallies
	other bool   // for all names beyond the limit

	mu     sync.Mutex
	used   bool // something was counted
	cells  cells
	last   lastError
	causes []*cause
}

// lastError is what the latest attempt that failed has failed with.
type lastError struct {
	at      time.Duration // since the Recorder's first use
	attempt int
	class   retry.Class
	text    string
}

// latest makes l the later of both.
func (l *lastError) latest(o lastError) {
	if o.attempt > 0 && (l.attempt == 0 || o.at >= l.at) {
		*l = o
	}
}

// add adds what a shard has counted in a second.
func (o *operation) add(second int64, t *tally) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.used = true
	o.cells.add(second, &t.counts)
	o.last.latest(t.last)
	for i := range t.causes {
		o.noteCause(second, &t.causes[i])
	}
}

// operations are those that there have been. Reading takes no lock.
type operations struct {
	mu    sync.Mutex                            // of writers
	named atomic.Pointer[map[string]*operation] // replaced, never written to
	other operation
}

func (o *operations) init() {
	o.other.name, o.other.index, o.other.other = "other", names, true
	o.named.Store(&map[string]*operation{})
}

// key returns the part of a name that distinguishes it. It is one byte longer than
// what is shown, so that a cut name differs from a name that is not cut.
func key(name string) string { return name[:min(len(name), longest+1)] }

// find returns the operation of a name.
func (o *operations) find(name string) *operation {
	k := key(name)
	named := *o.named.Load()
	if op, ok := named[k]; ok {
		return op
	}
	if len(named) == names {
		return &o.other
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	named = *o.named.Load() // maybe more by now
	if op, ok := named[k]; ok {
		return op
	}
	if len(named) == names {
		return &o.other
	}
	op := &operation{name: line(name, longest), index: len(named)}
	grown := make(map[string]*operation, len(named)+1)
	maps.Copy(grown, named)
	grown[strings.Clone(k)] = op
	o.named.Store(&grown)
	return op
}

// all returns the operations by their index, nil for those that do not exist.
func (o *operations) all() (all [names + 1]*operation) {
	for _, op := range *o.named.Load() {
		all[op.index] = op
	}
	all[names] = &o.other
	return all
}
