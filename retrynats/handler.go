package retrynats

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryqueue"
	"github.com/nats-io/nats.go/jetstream"
)

// Handler consumes messages and retries them by a policy. It has no state, so one
// Handler may consume from several consumers at once. Do not change it after the first
// Consume. All of its funcs are called concurrently.
type Handler struct {
	// Policy decides about each message. Its AttemptTimeout limits Handle, on its Clock.
	// To its Hooks each delivery is a run. What its Classify has no opinion on is judged
	// by [retryqueue.Patient].
	Policy retry.Policy

	// Context returns the context of a delivery, derived from ctx, which is that of Consume. So a
	// delivery can be a part of the trace that the message was published in: examples/queues shows
	// how. Nil, and a Context that returns nil, mean ctx. It is not called for a message that is dead
	// without another run of Handle: such a one may have ended its process in Context.
	Context func(ctx context.Context, msg jetstream.Msg) context.Context

	// Handle does the message's work, and returns nil for a success. Its context ends with that of
	// Consume and with Policy.AttemptTimeout. It is called for as many messages at once as the
	// consumer's MaxAckPending allows, and may be called more than once for a message. It need not
	// acknowledge the message. If it does, that counts.
	Handle func(context.Context, jetstream.Msg) error

	// Gate keeps messages in the stream while what Handle depends on is down. Share one Gate among
	// all that depend on it. While it is closed nothing is fetched but a message for each
	// probe. Messages that have arrived wait for it, kept in progress, for AckWait at most, and are
	// then handed back, which counts as a delivery: set MaxMessages of Consume to what Handle
	// works on at a time. Nil means none.
	Gate *retryqueue.Gate

	// Dead stores a message that will not be delivered again, and why. When it returns nil, the
	// message is removed from the consumer. After an error it is called again every second, until it
	// succeeds or the context ends. [retry.AttemptNumber] of its context counts these calls. It may be
	// called again for a message that it has stored. Log its errors in Dead: they are reported nowhere
	// else. If Dead is nil, the message is only removed.
	Dead func(context.Context, jetstream.Msg, *retry.Error) error
}

// Consume consumes from c until ctx ends. Then running handlers are canceled, and
// messages that have not succeeded are handed back. Stop and Drain of the returned
// ConsumeContext only end the delivery of further messages. After Stop, messages that
// have arrived but not started come back after AckWait, or at once if they wait for the Gate. Drain
// starts them. The channel Closed is closed once the server has been told the outcome of the last message,
// which takes as long as handlers run.
//
// Consume calls Check first and returns its error. It fails also while a cluster elects a leader: use
// retry.Do to call it again, with a context that outlives the attempt.
//
// js must be the one that c was made from. opts are those of c.Consume. Give it a
// [jetstream.ConsumeErrHandler]: only that sees errors of the subscription itself, such as a lost
// connection, missing heartbeats or a deleted consumer. The last, and a connection that is closed, end
// the subscription. One that waits for the turn of a Gate notices both with the next turn, and the
// handler is not told of the connection then.
func (h *Handler) Consume(ctx context.Context, js jetstream.JetStream, c jetstream.Consumer, opts ...jetstream.PullConsumeOpt) (jetstream.ConsumeContext, error) {
	if h.Handle == nil {
		return nil, errors.New("retrynats: Handler.Handle is nil")
	}
	if err := h.Check(ctx, js, c); err != nil {
		return nil, err
	}
	s := &subscription{
		handler:  h,
		consumer: c,
		opts:     opts,
		conn:     js.Conn(),
		ackWait:  c.CachedInfo().Config.AckWait,
		ctx:      ctx,
		shut:     make(chan struct{}, 1),
		drained:  make(chan struct{}),
		closed:   make(chan struct{}),
	}
	s.begins, s.stop = context.WithCancel(ctx)
	s.open, s.leave = context.WithCancelCause(ctx)
	consuming, err := s.start()
	if err != nil {
		s.Stop()
		return nil, err
	}
	go s.run(consuming)
	return s, nil
}

// Check returns an error that says what is wrong with c for this handler and what to
// set, or nil. All problems are joined. It requests the consumer's and the stream's
// configuration from the server. It refuses
//
//   - an AckPolicy other than explicit: others acknowledge messages that have failed;
//   - a MaxDeliver that ends deliveries before the policy does;
//   - a BackOff, which replaces AckWait;
//   - a stream whose MaxAge may delete messages that the policy still retries;
//   - an AckWait that is not positive.
func (h *Handler) Check(ctx context.Context, js jetstream.JetStream, c jetstream.Consumer) error {
	info, err := c.Info(ctx)
	if err != nil {
		return fmt.Errorf("retrynats: consumer: %w", err)
	}
	stream, err := js.Stream(ctx, info.Stream)
	if err != nil {
		return fmt.Errorf("retrynats: stream %s: %w", info.Stream, err)
	}
	var objections []error
	object := func(format string, args ...any) {
		objections = append(objections, fmt.Errorf("retrynats: consumer %s of stream %s: "+format, append([]any{info.Name, info.Stream}, args...)...))
	}
	config, limit := info.Config, h.Policy.AttemptLimit()
	if config.AckPolicy != jetstream.AckExplicitPolicy {
		object("AckPolicy is %v: set AckExplicitPolicy", config.AckPolicy)
	}
	if unlimited := limit == math.MaxInt; config.MaxDeliver > 0 && (unlimited || config.MaxDeliver <= limit) {
		allowed := fmt.Sprint(limit, " deliveries")
		if unlimited {
			allowed = "any number of them"
		}
		object("MaxDeliver is %d, and the policy allows %s: set MaxDeliver -1", config.MaxDeliver, allowed)
	}
	if len(config.BackOff) > 0 {
		object("BackOff is set and takes the place of AckWait: set none, the policy has its own")
	}
	if age, old := stream.CachedInfo().Config.MaxAge, h.Policy.MaxElapsed; age > 0 && (old <= 0 || old >= age) {
		object("the stream deletes messages after %v, also those that wait: set Policy.MaxElapsed below that, or MaxAge 0", age)
	}
	if config.AckWait <= 0 {
		object("AckWait is %v: set the longest time in which a crash may go unnoticed, such as 30s", config.AckWait)
	}
	return errors.Join(objections...)
}
