package retry

import (
	"context"
	"errors"
	"time"

	"github.com/goretry/retry/fleetpace"
	"github.com/goretry/retry/internal/pacing"
)

var errShared = errors.New("retry: the Pace is shared already")

// Share lets p take its turns with all processes that share f, until ctx ends. It returns
// ctx's error. Call it on a goroutine of its own, for as long as the process runs:
//
//	go model.Share(ctx, &retryredis.Fleet{Client: client, Key: "openai/gpt/key1"})
//
// While the server throttles nothing, p is open, and nothing is exchanged. The first throttled
// attempt of any process makes all of them count for a second; then whoever waits takes a
// number, first come, first served across the fleet. No attempt waits for the store, but
// those of a new process, for half a second at most. While f does not answer within that
// time p goes on alone, as if it were not shared, and asks again every one to three seconds.
//
// Share returns an error at once if p or f is nil, or p is shared already.
func (p *Pace) Share(ctx context.Context, f fleetpace.Fleet) error {
	if p == nil || f == nil {
		return errors.New("retry: Share needs a Pace and a Fleet")
	}
	tell := make(chan struct{}, 1)
	if !p.join(tell) {
		return errShared
	}
	defer p.part()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	news := f.News(ctx)
	for ctx.Err() == nil {
		r, due, next := p.report()
		if due {
			_ = p.clock().Sleep(ctx, p.exchange(ctx, f, r))
			continue
		}
		limit, cancel := p.clock().WithTimeoutCause(ctx, next, nil)
		select {
		case <-limit.Done():
		case <-tell:
		case _, more := <-news:
			if !more {
				news = nil
			}
			p.hear()
		}
		cancel()
	}
	return ctx.Err()
}

// Shared reports whether p takes its turns with a fleet: Share runs, and the fleet has answered
// the last time. since is when that began. If Share runs and p goes on alone, because the fleet
// does not answer, Shared returns false, and since when. If Share does not run or p is nil, since
// is the zero time. It is of the same clock as p.
func (p *Pace) Shared() (shared bool, since time.Time) {
	if p == nil {
		return false, time.Time{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pacer.Shared()
}

// join makes p a member of a fleet, unless it is one already.
func (p *Pace) join(tell chan struct{}) bool {
	now := p.clock().Now()
	p.mu.Lock()
	defer p.unlock()
	if p.pacer.Joined() {
		return false
	}
	p.tell = tell
	p.pacer.Join(now)
	return true
}

// part ends p's part in a fleet.
func (p *Pace) part() {
	now := p.clock().Now()
	p.mu.Lock()
	defer p.unlock()
	p.tell = nil
	p.chance()
	p.pacer.Part(now)
	p.wakeFirst()
}

// report returns what the fleet is to be told, if anything is, or when to look again.
func (p *Pace) report() (r fleetpace.Report, due bool, next time.Duration) {
	now := p.clock().Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pacer.Report(now)
}

// hear notes that there is news.
func (p *Pace) hear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pacer.News()
}

// exchange tells the fleet r, and returns how long to wait before the next exchange.
func (p *Pace) exchange(ctx context.Context, f fleetpace.Fleet, r fleetpace.Report) time.Duration {
	limit, cancel := p.clock().WithTimeoutCause(ctx, pacing.Patience, nil)
	a, err := f.Exchange(limit, r)
	cancel()
	if err == nil {
		err = a.Check(r)
	}
	now := p.clock().Now()
	p.mu.Lock()
	defer p.unlock()
	defer p.wakeFirst()
	if err != nil {
		p.pacer.Alone(now)
		return p.pacer.Probe()
	}
	for _, t := range p.pacer.Answered(now, r, a) {
		wake(t)
	}
	return pacing.Gap
}
