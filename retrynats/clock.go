package retrynats

import (
	"bytes"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// serverClock knows the server's clock by the times of entries. One that this process has just
// written tells it. Any other is at least as old as it seems.
type serverClock struct {
	mu        sync.Mutex
	ahead     time.Duration // by which this process's time is ahead, at most
	learned   time.Time     // when that was known; zero: no entry has been read
	confirmed time.Time     // when an entry of this process was read

	revision uint64 // the entry that this process wrote last,
	text     []byte // since a bucket that is made anew counts from 1 again,
	written  time.Time
}

const (
	drift = 10_000      // clocks go apart by one part of so many at most
	fresh = time.Minute // for which the time of an own entry counts
)

var began = time.Now()

// here returns this process's time, which no setting of its clock changes.
func here() time.Time { return began.Add(time.Since(began)) }

// wrote notes an entry, and reports whether the clock is known well enough without its time.
func (c *serverClock) wrote(revision uint64, text []byte) (known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revision, c.text, c.written = revision, text, here()
	return c.written.Sub(c.confirmed) < fresh
}

// read learns from an entry that was just read.
func (c *serverClock) read(e jetstream.KeyValueEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := here()
	then, own := now, e.Revision() == c.revision && bytes.Equal(e.Value(), c.text)
	if own {
		then, c.confirmed = c.written, now
	}
	ahead := then.Sub(e.Created())
	if c.learned.IsZero() {
		c.ahead, c.learned = ahead, now
		return
	}
	behind := ahead - c.ahead - now.Sub(c.learned)/drift
	if behind < 0 || own && behind > time.Second { // or the server's clock was put back
		c.ahead, c.learned = ahead, now
	}
}

// now returns the time of the server, or a little before it. If there has been no entry it is this
// process's, which will do for the first.
func (c *serverClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := here()
	if c.learned.IsZero() {
		return now
	}
	return now.Add(-c.ahead - now.Sub(c.learned)/drift)
}
