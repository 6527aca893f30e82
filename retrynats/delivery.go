package retrynats

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryqueue"
	"github.com/nats-io/nats.go/jetstream"
)

// longest is the longest delay that is sent to a server, which adds the delay to its
// time in nanoseconds. These overflow in the year 2262.
const longest = 100 * 365 * 24 * time.Hour

// deliver handles one delivery, and sends its outcome to the server. If that is lost
// on the way, the message comes back after AckWait. turn is what the gate has given for it, or nil.
func (s *subscription) deliver(msg jetstream.Msg, turn func(id string, err error)) {
	if turn != nil {
		defer turn("", errNoNews) // if nothing else was said
	}
	if s.ctx.Err() != nil { // nothing has started
		<-s.drained
		_ = msg.Nak()
		return
	}
	m := retryqueue.Delivery{Number: 1, Counted: true}
	if meta, err := msg.Metadata(); err == nil {
		m.Number, m.Stored = int(min(meta.NumDelivered, math.MaxInt)), meta.Timestamp
	}
	quiet := s.keepAlive(msg)
	defer quiet()
	if s.handler.Gate != nil && turn == nil {
		if turn = s.turn(); turn == nil {
			if s.ctx.Err() != nil {
				<-s.drained
			}
			quiet()
			_ = msg.Nak() // to another consumer, whose gate may be open
			return
		}
		defer turn("", errNoNews)
	}
	handling := false
	defer func() {
		if handling { // a panic, which ends the process: what is in a buffer would be lost
			s.flush()
		}
	}()
	ctx := s.ctx
	if _, runs := m.Before(s.handler.Policy); runs { // else it may be one that ends its process in Context
		ctx = s.contextOf(msg)
	}
	_ = m.Handle(ctx, s.handler.Policy,
		func(ctx context.Context) error {
			handling = true
			err := s.handler.Handle(ctx, msg)
			handling = false
			s.report(turn, msg, ctx, err)
			return err
		},
		func(ctx context.Context, d retryqueue.Decision) error {
			if handling { // people must see the panic, also if no dead letter can be stored
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, s.ackWait)
				defer cancel()
			}
			return s.settle(ctx, msg, d, quiet)
		})
}

// contextOf returns the context of a delivery.
func (s *subscription) contextOf(msg jetstream.Msg) context.Context {
	if s.handler.Context != nil {
		if ctx := s.handler.Context(s.ctx, msg); ctx != nil {
			return ctx
		}
	}
	return s.ctx
}

// settle tells the server what was decided. quiet ends the heartbeats: one after the Nak
// would replace the delay. settle returns an error only if a dead letter was not stored.
func (s *subscription) settle(ctx context.Context, msg jetstream.Msg, d retryqueue.Decision, quiet func()) (err error) {
	if d.Action == retryqueue.Dead {
		if err = s.store(ctx, msg, d.Err); err != nil {
			d.Action = retryqueue.Undecided
		}
	}
	shutdown := d.Action == retryqueue.Undecided && s.ctx.Err() != nil
	if shutdown {
		<-s.drained // otherwise it would come back here
	}
	quiet()
	switch {
	case shutdown:
		_ = msg.Nak() // to another consumer, at once
	case d.Action == retryqueue.Undecided: // a context of Handler.Context or Hooks.Start has ended: it comes back after AckWait
	case d.Action == retryqueue.Ack:
		s.acknowledge(msg)
	case d.Action == retryqueue.Retry:
		_ = msg.NakWithDelay(min(max(d.Delay, 1), longest)) // 0 would be a plain Nak
	case knowsReasons(s.conn.ConnectedServerVersion()):
		_ = msg.TermWithReason(d.Err.Reason.String())
	default:
		_ = msg.Term()
	}
	return err
}

// flush sends what was said to the server, and waits for that no longer than AckWait.
func (s *subscription) flush() {
	if s.conn.IsConnected() {
		_ = s.conn.FlushTimeout(s.ackWait)
	}
}

// keepAlive tells the server every third of AckWait that msg is in progress, until
// stop is called. It sends nothing after stop has returned.
func (s *subscription) keepAlive(msg jetstream.Msg) (stop func()) {
	every := max(s.ackWait/3, time.Millisecond)
	var mu sync.Mutex
	var timer *time.Timer // nil after stop
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(every, func() {
		mu.Lock()
		defer mu.Unlock()
		if timer != nil {
			_ = msg.InProgress()
			timer.Reset(every)
		}
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		if timer != nil {
			timer.Stop()
			timer = nil
		}
	}
}

// store has Dead store msg. It gives up only when ctx ends.
func (s *subscription) store(ctx context.Context, msg jetstream.Msg, e *retry.Error) error {
	if s.handler.Dead == nil {
		return nil
	}
	p := retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Constant(time.Second), Clock: s.handler.Policy.Clock}
	return retry.Run(ctx, p, func(ctx context.Context) error {
		if s.handler.Dead(ctx, msg, e) != nil {
			return errNotStored // instead of an error that may be permanent
		}
		return nil
	})
}

var errNotStored = errors.New("retrynats: the dead letter was not stored")

// acknowledge waits for the server's answer for AckWait, even after the context has
// ended. Later the message is delivered again anyway.
func (s *subscription) acknowledge(msg jetstream.Msg) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), s.ackWait)
	defer cancel()
	_ = msg.DoubleAck(ctx)
}

// knowsReasons reports whether a server of this version takes a reason with a Term.
// Older ones ignore such a Term.
func knowsReasons(version string) bool {
	var major, minor, patch int
	n, _ := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch)
	return n == 3 && slices.Compare([]int{major, minor, patch}, []int{2, 10, 4}) >= 0
}
