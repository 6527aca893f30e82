package retrynats_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/clockx"
	"github.com/goretry/retry/retrynats"
	"github.com/goretry/retry/retryqueue"
	"github.com/nats-io/nats.go/jetstream"
)

// gatedConsumer notes what a handler with a gate asks of a consumer.
type gatedConsumer struct {
	fakeConsumer
	waiting chan jetstream.Msg // for probes
	failing atomic.Int32       // calls that fail from now on
	deleted atomic.Bool
}

func (c *gatedConsumer) Info(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	if c.deleted.Load() {
		return nil, jetstream.ErrConsumerNotFound
	}
	return c.fakeConsumer.Info(ctx)
}

func (c *gatedConsumer) Consume(give jetstream.MessageHandler, opts ...jetstream.PullConsumeOpt) (jetstream.ConsumeContext, error) {
	what := "consume"
	for _, opt := range opts {
		if n, ok := opt.(jetstream.StopAfter); ok {
			what = fmt.Sprint("fetch ", n)
		}
	}
	if c.failing.Add(-1) >= 0 {
		c.q.j.note("%s fails", what)
		return nil, errDown
	}
	c.q.j.note("%s", what)
	conn := c.q.conn
	c.q = newFakeQueue(c.q.j)
	c.q.give, c.q.conn = give, conn
	if what == "consume" {
		return noting{c.q}, nil
	}
	go func(q *fakeQueue) {
		select {
		case msg := <-c.waiting:
			q.give(msg)
			q.Stop()
		case <-q.ended:
		}
	}(c.q)
	return probing{c.q}, nil
}

// probing has what is in the buffer arrive while it drains.
type probing struct{ *fakeQueue }

func (p probing) Drain() {
	p.ending.Do(func() {
		for _, msg := range p.buffer {
			p.give(msg)
		}
		close(p.ended)
	})
}

// noting notes a Stop.
type noting struct{ *fakeQueue }

func (n noting) Stop() {
	n.j.note("stop")
	n.fakeQueue.Stop()
}

// gatedRun is a handler with a gate, which a failure closes half a second after another one, for ten seconds.
type gatedRun struct {
	*gatedConsumer
	*journal
	gate      *retryqueue.Gate
	consuming jetstream.ConsumeContext
	cancel    context.CancelFunc
}

// gated runs a handler in a bubble, and returns what happens. Fetches in a row are one line. Its messages say
// what the handler returns.
func gated(t *testing.T, test func(t *testing.T, r *gatedRun)) (happens []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		j := &journal{start: time.Now()}
		c := &gatedConsumer{fakeConsumer: fakeConsumer{q: newFakeQueue(j)}, waiting: make(chan jetstream.Msg)}
		r := &gatedRun{gatedConsumer: c, journal: j}
		r.gate = &retryqueue.Gate{Failures: 1, Probe: retry.Constant(10 * time.Second), Changed: func(err error) { j.note("gate: %v", err) }}
		h := &retrynats.Handler{
			Policy: retry.Policy{MaxAttempts: 5, Backoff: retry.Constant(time.Minute)},
			Gate:   r.gate,
			Handle: func(_ context.Context, msg jetstream.Msg) error { return msg.(gatedMsg).err },
		}
		ctx, cancel := context.WithCancel(context.Background())
		var err error
		r.cancel = cancel
		if r.consuming, err = h.Consume(ctx, fakeJetStream{q: c.q}, c); err != nil {
			t.Fatal(err)
		}
		test(t, r)
		cancel()
		<-r.consuming.Closed()
		lines := strings.Split(j.String(), "\n")
		slices.SortFunc(lines, func(a, b string) int { // what happens at once has no order
			return cmp.Or(cmp.Compare(since(a), since(b)), strings.Compare(a, b))
		})
		for _, line := range lines {
			at, fetches := strings.CutSuffix(line, " fetch 1")
			if last := len(happens) - 1; !fetches || last < 0 || !strings.Contains(happens[last], " fetches") {
				if fetches {
					line = at + " 1 fetches"
				}
				happens = append(happens, line)
				continue
			}
			var from string
			var n int
			fmt.Sscan(happens[len(happens)-1], &from, &n)
			happens[len(happens)-1] = fmt.Sprint(from, " ", n+1, " fetches until ", at)
		}
	})
	return happens
}

func since(line string) time.Duration {
	at, _, _ := strings.Cut(line, " ")
	d, _ := time.ParseDuration(at)
	return d
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("it went\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

type gatedMsg struct {
	*fakeMsg
	err error
}

func (r *gatedRun) msg(sequence uint64, err error) jetstream.Msg {
	return gatedMsg{&fakeMsg{j: r.journal, deliveries: 1, sequence: sequence}, err}
}

// close closes the gate, half a second later.
func (r *gatedRun) close() {
	r.q.give(r.msg(1, errDown))
	time.Sleep(500 * ms)
	r.q.give(r.msg(2, errDown))
	synctest.Wait()
}

// An outage: what has arrived waits for AckWait, one message is fetched for a probe, and so are those of the
// first moments after it.
func TestWhatAGateHolds(t *testing.T) {
	wantLines(t, gated(t, func(t *testing.T, r *gatedRun) {
		r.q.buffer = []jetstream.Msg{r.msg(3, nil)} // which arrives while the subscription drains
		r.close()
		time.Sleep(10 * time.Second)
		r.waiting <- r.msg(4, errDown) // it closes for ten seconds more
		time.Sleep(10*time.Second + 500*ms)
		r.waiting <- r.msg(5, nil)
		time.Sleep(21 * time.Second)
		synctest.Wait()
		r.q.give(r.msg(6, nil))
		time.Sleep(time.Second)
	}), "0s consume", "0s nak with delay 1m0s", "500ms drain", "500ms gate: down", "500ms nak with delay 1m0s", "600ms drained",
		"1.85s in progress", "3.15s in progress", "4.45s in progress", "4.45s nak",
		"10.5s 1 fetches", "10.5s nak with delay 1m0s",
		"20.5s 1 fetches", "21s ack", "21s 1 fetches", "21s gate: <nil>", "22s 18 fetches until 39s",
		"40s consume", "42s ack", "43s drain", "43.1s drained")
}

// A gate that another handler has closed ends a subscription with the next message.
func TestAGateThatAnotherHandlerCloses(t *testing.T) {
	wantLines(t, gated(t, func(t *testing.T, r *gatedRun) {
		for range 2 {
			done, err := r.gate.Wait(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			done("", errDown)
			time.Sleep(500 * ms)
		}
		r.q.give(r.msg(1, nil))
		time.Sleep(time.Second)
	}), "0s consume", "500ms gate: down", "1s drain", "1.1s drained", "2s nak")
}

// Stop, Drain and the end of the context end a subscription in each of its states.
func TestASubscriptionWithAGateEnds(t *testing.T) {
	drains := []string{"0s drain", "100ms closed", "100ms drained"}
	for name, tt := range map[string]struct {
		end   func(*gatedRun)
		while []string // it consumes
	}{
		"Stop":    {func(r *gatedRun) { r.consuming.Stop(); r.consuming.Drain() }, []string{"0s closed", "0s stop"}}, // the first counts
		"Drain":   {func(r *gatedRun) { r.consuming.Drain(); r.consuming.Stop() }, drains},
		"context": {func(r *gatedRun) { r.cancel() }, drains},
	} {
		end := func(r *gatedRun) {
			synctest.Wait()
			r.mu.Lock()
			r.start, r.events = time.Now(), nil
			r.mu.Unlock()
			tt.end(r)
			<-r.consuming.Closed()
			r.note("closed")
		}
		t.Run(name, func(t *testing.T) {
			wantLines(t, gated(t, func(t *testing.T, r *gatedRun) { end(r) }), tt.while...)
			wantLines(t, gated(t, func(t *testing.T, r *gatedRun) {
				r.close() // it waits for a turn
				time.Sleep(time.Second)
				end(r)
			}), "0s closed")
			wantLines(t, gated(t, func(t *testing.T, r *gatedRun) {
				r.close()
				time.Sleep(10*time.Second + 300*ms) // it fetches, for a second
				end(r)
			}), "0s closed")
		})
	}
}

// What waits for the gate at the end of the context goes back once nothing more arrives.
func TestAMessageThatWaitsForAGateAtTheEnd(t *testing.T) {
	wantLines(t, gated(t, func(t *testing.T, r *gatedRun) {
		give := r.q.give
		r.close()
		time.Sleep(time.Second)
		give(r.msg(3, nil)) // as one that was underway
		time.Sleep(time.Second)
		r.cancel()
	}), "0s consume", "0s nak with delay 1m0s", "500ms drain", "500ms gate: down", "500ms nak with delay 1m0s", "600ms drained", "2.5s nak")
	// So does one that was fetched as the context ended, whose turn is given back.
	wantLines(t, gated(t, func(t *testing.T, r *gatedRun) {
		r.close()
		time.Sleep(10*time.Second + 300*ms)
		synctest.Wait()
		r.q.buffer = []jetstream.Msg{r.msg(3, nil)}
		r.cancel()
		<-r.consuming.Closed()
		if done, err := r.gate.Wait(t.Context()); err != nil {
			t.Error(err)
		} else {
			r.note("the next turn")
			done("", nil)
		}
	}), "0s consume", "0s nak with delay 1m0s", "500ms drain", "500ms gate: down", "500ms nak with delay 1m0s", "600ms drained",
		"10.5s 1 fetches", "10.8s nak", "10.9s gate: <nil>", "10.9s the next turn")
}

// What cannot be fetched, or consumed, is tried again each second.
func TestAConsumerWithAGateFails(t *testing.T) {
	wantLines(t, gated(t, func(t *testing.T, r *gatedRun) {
		r.close()
		time.Sleep(5 * time.Second)
		r.failing.Store(1)
		time.Sleep(16 * time.Second)
		r.waiting <- r.msg(3, nil)
		time.Sleep(18*time.Second + 900*ms)
		r.failing.Store(2)
		time.Sleep(2 * time.Second)
		r.consuming.Stop()
		<-r.consuming.Closed()
	}), "0s consume", "0s nak with delay 1m0s", "500ms drain", "500ms gate: down", "500ms nak with delay 1m0s", "600ms drained",
		"10.5s fetch 1 fails", "11.5s 10 fetches until 21.4s", "21.5s ack", "21.5s 1 fetches", "21.5s gate: <nil>", "22.5s 18 fetches until 39.5s",
		"40.5s consume fails", "41.5s consume fails")
}

// After Stop nothing starts, though the gate would open, and no message holds up Closed. Drain starts what waits.
func TestAMessageThatWaitsForAGateAfterStop(t *testing.T) {
	before := []string{"0s consume", "0s nak with delay 1m0s", "500ms drain", "500ms gate: down", "500ms nak with delay 1m0s", "600ms drained"}
	end := func(end func(*gatedRun)) []string {
		return gated(t, func(t *testing.T, r *gatedRun) {
			give := r.q.give
			r.close()
			time.Sleep(8 * time.Second)
			give(r.msg(3, nil))
			time.Sleep(time.Second)
			end(r)
			<-r.consuming.Closed()
			r.note("closed")
		})
	}
	wantLines(t, end(func(r *gatedRun) { r.consuming.Stop() }), append(before, "9.5s closed", "9.5s nak")...)
	wantLines(t, end(func(r *gatedRun) { r.consuming.Drain() }), append(before, "9.8s in progress", "10.5s ack", "10.5s closed", "10.5s gate: <nil>")...)
}

// A consumer that was deleted, and a connection that was closed, while the gate is closed.
func TestWhatEndsAProbe(t *testing.T) {
	wantLines(t, gated(t, func(t *testing.T, r *gatedRun) {
		r.close()
		r.deleted.Store(true)
		<-r.consuming.Closed()
	}), "0s consume", "0s nak with delay 1m0s", "500ms drain", "500ms gate: down", "500ms nak with delay 1m0s", "600ms drained", "10.5s 1 fetches")
	wantLines(t, gated(t, func(t *testing.T, r *gatedRun) {
		r.close()
		time.Sleep(10*time.Second + 300*ms)
		synctest.Wait()
		r.q.Stop() // as the client does
		<-r.consuming.Closed()
		r.note("closed")
	}), "0s consume", "0s nak with delay 1m0s", "500ms drain", "500ms gate: down", "500ms nak with delay 1m0s", "600ms drained", "10.5s 1 fetches", "10.8s closed")
}

// The clock of a gate that cannot sleep makes no loop: of a subscription, nor of deliveries.
func TestAGateThatCannotSleep(t *testing.T) {
	wantLines(t, gated(t, func(t *testing.T, r *gatedRun) {
		r.gate.Policy.Clock = sleepless{}
		r.close()
		time.Sleep(time.Second)
		r.q.give(r.msg(3, nil))
		time.Sleep(5 * time.Second)
	}), "0s consume", "0s nak with delay 1m0s", "500ms drain", "500ms gate: down", "500ms nak with delay 1m0s", "600ms drained",
		"2.8s in progress", "4.1s in progress", "5.4s in progress", "5.4s nak")
}

type sleepless struct{ clockx.Clock }

func (sleepless) Now() time.Time                             { return time.Now() }
func (sleepless) Sleep(context.Context, time.Duration) error { return errDown }
