package retrynats

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// subscription is one call of Consume. Its states, on the goroutine of run:
//
//	consumes  as the client does by itself, until a message finds the gate closed
//	probes    fetches one message for each turn that the gate gives, until it has been open for some
//	ends      after Stop, Drain, or the end of the context; or if the client's subscription has ended
//	drained   no message will arrive. Those that are handed back come to another consumer only from now on
//	closed    no message is being handled, either
type subscription struct {
	handler  *Handler
	consumer jetstream.Consumer
	opts     []jetstream.PullConsumeOpt
	conn     *nats.Conn
	ackWait  time.Duration

	ctx   context.Context // of handlers
	open  context.Context // until it ends
	leave context.CancelCauseFunc
	shut  chan struct{} // has an element if a message has found the gate closed

	running sync.WaitGroup
	drained chan struct{}
	closed  chan struct{}
}

const (
	// turns is how many messages are fetched one by one after the gate has opened: more than it lets
	// start one by one.
	turns = 20

	// fetchWait is how long a turn waits for a message, and a shutdown for the turn.
	fetchWait = time.Second
)

var errStopped = errors.New("retrynats: Stop was called")

// Stop ends the delivery of messages, also of those that have arrived and not started.
func (s *subscription) Stop() { s.leave(errStopped) }

// Drain ends the delivery of messages, but for those that have arrived.
func (s *subscription) Drain() { s.leave(nil) }

// Closed returns a channel that is closed once no message will arrive, and the server
// has been told the outcome of the last one.
func (s *subscription) Closed() <-chan struct{} { return s.closed }

// run goes on until the subscription ends, and then waits for its messages.
func (s *subscription) run(consuming jetstream.ConsumeContext) {
	for s.consume(consuming) {
		s.probe()
		consuming = s.again()
	}
	s.leave(nil)
	close(s.drained)
	s.running.Wait()
	close(s.closed)
}

func (s *subscription) start() (jetstream.ConsumeContext, error) {
	return s.consumer.Consume(func(msg jetstream.Msg) { s.running.Go(func() { s.deliver(msg, nil) }) }, s.opts...)
}

// again starts anew, and returns nil if it has ended meanwhile. It may fail, as while a cluster elects a leader.
func (s *subscription) again() jetstream.ConsumeContext {
	for s.open.Err() == nil {
		if consuming, err := s.start(); err == nil {
			return consuming
		}
		s.pause()
	}
	return nil
}

// consume reports whether it has ended because the gate is closed.
func (s *subscription) consume(consuming jetstream.ConsumeContext) bool {
	if consuming == nil {
		return false
	}
	for {
		select {
		case <-s.shut:
			if s.isShut() { // not before it has opened meanwhile
				consuming.Drain() // what has arrived waits for the gate
				<-consuming.Closed()
				return true
			}
		case <-s.open.Done():
			if context.Cause(s.open) == errStopped {
				consuming.Stop()
			} else {
				consuming.Drain()
			}
			<-consuming.Closed()
			return false
		case <-consuming.Closed():
			return false
		}
	}
}

// probe fetches messages one by one until the gate has been open for some, or the subscription ends.
func (s *subscription) probe() {
	for open := 0; open < turns; open++ {
		turn, err := s.handler.Gate.Wait(s.open)
		if err != nil {
			return
		}
		if s.isShut() {
			open = 0
		}
		if msg := s.fetch(); msg != nil {
			s.running.Go(func() { s.deliver(msg, turn) })
		} else {
			turn("", errNoMessage)
		}
	}
}

// errNoMessage says nothing to a gate.
var errNoMessage = retry.Stop(errors.New("retrynats: no message"))

// fetch returns a message, or nil if there is none.
func (s *subscription) fetch() jetstream.Msg {
	batch, err := s.consumer.Fetch(1, jetstream.FetchMaxWait(fetchWait))
	if err != nil {
		s.pause()
		return nil
	}
	return <-batch.Messages()
}

// pause waits after an error.
func (s *subscription) pause() {
	select {
	case <-time.After(fetchWait):
	case <-s.open.Done():
	}
}

func (s *subscription) isShut() bool {
	since, _, _ := s.handler.Gate.Closed()
	return !since.IsZero()
}

// look has the subscription stop fetching if the gate is closed.
func (s *subscription) look() {
	if s.isShut() {
		select {
		case s.shut <- struct{}{}:
		default:
		}
	}
}

// turn waits for the gate, for AckWait at most: what waits for longer keeps the consumer's other
// clients from their messages, since MaxAckPending is for all.
func (s *subscription) turn() (turn func(id string, err error), err error) {
	s.look()
	ctx, cancel := context.WithTimeout(s.ctx, s.ackWait)
	defer cancel()
	return s.handler.Gate.Wait(ctx)
}
