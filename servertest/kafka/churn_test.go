package kafka_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/goretry/retry/retrykafka"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Consumers come and go, some Runs begin again with the same client, and handlers fail, end their goroutine
// and ignore their context, at random. In the end each record has succeeded, and none is dead. It takes
// real time: to wait for a mutex of the client stops virtual time. RETRY_LONG=1 does it for longer.
func TestChurn(t *testing.T) {
	for _, ws := range [][]retrykafka.Wait{nil, {{Topic: "w1", Delay: 100 * time.Millisecond}, {Topic: "w2", Delay: time.Second}}} {
		t.Run(fmt.Sprintf("%d waits", len(ws)), func(t *testing.T) { t.Parallel(); churn(t, ws) })
	}
}

func churn(t *testing.T, ws []retrykafka.Wait) {
	const partitions, each = 4, 300
	lasts := 5 * time.Second
	if os.Getenv("RETRY_LONG") != "" {
		lasts = time.Minute
	}
	c := &cluster{t: t}
	var err error
	if c.Cluster, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.ListenFn(c.network.Listen), kfake.Ports(9092), kfake.SeedTopics(partitions, three...)); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.fill(partitions, each)
	var mu sync.Mutex
	done := map[string]bool{}
	h := &retrykafka.Handler{Policy: exact(100*time.Millisecond, 50), Waits: ws, Dead: "dead"}
	h.Handle = func(ctx context.Context, r *kgo.Record) error {
		switch rand.IntN(8) {
		case 0:
			return errDown
		case 1:
			if ws != nil {
				runtime.Goexit()
			}
		case 2:
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(rand.N(30 * time.Millisecond)):
			}
		case 3:
			time.Sleep(rand.N(50 * time.Millisecond))
		}
		mu.Lock()
		defer mu.Unlock()
		done[text(r)] = true
		return nil
	}
	run := func(cl *kgo.Client, d time.Duration) {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		_ = h.Run(ctx, cl)
	}
	client := func() *kgo.Client {
		return c.client(append(h.Options("in"), kgo.ConsumerGroup("g"), kgo.HeartbeatInterval(100*time.Millisecond))...)
	}
	var consumers sync.WaitGroup
	for range 3 {
		consumers.Go(func() {
			for end := time.Now().Add(lasts); time.Now().Before(end); {
				cl := client()
				for range 1 + rand.IntN(4) {
					run(cl, rand.N(2*time.Second))
					time.Sleep(rand.N(300 * time.Millisecond))
				}
				cl.CloseAllowingRebalance()
			}
		})
	}
	consumers.Wait()
	cl := client()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- h.Run(ctx, cl) }()
	realCluster{c.Cluster}.until(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(done) == partitions*each || c.stored("dead") > 0
	})
	cancel()
	<-ended
	cl.CloseAllowingRebalance()
	if n := c.stored("dead"); n != 0 {
		t.Errorf("%d dead letters, want none", n)
		for _, r := range c.records("dead") {
			t.Logf("%s after %s deliveries: %s", header(r, "retry-origin"), header(r, "retry-number"), header(r, "retry-error"))
		}
	}
}
