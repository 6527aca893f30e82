package retrynats

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// subscription is one call of Consume. Its states, on the goroutine of run:
//
//	consumes  as the client does by itself, until a message finds the gate closed (shut)
//	probes    consumes one message for each turn that the gate gives, until it has been open for some
//	ends      after Stop, Drain, or the end of the context (open); or if the client's subscription has ended
//	drained   no message will arrive. Those that are handed back come to another consumer only from now on
//	closed    no message is being handled, either (running)
//
// The client tells the user's ConsumeErrHandler what ends a subscription. Nobody else can call that.
type subscription struct {
	handler  *Handler
	consumer jetstream.Consumer
	opts     []jetstream.PullConsumeOpt
	conn     *nats.Conn
	ackWait  time.Duration

	ctx    context.Context // of handlers
	begins context.Context // while a handler may start: until Stop, or the end of ctx
	stop   context.CancelFunc
	open   context.Context // until it ends
	leave  context.CancelCauseFunc
	shut   chan struct{} // has an element if a message has found the gate closed

	running sync.WaitGroup
	drained chan struct{}
	closed  chan struct{}
}

const (
	// turns is how many messages are consumed one by one after the gate has opened: more than it lets
	// start one by one.
	turns = 20

	// probeWait is how long a turn waits for a message.
	probeWait = time.Second
)

var errStopped = errors.New("retrynats: Stop was called")

// Stop ends the delivery of messages, also of those that have arrived and not started.
func (s *subscription) Stop() {
	s.leave(errStopped)
	s.stop()
}

// Drain ends the delivery of messages, but for those that have arrived.
func (s *subscription) Drain() { s.leave(nil) }

// Closed returns a channel that is closed once no message will arrive, and the server
// has been told the outcome of the last one.
func (s *subscription) Closed() <-chan struct{} { return s.closed }

// run goes on until the subscription ends, and then waits for its messages.
func (s *subscription) run(consuming jetstream.ConsumeContext) {
	for s.consume(consuming) && s.probe() {
		consuming = s.again()
	}
	s.leave(nil)
	close(s.drained)
	s.running.Wait()
	s.stop()
	close(s.closed)
}

func (s *subscription) start() (jetstream.ConsumeContext, error) {
	return s.consumer.Consume(func(msg jetstream.Msg) { s.running.Go(func() { s.deliver(msg, nil) }) }, s.opts...)
}

// again starts anew, and returns nil if it is to end instead. It may fail, as while a cluster elects a leader.
func (s *subscription) again() jetstream.ConsumeContext {
	for s.open.Err() == nil && !s.gone() {
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

// probe consumes messages one by one until the gate has been open for some. It reports whether the
// subscription goes on.
func (s *subscription) probe() bool {
	for open := 0; open < turns; open++ {
		turn, err := s.handler.Gate.Wait(s.open)
		if s.open.Err() != nil {
			if err == nil {
				turn("", errUnused)
			}
			return false
		}
		if err != nil { // its clock cannot sleep
			s.pause()
			open = 0
			continue
		}
		if s.isShut() {
			open = 0
		}
		if !s.one(turn) {
			return false
		}
	}
	return true
}

// errUnused says nothing to a gate.
var errUnused = retry.Stop(errors.New("retrynats: no message has started"))

// one consumes one message with a turn, or gives the turn back. It reports whether the subscription goes on.
// Unlike Fetch it takes the user's options.
func (s *subscription) one(turn func(id string, err error)) bool {
	given := make(chan func(id string, err error), 1)
	given <- turn
	consuming, err := s.consumer.Consume(func(msg jetstream.Msg) {
		select {
		case turn := <-given:
			s.running.Go(func() { s.deliver(msg, turn) })
		default: // a second one, of a request that was repeated with a connection
			s.running.Go(func() { s.deliver(msg, nil) })
		}
	}, append(slices.Clip(s.opts), jetstream.StopAfter(1))...)
	ended := false // by itself
	if err == nil {
		select {
		case <-consuming.Closed():
			ended = true
		case <-time.After(probeWait):
			consuming.Drain()
		case <-s.open.Done():
			consuming.Drain()
		}
		<-consuming.Closed()
	}
	select {
	case turn := <-given:
		turn("", errUnused)
	default:
		return true
	}
	if err != nil {
		s.pause()
	}
	return !ended && !s.gone()
}

// gone reports whether nothing can come any more. A subscription of the client hears of it only while
// a request is underway.
func (s *subscription) gone() bool {
	if s.conn.IsClosed() {
		return true
	}
	ctx, cancel := context.WithTimeout(s.open, probeWait)
	defer cancel()
	_, err := s.consumer.Info(ctx)
	return errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound)
}

// pause waits after an error.
func (s *subscription) pause() {
	select {
	case <-time.After(probeWait):
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
	ctx, cancel := context.WithTimeout(s.begins, s.ackWait)
	defer cancel()
	if turn, err = s.handler.Gate.Wait(ctx); err != nil {
		<-ctx.Done() // also if the gate's clock cannot sleep: a message handed back at once comes at once
	}
	return turn, err
}
