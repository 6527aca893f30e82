// Package timers sleeps on the system's clock. It keeps its timers for the next
// sleep.
package timers

import (
	"sync"
	"time"
)

// Sleep waits for d, or until done is closed if that comes first. A nil done is never
// closed. If d is zero or negative, Sleep returns at once. It calls no code of the
// caller, so nothing can panic.
func Sleep(done <-chan struct{}, d time.Duration) {
	if d <= 0 {
		return
	}
	if done == nil {
		time.Sleep(d)
		return
	}
	t, fired := Start(d), false
	select {
	case <-t.C:
		fired = true
	case <-done:
	}
	Free(t, fired)
}

// pool keeps stopped timers for the next Sleep: a timer and its channel are
// three allocations, more than all else a retry needs. Since Go 1.23 Reset needs
// no drained channel. Nothing of a synctest bubble may get in here, or out of
// here into a bubble: resetting a timer across that border kills the program.
var pool sync.Pool

// Start returns a running timer, from the pool where that is allowed. Who has waited for it
// calls Free. Sleep does both: this is for those who must not have its frame below them.
func Start(d time.Duration) *time.Timer {
	if !inBubble() {
		if t, ok := pool.Get().(*time.Timer); ok {
			t.Reset(d)
			return t
		}
	}
	return time.NewTimer(d)
}

// Free stops t, and keeps it for another Start. fired says that its tick was received.
func Free(t *time.Timer, fired bool) {
	if !fired && !t.Stop() {
		return // under GODEBUG=asynctimerchan=1 it may still hold a tick: it is not used again
	}
	if !inBubble() {
		pool.Put(t)
	}
}

// inBubble reports whether the caller runs in a synctest bubble: there [time.Now]
// carries no monotonic reading, which Round(0) would strip. That is so in Go 1.26, and
// undocumented; clockx's TestTimersDoNotCrossABubblesBorder notices if it changes.
func inBubble() bool {
	now := time.Now()
	return now == now.Round(0)
}
