package retrynats_test

import (
	"context"
	"fmt"
	"slices"
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
	)
	servers := startCluster(t)
	js := connect(t, servers.urls...)
	c := jobs(t, js, messages, 3, ackWait)

	l := &ledger{}
	h := &retrynats.Handler{
		Policy: retry.Policy{MaxAttempts: 50, Backoff: retry.Constant(wait)},
		Handle: l.handle(func(ctx context.Context, msg jetstream.Msg) error {
			time.Sleep(20 * ms)
			failed := 0
			for _, r := range l.of(string(msg.Data())) {
				if r.err == errDown {
					failed++
				}
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if failed < 3 {
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
		failedTwice := 0
		for i := range messages {
			if len(l.of(fmt.Sprint(i))) >= 2 {
				failedTwice++
			}
		}
		return failedTwice >= messages/2
	})
	info, err := c.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	if err := servers.servers[info.Cluster.Leader].Kill(); err != nil {
		t.Fatal(err)
	}
	stop()
	js2 := connect(t, servers.urls...)
	c2, err := retry.Do(t.Context(), retry.Policy{MaxElapsed: patience, AttemptTimeout: 5 * time.Second}, func(ctx context.Context) (jetstream.Consumer, error) {
		return js2.Consumer(ctx, "JOBS", "worker")
	})
	if err != nil {
		t.Fatal(err)
	}
	stop = consume(t, h, js2, watched{c2, l})
	eventually(t, "empty", func() bool { return empty(t, js2) })
	took := time.Since(killed)
	stop()

	ran, lost := 0, 0
	for i := range messages {
		runs := l.of(fmt.Sprint(i))
		slices.SortStableFunc(runs, func(a, b handled) int { return a.start.Compare(b.start) })
		done := 0
		for n, r := range runs {
			ran++
			if r.lost != nil {
				lost++
			}
			if n == 0 {
				continue
			}
			before := runs[n-1]
			if before.word == "ack" && before.lost == nil {
				t.Errorf("message %d ran after its acknowledgement was confirmed: %+v", i, runs)
			}
			if before.err == errDown && before.word == "retry" && r.start.Sub(before.end) < wait {
				t.Errorf("message %d came back after %v, want at least %v", i, r.start.Sub(before.end), wait)
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
		if done == 0 {
			t.Errorf("message %d was lost: %+v", i, runs)
		}
		if failed := len(slices.DeleteFunc(slices.Clone(runs), func(r handled) bool { return r.err != errDown })); failed != 3 {
			t.Errorf("message %d failed %d times, want 3: %+v", i, failed, runs)
		}
	}
	t.Logf("%d runs of %d messages; %d words without an answer; empty %v after the leader %s was killed", ran, messages, lost, took.Round(ms), info.Cluster.Leader)
}
