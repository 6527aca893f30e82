package pace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/goretry/retry/internal/pacing"
)

// Share lets p reserve slots of its quota in s, where other processes do so too, until ctx ends. Then it returns ctx's
// error. Call it on a goroutine of its own, and let ctx end when the last call has:
//
//	go model.Share(ctx, &retryredis.Store{Client: client, Key: "provider/model/key"})
//
// What s uses, such as the client, can be closed when Share has returned.
//
// All processes that share a Store must have the same Quota, Per and Burst. A call takes about one
// round trip to the store: less if others wait with it, since who waits is given a time, and sleeps.
// A process is given half of what is free in the next half second at most, so one that dies, or has a thousand
// calls, takes little from the others. Who has less than two seconds until half of its time is over may get a
// turn ahead of those that others have, but at most every fifth. If an attempt would start too late, as far as is known from
// the turns that others wait for in the process, its run ends with [retry.ErrPaced].
//
// What does not wait gets no turn, since the store has to be asked first: no [retry.Policy.Admit], and no hedge. An attempt
// whose cost exceeds Burst waits until its last slot comes, also on an idle quota: without Share it starts once the
// Burst is whole. A process at a store that takes a third of a second and more does not use its whole share.
//
// That an attempt has passed is told to the store with the next request for slots, so a process hears late of one that
// passes while nothing else is to start there.
//
// While s does not answer within half a second, p goes on at the rate of its own starts of the last
// half minute, lowered by each second with a throttled attempt, and asks again every one or two
// seconds: [Pace.Status] says why. Once Share has returned, p goes on so, too.
//
// Share returns an error at once if p has no quota, or a bad one, if p or s is nil, or p is shared already.
func (p *Pace) Share(ctx context.Context, s Store) error {
	if p == nil || s == nil {
		return errors.New("pace: Share needs a Pace and a Store")
	}
	if err := p.join(); err != nil {
		return err
	}
	defer p.part(ctx, s)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	news := s.News(ctx)
	for ctx.Err() == nil {
		if a, due, next := p.ask(); due {
			_ = p.clock().Sleep(ctx, p.exchange(ctx, s, a))
		} else if p.idle(ctx, next, news) {
			news = nil
		}
	}
	p.await(ctx, news)
	return context.Cause(ctx)
}

// idle waits until there may be something to ask, for so long at most. It reports whether news has ended.
func (p *Pace) idle(ctx context.Context, most time.Duration, news <-chan struct{}) (ended bool) {
	limit, cancel := p.clock().WithTimeoutCause(ctx, most, nil)
	defer cancel()
	select {
	case <-limit.Done():
	case <-p.look:
		if most <= pacing.Gap { // it is too early: there may be more by then
			<-limit.Done()
		}
	case _, more := <-news:
		p.lock()
		p.pacer.News()
		p.unlock()
		return !more
	}
	return false
}

// await waits until the store's subscription has ended, but not for long.
func (p *Pace) await(ctx context.Context, news <-chan struct{}) {
	limit, cancel := p.clock().WithTimeoutCause(context.WithoutCancel(ctx), pacing.Timeout, nil)
	defer cancel()
	for open := news != nil; open; {
		select {
		case _, open = <-news:
		case <-limit.Done():
			open = false
		}
	}
}

// join lets p wait for slots of a store.
func (p *Pace) join() error {
	now := p.lock()
	defer p.unlock()
	switch {
	case p.bad != nil:
		return p.bad
	case p.Quota == 0:
		return errors.New("pace: Share needs a Quota: what nobody knows cannot be shared")
	case p.shared:
		return errors.New("pace: the Pace is shared already")
	}
	p.shared, p.err, p.look = true, nil, make(chan struct{}, 1)
	p.pacer.Join(now)
	return nil
}

// part ends that, and gives back what is reserved and not used.
func (p *Pace) part(ctx context.Context, s Store) {
	now := p.lock()
	p.shared = false
	a, spare := p.pacer.Part(now)
	p.unlock()
	if spare {
		ctx, cancel := p.clock().WithTimeoutCause(context.WithoutCancel(ctx), pacing.Timeout, nil)
		defer cancel()
		_, _ = s.Reserve(ctx, Ask(a)) // otherwise they are lost: less than half a second of the quota
	}
}

// ask returns what to ask the store, if there is anything, or when to look again.
func (p *Pace) ask() (a Ask, due bool, next time.Duration) {
	now := p.lock()
	defer p.unlock()
	b, due, next := p.pacer.Ask(now)
	return Ask(b), due, next
}

// exchange asks the store, and returns how long to wait before it may be asked again.
func (p *Pace) exchange(ctx context.Context, s Store, a Ask) time.Duration {
	limit, cancel := p.clock().WithTimeoutCause(ctx, pacing.Timeout, errSilent)
	slots, err := s.Reserve(limit, a)
	cancel()
	if err == nil {
		err = slots.check(a)
	}
	now := p.lock()
	defer p.unlock()
	p.exchanges++
	if err != nil && ctx.Err() != nil { // Share ends
		return 0
	}
	if p.err = err; err != nil {
		p.pacer.Alone(now)
		return time.Second + rand.N(time.Second) // of real chance: processes must not ask together
	}
	for _, t := range p.pacer.Answered(now, pacing.Ask(a), pacing.Slots(slots)) {
		wake(t)
	}
	return 0
}

var errSilent = fmt.Errorf("pace: the store has not answered within %v", pacing.Timeout)

// check returns an error if s is no answer to a.
func (s Slots) check(a Ask) error {
	for _, x := range []float64{s.N, s.Wait, s.Moved, s.Held} {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("pace: the store has answered %v", s)
		}
	}
	const rounding = 1 // second: more than any
	if s.N < 0 || s.N > a.Want || s.N > 0 && s.Wait > a.Patience+1/a.Rate+rounding {
		return fmt.Errorf("pace: the store has given %v slots of %v, in %v s to who waits for %v", s.N, a.Want, s.Wait, a.Patience)
	}
	return nil
}

// Status is what a [Pace] says of itself, for a page or a metric.
type Status struct {
	Waiting   int     // attempts in its queue
	Quota     float64 // units in a second that it was told, also by [Pace.Tell]; 0 if it was told none
	Seems     float64 // what the quota seems to be: less than Quota if attempts are throttled though they are paced; 0 without one
	Throttled float64 // the part of the attempts of about the last minute, or of the last sixty of a quota below one in a second, that were throttled; 0 without a quota

	// With Share:
	Shared    bool      // slots come from the Store
	Since     time.Time // when that began; if Shared is not set, when p began to go on alone; zero without Share
	Err       error     // why p goes on alone, nil if it does not. Without Share: what is wrong with Quota, Per or Burst
	Exchanges uint64    // with the Store
}

// Status returns the zero Status if p is nil.
func (p *Pace) Status() (s Status) {
	if p == nil {
		return s
	}
	now := p.lock()
	defer p.unlock()
	s.Waiting = p.pacer.Len()
	s.Quota, s.Throttled, s.Seems = p.pacer.Quota(now)
	s.Err, s.Exchanges = cmp.Or(p.bad, p.err), p.exchanges
	if p.shared {
		s.Shared, s.Since = p.pacer.Shared()
	}
	return s
}
