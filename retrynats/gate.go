package retrynats

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/nats-io/nats.go/jetstream"
)

// gated consumes while the handler's Gate is open. While it is closed, and in the first moments
// after, it fetches one message for each turn that the gate gives.
type gated struct {
	*subscription
	consumer jetstream.Consumer
	opts     []jetstream.PullConsumeOpt

	once  sync.Once
	left  chan struct{} // closed by Stop and Drain
	drain bool          // it was Drain
	ended chan struct{}
}

// turns is how many messages are fetched one by one after the gate has opened: more than it lets
// start one by one.
const turns = 20

// fetchWait is how long a turn waits for a message, and a shutdown for the turn.
const fetchWait = time.Second

func (g *gated) Stop()                   { g.once.Do(func() { close(g.left) }) }
func (g *gated) Drain()                  { g.once.Do(func() { g.drain = true; close(g.left) }) }
func (g *gated) Closed() <-chan struct{} { return g.ended }

// run goes on until Stop or Drain, or until the subscription ends by itself.
func (g *gated) run(consuming jetstream.ConsumeContext) {
	defer close(g.ended)
	for {
		if consuming != nil && !g.consume(consuming) || !g.probe() {
			return
		}
		var err error
		if consuming, err = g.start(); err != nil { // as while a cluster elects a leader
			consuming = nil
			select {
			case <-time.After(fetchWait):
			case <-g.left:
			}
		}
	}
}

func (g *gated) start() (jetstream.ConsumeContext, error) {
	return g.consumer.Consume(func(msg jetstream.Msg) { g.running.Go(func() { g.deliver(msg, nil) }) }, g.opts...)
}

// consume reports whether it has ended because the gate is closed.
func (g *gated) consume(consuming jetstream.ConsumeContext) bool {
	shut := false
	select {
	case <-g.shut:
		shut = true
		consuming.Drain() // what has arrived waits for the gate
	case <-g.left:
		if g.drain {
			consuming.Drain()
		} else {
			consuming.Stop()
		}
	case <-consuming.Closed():
	}
	<-consuming.Closed()
	return shut
}

// probe fetches messages one by one until the gate has been open for some. It reports whether the
// subscription goes on.
func (g *gated) probe() bool {
	ctx, cancel := context.WithCancel(g.ctx)
	defer cancel()
	go func() {
		select {
		case <-g.left:
			cancel()
		case <-ctx.Done():
		}
	}()
	for open := 0; open < turns; open++ {
		turn, err := g.handler.Gate.Wait(ctx)
		if err != nil {
			return false
		}
		if g.isShut() {
			open = 0
		}
		if msg := g.fetch(); msg != nil {
			g.running.Go(func() { g.deliver(msg, turn) })
		} else {
			turn("", errNoNews)
		}
		if ctx.Err() != nil {
			return false
		}
	}
	return true
}

// fetch returns a message, or nil if there is none.
func (g *gated) fetch() jetstream.Msg {
	batch, err := g.consumer.Fetch(1, jetstream.FetchMaxWait(fetchWait))
	if err != nil {
		time.Sleep(fetchWait)
		return nil
	}
	return <-batch.Messages()
}

func (s *subscription) isShut() bool {
	since, _, _ := s.handler.Gate.Closed()
	return !since.IsZero()
}

// errNoNews is what a turn comes to that says nothing about the dependency.
var errNoNews = retry.Stop(errors.New("retrynats: no handler has ended"))

// turn waits for the gate, for AckWait at most: what waits for longer keeps the consumer's other
// clients from their messages, since MaxAckPending is for all. It returns nil if the message has to go
// back, which costs it a delivery.
func (s *subscription) turn() func(id string, err error) {
	s.look()
	ctx, cancel := context.WithTimeout(s.ctx, s.ackWait)
	defer cancel()
	turn, err := s.handler.Gate.Wait(ctx)
	if err != nil {
		return nil
	}
	return turn
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

// report tells the gate what a handler has returned, whose context is ctx.
func (s *subscription) report(turn func(string, error), msg jetstream.Msg, ctx context.Context, err error) {
	if turn == nil {
		return
	}
	if err != nil && errors.Is(ctx.Err(), context.Canceled) { // the process stops
		err = errNoNews
	}
	turn(idOf(msg), err)
	s.look()
}

// idOf tells a message from the others of its stream.
func idOf(msg jetstream.Msg) string {
	meta, err := msg.Metadata()
	if err != nil {
		return ""
	}
	return strconv.FormatUint(meta.Sequence.Stream, 10)
}
