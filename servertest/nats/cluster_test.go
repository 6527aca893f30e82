package nats_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrynats"
	"github.com/nats-io/nats.go/jetstream"
)

// 200 messages fail three times each. In the middle the consumer's leader is killed, as
// kill -9 does, and so is the consuming side stopped, and another takes over.
func TestNothingIsLostOrEarlyWhenServerAndConsumerDie(t *testing.T) {
	t.Parallel() // it mostly waits
	const (
		messages = 200
		wait     = time.Second
		ackWait  = 5 * time.Second

		// Some wait for longer than the election takes: or the delay could get lost unseen.
		outlasting = 15 * time.Second
	)
	servers := startCluster(t)
	js := connect(t, servers.urls...)
	c := jobs(t, js, messages, 3, ackWait)

	l := &ledger{}
	h := &retrynats.Handler{
		Policy: retry.Policy{MaxAttempts: 50, Backoff: retry.Constant(wait), Rand: func() float64 { return 0 }}, // no spread after a hint
		Handle: l.handle(func(ctx context.Context, msg jetstream.Msg) error {
			i, err := strconv.Atoi(string(msg.Data()))
			if err != nil {
				return retry.Stop(err)
			}
			time.Sleep(time.Duration(i%20) * 50 * ms) // so that all states are there at any time
			failed := 0
			for _, r := range l.of(string(msg.Data())) {
				if errors.Is(r.err, errDown) {
					failed++
				}
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			switch {
			case failed == 1 && i%5 == 0:
				return retry.After(errDown, outlasting)
			case failed < 3:
				return errDown
			}
			return nil
		}),
		Dead: func(_ context.Context, msg jetstream.Msg, e *retry.Error) error {
			t.Errorf("message %s is dead: %v", msg.Data(), e)
			return nil
		},
	}
	stop := consume(t, h, js, watched{c, l})
	eventually(t, "in the middle", func() bool {
		done := 0
		for i := range messages {
			if runs := l.of(fmt.Sprint(i)); len(runs) == 4 && runs[3].word != "" {
				done++
			}
		}
		return done >= messages/4
	})
	info, err := c.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	if err := servers.servers[info.Cluster.Leader].Kill(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * ms) // in which nobody leads, and words are lost
	stop()
	js2 := connect(t, servers.urls...)
	c2, err := retry.Do(t.Context(), leaderless, func(ctx context.Context) (jetstream.Consumer, error) {
		return js2.Consumer(ctx, "JOBS", "worker")
	})
	if err != nil {
		t.Fatal(err)
	}
	stop = consume(t, h, js2, watched{c2, l})
	eventually(t, "empty", func() bool { return empty(t, js2) })
	took := time.Since(killed)
	stop()

	ran, lost, twice, naks := 0, 0, 0, 0
	for i := range messages {
		runs := l.of(fmt.Sprint(i))
		slices.SortStableFunc(runs, func(a, b handled) int { return a.start.Compare(b.start) })
		done := 0
		for n, r := range runs {
			ran++
			if r.word == "ack" && r.lost != nil {
				lost++
			}
			if r.word == "nak" {
				naks++
			}
			if r.word == "retry" && r.delay != wait && r.delay != wait+outlasting {
				t.Errorf("message %d was handed back for %v", i, r.delay)
			}
			if n == 0 {
				continue
			}
			before := runs[n-1]
			if before.word == "ack" && before.lost == nil {
				t.Errorf("message %d ran after its acknowledgement was confirmed: %+v", i, runs)
			}
			if came := r.start.Sub(before.end); before.word == "retry" && came < before.delay {
				t.Errorf("message %d came back after %v, want at least %v", i, came, before.delay)
			}
			if r.start.Before(before.end) {
				t.Errorf("message %d ran twice at once: %+v", i, runs)
			}
		}
		for _, r := range runs {
			if r.err == nil {
				done++
			}
		}
		if done > 1 {
			twice++
		}
		if done == 0 {
			t.Errorf("message %d was lost: %+v", i, runs)
		}
		if failed := len(slices.DeleteFunc(slices.Clone(runs), func(r handled) bool { return !errors.Is(r.err, errDown) })); failed != 3 {
			t.Errorf("message %d failed %d times, want 3: %+v", i, failed, runs)
		}
	}
	t.Logf("%d runs of %d messages: %d acknowledgements were lost, %d messages done again for it, %d handed back at the shutdown; empty %v after %s was killed",
		ran, messages, lost, twice, naks, took.Round(ms), info.Cluster.Leader)
}

// The leader steps down, its server is shut down, or it hands over to a server that was
// restarted while messages waited, as in a rolling upgrade. That one has read from a
// snapshot, which has whole seconds, how long they wait.
func TestGracefulChangeOfLeader(t *testing.T) {
	if os.Getenv("RETRY_LONG") != "1" {
		t.Skip("messages wait for a minute: RETRY_LONG=1 runs it")
	}
	for _, tt := range []struct {
		name   string
		early  time.Duration // how much earlier than it should a message may come
		change func(t *testing.T, servers *cluster, js jetstream.JetStream, c jetstream.Consumer)
	}{
		{"it steps down", 0, func(t *testing.T, _ *cluster, js jetstream.JetStream, _ jetstream.Consumer) { stepDown(t, js, "") }},
		{"it is shut down", 0, func(t *testing.T, servers *cluster, _ jetstream.JetStream, c jetstream.Consumer) {
			servers.shutdown(t, leader(t, c))
		}},
		{"to a restarted server", time.Second, func(t *testing.T, servers *cluster, js jetstream.JetStream, c jetstream.Consumer) {
			leads := leader(t, c)
			next := slices.IndexFunc(servers.names(), func(name string) bool { return name != leads })
			name := servers.names()[next]
			servers.shutdown(t, name)
			for range servers.lines[name] { // until it has ended
			}
			servers.start(t, servers.configs[name])
			servers.ready(t, name)
			eventually(t, "led by "+name, func() bool {
				stepDown(t, js, name)
				time.Sleep(time.Second)
				return leader(t, c) == name
			})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			servers := startCluster(t)
			js := connect(t, servers.urls...)
			c := jobs(t, js, 20, 3, 30*time.Second)
			shortest := waitsAcross(t, js, c, func() { tt.change(t, servers, js, c) })
			if shortest < time.Minute-tt.early {
				t.Errorf("a message came back after %v, want at least %v", shortest, time.Minute-tt.early)
			}
		})
	}
}

// waitsAcross has 20 messages wait for a minute, in which change happens, and returns
// the shortest of the waits.
func waitsAcross(t *testing.T, js jetstream.JetStream, c jetstream.Consumer, change func()) time.Duration {
	const messages, others = 20, 4000
	l := &ledger{}
	consume(t, &retrynats.Handler{
		Policy: retry.Policy{Backoff: retry.Constant(time.Minute)},
		Handle: l.handle(func(_ context.Context, msg jetstream.Msg) error {
			i, err := strconv.Atoi(string(msg.Data()))
			if err == nil && i < messages && number(msg) == 1 {
				time.Sleep(time.Duration(i) * 50 * ms) // so that the waits end at any part of a second
				return errDown
			}
			return err
		}),
	}, js, watched{c, l})
	handled := func(n int) bool {
		for i := range n {
			if runs := l.of(fmt.Sprint(i)); len(runs) == 0 || runs[0].word == "" {
				return false
			}
		}
		return true
	}
	eventually(t, "waiting", func() bool { return handled(messages) })
	// Others come and go, so many that the servers do away with the log from before.
	// They write a snapshot in its place, every ten seconds at most.
	for i := range others {
		if _, err := js.PublishAsync("jobs", fmt.Append(nil, messages+i)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all handled", func() bool { return handled(messages + others) })
	time.Sleep(15 * time.Second)
	change()
	changed := time.Now()
	eventually(t, "empty", func() bool { return empty(t, js) })
	shortest, longest := time.Duration(math.MaxInt64), time.Duration(0)
	for i := range messages {
		runs := l.of(fmt.Sprint(i))
		if len(runs) != 2 || runs[1].start.Before(changed) {
			t.Errorf("message %d: %+v, want two runs, and the second after the change", i, runs)
			continue
		}
		shortest, longest = min(shortest, runs[1].start.Sub(runs[0].end)), max(longest, runs[1].start.Sub(runs[0].end))
	}
	t.Logf("waits of a minute took %v to %v", shortest, longest)
	return shortest
}

// stepDown has the consumer's leader hand over, to the server of that name if it can.
func stepDown(t *testing.T, js jetstream.JetStream, to string) {
	t.Helper()
	request := ""
	if to != "" {
		request = `{"placement":{"preferred":"` + to + `"}}`
	}
	if _, err := js.Conn().Request("$JS.API.CONSUMER.LEADER.STEPDOWN.JOBS.worker", []byte(request), patience); err != nil {
		t.Error(err)
	}
}

// leader returns the name of a consumer's leader, "" if there is none.
func leader(t *testing.T, c jetstream.Consumer) string {
	info, err := c.Info(t.Context())
	if err != nil || info.Cluster == nil {
		return ""
	}
	return info.Cluster.Leader
}
