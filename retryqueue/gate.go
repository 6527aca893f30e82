package retryqueue

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/internal/health"
	"github.com/goretry/retry/internal/readings"
)

// Gate keeps messages in their queue while what their handlers depend on is down. Without it they
// are delivered and fail one by one, until they are dead or wait for an hour.
//
//	for {
//		done, err := gate.Wait(ctx)
//		if err != nil {
//			return err
//		}
//		m, err := receive(ctx)
//		if err != nil {
//			return err
//		}
//		go func() { done(m.ID, handle(m)) }()
//	}
//
// A Gate is open at first. It closes when more than five of six messages fail, for at least half a
// second, or after twice Failures in a row of at least two messages in ten seconds or more. While it
// is closed it lets one message pass after each wait of Probe. The first that succeeds opens it:
// then one and one for each success may be underway, and any number after ten.
//
// So one bad message never closes it, and a dependency that fails half of its calls is used on.
// Known prices: five bad messages alone in a queue close it, or two, of a queue that has no others;
// an outage of less than half a second goes unseen; each process of a fleet has a Gate, and probes.
//
// Use one Gate for each dependency, shared by all handlers of a process that need it, and one for two
// that they need together. The zero value is ready. Set the fields before the first use, and do not
// copy it after. A Gate is safe for concurrent use.
type Gate struct {
	// Failures is how many messages must fail more than succeed, where a success counts for
	// Failures. Below one it is five.
	Failures int

	// Probe is the wait before each probe, by its number since the gate closed. Nil is 1s, 2s, 4s
	// and so on up to a minute, and a fifth more or less by chance, so that processes do not
	// probe together. No wait is below 100 ms, nor shorter than a server has asked for with the
	// latest failure, up to Policy.MaxRetryAfter.
	Probe retry.Backoff

	// Policy says what an error means, as for a [Delivery]: Classify and MaxRetryAfter. Its Clock
	// and Rand are used, and its Name by telemetry.
	Policy retry.Policy

	// Changed is called with the error that has closed the gate, and with nil when it opens, in
	// that order, and never twice at a time. It may call the gate. Nil means none.
	Changed func(closed error)

	mu      sync.Mutex
	health  health.Health
	since   time.Time       // it is closed; zero while it is open
	err     error           // that has closed it
	changed context.Context // of those that wait; nil: none does
	wake    context.CancelFunc
	news    []error // for Changed
	telling bool    // a call of Changed is underway
}

const (
	leastProbe = 100 * time.Millisecond
	gateRamp   = 10 // successes after which any number of messages may start
)

// Wait returns when a message may start, or with the cause if ctx ends before that. Call it before
// a message is received, or with one in hand if its lease is kept meanwhile. ctx counts for Wait only.
//
// Pass done to [Delivery.Done]; or call it, once, with an ID that tells whether failures are those of one
// message ("" is always another one), and with what the handler has returned. nil, a [retry.Answer] and
// "not yet" ([retry.ErrRejected]) say that the dependency works. An error of the message itself, which is
// permanent for [Patient] too, such as a 400 or a [retry.Stop], says nothing. Pass a panic, or what a
// handler returns because its process stops, as a Stop. All else says that it failed. A probe for which
// done is not called counts as failed when the next is due, and opens the gate still if it succeeds later.
func (g *Gate) Wait(ctx context.Context) (done func(id string, err error), err error) {
	clock := readings.Clock(g.Policy.Clock)
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		ticket, wait, changed := g.start(clock)
		if wait <= 0 {
			var once sync.Once
			return func(id string, err error) { once.Do(func() { g.end(clock, ticket, id, err) }) }, nil
		}
		if err := sleep(ctx, changed, clock, wait); err != nil {
			return nil, err
		}
	}
}

// Closed returns since when the gate is closed, when its next probe is due, and the error that has
// closed it. While it is open all are zero, also on the way back, when not all messages may start.
func (g *Gate) Closed() (since, probe time.Time, err error) {
	now := readings.Clock(g.Policy.Clock).Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.since.IsZero() {
		return time.Time{}, time.Time{}, nil
	}
	return g.since, now.Add(g.health.Ready(now)), g.err
}

// start starts a message, or returns how long it has to wait, unless changed ends before that.
func (g *Gate) start(clock clockx.Clock) (ticket uint64, wait time.Duration, changed context.Context) {
	now := clock.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.health.Rule.Evidence == nil {
		g.health.Rule = health.Rule{
			Evidence: &health.Score{Failures: g.Failures},
			Wait:     g.wait,
			Hang:     func(_, next time.Duration) time.Duration { return next },
			Ramp:     gateRamp,
		}
	}
	if wait = g.health.Ready(now); wait > 0 {
		if g.changed == nil {
			g.changed, g.wake = context.WithCancel(context.Background())
		}
		return 0, wait, g.changed
	}
	return g.health.Start(now), 0, nil
}

// end notes what a message has come to, wakes those that wait, and tells of a change.
func (g *Gate) end(clock clockx.Clock, ticket uint64, id string, err error) {
	n := health.News{Ticket: ticket, ID: id}
	n.Outcome, n.Hint = g.judge(err)
	now := clock.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.health.End(now, n)
	if g.changed != nil {
		g.wake()
		g.changed = nil
	}
	switch closed := g.health.Closed(); {
	case closed && g.since.IsZero():
		g.since, g.err = now, err
		g.tell(err)
	case !closed && !g.since.IsZero():
		g.since, g.err = time.Time{}, nil
		g.tell(nil)
	}
}

// judge returns what the error of a message says of its dependency, and how long to leave that alone.
func (g *Gate) judge(err error) (health.Outcome, time.Duration) {
	switch v := judge(g.Policy, err); {
	case err == nil, v.Answered:
		return health.Passed, 0
	case errors.Is(err, context.Canceled) && !v.Marked: // by the handler itself: its caller passes a Stop
		return health.Failed, 0
	case v.Class == retry.Permanent && !v.Refused:
		return health.Nothing, leastProbe
	case g.Policy.MaxRetryAfter > 0:
		return health.Failed, min(v.Hint, g.Policy.MaxRetryAfter)
	default:
		return health.Failed, min(v.Hint, 5*time.Minute)
	}
}

// wait is the wait before the nth probe, or if n is 0 one that a failed probe has asked for.
func (g *Gate) wait(n int, hint time.Duration) time.Duration {
	if n == 0 {
		return hint
	}
	b := g.Probe
	if b == nil {
		b = retry.Exponential{Base: time.Second, Max: time.Minute, Jitter: retry.PlusMinus(.2)}
	}
	random := rand.Float64
	if g.Policy.Rand != nil {
		random = g.Policy.Rand
	}
	return max(b.Delay(retry.Step{Retry: n, Rand: random()}), hint, leastProbe)
}

// tell calls Changed, without the lock, which its caller holds. If another call is underway, that
// one goes on with err.
func (g *Gate) tell(err error) {
	if g.Changed == nil {
		return
	}
	if g.news = append(g.news, err); g.telling {
		return
	}
	g.telling = true
	defer func() { g.telling = false }()
	for len(g.news) > 0 {
		err, g.news = g.news[0], g.news[1:]
		func() {
			g.mu.Unlock()
			defer g.mu.Lock()
			g.Changed(err)
		}()
	}
}

// sleep sleeps for d on clock, or until changed or ctx ends. It returns an error only if the clock
// cannot sleep.
func sleep(ctx, changed context.Context, clock clockx.Clock, d time.Duration) error {
	ctx, wake := context.WithCancel(ctx)
	defer wake()
	defer context.AfterFunc(changed, wake)()
	if err := clock.Sleep(ctx, d); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}
