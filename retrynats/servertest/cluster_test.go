package servertest_test

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
		Policy: retry.Policy{MaxAttempts: 50, Backoff: retry.Constant(wait)},
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

// A leader that steps down, one whose server is shut down, and one whose server was
// restarted while the messages waited, as in a rolling upgrade. That one has read from
// its disk, in whole seconds, how long they wait.
func TestGracefulChangeOfLeader(t *testing.T) {
	stepDown := func(js jetstream.JetStream, prefer string) error {
		_, err := js.Conn().Request("$JS.API.CONSUMER.LEADER.STEPDOWN.JOBS.worker", []byte(prefer), patience)
		return err
	}
	for name, change := range map[string]func(*testing.T, *cluster, jetstream.JetStream, string) error{
		"step down": func(_ *testing.T, _ *cluster, js jetstream.JetStream, _ string) error { return stepDown(js, "") },
		"shutdown": func(_ *testing.T, c *cluster, _ jetstream.JetStream, leader string) error {
			return c.servers[leader].Signal(os.Interrupt)
		},
		"to a restarted server": func(t *testing.T, c *cluster, js jetstream.JetStream, leader string) error {
			for name := range c.servers {
				if name == leader {
					continue
				}
				if err := c.servers[name].Signal(os.Interrupt); err != nil {
					return err
				}
				for range c.lines[name] { // until it has ended
				}
				c.start(t, c.configs[name])
				c.ready(t, name)
				time.Sleep(2 * time.Second)
				return stepDown(js, `{"placement":{"preferred":"`+name+`"}}`)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) { changeLeader(t, change) })
	}
}

func changeLeader(t *testing.T, change func(*testing.T, *cluster, jetstream.JetStream, string) error) {
	const (
		messages = 20
		wait     = 15 * time.Second
	)
	servers := startCluster(t)
	js := connect(t, servers.urls...)
	c := jobs(t, js, messages, 3, 30*time.Second)
	l := &ledger{}
	consume(t, &retrynats.Handler{
		Policy: retry.Policy{Backoff: retry.Constant(wait)},
		Handle: l.handle(func(ctx context.Context, msg jetstream.Msg) error {
			if retry.AttemptNumber(ctx) == 1 {
				i, _ := strconv.Atoi(string(msg.Data()))
				time.Sleep(time.Duration(i) * 50 * ms) // so that the waits end at any part of a second
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
	before := leader(t, c)
	if err := change(t, servers, js, before); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another leader", func() bool { now := leader(t, c); return now != "" && now != before })
	changed := time.Now()
	t.Log(before, leader(t, c))
	eventually(t, "empty", func() bool { return empty(t, js) })
	shortest, longest, early, late := time.Duration(math.MaxInt64), time.Duration(0), 0, 0
	for i := range messages {
		runs := l.of(fmt.Sprint(i))
		if len(runs) != 2 {
			t.Errorf("message %d: %+v, want two runs", i, runs)
			continue
		}
		if runs[1].start.After(changed) {
			late++
		}
		came := runs[1].start.Sub(runs[0].end)
		shortest, longest = min(shortest, came), max(longest, came)
		if came < wait {
			early++
		}
	}
	t.Logf("waits of %v took %v to %v, %d of %d were early, %d came after the change", wait, shortest, longest, early, messages, late)
	if shortest <= wait-time.Second {
		t.Errorf("a message came back after %v, want more than %v", shortest, wait-time.Second)
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
