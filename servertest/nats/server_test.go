package nats_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrynats"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// consume starts h on c and ends it with the test.
func consume(t *testing.T, h *retrynats.Handler, js jetstream.JetStream, c jetstream.Consumer) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	consuming, err := retry.Do(ctx, leaderless, func(context.Context) (jetstream.ConsumeContext, error) {
		//retryvet:ignore outerctx: the consumer outlives the attempt that starts it
		return h.Consume(ctx, js, c)
	})
	if err != nil {
		t.Fatal(err)
	}
	stop = func() {
		cancel()
		select {
		case <-consuming.Closed():
		case <-time.After(patience):
			t.Error("Consume has not ended")
		}
	}
	t.Cleanup(stop)
	return stop
}

func TestMessagesWaitAsThePolicySays(t *testing.T) {
	js, _ := single(t)
	c := jobs(t, js, 3, 1, 30*time.Second)
	advisories := make(chan *nats.Msg, 9)
	if _, err := js.Conn().ChanSubscribe("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.>", advisories); err != nil {
		t.Fatal(err)
	}
	l := &ledger{}
	dead := make(chan *retry.Error, 9)
	consume(t, &retrynats.Handler{
		Policy: retry.Policy{Name: "job", MaxAttempts: 4, Backoff: retry.Exponential{Base: 200 * ms, Jitter: retry.NoJitter}},
		Handle: l.handle(func(context.Context, jetstream.Msg) error { return errDown }),
		Dead: func(_ context.Context, _ jetstream.Msg, e *retry.Error) error {
			dead <- e
			return nil
		},
	}, js, c)
	eventually(t, "empty", func() bool { return empty(t, js) })
	for msg := range 3 {
		runs := l.of(fmt.Sprint(msg))
		var at []string
		for i, r := range runs {
			at = append(at, r.start.Sub(runs[0].start).Round(ms).String())
			if wait := 200 * ms << i >> 1; i > 0 && r.start.Sub(runs[i-1].end) < wait {
				t.Errorf("message %d: run %d came %v after the one before, want %v at least", msg, i+1, r.start.Sub(runs[i-1].end), wait)
			}
			if r.delivery != uint64(i+1) {
				t.Errorf("message %d: run %d is delivery %d", msg, i+1, r.delivery)
			}
		}
		t.Logf("message %d ran at %s", msg, strings.Join(at, ", "))
		if len(runs) != 4 {
			t.Fatalf("message %d ran %d times, want 4", msg, len(runs))
		}
		if last := runs[3].start.Sub(runs[0].start); last > 1400*ms+10*time.Second {
			t.Errorf("message %d ran last at %v, want 1.4s and a little", msg, last)
		}
	}
	if len(dead) != 3 {
		t.Fatalf("%d dead letters, want 3", len(dead))
	}
	if e := <-dead; e.Reason != retry.ReasonMaxAttempts || e.Attempts != 4 || e.Last() != errDown || e.Elapsed < 1400*ms {
		t.Errorf("the dead letter says %+v, want max_attempts after 4 and at least 1.4s", e)
	}
	var advisory struct{ Reason string }
	if err := json.Unmarshal((<-advisories).Data, &advisory); err != nil || advisory.Reason != "max_attempts" {
		t.Errorf("the server was told %q (%v), want max_attempts", advisory.Reason, err)
	}
}

// The heartbeat runs on real timers: on a machine that stalls for longer than AckWait
// the second run is right, and the test is repeated.
func TestHandlerLongerThanAckWaitRunsOnce(t *testing.T) {
	const ackWait = 500 * ms
	for range 5 {
		js, s := single(t)
		c := jobs(t, js, 1, 1, ackWait)
		l := &ledger{}
		stalled := atomic.Bool{}
		stop := consume(t, &retrynats.Handler{Handle: l.handle(func(ctx context.Context, _ jetstream.Msg) error {
			last := time.Now()
			for end := last.Add(1800 * ms); time.Now().Before(end); time.Sleep(10 * ms) {
				if now := time.Now(); now.Sub(last) > ackWait/4 {
					stalled.Store(true)
				} else {
					last = now
				}
			}
			return nil
		})}, js, c)
		eventually(t, "empty", func() bool { return empty(t, js) })
		stop()
		runs := l.of("0")
		js.Conn().Close()
		s.Shutdown()
		if len(runs) == 1 {
			return
		}
		if !stalled.Load() {
			t.Fatalf("the handler ran %d times, want once", len(runs))
		}
	}
	t.Skip("this machine stalls too often")
}

func TestDeadLetterThatCannotBeStoredIsStoredLater(t *testing.T) {
	js, _ := single(t)
	c := jobs(t, js, 1, 1, 30*time.Second)
	l := &ledger{}
	var asked []time.Time
	stored := 0
	stop := consume(t, &retrynats.Handler{
		Handle: l.handle(func(context.Context, jetstream.Msg) error { return retry.Stop(errDown) }),
		Dead: func(context.Context, jetstream.Msg, *retry.Error) error {
			if asked = append(asked, time.Now()); len(asked) == 1 {
				return errDown
			}
			stored++
			return nil
		},
	}, js, c)
	eventually(t, "empty", func() bool { return empty(t, js) })
	stop()
	if len(asked) != 2 || stored != 1 || asked[1].Sub(asked[0]) < time.Second || len(l.of("0")) != 1 {
		t.Errorf("asked at %v, %d dead letters, and the handler ran %d times; want 2 a second apart, 1, 1", asked, stored, len(l.of("0")))
	}
}

// Processes die of the message. By a panic the last of them still reports. Otherwise the next
// one finds how often the message was delivered, and does not run it.
func TestMessageThatEndsItsProcessEndsAsADeadLetter(t *testing.T) {
	for _, tt := range []struct {
		how   string
		limit int
		want  []string
	}{
		{"panic", 3, []string{"ran 1", "ran 2", "ran 3", "dead: max_attempts after 3: retryqueue: the handler panicked"}},
		{"panic", retry.Unlimited, []string{"ran 1", "ran 2", "ran 3", "ran 4", "ran 5", "dead: max_attempts after 5: retryqueue: the handler panicked"}},
		{"exit", 3, []string{"ran 1", "ran 2", "ran 3", "dead: max_attempts after 3: retryqueue: a delivery ended without a report: a crash, or a lost acknowledgement", "closed"}},
	} {
		t.Run(fmt.Sprint(tt.how, tt.limit), func(t *testing.T) {
			var said []string
			for _, ackWait := range []time.Duration{time.Second, 3 * time.Second, 9 * time.Second} { // a machine that stalls for longer loses a delivery on its way
				if said = crashes(t, tt.how, tt.limit, ackWait); slices.Equal(said, tt.want) {
					return
				}
			}
			t.Errorf("the processes said %q, want %q", said, tt.want)
		})
	}
}

// crashes returns what processes say that die of a message, until it is gone.
func crashes(t *testing.T, how string, limit int, ackWait time.Duration) (said []string) {
	js, s := single(t)
	jobs(t, js, 1, 1, ackWait)
	for range 8 {
		_, lines := child(t, "crashing consumer", "RETRYNATS_TEST_URL="+s.ClientURL(), "RETRYNATS_TEST_CRASH="+how, "RETRYNATS_TEST_LIMIT="+strconv.Itoa(limit))
		for line := range lines {
			said = append(said, line)
		}
		if empty(t, js) {
			break
		}
	}
	return said
}

// crash is the process that the message kills.
func crash() {
	limit, err := strconv.Atoi(os.Getenv("RETRYNATS_TEST_LIMIT"))
	if err != nil {
		panic(err)
	}
	nc, err := nats.Connect(os.Getenv("RETRYNATS_TEST_URL"))
	if err != nil {
		panic(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c, err := js.Consumer(ctx, "JOBS", "worker")
	if err != nil {
		panic(err)
	}
	consuming, err := (&retrynats.Handler{
		Policy: retry.Policy{MaxAttempts: limit},
		Handle: func(_ context.Context, msg jetstream.Msg) error {
			fmt.Println("ran", number(msg))
			if os.Getenv("RETRYNATS_TEST_CRASH") == "exit" {
				os.Exit(1)
			}
			panic("boom")
		},
		Dead: func(_ context.Context, _ jetstream.Msg, e *retry.Error) error {
			fmt.Printf("dead: %v after %d: %v\n", e.Reason, e.Attempts, e.Last())
			time.AfterFunc(100*ms, cancel) // the word to the server goes out first, or at the shutdown
			return nil
		},
	}).Consume(ctx, js, c)
	if err != nil {
		panic(err)
	}
	<-consuming.Closed()
	fmt.Println("closed")
	nc.Close()
}

func TestShutdownGivesMessagesToAnotherConsumerAtOnce(t *testing.T) {
	js, _ := single(t)
	c := jobs(t, js, 20, 1, patience) // so that AckWait does not help
	l := &ledger{}
	running := make(chan struct{}, 20)
	stop := consume(t, &retrynats.Handler{Handle: l.handle(func(ctx context.Context, _ jetstream.Msg) error {
		running <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	})}, js, c)
	for range 20 {
		<-running
	}
	stop()
	ended := time.Now()
	js2 := connect(t, js.Conn().ConnectedUrl())
	c2, err := js2.Consumer(t.Context(), "JOBS", "worker")
	if err != nil {
		t.Fatal(err)
	}
	consume(t, &retrynats.Handler{Handle: l.handle(func(context.Context, jetstream.Msg) error { return nil })}, js2, c2)
	eventually(t, "empty", func() bool { return empty(t, js2) })
	for i := range 20 {
		runs := l.of(fmt.Sprint(i))
		if len(runs) != 2 || runs[1].delivery != 2 || runs[1].start.Before(ended) {
			t.Errorf("message %d: %+v, want a second run, as delivery 2, after the first consumer has ended", i, runs)
		}
	}
}

func TestHandleThatAcknowledgesItselfIsNoFailure(t *testing.T) {
	js, _ := single(t)
	c := jobs(t, js, 3, 1, patience)
	l := &ledger{}
	done := atomic.Int64{}
	stop := consume(t, &retrynats.Handler{
		Policy: retry.Policy{Hooks: retry.Hooks{Done: func(_ context.Context, s retry.Summary) {
			if s.Err != nil {
				t.Errorf("Done has %v", s.Err)
			}
			done.Add(1)
		}}},
		Handle: l.handle(func(ctx context.Context, msg jetstream.Msg) error {
			switch string(msg.Data()) {
			case "0":
				return msg.DoubleAck(ctx)
			case "1":
				return msg.Term()
			}
			if number(msg) == 1 {
				return msg.Nak()
			}
			return nil
		}),
	}, js, c)
	eventually(t, "empty", func() bool { return empty(t, js) })
	stop()
	if n := []int{len(l.of("0")), len(l.of("1")), len(l.of("2"))}; !slices.Equal(n, []int{1, 1, 2}) || done.Load() != 4 {
		t.Errorf("the messages ran %v times, and %d deliveries ended, want [1 1 2] and 4", n, done.Load())
	}
}

// A single server writes times down in whole seconds, so that its restart may shorten a
// delay by less than one. It loses no message and no count.
func TestMessagesOutliveTheRestartOfASingleServer(t *testing.T) {
	t.Parallel() // it mostly waits
	const (
		messages = 20
		wait     = 3 * time.Second
	)
	dir := t.TempDir()
	s := startServer(t, -1, dir)
	js := connect(t, s.ClientURL())
	c := jobs(t, js, messages, 1, 30*time.Second)
	l := &ledger{}
	consume(t, &retrynats.Handler{
		Policy: retry.Policy{Backoff: retry.Constant(wait)},
		Handle: l.handle(func(_ context.Context, msg jetstream.Msg) error {
			if number(msg) == 1 {
				return errDown
			}
			return nil
		}),
	}, js, watched{c, l})
	eventually(t, "waiting", func() bool {
		for i := range messages {
			if runs := l.of(fmt.Sprint(i)); len(runs) == 0 || runs[0].word == "" {
				return false
			}
		}
		return js.Conn().Flush() == nil // the server has heard of it
	})
	port := s.Addr().(*net.TCPAddr).Port
	s.Shutdown()
	s.WaitForShutdown()
	startServer(t, port, dir)
	eventually(t, "empty", func() bool { return empty(t, js) })
	shortest := time.Duration(math.MaxInt64)
	for i := range messages {
		runs := l.of(fmt.Sprint(i))
		if len(runs) != 2 || runs[1].delivery != 2 {
			t.Errorf("message %d: %+v, want a first and a second delivery", i, runs)
			continue
		}
		shortest = min(shortest, runs[1].start.Sub(runs[0].end))
	}
	t.Logf("the shortest wait of %v took %v", wait, shortest)
	if shortest <= wait-time.Second {
		t.Errorf("a message came back after %v, want more than %v", shortest, wait-time.Second)
	}
}

func TestDrainBeginsWhatWasDelivered(t *testing.T) {
	js, _ := single(t)
	c := jobs(t, js, 5, 1, patience)
	l := &ledger{}
	consuming, err := (&retrynats.Handler{Handle: l.handle(func(context.Context, jetstream.Msg) error {
		time.Sleep(50 * ms)
		return nil
	})}).Consume(context.Background(), js, c)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "run", func() bool { return len(l.of("0")) > 0 })
	consuming.Drain()
	<-consuming.Closed()
	s, err := js.Stream(t.Context(), "JOBS")
	if err != nil {
		t.Fatal(err)
	}
	info, err := c.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.NumAckPending != 0 || info.NumPending != s.CachedInfo().State.Msgs {
		t.Errorf("%d messages were delivered and not acknowledged, want 0", info.NumAckPending)
	}
}

// What ends a subscription from outside is told to jetstream.ConsumeErrHandler alone.
func TestDeletedConsumerEndsConsume(t *testing.T) {
	js, _ := single(t)
	c := jobs(t, js, 1, 1, patience)
	told := make(chan error, 9)
	consuming, err := (&retrynats.Handler{Handle: func(context.Context, jetstream.Msg) error { return nil }}).Consume(t.Context(), js, c, jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { told <- err }))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "empty", func() bool { return empty(t, js) })
	if err := js.DeleteConsumer(t.Context(), "JOBS", "worker"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-consuming.Closed():
	case <-time.After(patience):
		t.Fatal("Consume has not ended")
	}
	if len(told) != 1 {
		t.Fatalf("told %d errors, want 1", len(told))
	}
	if err := <-told; !errors.Is(err, jetstream.ErrConsumerDeleted) {
		t.Errorf("told %v, want ErrConsumerDeleted", err)
	}
}

func TestCheckOfAConsumer(t *testing.T) {
	js, _ := single(t)
	jobs(t, js, 0, 1, patience)
	h := &retrynats.Handler{Policy: retry.Policy{MaxAttempts: 5}}
	for deliver, want := range map[int]string{
		-1: "<nil>",
		3:  "retrynats: consumer worker of stream JOBS: MaxDeliver is 3, and the policy allows 5 deliveries: set MaxDeliver -1",
	} {
		c, err := js.UpdateConsumer(t.Context(), "JOBS", jetstream.ConsumerConfig{
			Durable: "worker", AckPolicy: jetstream.AckExplicitPolicy, AckWait: patience, MaxDeliver: deliver})
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(h.Check(t.Context(), js, c)); got != want {
			t.Errorf("MaxDeliver %d: Check = %s, want %s", deliver, got, want)
		}
	}
}
