// Package timers sleeps on the system's clock, and sets alarms on it. It keeps its timers for the
// next time.
package timers

import (
	"context"
	"math"
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

// Ringer is what an [Alarm] calls, on a goroutine of its own.
type Ringer interface{ Ring(a *Alarm) }

// Alarm rings once, unless it is stopped. One from the pool allocates nothing. Whoever has set it
// owns it until Stop has returned true, or Ring has called Free.
type Alarm struct {
	ringer Ringer
	stop   func() bool
	timer  *time.Timer        // nil for one that rings when a context ends
	cancel context.CancelFunc // of that
}

var alarms sync.Pool // as pool

// SetAlarm has r ring in d, on the system's clock.
func SetAlarm(d time.Duration, r Ringer) *Alarm {
	var a *Alarm
	if !inBubble() {
		a, _ = alarms.Get().(*Alarm)
	}
	if a == nil {
		a = new(Alarm)
		a.timer = time.AfterFunc(math.MaxInt64, a.ring)
		a.stop = a.timer.Stop
	}
	a.ringer = r
	a.timer.Reset(d)
	return a
}

// SetAlarmOn has r ring when ctx ends, which has a deadline on some clock. cancel frees ctx.
func SetAlarmOn(ctx context.Context, cancel context.CancelFunc, r Ringer) *Alarm {
	a := &Alarm{ringer: r, cancel: cancel}
	a.stop = context.AfterFunc(ctx, a.ring)
	return a
}

func (a *Alarm) ring() { a.ringer.Ring(a) }

// Stop reports whether it has kept a from ringing, and frees a if it has.
func (a *Alarm) Stop() bool {
	if a.ringer == nil {
		panic("timers: Stop of an alarm that was freed")
	}
	stopped := a.stop()
	if stopped {
		a.Free()
	}
	return stopped
}

// Free gives back what an alarm that has rung holds. Nobody may stop it any more.
func (a *Alarm) Free() {
	a.ringer = nil
	switch {
	case a.timer == nil:
		a.cancel()
	case !inBubble():
		alarms.Put(a)
	}
}

// inBubble reports whether the caller runs in a synctest bubble: there [time.Now]
// carries no monotonic reading, which Round(0) would strip. That is so in Go 1.26, and
// undocumented; clockx's TestTimersDoNotCrossABubblesBorder notices if it changes.
func inBubble() bool {
	now := time.Now()
	return now == now.Round(0)
}
