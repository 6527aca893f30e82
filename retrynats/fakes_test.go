package retrynats_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrynats"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const ms = time.Millisecond

var errDown = errors.New("down")

// journal notes what happens, each with the time since the first, on whatever clock
// there is: exact in a bubble.
type journal struct {
	mu     sync.Mutex
	start  time.Time
	events []string
}

func (j *journal) note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.start.IsZero() {
		j.start = time.Now()
	}
	j.events = append(j.events, fmt.Sprintf("%v ", time.Since(j.start))+fmt.Sprintf(format, args...))
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.events, "\n")
}

// want fails t unless what happened is what the lines say.
func (j *journal) want(t *testing.T, lines ...string) {
	t.Helper()
	if got, want := j.String(), strings.Join(lines, "\n"); got != want {
		t.Errorf("it went\n%s\nwant\n%s", got, want)
	}
}

// fakeMsg notes what the server is told about a message.
type fakeMsg struct {
	jetstream.Msg
	j          *journal
	deliveries uint64
	sequence   uint64
	stored     time.Time
	unbound    bool          // it has no metadata
	ackTakes   time.Duration // an answer to DoubleAck; -1: none comes
	slow       time.Duration // how long each other word takes
}

func (m *fakeMsg) Metadata() (*jetstream.MsgMetadata, error) {
	if m.unbound {
		return nil, jetstream.ErrMsgNotBound
	}
	return &jetstream.MsgMetadata{Sequence: jetstream.SequencePair{Stream: m.sequence}, NumDelivered: m.deliveries, Timestamp: m.stored}, nil
}

func (m *fakeMsg) DoubleAck(ctx context.Context) error {
	wait := make(<-chan time.Time)
	if m.ackTakes >= 0 {
		wait = time.After(m.ackTakes)
	}
	select {
	case <-ctx.Done():
		m.j.note("the ack got no answer")
		return ctx.Err()
	case <-wait:
		m.j.note("ack")
		return nil
	}
}

func (m *fakeMsg) tell(word string, args ...any) error {
	m.j.note(word, args...)
	time.Sleep(m.slow)
	return nil
}

func (m *fakeMsg) Nak() error                         { return m.tell("nak") }
func (m *fakeMsg) NakWithDelay(d time.Duration) error { return m.tell("nak with delay %v", d) }
func (m *fakeMsg) Term() error                        { return m.tell("term") }
func (m *fakeMsg) TermWithReason(reason string) error { return m.tell("term %s", reason) }
func (m *fakeMsg) InProgress() error {
	m.j.note("in progress")
	return nil
}

// fakeQueue is a consumer and its stream. What it is given while it drains arrives
// 50 ms later, and it has ended another 50 ms later.
type fakeQueue struct {
	j      *journal
	info   jetstream.ConsumerInfo
	stream jetstream.StreamInfo
	conn   *nats.Conn
	buffer []jetstream.Msg

	err, streamErr error // of Consume, and of JetStream.Stream

	give   jetstream.MessageHandler
	drains atomic.Int32 // calls of Drain
	ending sync.Once
	ended  chan struct{}
}

func newFakeQueue(j *journal) *fakeQueue {
	q := &fakeQueue{j: j, conn: &nats.Conn{}, ended: make(chan struct{})}
	q.info = jetstream.ConsumerInfo{Name: "worker", Stream: "JOBS", Config: jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: 3900 * ms, MaxDeliver: -1}}
	return q
}

type fakeConsumer struct {
	jetstream.Consumer
	q *fakeQueue
}

func (c fakeConsumer) Info(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	return &c.q.info, ctx.Err()
}
func (c fakeConsumer) CachedInfo() *jetstream.ConsumerInfo { return &c.q.info }
func (c fakeConsumer) Consume(give jetstream.MessageHandler, _ ...jetstream.PullConsumeOpt) (jetstream.ConsumeContext, error) {
	c.q.give = give
	return c.q, c.q.err
}

type fakeJetStream struct {
	jetstream.JetStream
	q *fakeQueue
}

func (js fakeJetStream) Conn() *nats.Conn { return js.q.conn }
func (js fakeJetStream) Stream(context.Context, string) (jetstream.Stream, error) {
	return fakeStream{q: js.q}, js.q.streamErr
}

type fakeStream struct {
	jetstream.Stream
	q *fakeQueue
}

func (s fakeStream) CachedInfo() *jetstream.StreamInfo { return &s.q.stream }

func (q *fakeQueue) Stop() { q.ending.Do(func() { close(q.ended) }) }
func (q *fakeQueue) Drain() {
	q.drains.Add(1)
	q.ending.Do(func() {
		q.j.note("drain")
		time.Sleep(50 * ms)
		for _, msg := range q.buffer {
			q.give(msg)
		}
		time.Sleep(50 * ms)
		q.j.note("drained")
		close(q.ended)
	})
}
func (q *fakeQueue) Closed() <-chan struct{} { return q.ended }

// consume starts h on q. Its stop ends the context and waits until all is told.
func (q *fakeQueue) consume(t *testing.T, h *retrynats.Handler) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	consuming, err := h.Consume(ctx, fakeJetStream{q: q}, fakeConsumer{q: q})
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		cancel()
		<-consuming.Closed()
	}
}

// telling has hooks that note what they are told.
func telling(j *journal) retry.Hooks {
	return retry.Hooks{
		Start: func(ctx context.Context, p retry.Policy) context.Context {
			j.note("Start %s", p.Name)
			return ctx
		},
		Attempt: func(ctx context.Context, a retry.Attempt) context.Context {
			j.note("Attempt %d", a.Number)
			return nil // stands for ctx
		},
		AttemptDone: func(_ context.Context, a retry.Attempt) {
			j.note("AttemptDone %d in %v: %v, %v, delay %v, hint %v", a.Number, a.Duration, a.Err, a.Class, a.Delay, a.Hint)
		},
		Wait: func(_ context.Context, a retry.Attempt) { j.note("Wait %v after %d", a.Delay, a.Number) },
		Done: func(_ context.Context, s retry.Summary) {
			j.note("Done %d in %v, waited %v, %v: %v", s.Attempts, s.Elapsed, s.Waited, s.Reason, s.Err)
		},
	}
}
