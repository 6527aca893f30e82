package retrynats

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
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
	quiet := s.keepAlive(msg)
	defer quiet()
	var err error
	if s.handler.Gate != nil && turn == nil {
		turn, err = s.turn()
	}
	if err != nil || s.begins.Err() != nil { // nothing has started
		if turn != nil {
			turn("", errUnused)
		}
		s.handBack(msg, quiet)
		return
	}
	m, id := retryqueue.Delivery{Number: 1, Counted: true}, ""
	if meta, err := msg.Metadata(); err == nil {
		m.Number, m.Stored, id = int(min(meta.NumDelivered, math.MaxInt)), meta.Timestamp, strconv.FormatUint(meta.Sequence.Stream, 10)
	}
	if turn != nil {
		m.Done = func(err error) {
			turn(id, err)
			s.look()
		}
	}
	if s.handler.Context != nil {
		m.Context = func(ctx context.Context) context.Context { return s.handler.Context(ctx, msg) }
	}
	_ = m.Handle(s.ctx, s.handler.Policy,
		func(ctx context.Context) error { return s.handler.Handle(ctx, msg) },
		func(ctx context.Context, d retryqueue.Decision) error { return s.settle(ctx, msg, d, quiet) })
}

// settle tells the server what was decided. It returns an error only if a dead letter was not stored.
func (s *subscription) settle(ctx context.Context, msg jetstream.Msg, d retryqueue.Decision, quiet func()) (err error) {
	if d.Panicked { // people must see it, also if no dead letter can be stored
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.ackWait)
		defer cancel()
		defer func() { // what is in a buffer would be lost
			if s.conn.IsConnected() {
				_ = s.conn.FlushTimeout(s.ackWait)
			}
		}()
	}
	if d.Action == retryqueue.Dead {
		if err = s.store(ctx, msg, d.Err); err != nil {
			d.Action = retryqueue.Undecided
		}
	}
	if d.Action == retryqueue.Undecided && s.ctx.Err() != nil {
		s.handBack(msg, quiet)
		return err
	}
	quiet()
	switch d.Action {
	case retryqueue.Undecided: // a context of Handler.Context or Hooks.Start has ended: it comes back after AckWait
	case retryqueue.Ack:
		s.acknowledge(msg)
	case retryqueue.Retry:
		_ = msg.NakWithDelay(min(max(d.Delay, 1), longest)) // 0 would be a plain Nak
	default:
		if knowsReasons(s.conn.ConnectedServerVersion()) {
			_ = msg.TermWithReason(d.Err.Reason.String())
		} else {
			_ = msg.Term()
		}
	}
	return err
}

// handBack gives msg to another consumer at once. Before a subscription that ends is drained it would come back here.
func (s *subscription) handBack(msg jetstream.Msg, quiet func()) {
	if s.open.Err() != nil {
		<-s.drained
	}
	quiet()
	_ = msg.Nak()
}

// keepAlive tells the server every third of AckWait that msg is in progress, until
// stop is called. It sends nothing after stop has returned: after a Nak that would replace the delay.
func (s *subscription) keepAlive(msg jetstream.Msg) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var telling sync.WaitGroup
	telling.Go(func() {
		for t := time.Tick(s.ackWait / 3); ; {
			select {
			case <-t:
				_ = msg.InProgress()
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		telling.Wait()
	}
}

// store has Dead store msg, until it succeeds, or ctx or the subscription ends.
func (s *subscription) store(ctx context.Context, msg jetstream.Msg, e *retry.Error) error {
	if s.handler.Dead == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
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
