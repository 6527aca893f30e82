package nats_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrynats"
	"github.com/goretry/retry/retryqueue"
	"github.com/nats-io/nats.go/jetstream"
)

// probes is a gate that probes every 300 ms.
func probes() *retryqueue.Gate { return &retryqueue.Gate{Probe: retry.Constant(300 * ms)} }

// work is a handler of a dependency that is down while down is set. A message takes 50 ms.
func work(down *atomic.Bool, calls *atomic.Int64) func(context.Context, jetstream.Msg) error {
	return func(context.Context, jetstream.Msg) error {
		calls.Add(1)
		time.Sleep(50 * ms)
		if down.Load() {
			return errDown
		}
		return nil
	}
}

func publish(t *testing.T, js jetstream.JetStream, from, n int) {
	t.Helper()
	for i := range n {
		if _, err := js.Publish(t.Context(), "jobs", fmt.Append(nil, from+i)); err != nil {
			t.Fatal(err)
		}
	}
}

// In an outage a few messages are tried, and none dies of it: afterwards all are handled.
func TestAGateKeepsMessagesThroughAnOutage(t *testing.T) {
	js, _ := single(t)
	c := jobs(t, js, 0, 1, 30*time.Second)
	var down atomic.Bool
	var calls, dead atomic.Int64
	down.Store(true)
	h := &retrynats.Handler{
		Policy: retry.Policy{MaxAttempts: 5, Backoff: retry.Constant(time.Second)},
		Handle: work(&down, &calls),
		Gate:   probes(),
		Dead:   func(context.Context, jetstream.Msg, *retry.Error) error { dead.Add(1); return nil },
	}
	publish(t, js, 0, 500)
	ctx, cancel := context.WithCancel(context.Background())
	consuming, err := h.Consume(ctx, js, c, jetstream.PullMaxMessages(10))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); <-consuming.Closed() }()
	eventually(t, "closed", func() bool { since, _, _ := h.Gate.Closed(); return !since.IsZero() })
	time.Sleep(time.Second) // what had started is over
	before := calls.Load()
	time.Sleep(3 * time.Second)
	if n := calls.Load() - before; n < 3 || n > 15 {
		t.Errorf("%d messages were tried in three seconds of probes every 300 ms", n)
	}
	down.Store(false)
	eventually(t, "empty", func() bool { return empty(t, js) })
	if n := dead.Load(); n != 0 {
		t.Errorf("%d messages are dead", n)
	}
	t.Logf("%d calls in all", calls.Load())
}

// Of two processes on one consumer one is ill. It keeps no message from the other one: MaxAckPending
// is the whole consumer's.
func TestAnIllProcessKeepsNoMessages(t *testing.T) {
	js, _ := single(t)
	const ackWait = time.Second
	c := jobs(t, js, 0, 1, ackWait)
	var ill, well atomic.Bool
	var illCalls, wellCalls, dead atomic.Int64
	ill.Store(true)
	policy := retry.Policy{MaxAttempts: 20, Backoff: retry.Constant(50 * ms)}
	bury := func(context.Context, jetstream.Msg, *retry.Error) error { dead.Add(1); return nil }
	one := &retrynats.Handler{Policy: policy, Handle: work(&ill, &illCalls), Gate: probes(), Dead: bury}
	other := &retrynats.Handler{Policy: policy, Handle: work(&well, &wellCalls), Gate: probes(), Dead: bury}
	consume(t, one, js, c)
	js2 := connect(t, js.Conn().ConnectedUrl())
	c2, err := js2.Consumer(t.Context(), "JOBS", "worker")
	if err != nil {
		t.Fatal(err)
	}
	consume(t, other, js2, c2)
	var closing int64 // calls of the process that is ill until its gate closed
	for i := range 40 {
		publish(t, js, i*50, 50)
		time.Sleep(100 * ms)
		if since, _, _ := one.Gate.Closed(); closing == 0 && !since.IsZero() {
			closing = illCalls.Load()
		}
	}
	begun := time.Now()
	eventually(t, "empty", func() bool { return empty(t, js2) })
	if dead.Load() != 0 || closing == 0 || illCalls.Load() > 2*closing {
		t.Errorf("%d messages are dead; the process that is ill was called %d times, %d until its gate closed", dead.Load(), illCalls.Load(), closing)
	}
	t.Logf("2000 messages in four seconds and %v: %d calls by the process that is well, %d by the one that is ill, %d until its gate closed",
		time.Since(begun).Round(ms), wellCalls.Load(), illCalls.Load(), closing)
}

// A shutdown hands messages back at once that wait for the gate, and ends quickly.
func TestAShutdownHandsBackWhatWaitsForAGate(t *testing.T) {
	js, _ := single(t)
	c := jobs(t, js, 0, 1, patience) // so that AckWait does not help
	gate := closedGate(t, time.Hour)
	var down atomic.Bool
	var calls atomic.Int64
	stop := consume(t, &retrynats.Handler{Handle: work(&down, &calls), Gate: gate}, js, c)
	publish(t, js, 0, 20)
	eventually(t, "delivered", func() bool {
		info, err := c.Info(t.Context())
		return err == nil && info.NumAckPending > 0
	})
	begun := time.Now()
	stop()
	if took := time.Since(begun); took > patience/2 {
		t.Errorf("the shutdown took %v", took)
	}
	if calls.Load() != 0 {
		t.Errorf("%d messages were handled behind a closed gate", calls.Load())
	}
	consume(t, &retrynats.Handler{Handle: work(&down, &calls)}, js, c)
	eventually(t, "empty", func() bool { return empty(t, js) })
}

// A closed gate does not hide the end of what it guards.
func TestWhatEndsASubscriptionBehindAClosedGate(t *testing.T) {
	for name, end := range map[string]func(jetstream.JetStream) error{
		"connection": func(js jetstream.JetStream) error { js.Conn().Close(); return nil },
		"consumer":   func(js jetstream.JetStream) error { return js.DeleteConsumer(context.Background(), "JOBS", "worker") },
		"stream":     func(js jetstream.JetStream) error { return js.DeleteStream(context.Background(), "JOBS") },
	} {
		t.Run(name, func(t *testing.T) {
			js, _ := single(t)
			c := jobs(t, js, 0, 1, 2*time.Second)
			h := &retrynats.Handler{Gate: closedGate(t, 200*ms), Handle: func(context.Context, jetstream.Msg) error { return errDown }}
			told := make(chan error, 100)
			consuming, err := h.Consume(t.Context(), js, c, jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { told <- err }))
			if err != nil {
				t.Fatal(err)
			}
			publish(t, js, 0, 1)
			time.Sleep(time.Second) // it probes
			if err := end(js); err != nil {
				t.Fatal(err)
			}
			select {
			case <-consuming.Closed():
			case <-time.After(patience):
				t.Errorf("Closed is not closed; %d errors were told", len(told))
			}
		})
	}
}

// A probe is consumed with the user's options.
func TestAClosedGateAndAPriorityGroup(t *testing.T) {
	js, _ := single(t)
	jobs(t, js, 0, 1, 2*time.Second)
	if err := js.DeleteConsumer(t.Context(), "JOBS", "worker"); err != nil {
		t.Fatal(err)
	}
	c, err := js.CreateConsumer(t.Context(), "JOBS", jetstream.ConsumerConfig{Durable: "worker", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 2 * time.Second,
		MaxDeliver: -1, PriorityPolicy: jetstream.PriorityPolicyOverflow, PriorityGroups: []string{"A"}})
	if err != nil {
		t.Fatal(err)
	}
	var down atomic.Bool
	var calls atomic.Int64
	h := &retrynats.Handler{Gate: closedGate(t, 200*ms), Handle: work(&down, &calls)}
	publish(t, js, 0, 10)
	consuming, err := h.Consume(t.Context(), js, c, jetstream.PullPriorityGroup("A"))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "empty", func() bool { return empty(t, js) })
	consuming.Stop()
	<-consuming.Closed()
}

// closedGate returns a gate that is closed.
func closedGate(t *testing.T, probe time.Duration) *retryqueue.Gate {
	t.Helper()
	gate := &retryqueue.Gate{Failures: 1, Probe: retry.Constant(probe)}
	for range 2 {
		done, err := gate.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		done("", errDown)
		time.Sleep(600 * ms)
	}
	return gate
}
