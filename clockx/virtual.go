package clockx

import (
	"context"
	"math"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"
)

// Virtual is a clock for one goroutine, on which Sleep returns at once and advances
// the time. Deadlines and timers that fall inside a sleep fire in order, each at its
// own instant, on the goroutine that sleeps. Time never goes back, and stops at the
// end of what a [time.Duration] holds, 292 years after the start.
//
// Several goroutines may use it without races, but each Sleep then advances the time
// for all. For goroutines that wait for each other use [testing/synctest] and the
// system clock.
//
// Code that blocks on ctx.Done() instead of sleeping on this clock waits for ever,
// since nothing else advances the time.
type Virtual struct {
	start   time.Time
	now     atomic.Int64 // nanoseconds after start
	pending atomic.Int64 // len(events), readable without the mutex

	mu     sync.Mutex
	events []*event // by time, then by age
}

type event struct {
	at   int64
	fire func()
}

// NewVirtual returns a virtual clock that shows start.
func NewVirtual(start time.Time) *Virtual {
	return &Virtual{start: start.Round(0)} // its monotonic reading belongs to another clock
}

// Now returns the virtual time.
func (v *Virtual) Now() time.Time { return v.start.Add(time.Duration(v.now.Load())) }

// Sleep advances the clock by d and returns nil, or advances it to the instant at
// which ctx ended and returns ctx.Err(). If ctx is already done, the clock does not
// move.
func (v *Virtual) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	end := v.after(d)
	for v.pending.Load() > 0 && v.fireNext(end) {
		if ctx.Err() != nil {
			end = min(end, v.now.Load()) // the clock does not move, but what else is due now still fires
		}
	}
	v.forward(end)
	return ctx.Err()
}

// Advance moves the clock by d, and fires what is due on the way. A negative d counts
// as zero.
func (v *Virtual) Advance(d time.Duration) {
	_ = v.Sleep(context.Background(), d)
}

// AfterFunc calls f when the clock has advanced by d, on the goroutine that advances
// it. If d is zero or negative, it calls f at once. stop reports whether it prevented
// the call.
func (v *Virtual) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	if d <= 0 {
		f()
		return func() bool { return false }
	}
	e := v.schedule(d, f)
	return func() bool { return v.unschedule(e) }
}

// WithTimeoutCause is [context.WithTimeoutCause] on this clock. The clock alone
// decides when the deadline has passed: an earlier deadline of ctx on another clock
// stays in force, but never replaces it. If ctx is cancelable and you derive a context
// from the new one, the Err of that context is Canceled, not DeadlineExceeded, when
// the deadline passes. [context.Cause] returns cause for all of them.
func (v *Virtual) WithTimeoutCause(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	child, expire, cancel := NewDeadline(ctx, v.Now().Add(d), cause)
	if d <= 0 {
		expire()
		return child, cancel
	}
	e := v.schedule(d, expire)
	return child, func() { v.unschedule(e); cancel() }
}

// Pending returns how many deadlines and timers have neither fired nor been
// stopped: 0 when nothing leaks.
func (v *Virtual) Pending() int { return int(v.pending.Load()) }

// after returns the instant d from now, at most the last one.
func (v *Virtual) after(d time.Duration) int64 {
	now := v.now.Load()
	if int64(d) > math.MaxInt64-now {
		return math.MaxInt64
	}
	return now + int64(d)
}

// forward moves the time to end, unless it is there already.
func (v *Virtual) forward(end int64) {
	for now := v.now.Load(); now < end; now = v.now.Load() {
		v.now.CompareAndSwap(now, end) // or another goroutine was quicker
	}
}

// fireNext moves to the first event up to end and fires it, without the mutex:
// what it calls may use the clock.
func (v *Virtual) fireNext(end int64) bool {
	v.mu.Lock()
	if len(v.events) == 0 || v.events[0].at > end {
		v.mu.Unlock()
		return false
	}
	e := v.events[0]
	v.events = slices.Delete(v.events, 0, 1)
	v.pending.Add(-1)
	v.forward(e.at)
	v.mu.Unlock()
	e.fire()
	return true
}

func (v *Virtual) schedule(d time.Duration, fire func()) *event {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := &event{at: v.after(d), fire: fire}
	// Behind those of the same instant: they are older.
	i := sort.Search(len(v.events), func(i int) bool { return v.events[i].at > e.at })
	v.events = slices.Insert(v.events, i, e)
	v.pending.Add(1)
	return e
}

func (v *Virtual) unschedule(e *event) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	i := slices.Index(v.events, e)
	if i < 0 {
		return false
	}
	v.events = slices.Delete(v.events, i, i+1)
	v.pending.Add(-1)
	return true
}
