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
	"github.com/goretry/retry/retrynats"
	"github.com/goretry/retry/retryqueue"
	"github.com/nats-io/nats.go/jetstream"
)

// gatedConsumer notes what a handler with a gate asks of a consumer.
type gatedConsumer struct {
	fakeConsumer
	waiting chan jetstream.Msg // for Fetch
	failing atomic.Int32       // calls that fail from now on
}

func (c *gatedConsumer) Consume(give jetstream.MessageHandler, _ ...jetstream.PullConsumeOpt) (jetstream.ConsumeContext, error) {
	if c.failing.Add(-1) >= 0 {
		c.q.j.note("consume fails")
		return nil, errDown
	}
	c.q.j.note("consume")
	c.q = newFakeQueue(c.q.j)
	c.q.give = give
	return noting{c.q}, nil
}

// noting notes a Stop.
type noting struct{ *fakeQueue }

func (n noting) Stop() {
	n.j.note("stop")
	n.fakeQueue.Stop()
}

func (c *gatedConsumer) Fetch(most int, _ ...jetstream.FetchOpt) (jetstream.MessageBatch, error) {
	if c.failing.Add(-1) >= 0 {
		c.q.j.note("fetch fails")
		return nil, errDown
	}
	c.q.j.note("fetch %d", most)
	got := make(chan jetstream.Msg, 1)
	defer close(got)
	select {
	case msg := <-c.waiting:
		got <- msg
	case <-time.After(time.Second):
	}
	return batch{got: got}, nil
}

type batch struct {
	jetstream.MessageBatch
	got chan jetstream.Msg
}

func (b batch) Messages() <-chan jetstream.Msg { return b.got }

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
			}), "700ms closed")
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
		r.cancel()
		r.waiting <- r.msg(3, nil)
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
		"10.5s fetch fails", "11.6s 9 fetches until 20.4s", "21.5s ack", "21.5s 2 fetches until 21.5s", "21.5s gate: <nil>", "22.5s 18 fetches until 39.5s",
		"40.5s consume fails", "41.5s consume fails")
}
